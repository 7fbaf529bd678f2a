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
import { posix } from 'node:path'

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
