/**
 * Which targets are in each other's way: two projects may neither share a target, nor may one's contain the other's, by
 * name or by where the names lead.
 *
 * Where a name leads can change at any moment, so it is looked up at every comparison. By realpath that would be 5,000
 * calls for 5,000 targets (0.2 seconds and more), so it is looked up by directory: a name in a directory can only become a
 * link, or stop being one, by a change of the directory, and then the directory's ctime is another, which no program can
 * set. Names that were no links are therefore not looked at again while their directory has the same ctime; a link is
 * followed every time. A directory that was changed within the last two seconds is not believed: it may change again within
 * the same tick of its clock. So a comparison finds what 5,000 calls of realpath would find at that moment, and like them it
 * does not see a link that is made later.
 */
import { lstatSync } from 'node:fs'
import { basename, dirname, join, sep } from 'node:path'
import { realPlace } from './guard.js'

interface Target {
  /** Absolute and normal. */
  deployPath: string
}

export interface Among<T extends Target> {
  /** One of those that the target would overlap, and for which `counts` is true. */
  overlapping(deployPath: string, counts?: (other: T) => boolean): T | undefined
  add(other: T): void
}

export interface TargetPlaces {
  /** These targets, as they lie now: not to be kept. */
  among<T extends Target>(others: Iterable<T>): Among<T>
}

interface Directory {
  /** What it was when its names were looked at: device, inode and ctime. */
  state: string
  /** Names in it that were no links. */
  plain: Set<string>
}

/** It is not there, so nothing in it is a link. */
const missing = Symbol('missing')

const settledMs = 2000
const maxDirectories = 20_000
const maxNames = 100_000

/** Remembers which names were no links, from one comparison to the next. */
export function createTargetPlaces(): TargetPlaces {
  const known = new Map<string, Directory>()
  return {
    among<T extends Target>(others: Iterable<T>) {
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
  const entries = [...others].flatMap(entriesOf).sort((one, other) => (one.place < other.place ? -1 : one.place > other.place ? 1 : 0))

  /** Where the first entry is that is not before `place`. */
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

/** The name of a target, and where it leads if that is elsewhere. Each directory is looked at once. */
function createPlaces(known: Map<string, Directory>): (path: string) => string[] {
  const looked = new Map<string, Directory | typeof missing | null>()
  const real = new Map<string, string>()

  /** null: nothing may be remembered of it. */
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

/** Directories that may not be looked into are as `realPlace` takes them. */
function throughRealPlace(path: string): string[] {
  try {
    return [path, realPlace(path)]
  } catch {
    return [path] // it leads nowhere any more
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
