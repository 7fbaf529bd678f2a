/*
 * What distinguishes a tree from an earlier one, its base, as a text. Lines are sorted by path (`compareTreePaths`):
 *
 *   svc-delta 1
 *   <type and permissions, 6 octal digits> <size> <SHA-256> <modification time in ms> <path>    new, or other than before
 *   - <path>                                                                                     gone
 *   end <number of lines> <SHA-256 of the canonical text of the whole tree>
 *
 * Entries of the base that have no line are in the tree as they were, with the time that they had.
 */
import { createTreeDigest, fullDigits } from '../../model/manifest.js'
import { Refusal } from '../../base/errors.js'
import { bodyLine, compareTreePaths, type TreeEntry } from '../../base/shared/tree-text.js'
import type { SourceTree, TimedEntry } from './tree.js'
import { broken, linesOf, maxTreeEntries, readCheckedEntry, textOf, tooLarge, unsorted } from './tree-wire.js'

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

const head = 'svc-delta 1'
const goneMark = '- '

/** Returns the differences between a base and a tree. All digests of the base have the same number of digits. */
export function compareWithBase(base: ReadonlyMap<string, BaseEntry>, { entries }: SourceTree): TreeDelta {
  const [first] = base.values()
  const digits = first?.sha256.length ?? fullDigits
  const contents = new Set(Array.from(base.values(), contentsOf))
  const changed = entries.filter(entry => {
    const before = base.get(entry.path)
    return before === undefined || before.mode !== entry.mode || contentsOf(before) !== contentsOf(entry)
  })
  const paths = new Set(entries.map(({ path }) => path))
  const gone = [...base.keys()].filter(path => !paths.has(path)).sort(compareTreePaths)
  return { changed, gone, missing: changed.filter(entry => !contents.has(contentsOf(entry))) }

  function contentsOf({ sha256, size }: BaseEntry): string {
    return `${sha256.slice(0, digits)} ${size}`
  }
}

/** Returns the text of a delta. */
export function writeDelta({ changed, gone }: TreeDelta, treeSha256: string): string {
  const lines = [
    ...changed.map(entry => ({ path: entry.path, line: bodyLine(entry, fullDigits) })),
    ...gone.map(path => ({ path, line: `${goneMark}${path}\n` }))
  ].sort((a, b) => compareTreePaths(a.path, b.path))
  return `${head}\n${lines.map(({ line }) => line).join('')}end ${lines.length} ${treeSha256}\n`
}

/**
 * Applies a delta, which may be compressed with gzip, to its base, which is sorted. Refuses: 400 `invalid_tree` with the
 * number of the line, 400 `broken_gzip`, 413 `tree_too_large`, and 409 `base_differs` if the result is not the wanted
 * tree: the client made the delta from another base.
 */
export function applyDelta(
  body: Uint8Array,
  { base, treeSha256: wanted }: { base: readonly TimedEntry[]; treeSha256: string }
): { entries: TimedEntry[]; changed: ReadonlySet<TimedEntry> } {
  const lines = linesOf(textOf(body))
  if (lines.next().value !== head) throw broken(1, `expected "${head}"`)
  const entries: TimedEntry[] = []
  const changed = new Set<TimedEntry>()
  const digest = createTreeDigest()
  let [at, number, before] = [0, 1, '']

  function take(entry: TimedEntry): void {
    if (entries.length === maxTreeEntries) throw tooLarge(`it has more than ${maxTreeEntries} entries`)
    entries.push(entry)
    digest.add(entry)
  }
  /** Takes the entries of the base before a path, and passes over the one at the path. Returns whether there is one. */
  function takeBaseTo(path: string | null): boolean {
    for (; at < base.length; at++) {
      const entry = base[at] as TimedEntry
      const order = path === null ? -1 : compareTreePaths(entry.path, path)
      if (order > 0) return false
      if (order === 0) return at++ >= 0
      take(entry)
    }
    return false
  }

  for (const line of lines) {
    number++
    const [, count, treeSha256] = /^end (\d{1,9}) ([0-9a-f]{64})$/.exec(line) ?? []
    if (count !== undefined) {
      if (Number(count) !== number - 2) throw broken(number, `the delta has ${number - 2} lines, not ${count}`)
      if (lines.next().done !== true) throw broken(number + 1, 'the delta continues after its end')
      takeBaseTo(null)
      if (treeSha256 !== wanted || digest.end() !== wanted) throw baseDiffers()
      return { entries, changed }
    }
    const isGone = line.startsWith(goneMark)
    const entry = isGone ? null : readCheckedEntry(line, number, fullDigits)
    const path = entry?.path ?? line.slice(goneMark.length)
    if (number > 2 && compareTreePaths(before, path) >= 0) throw unsorted(number, before, path)
    before = path
    if (!takeBaseTo(path) && isGone) throw baseDiffers()
    if (entry === null) continue
    take(entry)
    changed.add(entry)
  }
  throw broken(number + 1, 'the line "end" is missing')
}

function baseDiffers(): Refusal {
  const sentence = 'The changes belong to another release than the one that they name. Send the whole archive'
  return new Refusal('conflict', 'base_differs', sentence, { field: 'tree' })
}
