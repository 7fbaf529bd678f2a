/*
 * The token patterns of each language, in the order in which they are tried, each with the kind of its match. This is a
 * viewer's approximation, not a parser: text that no pattern matches is plain. Pure.
 *
 * A pattern that can fail after it has begun looks at a few hundred characters at most, and no pattern goes back over
 * text it has passed. So a megabyte of any text is read in one pass; the tests check this.
 */

/** The kind of a token, which determines its colour. */
export type CodeKind = 'comment' | 'keyword' | 'string' | 'number' | 'name' | 'strong'

/** One pattern of a language, and the kind of the text that it matches. */
export interface CodeRule {
  kind: CodeKind
  pattern: RegExp
  /**
   * The pattern applies only if the last character before it that is not white space is one of these, or if there is
   * none. Such a pattern must match short texts only, because a position where it may not begin is matched repeatedly.
   */
  after?: string
}

/** The rules and words of a language. */
export interface CodeLanguage {
  rules: readonly CodeRule[]
  /** Kinds of the words that stand alone. Other words are plain. */
  words: ReadonlyMap<string, CodeKind>
  /** Matches one word. */
  word: RegExp
  ignoresCase?: boolean
}

const keywords = (list: string): ReadonlyMap<string, CodeKind> =>
  new Map(
    list
      .split(/\s+/)
      .filter(Boolean)
      .map(word => [word, 'keyword'])
  )

const word = /[A-Za-z_$][\w$]*/
const number = /\b(?:0[xXbBoO][\da-fA-F_]+n?|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?n?)\b/
const blockComment: CodeRule = { kind: 'comment', pattern: /\/\*[^]*?(?:\*\/|$)/ }
const lineComment: CodeRule = { kind: 'comment', pattern: /\/\/.*/ }
const hashComment: CodeRule = { kind: 'comment', pattern: /(?<!\S)#.*/ }
const doubleQuoted: CodeRule = { kind: 'string', pattern: /"(?:[^"\\\n]|\\[^])*"?/ }
const singleQuoted: CodeRule = { kind: 'string', pattern: /'(?:[^'\\\n]|\\[^])*'?/ }
const numbers: CodeRule = { kind: 'number', pattern: number }

