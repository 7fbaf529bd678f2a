/** File extensions of each language. The names are those that editors and highlighters use. */
const endings: Record<string, string> = {
  bash: 'sh bash zsh ksh',
  bat: 'bat cmd',
  c: 'c h',
  clojure: 'clj cljs edn',
  cpp: 'cc cpp cxx hpp hh hxx',
  csharp: 'cs',
  css: 'css',
  dart: 'dart',
  diff: 'diff patch',
  elixir: 'ex exs',
  erlang: 'erl hrl',
  fsharp: 'fs fsx',
  go: 'go',
  graphql: 'graphql gql',
  groovy: 'groovy gradle',
  haskell: 'hs',
  html: 'html htm xhtml',
  ini: 'ini cfg conf properties',
  java: 'java',
  javascript: 'js mjs cjs jsx',
  json: 'json jsonc json5 map webmanifest',
  julia: 'jl',
  kotlin: 'kt kts',
  less: 'less',
  lua: 'lua',
  markdown: 'md markdown mdx',
  nginx: 'nginx',
  nim: 'nim',
  perl: 'pl pm',
  php: 'php phtml',
  powershell: 'ps1 psm1',
  protobuf: 'proto',
  python: 'py pyi pyw',
  r: 'r',
  ruby: 'rb rake gemspec',
  rust: 'rs',
  sass: 'sass',
  scala: 'scala sc',
  scss: 'scss',
  sql: 'sql',
  svelte: 'svelte',
  swift: 'swift',
  terraform: 'tf hcl',
  toml: 'toml',
  typescript: 'ts mts cts tsx',
  vue: 'vue',
  xml: 'xml svg xsl xsd rss atom plist',
  yaml: 'yaml yml',
  zig: 'zig'
}

/** Files that are recognized by their whole name. */
const names: Record<string, string> = {
  dockerfile: 'dockerfile',
  containerfile: 'dockerfile',
  makefile: 'makefile',
  gnumakefile: 'makefile',
  'cmakelists.txt': 'cmake',
  jenkinsfile: 'groovy',
  gemfile: 'ruby',
  rakefile: 'ruby',
  vagrantfile: 'ruby',
  'nginx.conf': 'nginx',
  '.bashrc': 'bash',
  '.profile': 'bash',
  '.env': 'ini',
  '.editorconfig': 'ini',
  '.npmrc': 'ini',
  '.babelrc': 'json',
  '.eslintrc': 'json',
  '.prettierrc': 'json',
  '.htaccess': 'apache',
  'go.mod': 'go'
}

const byEnding = new Map(
  Object.entries(endings).flatMap(([language, list]) => list.split(' ').map(ending => [ending, language] as const))
)

/** Returns the language of a file by its name (§2.4), or `plaintext` if it is unknown. */
export function languageOf(name: string): string {
  const lower = name.toLowerCase()
  const known = Object.hasOwn(names, lower) ? names[lower] : undefined
  if (known !== undefined) return known
  if (lower.startsWith('.env.')) return 'ini'
  if (lower.startsWith('dockerfile.')) return 'dockerfile'
  const dot = lower.lastIndexOf('.')
  return (dot === -1 ? undefined : byEnding.get(lower.slice(dot + 1))) ?? 'plaintext'
}
