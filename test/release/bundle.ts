import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { formatBytes } from '../../lib/base/shared/api.js'
import { bundledFamilies, clientModules } from './client-modules.js'
import { cannotBuildDeb, debName, makeDeb } from './deb.js'
import { auditedPackages, top } from './dependencies.js'
import { manualPages, type ManualPage } from './manual.js'
import { sbom } from './sbom.js'
import { tarball, type TarEntry } from './tar.js'

/*
 * `make dist`: what is carried to a machine without internet. `svc-<version>.tgz` is a complete installation, the
 * client's is what a container needs to push, the Debian package is the installation without binaries.
 * `svc-<version>.cdx.json` lists what svc consists of. One commit gives the same bytes each time: paths in order, one
 * owner, the time of the commit.
 */

interface Description {
  name: string
  version: string
  description: string
  license: string
  type: string
  bin: Record<string, string>
  engines: Record<string, string>
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}

/** The files of each package that are loaded, its description and its licence. */
const kept: Record<string, RegExp> = {
  yauzl: /^(index|fd-slicer|crc32)\.js$/,
  pend: /^index\.js$/,
  yazl: /^index\.js$/,
  'buffer-crc32': /^dist\/index\.cjs$/,
  'sql.js': /^dist\/sql-wasm\.(js|wasm)$/,
  // Its sources too, so that it can be compiled where there is no binary for the machine.
  'node-pty':
    // Without what runs on Windows only: its native part is not there either.
    /^(lib\/(?!windows|conpty|worker\/|.*\.test\.js).*\.js|build\/Release\/(pty\.node|spawn-helper)|src\/unix\/.*|binding\.gyp|scripts\/(prebuild|post-install)\.js)$/,
  'node-addon-api': /^(.*\.(h|gyp|gypi)|index\.js)$/
}
const always = /^(package\.json|LICENSE(\.md)?)$/

const read = (path: string, from = top): TarEntry => ({
  path,
  content: readFileSync(join(from, path)),
  isExecutable: (statSync(join(from, path)).mode & 0o111) !== 0
})

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter(path => statSync(join(directory, path)).isFile())
    .map(path => path.replaceAll('\\', '/'))
}

/** Copies the package's files below `node_modules`. Compiled packages lose their install script. */
function packageEntries(name: string, withBinaries: boolean): TarEntry[] {
  const directory = join(top, 'node_modules', name)
  const pattern = kept[name]
  if (pattern === undefined) throw new Error(`test/release/bundle.ts does not say which files of ${name} are loaded`)
  if (!existsSync(directory)) return []
  const entries = filesBelow(directory)
    .filter(path => always.test(path) || pattern.test(path))
    .filter(path => withBinaries || !path.startsWith('build/'))
    .map(path => read(path, directory))
  const isCompiled = entries.some(({ path }) => path.endsWith('.node'))
  return entries.map(entry => {
    const content = entry.path === 'package.json' && isCompiled ? withoutScripts(entry.content) : entry.content
    return { ...entry, path: `node_modules/${name}/${entry.path}`, content }
  })
}

function withoutScripts(content: Buffer): Buffer {
  const { scripts: _, ...rest } = JSON.parse(content.toString()) as { scripts: unknown }
  // npm compiles by itself what has a binding.gyp, unless it is told otherwise.
  return json({ ...rest, gypfile: false })
}