const javascript: CodeLanguage = {
  rules: [
    blockComment,
    lineComment,
    doubleQuoted,
    singleQuoted,
    { kind: 'string', pattern: /`(?:[^`\\]|\\[^])*`?/ },
    {
      kind: 'string',
      pattern: /\/(?![*/])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.){0,80}\]){1,300}\/[a-z]{0,8}/,
      after: '(,=:[!&|?{};+-*%~^<>'
    },
    numbers,
    { kind: 'name', pattern: /@[\w$]+/ }
  ],
  word,
  words: keywords(`
    abstract any as async await boolean break case catch class const continue debugger declare default delete do else
    enum export extends false finally for from function get if implements import in infer instanceof interface is keyof
    let namespace never new null number object of override private protected public readonly return satisfies set static
    string super switch symbol this throw true try type typeof undefined unique unknown var void while with yield`)
}

const json: CodeLanguage = {
  rules: [
    blockComment,
    lineComment,
    { kind: 'name', pattern: /"(?:[^"\\\n]|\\[^])*"(?=\s{0,20}:)/ },
    doubleQuoted,
    singleQuoted,
    { kind: 'number', pattern: /-?\b\d[\d.]*(?:[eE][+-]?\d+)?\b/ }
  ],
  word,
  words: keywords('true false null')
}

const css: CodeLanguage = {
  rules: [
    blockComment,
    doubleQuoted,
    singleQuoted,
    { kind: 'comment', pattern: /(?<![^\n])[ \t]{0,40}\/\/.*/ },
    { kind: 'keyword', pattern: /@[\w-]+|!important\b/ },
    { kind: 'name', pattern: /[$-]{0,2}[A-Za-z][\w-]*(?=\s{0,8}:[^;{}\n]{0,200}[;}\n])/ },
    { kind: 'number', pattern: /#[\da-fA-F]{3,8}\b|-?(?:\d+\.?\d*|\.\d+)(?:%|[a-z]+\b)?/ }
  ],
  word: /[A-Za-z_-][\w-]*/,
  words: new Map()
}

/** The language inside the angle brackets of a tag. */
export const insideTag: CodeLanguage = {
  rules: [
    { kind: 'keyword', pattern: /^<[/?!]?[^\s>/]*|[/?]?>$/ },
    { kind: 'string', pattern: /"[^"]*"?|'[^']*'?/ },
    { kind: 'name', pattern: /[^\s"'=<>/]+/ }
  ],
  word,
  words: new Map()
}

/** The language between tags. svc-code.ts finds the tags. */
const html: CodeLanguage = {
  rules: [{ kind: 'number', pattern: /&(?:#?\w{1,32});/ }],
  word,
  words: new Map()
}

const bash: CodeLanguage = {
  rules: [
    hashComment,
    { kind: 'string', pattern: /'[^']*'?/ },
    { kind: 'string', pattern: /"(?:[^"\\]|\\[^])*"?/ },
    { kind: 'name', pattern: /\$(?:\{[^}\n]*\}?|[\w@*#?!$-])\w*/ },
    { kind: 'name', pattern: /\b[A-Za-z_]\w*(?==)/ },
    { kind: 'number', pattern: /\b\d+\b/ }
  ],
  word: /[A-Za-z_][\w-]*/,
  words: keywords(`
    if then elif else fi for while until do done case esac in function select return exit break continue local export
    readonly declare set unset shift trap exec eval source alias test true false
    FROM RUN CMD COPY ADD ENV ARG WORKDIR EXPOSE ENTRYPOINT USER VOLUME LABEL HEALTHCHECK`)
}

const yaml: CodeLanguage = {
  rules: [
    hashComment,
    { kind: 'name', pattern: /(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?<![\w./$-])[\w./$-]+)(?=[ \t]{0,20}:(?:\s|$))/ },
    doubleQuoted,
    { kind: 'string', pattern: /'[^'\n]*'?/, after: '\n:-[{,' },
    { kind: 'keyword', pattern: /^(?:---|\.\.\.)|[&*!][\w!<-][\w/-]*/ },
    { kind: 'number', pattern: /(?<![\w.-])\d[\d._]*(?:[eE][+-]?\d+)?(?![-:/\w])/ }
  ],
  word: /[A-Za-z_][\w.-]*/,
  words: keywords('true false null yes no on off True False Null Yes No On Off')
}

const ini: CodeLanguage = {
  rules: [
    { kind: 'comment', pattern: /(?<![^\n])[ \t]{0,40}[#;].*/ },
    { kind: 'strong', pattern: /(?<![^\n])[ \t]{0,40}(?:\[[^\]\n]{0,200}\]|<\/?\w[^>\n]{0,200}>)/ },
    doubleQuoted,
    singleQuoted,
    { kind: 'name', pattern: /(?:export[ \t]{1,8})?[A-Za-z_@][\w.@/-]{0,80}/, after: '\n{};' },
    { kind: 'name', pattern: /\$\{?\w+\}?/ },
    { kind: 'number', pattern: /(?<![\w.-])\d[\d.]*[kKmMgGsh]?(?![-:/\w])/ }
  ],
  word: /[A-Za-z_][\w-]*/,
  words: keywords('true false yes no on off')
}

const markdown: CodeLanguage = {
  rules: [
    { kind: 'string', pattern: /(?<![^\n])[ \t]{0,8}(?:```[^]*?(?:```|$)|~~~[^]*?(?:~~~|$))/ },
    { kind: 'strong', pattern: /(?<![^\n])#{1,6}[ \t].*/ },
    { kind: 'comment', pattern: /(?<![^\n])[ \t]{0,8}>.*|<!--[^]*?(?:-->|$)/ },
    { kind: 'keyword', pattern: /(?<![^\n])[ \t]{0,40}(?:[-*+]|\d{1,9}[.)])[ \t]/ },
    { kind: 'string', pattern: /`[^`\n]+`/ },
    { kind: 'strong', pattern: /\*\*[^*\n]{1,200}\*\*|__[^_\n]{1,200}__/ },
    { kind: 'name', pattern: /!?\[[^\]\n]{0,200}\](?:\([^)\n]{0,300}\)|\[[^\]\n]{0,200}\])|<https?:[^>\n]{1,300}>/ }
  ],
  word,
  words: new Map()
}

