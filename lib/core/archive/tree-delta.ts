/* Applies what distinguishes a tree from an earlier one, its base (base/shared/tree-delta.ts), to that one. */
import { createTreeDigest, fullDigits } from '../../model/manifest.js'
import { Refusal } from '../../base/errors.js'
import { deltaHead, goneMark } from '../../base/shared/tree-delta.js'
import { compareTreePaths } from '../../base/shared/tree-text.js'
import type { TimedEntry } from './tree.js'
import { broken, linesOf, maxTreeEntries, readCheckedEntry, textOf, tooLarge, unsorted } from './tree-wire.js'

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
  if (lines.next().value !== deltaHead) throw broken(1, `expected "${deltaHead}"`)
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