const json = (value: unknown): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`)

const description = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as Description
const { version } = description

/**
 * npm installs the packages that are inside, and asks no registry for them; it links the manual pages where man looks.
 */
function bundledDescription({ name, manual }: Bundle, packages: string[]): Buffer {
  const { description: words, license, type, bin, engines, dependencies, optionalDependencies } = description
  const inside = (all: Record<string, string>): Record<string, string> =>
    Object.fromEntries(Object.entries(all).filter(([name]) => packages.includes(name)))
  return json({
    name,
    version,
    description: words,
    license,
    type,
    bin,
    engines,
    man: manual.map(({ name }) => `man/${name}`),
    dependencies: inside(dependencies),
    optionalDependencies: inside(optionalDependencies),
    bundleDependencies: packages
  })
}

interface Bundle {
  name: string
  modules: string[]
  documents: string[]
  packages: string[]
  manual: ManualPage[]
  /** Files that are made for it. */
  made?: TarEntry[]
  /** Whether it contains what was compiled on this machine. Default: yes. */
  withBinaries?: boolean
}

/** Returns the files of a bundle. */
function entriesOf(bundle: Bundle, madeAtSeconds: number): TarEntry[] {
  const { name, modules, documents, packages, manual, made = [], withBinaries = true } = bundle
  const found = packages.map(packageName => ({ packageName, entries: packageEntries(packageName, withBinaries) }))
  const present = found.filter(({ entries }) => entries.length > 0).map(({ packageName }) => packageName)
  const entries = [
    ...[...modules, ...documents].map(path => read(path)),
    ...found.flatMap(({ entries }) => entries),
    ...made,
    ...manual.map(({ name, text }) => ({ path: `man/${name}`, content: Buffer.from(text), isExecutable: false })),
    { path: 'package.json', content: bundledDescription(bundle, present), isExecutable: false }
  ]
  const audited = auditedPackages().filter(({ name }) => present.includes(name))
  const content = json(sbom({ name, version, madeAtSeconds, packages: audited }))
  return [...entries, { path: 'sbom.cdx.json', content, isExecutable: false }]
}

function pack(bundle: Bundle, madeAtSeconds: number): Buffer {
  const entries = entriesOf(bundle, madeAtSeconds)
  entries.push({ path: 'SHA256SUMS', content: Buffer.from(sums(entries)), isExecutable: false })
  return tarball(
    entries.map(entry => ({ ...entry, path: `${bundle.name}-${version}/${entry.path}` })),
    madeAtSeconds
  )
}

/** Returns the lines that `sha256sum --check` reads. */
function sums(entries: ReadonlyArray<{ path: string; content: Buffer }>): string {
  const sorted = [...entries].sort((a, b) => (a.path < b.path ? -1 : 1))
  return sorted.map(({ path, content }) => `${createHash('sha256').update(content).digest('hex')}  ${path}\n`).join('')
}

/** Returns the time of the commit, or SOURCE_DATE_EPOCH; without both, the first second that zip and tar share. */
export function commitSeconds(): number {
  const given = process.env['SOURCE_DATE_EPOCH']
  if (given !== undefined) return Number(given)
  try {
    return Number(
      execFileSync('git', ['log', '-1', '--format=%ct'], {
        cwd: top,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore']
      })
    )
  } catch {
    return 315_532_800
  }
}

/** What a file of `dist` is made from, if that is not the source at its place. */
function sourceOf(path: string): string {
  if (path === 'lib/api/openapi.json') return 'docs/openapi.json'
  return path.replace(/^www\/shared\//, 'lib/base/shared/')
}

/** Returns the compiled and copied files of `directory` whose source exists. An earlier build may have left others. */
function builtFrom(directory: string): string[] {
  return filesBelow(join(top, 'dist', directory))
    .map(path => `${directory}/${path}`)
    .filter(path => !/\.(d\.ts|map|tsbuildinfo)$/.test(path))
    .filter(path =>
      [sourceOf(path), sourceOf(path).replace(/\.js$/, '.ts')].some(source => existsSync(join(top, source)))
    )
    .map(path => `dist/${path}`)
}

/** The complete installation. */
async function wholeBundle(madeAtSeconds: number, withBinaries: boolean): Promise<Bundle> {
  return {
    name: 'svc',
    modules: ['bin/svc.js', ...builtFrom('lib'), ...builtFrom('www')],
    documents: [
      'README.md',
      'CHANGELOG.md',
      'LICENSE',
      ...filesBelow(join(top, 'docs'))
        .filter(path => !path.startsWith('pictures/'))
        .sort()
        .map(path => `docs/${path}`)
    ],
    packages: Object.keys(kept),
    manual: await manualPages({ version, madeAtSeconds }),
    withBinaries,
    made: (await downloads(madeAtSeconds, withBinaries)).map(({ path, content }) => ({
      path: `dist/${path}`,
      content,
      isExecutable: false
    }))
  }
}

/** svc without its panel and documents: what `svc agent` needs on a node. */
function agentBundle(withBinaries: boolean): Bundle {
  const modules = ['bin/svc.js', ...builtFrom('lib')]
  return { name: 'svc-agent', modules, documents: ['LICENSE'], packages: Object.keys(kept), manual: [], withBinaries }
}

/** The archives that a server hands out (lib/api/client.ts). They lie beside the compiled program. */
async function downloads(
  madeAtSeconds: number,
  withBinaries: boolean
): Promise<Array<{ path: string; content: Buffer }>> {
  return [
    { path: 'client.tgz', content: pack(await clientBundle(madeAtSeconds), madeAtSeconds) },
    { path: 'agent.tgz', content: pack(agentBundle(withBinaries), madeAtSeconds) }
  ]
}

/** Writes them for a server that runs from this checkout. */
export async function makeDownloads(): Promise<void> {
  for (const { path, content } of await downloads(commitSeconds(), true))
    writeFileSync(join(top, 'dist', path), content)
}

async function clientBundle(madeAtSeconds: number): Promise<Bundle> {
  return {
    name: 'svc-client',
    modules: [
      'bin/svc.js',
      'dist/lib/package.json',
      ...clientModules(join(top, 'dist/lib'), bundledFamilies).map(path => `dist/lib/${path}`)
    ],
    documents: ['LICENSE'],
    packages: ['yazl', 'buffer-crc32'],
    manual: await manualPages({ version, madeAtSeconds }, family => bundledFamilies.includes(family))
  }
}

/** Returns the Debian package of the complete installation. */
export async function makePackage(): Promise<Buffer> {
  const madeAtSeconds = commitSeconds()
  const entries = entriesOf(await wholeBundle(madeAtSeconds, false), madeAtSeconds)
  return makeDeb({ version, madeAtSeconds, node: description.engines['node'] as string, entries })
}

/**
 * Writes both archives, the Debian package where it can be built, the bill of materials, and the checksums of all into
 * a directory. Returns their paths and sizes.
 */
export async function makeBundles(directory: string): Promise<Array<{ path: string; bytes: number }>> {
  const madeAtSeconds = commitSeconds()
  const bundles = [await wholeBundle(madeAtSeconds, true), await clientBundle(madeAtSeconds)]
  const made = bundles.map(bundle => ({
    path: `${bundle.name}-${version}.tgz`,
    content: pack(bundle, madeAtSeconds)
  }))
  if (cannotBuildDeb() === false) made.push({ path: debName(version), content: await makePackage() })
  const bill = sbom({ name: description.name, version, madeAtSeconds, packages: auditedPackages() })
  made.push({ path: `svc-${version}.cdx.json`, content: json(bill) })
  mkdirSync(directory, { recursive: true })
  for (const { path, content } of made) writeFileSync(join(directory, path), content)
  writeFileSync(join(directory, 'SHA256SUMS'), sums(made))
  return made.map(({ path, content }) => ({ path: join(directory, path), bytes: content.length }))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { path, bytes } of await makeBundles(process.argv[2] ?? join(top, 'dist'))) {
    console.log(`${path}  ${formatBytes(bytes)}`)
  }
  const reason = cannotBuildDeb()
  if (reason !== false) console.log(`No ${debName(version)}: ${reason}`)
}