const sql: CodeLanguage = {
  rules: [
    { kind: 'comment', pattern: /--.*/ },
    blockComment,
    { kind: 'string', pattern: /'(?:[^']|'')*'?/ },
    { kind: 'name', pattern: /"[^"\n]*"?|`[^`\n]*`?/ },
    numbers
  ],
  word,
  ignoresCase: true,
  words: keywords(`
    add all alter and any as asc begin between by case cast check collate column commit constraint create cross database
    default delete desc distinct drop else end exists explain false foreign from full function grant group having if in
    index inner insert into is join key left like limit not null offset on or order outer over partition primary
    procedure recursive references returning revoke right rollback schema select set table then to transaction trigger
    true truncate union unique update using values view when where with integer text varchar boolean timestamp date`)
}

const python: CodeLanguage = {
  rules: [
    { kind: 'comment', pattern: /#.*/ },
    { kind: 'string', pattern: /[rbufRBUF]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$))/ },
    { kind: 'string', pattern: /[rbufRBUF]{0,2}(?:"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?)/ },
    { kind: 'name', pattern: /@[\w.]+/ },
    numbers
  ],
  word,
  words: keywords(`
    False None True and as assert async await break case class continue def del elif else except finally for from global
    if import in is lambda match nonlocal not or pass raise return self try while with yield`)
}

const curly: CodeLanguage = {
  rules: [
    blockComment,
    lineComment,
    doubleQuoted,
    { kind: 'string', pattern: /'(?:[^'\\\n]|\\.){1,8}'/ },
    numbers,
    { kind: 'name', pattern: /[@$]\w+|#\w+/ }
  ],
  word,
  words: keywords(`
    abstract as async await bool boolean break byte case catch chan char class const continue def default defer delete do
    double echo else enum export extends extern false final finally float fn for foreach func function go goto if impl
    implements import in include int interface internal let long loop map match mod module mut namespace new nil null
    object override package private protected pub public range ref return select self short signed sizeof static string
    struct super switch template this throw throws trait true try type typedef union unsafe unsigned use using val var
    virtual void volatile where while yield`)
}

const hashed: CodeLanguage = {
  rules: [
    { kind: 'comment', pattern: /#.*/ },
    doubleQuoted,
    singleQuoted,
    numbers,
    { kind: 'name', pattern: /[$@:]\w+/ }
  ],
  word,
  words: keywords(`
    and begin break case class def do else elsif end ensure false for function if in include let local module next nil not
    null or package print raise repeat require rescue return self sub super then true undef unless until use var when
    while yield resource variable output provider data my our`)
}

/** Languages by the name that the server uses (§2.4). */
export const codeLanguages: Readonly<Record<string, CodeLanguage>> = {
  javascript,
  typescript: javascript,
  json,
  css,
  scss: css,
  less: css,
  sass: css,
  html,
  xml: html,
  vue: html,
  svelte: html,
  bash,
  dockerfile: bash,
  makefile: bash,
  yaml,
  markdown,
  ini,
  nginx: ini,
  apache: ini,
  toml: ini,
  sql,
  python,
  c: curly,
  cpp: curly,
  csharp: curly,
  dart: curly,
  go: curly,
  groovy: curly,
  java: curly,
  kotlin: curly,
  php: curly,
  protobuf: curly,
  rust: curly,
  scala: curly,
  swift: curly,
  zig: curly,
  graphql: curly,
  ruby: hashed,
  perl: hashed,
  r: hashed,
  elixir: hashed,
  julia: hashed,
  powershell: hashed,
  terraform: hashed,
  nim: hashed
}
