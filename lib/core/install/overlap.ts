/**
 * Finds targets that overlap. Two projects must not share a target, and the target of one must not contain the target
 * of another, neither by name nor by the place that the name leads to.
 *
 * That place can change at any moment, so it is looked up for every comparison. With realpath, 5,000 targets would need
 * 5,000 calls (0.2 seconds and more). Therefore directories are looked up instead. A name in a directory can become a
 * link, or stop being one, only through a change of the directory. Such a change also changes the directory's ctime,
 * which no program can set. So names that were not links are not looked up again while the ctime of their directory is
 * the same. A link is followed every time. The ctime of a directory that was changed within the last two seconds is not
 * trusted: the directory may change again within the same tick of the clock. So a comparison finds the same as 5,000
 * calls of realpath at that moment. Like them, it does not see a link that is created later.
 */
import { lstatSync } from 'node:fs'
import { basename, dirname, join, sep } from 'node:path'
import { realPlace } from './guard.js'

interface Target {
  /** Absolute and normalized. */
  deployPath: string
}

/** Targets that can be compared with a path. */
export interface Among<T extends Target> {
  /** Returns a target that overlaps `deployPath` and for which `counts` is true. */
  overlapping(deployPath: string, counts?: (other: T) => boolean): T | undefined
  add(other: T): void
}

interface Directory {
  /** Device, inode and ctime at the time when the names were looked up. */
  state: string
  /** Names in the directory that were not links. */
  plain: Set<string>
}

/** The directory does not exist, so nothing in it is a link. */
const missing = Symbol('missing')

const settledMs = 2000
const maxDirectories = 20_000
const maxNames = 100_000

/** Creates a comparison of targets. It remembers between calls which names were not links. */
export function createTargetPlaces() {
  const known = new Map<string, Directory>()
  return {
    /** Returns the given targets with their current locations. Do not keep the result. */
    among<T extends Target>(others: Iterable<T>): Among<T> {
      if (known.size > maxDirectories) known.clear()
      return amongOf(others, createPlaces(known))
    }
  }
}

interface Entry<T> {
  place: string
  target: T
}

function amongOf<T extends Target>(others: Iterable<T>, placesOf: (path: string) => string[]): Among<T> {
  const entriesOf = (target: T): Array<Entry<T>> => placesOf(target.deployPath).map(place => ({ place, target }))
  const entries = [...others]
    .flatMap(entriesOf)
    .sort((one, other) => (one.place < other.place ? -1 : one.place > other.place ? 1 : 0))

  /** Returns the index of the first entry that is not before `place`. */
  function indexOf(place: string): number {
    let [from, to] = [0, entries.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if ((entries[middle] as Entry<T>).place < place) from = middle + 1
      else to = middle
    }
    return from
  }

  function find(from: string, isMeant: (place: string) => boolean, counts: (other: T) => boolean): T | undefined {
    for (let index = indexOf(from); index < entries.length; index++) {
      const { place, target } = entries[index] as Entry<T>
      if (!isMeant(place)) return undefined
      if (counts(target)) return target
    }
    return undefined
  }

  return {
    overlapping(deployPath, counts = () => true) {
      for (const own of placesOf(deployPath)) {
        for (let at = own; ; at = dirname(at)) {
          const found = find(at, place => place === at, counts)
          if (found !== undefined) return found
          if (at === dirname(at)) break
        }
        const inside = own.endsWith(sep) ? own : own + sep
        const found = find(inside, place => place.startsWith(inside), counts)
        if (found !== undefined) return found
      }
      return undefined
    },
    add(other) {
      for (const entry of entriesOf(other)) entries.splice(indexOf(entry.place), 0, entry)
    }
  }
}

/**
 * Returns a function that gives the path of a target, and its real path if that differs. Looks up each directory once.
 */
function createPlaces(known: Map<string, Directory>): (path: string) => string[] {
  const looked = new Map<string, Directory | typeof missing | null>()
  const real = new Map<string, string>()

  /** Returns null if nothing may be remembered about the directory. */
  function directoryAt(path: string): Directory | typeof missing | null {
    const before = looked.get(path)
    if (before !== undefined) return before
    const directory = lookAt(path, known)
    looked.set(path, directory)
    return directory
  }

  function isLink(directory: string, name: string): boolean {
    const found = directoryAt(directory)
    if (found === missing || found?.plain.has(name)) return false
    if (lstatSync(join(directory, name), { throwIfNoEntry: false })?.isSymbolicLink()) return true
    found?.plain.add(name)
    return false
  }

  function realOf(path: string): string {
    const parent = dirname(path)
    if (parent === path) return path
    let realParent = real.get(parent)
    if (realParent === undefined) real.set(parent, (realParent = realOf(parent)))
    return isLink(realParent, basename(path)) ? realPlace(path) : join(realParent, basename(path))
  }

  return path => {
    try {
      const place = realOf(path)
      return place === path ? [path] : [path, place]
    } catch {
      return throughRealPlace(path)
    }
  }
}

/** Looks up paths with directories that svc may not search: their real path is what `realPlace` returns. */
function throughRealPlace(path: string): string[] {
  try {
    return [path, realPlace(path)]
  } catch {
    return [path] // it no longer leads anywhere
  }
}

function lookAt(path: string, known: Map<string, Directory>): Directory | typeof missing | null {
  const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (stats === undefined) return missing
  if (Date.now() - Number(stats.ctimeMs) <= settledMs || process.platform === 'win32') {
    known.delete(path)
    return null
  }
  const state = `${stats.dev} ${stats.ino} ${stats.ctimeNs}`
  const before = known.get(path)
  if (before?.state === state && before.plain.size <= maxNames) return before
  const directory = { state, plain: new Set<string>() }
  known.set(path, directory)
  return directory
}
