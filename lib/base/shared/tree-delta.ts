/*
 * What distinguishes a tree from an earlier one, its base, as a text. Lines are sorted by path (`compareTreePaths`):
 *
 *   svc-delta 1
 *   <type and permissions, 6 octal digits> <size> <SHA-256> <modification time in ms> <path>    new, or other than before
 *   - <path>                                                                                     gone
 *   end <number of lines> <SHA-256 of the canonical text of the whole tree>
 *
 * Entries of the base that have no line are in the tree as they were, with the time that they had.
 *
 * The command line and the panel write them; core/archive/tree-wire.ts applies them.
 */
import { bodyLine, compareTreePaths, type TreeEntry } from './tree-text.js'

/** An entry with its modification time. */
type TimedEntry = TreeEntry & { mtimeMs: number }

/** The differences between a base and a tree. */
export interface TreeDelta {
  /** New entries, and those with other contents or permissions; sorted. */
  changed: TimedEntry[]
  /** Paths of the base that the tree does not have; sorted. */
  gone: string[]
  /** The changed entries whose contents are nowhere in the base. */
  missing: TimedEntry[]
}

/** An entry of a base. Its digest may be cut to some digits. */
export type BaseEntry = Pick<TreeEntry, 'path' | 'mode' | 'size' | 'sha256'>

/** The first line. */
export const deltaHead = 'svc-delta 1'
/** The beginning of the line of a path that is gone. */
export const goneMark = '- '
const allDigits = 64

/** The entries of a base, sorted by path. Most are looked at once, so they may be made on the way. */
export interface BaseEntries {
  values(): Iterable<BaseEntry>
}

/** Returns the differences between a base and a tree, sorted too. All digests of the base have the same number of digits. */
export function compareWithBase(base: BaseEntries, { entries }: { entries: readonly TimedEntry[] }): TreeDelta {
  const [changed, gone]: [TimedEntry[], string[]] = [[], []]
  let digits = allDigits
  let at = 0
  for (const before of base.values()) {
    digits = before.sha256.length
    let entry = entries[at]
    for (; entry !== undefined && compareTreePaths(entry.path, before.path) < 0; entry = entries[++at])
      changed.push(entry)
    if (entry?.path !== before.path) {
      gone.push(before.path)
      continue
    }
    at++
    const isSame = before.mode === entry.mode && before.size === entry.size && entry.sha256.startsWith(before.sha256)
    if (!isSame) changed.push(entry)
  }
  for (; at < entries.length; at++) changed.push(entries[at] as TimedEntry)
  const sizes = new Set(changed.map(({ size }) => size))
  const contents = new Set<string>()
  for (const entry of sizes.size === 0 ? [] : base.values()) if (sizes.has(entry.size)) contents.add(contentsOf(entry))
  return { changed, gone, missing: changed.filter(entry => !contents.has(contentsOf(entry))) }

  function contentsOf({ sha256, size }: BaseEntry): string {
    return `${sha256.slice(0, digits)} ${size}`
  }
}

/** Returns the text of a delta. */
export function writeDelta({ changed, gone }: TreeDelta, treeSha256: string): string {
  const lines = [
    ...changed.map(entry => ({ path: entry.path, line: bodyLine(entry, allDigits) })),
    ...gone.map(path => ({ path, line: `${goneMark}${path}\n` }))
  ].sort((a, b) => compareTreePaths(a.path, b.path))
  return `${deltaHead}\n${lines.map(({ line }) => line).join('')}end ${lines.length} ${treeSha256}\n`
}

/** For less, a whole archive is as fast. */
export const minChangesBytes = 256 * 1024
/** Above this part of all bytes, the whole archive is sent: it becomes the base of the next ones. */
const maxShare = 0.7

/** Whether so much has changed that the whole archive is sent. `bytes` is the size of all files. */
export function isMostlyNew({ missing }: Pick<TreeDelta, 'missing'>, bytes: number): boolean {
  return missing.reduce((sum, { size }) => sum + size, 0) > bytes * maxShare
}

/** The codes of refusals after which the whole archive is sent. */
export const refusedChanges: ReadonlySet<string> = new Set([
  'base_gone',
  'base_differs',
  'assembly_incomplete',
  'invalid_patch',
  'assembly_differs'
])
