/*
 * The panel as one build: all of its files, read at one moment, under a path that contains a hash of their content.
 * Browsers cache files below `/_<hash>/` forever, and a page that was loaded before an update still finds its own
 * modules. Each file is what the compiler wrote, byte for byte.
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
  /** Returns the modules that one needs, as it imports them statically, including itself. */
  closure(entry: string): string[]
  builtAtMs: number
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
export function createBuilds(directory: string) {
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
    /** Returns the build of the current files, or null if there is none (no main.js). */
    async current(): Promise<Build | null> {
      await refresh()
      const [build] = kept
      return build?.files.has(main) ? build : null
    },

    /** Returns the current or the previous build by its directory. */
    async find(wanted: string): Promise<Build | undefined> {
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
  const imports = new Map(
    [...files].filter(([name]) => name.endsWith('.js')).map(([name, bytes]) => [name, importsOf(name, bytes)])
  )
  const closure = (entry: string): string[] => {
    const found = new Set([entry])
    for (const name of found) for (const next of imports.get(name) ?? []) found.add(next)
    return [...found]
  }
  return { directory: `_${hash.digest('hex').slice(0, hashLength)}`, files, closure, builtAtMs: Date.now() }
}

/** A static import as the TypeScript compiler writes it: one line, which begins with it. */
const staticImport = /^(?:import|export)\b[^'"]*?\bfrom ['"](\.[^'"]+)['"]|^import ['"](\.[^'"]+)['"]/gm

/** Returns the addresses that a module imports statically. */
function importsOf(name: string, source: Buffer): string[] {
  return [...source.toString('utf8').matchAll(staticImport)].map(([, from, bare]) =>
    posix.join(posix.dirname(name), (from ?? bare) as string)
  )
}
