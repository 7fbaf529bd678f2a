/*
 * The panel as one build: all of its files, read at one moment, under a path that contains a hash of their content.
 * Browsers cache files below `/_<hash>/` forever, and a page that was loaded before an update still finds its own
 * modules.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, posix } from 'node:path'

/** One build of the panel. */
export interface Build {
  /** Name of its directory: `_` and the hash of all its content. */
  directory: string
  /** Content of the files by path; `/` separates segments. */
  files: ReadonlyMap<string, Buffer>
  /** The linked modules, or null if modules are served one by one. */
  linked: Linked | null
  builtAtMs: number
}

/** The builds that can be served. */
interface Builds {
  /** Returns the build of the current files, or null if there is none (no main.js). */
  current(): Promise<Build | null>
  /** Returns the current or the previous build by its directory. */
  find(directory: string): Promise<Build | undefined>
}

const main = 'main.js'
const hashLength = 16
/** Minimum interval between two checks of the files. */
const lookMs = 1000
/** Number of builds that are kept: the current one, and that of pages which were loaded before an update. */
const keptBuilds = 2
/** Maximum number of files that are open at the same time. */
const filesAbreast = 8
/** Files that browsers never request. */
const notServed = /\.(d\.ts|map|tsbuildinfo)$|(^|\/)\./

/**
 * Creates the builds of a directory. It is read when the first page is requested, and again when a file has changed.
 */
export function createBuilds(directory: string): Builds {
  const kept: Build[] = []
  let stamp = ''
  let lookedAtMs = -Infinity
  let looking: Promise<void> | undefined

  async function look(): Promise<void> {
    const names = (await namesBelow(directory)).sort()
    const stats = await eachOf(names, name => stat(join(directory, name)))
    const found = names.map((name, index) => `${name} ${stats[index]?.size} ${stats[index]?.mtimeMs}`).join('\n')
    if (found !== stamp) {
      const build = await read(directory, names)
      const at = kept.findIndex(each => each.directory === build.directory)
      if (at !== -1) kept.splice(at, 1)
      kept.unshift(build)
      kept.splice(keptBuilds)
      stamp = found
    }
    lookedAtMs = performance.now()
  }

  async function refresh(): Promise<void> {
    if (performance.now() - lookedAtMs < lookMs) return
    // An update replaces one file after the other. Files that cannot be read now are read by the next check.
    looking ??= look()
      .catch(() => {})
      .finally(() => void (looking = undefined))
    await looking
  }

  return {
    async current() {
      await refresh()
      const [build] = kept
      return build?.files.has(main) ? build : null
    },
    async find(wanted) {
      const known = kept.find(each => each.directory === wanted)
      if (known !== undefined) return known
      await refresh()
      return kept.find(each => each.directory === wanted)
    }
  }
}

async function namesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter(entry => entry.isFile())
    .map(entry => {
      const path = join(entry.parentPath ?? entry.path, entry.name)
        .slice(directory.length)
        .replaceAll('\\', '/')
      return path.replace(/^\//, '')
    })
    .filter(name => !notServed.test(name))
}

/** Processes a few files at a time, because other work may use most of the descriptors. */
async function eachOf<T>(names: readonly string[], work: (name: string) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  for (let at = 0; at < names.length; at += filesAbreast)
    results.push(...(await Promise.all(names.slice(at, at + filesAbreast).map(work))))
  return results
}

async function read(directory: string, names: readonly string[]): Promise<Build> {
  const contents = await eachOf(names, name => readFile(join(directory, name)))
  const hash = createHash('sha256')
  for (const [index, name] of names.entries())
    hash.update(`${name}\0${contents[index]?.length}\0`).update(contents[index] as Buffer)
  const files = new Map(names.map((name, index) => [name, contents[index] as Buffer]))
  const sources = new Map(
    [...files].filter(([name]) => name.endsWith('.js')).map(([name, bytes]) => [name, bytes.toString('utf8')])
  )
  const linked = linkModules(sources, main)
  for (const [name, text] of linked?.files ?? []) files.set(name, Buffer.from(text))
  return { directory: `_${hash.digest('hex').slice(0, hashLength)}`, files, linked, builtAtMs: Date.now() }
}

/*
 * Joins the modules of a directory into a few answers, so that a page needs about twelve requests instead of sixty.
 *
 *   entry    main.js, and every module that is loaded later with import('./…')
 *   chunk    the modules that the same entries need. Those that main.js or many entries need are only in main.js
 *
 * A chunk is a module. It contains each of its modules as a function that returns the exports, in order of their
 * dependencies, and imports other chunks. An entry keeps its address. This code understands only what the TypeScript
 * compiler writes for our own sources. If it finds anything else, `linkModules` returns null, and each module is
 * served by itself.
 */

