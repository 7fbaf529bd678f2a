import type { RemovedRange } from '../audit/removals.js'
import type { Verdict } from '../audit/verifier.js'
import { countOf } from '../base/text.js'

/** Returns how many entries an export contains, and how many of them only as hashes: "12 entries, 3 removed before". */
export function auditSentence({ entries, removed, omitted }: Pick<Verdict, 'entries' | 'removed' | 'omitted'>): string {
  const parts = [
    countOf(entries, 'entry', 'entries'),
    removed === 0 ? '' : `${removed} removed before`,
    omitted === 0 ? '' : `${omitted} not exported`
  ]
  return parts.filter(Boolean).join(', ')
}

/** Returns which entries the export has only as hashes, a line for each entry of the log that says why. */
export function missingSentences({ removedRanges, omittedRanges }: Pick<Verdict, 'removedRanges' | 'omittedRanges'>): {
  removed: string[]
  omitted: string[]
} {
  const byEntry = new Map<number | null, RemovedRange[]>()
  for (const range of removedRanges) byEntry.set(range.by, [...(byEntry.get(range.by) ?? []), range])
  return {
    removed: [...byEntry.values()].map(ranges => {
      const { by, at, says } = ranges[0] as RemovedRange
      const why = by === null ? 'no exported entry says so' : `entry ${by} of ${at} says "${says}"`
      return `Removed: ${placeOf(ranges.map(({ from, to }) => [from, to]))} (${why})`
    }),
    omitted: omittedRanges.length === 0 ? [] : [`Not exported: ${placeOf(omittedRanges)}`]
  }
}

function placeOf(ranges: ReadonlyArray<[from: number, to: number]>): string {
  const [from, to] = [ranges[0]?.[0] ?? 0, ranges.at(-1)?.[1] ?? 0]
  if (from === to) return `entry ${from}`
  if (ranges.length === 1) return `entries ${from} to ${to}`
  const count = ranges.reduce((sum, [a, b]) => sum + b - a + 1, 0)
  return `${count} of the entries ${from} to ${to}`
}