interface Module {
  name: string
  /** The source without its imports and with exports as plain declarations. */
  body: string
  imports: Array<{ from: string; names: string }>
  exports: string[]
  later: string[]
}

/** The answers by address: chunks and entries. Modules that are in none of them stay unchanged. */
export interface Linked {
  files: Map<string, string>
  /** Returns the addresses that an entry needs, including its own. */
  closure(entry: string): string[]
}

const staticImport = /^import (?:\{([^}]*)\} from )?['"](\.[^'"]+)['"];?$/
const laterImport = /\bimport\((['"])(\.[^'"]+)\1\)/g
const declaration = /^export (?=(?:async )?(?:const|class|function\*?) ([\w$]+))/
const list = /^export \{([^}]*)\};?$/

/** Links the modules that can be reached from `main`, an address in `sources`. */
export function linkModules(sources: ReadonlyMap<string, string>, main: string): Linked | null {
  const modules = new Map<string, Module>()
  for (const name of reached(sources, main, modules) ?? []) if (!modules.has(name)) return null
  if (modules.size === 0) return null
  const entries = [main, ...new Set([...modules.values()].flatMap(({ later }) => later))]
  const closures = new Map(entries.map(entry => [entry, orderOf(modules, entry)]))
  if ([...closures.values()].includes(null)) return null
  const chunks = divide(modules, closures as Map<string, string[]>, main)
  return assemble(modules, { chunks, closures: closures as Map<string, string[]>, main })
}

/** Parses `main` and all modules that it reaches. Returns undefined if a module is not understood. */
function reached(
  sources: ReadonlyMap<string, string>,
  main: string,
  modules: Map<string, Module>
): string[] | undefined {
  const names = [main]
  for (const name of names) {
    const source = sources.get(name)
    const module = source === undefined ? null : parse(name, source)
    if (module === null) return [...names, '']
    modules.set(name, module)
    for (const next of [...module.imports.map(({ from }) => from), ...module.later])
      if (!names.includes(next)) names.push(next)
  }
  return names
}

function parse(name: string, source: string): Module | null {
  const resolve = (specifier: string): string => posix.join(posix.dirname(name), specifier)
  const module: Module = { name, body: '', imports: [], exports: [], later: [] }
  const body: string[] = []
  for (const line of source.split('\n')) {
    const imported = staticImport.exec(line)
    const declared = declaration.exec(line)
    const listed = list.exec(line)
    if (imported !== null)
      module.imports.push({ from: resolve(imported[2] as string), names: (imported[1] ?? '').replaceAll(' as ', ': ') })
    else if (listed !== null)
      module.exports.push(
        ...(listed[1] as string)
          .split(',')
          .map(each => each.trim())
          .filter(Boolean)
      )
    else if (declared !== null) {
      module.exports.push(declared[1] as string)
      body.push(line.slice('export '.length))
    } else if (/^(?:import|export)\b(?! ?\()/.test(line)) return null
    else if (!line.startsWith('//# sourceMappingURL')) body.push(line)
  }
  if (module.exports.some(each => each.includes(' as '))) return null
  module.body = body
    .join('\n')
    .replace(laterImport, (_, __, specifier: string) => {
      module.later.push(resolve(specifier))
      return `import(new URL('${resolve(specifier)}', $base))`
    })
    .replaceAll('import.meta.url', `new URL('${name}', $base).href`)
  return module
}

/** Returns the modules that an entry needs, each after its own dependencies. Returns null if there is a cycle. */
function orderOf(modules: ReadonlyMap<string, Module>, entry: string): string[] | null {
  const order: string[] = []
  const state = new Map<string, 'open' | 'done'>()
  const visit = (name: string): boolean => {
    if (state.get(name) !== undefined) return state.get(name) === 'done'
    state.set(name, 'open')
    if (!(modules.get(name) as Module).imports.every(({ from }) => visit(from))) return false
    state.set(name, 'done')
    order.push(name)
    return true
  }
  return visit(entry) ? order : null
}

/**
 * Modules that this many entries need are part of main.js, which saves requests. With fewer, everybody would load what
 * only the pages of a fleet share: 10 KB more on a page that needs none of it.
 */
const manyUsers = 9
/** Modules with the same users are a chunk only from this length on. A shorter one is not worth a request. */
const minSharedLength = 3_000

/**
 * Maps each module to the address of its chunk. The dependencies of a module have at least the users of the module, so
 * chunks never depend on each other in a cycle.
 */
function divide(
  modules: ReadonlyMap<string, Module>,
  closures: ReadonlyMap<string, string[]>,
  main: string
): Map<string, string> {
  const users = new Map<string, string[]>()
  for (const [entry, names] of closures) for (const name of names) users.set(name, [...(users.get(name) ?? []), entry])
  const addresses = new Map<string, string>()
  const shared = new Map<string, string>()
  const lengths = new Map<string, number>()
  for (const [name, entries] of users) {
    const key = entries.join(' ')
    lengths.set(key, (lengths.get(key) ?? 0) + (modules.get(name)?.body.length ?? 0))
  }
  // Dependencies come first, so their addresses are known.
  const needsOnlyMain = (name: string): boolean =>
    (modules.get(name)?.imports ?? []).every(({ from }) => addresses.get(from) === main)
  for (const [name, entries] of users) {
    const key = entries.join(' ')
    const isSmall = (lengths.get(key) ?? 0) < minSharedLength
    if (entries.includes(main) || entries.length >= manyUsers) addresses.set(name, main)
    else if (entries.length === 1) addresses.set(name, entries[0] as string)
    else if (isSmall && needsOnlyMain(name)) addresses.set(name, main)
    else {
      if (!shared.has(key)) shared.set(key, `shared-${shared.size + 1}.js`)
      addresses.set(name, shared.get(key) as string)
    }
  }
  return addresses
}

interface Plan {
  chunks: ReadonlyMap<string, string>
  closures: ReadonlyMap<string, string[]>
  main: string
}

function assemble(modules: ReadonlyMap<string, Module>, { chunks, closures, main }: Plan): Linked {
  const ids = new Map([...modules.keys()].map((name, index) => [name, `$${index}`]))
  const idOf = (name: string): string => ids.get(name) as string
  const members = new Map<string, string[]>()
  for (const names of closures.values()) {
    for (const name of names) {
      const address = chunks.get(name) as string
      const own = members.get(address) ?? []
      if (!own.includes(name)) members.set(address, [...own, name])
    }
  }
  const bind = ({ imports }: Module): string =>
    imports
      .filter(({ names }) => names.trim() !== '')
      .map(({ from, names }) => `const {${names}} = ${idOf(from)};`)
      .join(' ')
  const relative = (from: string, to: string): string => {
    const path = posix.relative(posix.dirname(from), to)
    return path.startsWith('.') ? path : `./${path}`
  }
  const importLine = (from: string, to: string, names: readonly string[]): string =>
    `import { ${names.map(idOf).join(', ')} } from '${relative(from, to)}';`

  function chunkText(address: string, names: readonly string[]): string {
    const foreign = new Map<string, string[]>()
    const wanted = names.flatMap(name => (modules.get(name) as Module).imports.map(({ from }) => from))
    for (const name of new Set([...wanted, ...(closures.has(address) ? [address] : [])])) {
      const other = chunks.get(name) as string
      if (other !== address) foreign.set(other, [...(foreign.get(other) ?? []), name])
    }
    const lines = [...foreign].map(([other, needed]) => importLine(address, other, needed))
    lines.push(`const $base = new URL('${'../'.repeat(address.split('/').length - 1) || './'}', import.meta.url).href;`)
    for (const name of names) {
      const module = modules.get(name) as Module
      if (name === main) lines.push(bind(module), module.body)
      else
        lines.push(
          `const ${idOf(name)} = (() => { ${bind(module)}`,
          module.body,
          `return { ${module.exports.join(', ')} }; })();`
        )
    }
    const shared = names.filter(name => name !== main).map(idOf)
    if (shared.length > 0) lines.push(`export { ${shared.join(', ')} };`)
    const entry = address === main ? undefined : modules.get(address)
    if (entry !== undefined && closures.has(address))
      lines.push(`export const { ${entry.exports.join(', ')} } = ${idOf(address)};`)
    return lines.join('\n')
  }

  const files = new Map<string, string>()
  for (const address of new Set([...closures.keys(), ...members.keys()]))
    files.set(address, chunkText(address, members.get(address) ?? []))
  return {
    files,
    closure: entry => [...new Set([entry, ...(closures.get(entry) ?? []).map(name => chunks.get(name) as string)])]
  }
}
