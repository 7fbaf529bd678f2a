/*
 * How a release differs from the one in the first environment of its family, for the command line and the panel. The words
 * are English, with placeholders in braces.
 */

/** A sentence with placeholders, and their values. */
export interface DistanceWords {
  isSame: boolean
  words: string
  /** Number of releases, or null. */
  count: number | null
  /** How much older or newer it is, in milliseconds; null if that does not say anything. */
  apartMs: number | null
}

interface Placed {
  release: { since: string } | null
  distance: { isSame: boolean; releases: number | null } | null
}

/** Returns how a project differs from the first one that has a release; null: it is the first, or cannot be compared. */
export function distanceWords({ release, distance }: Placed, first: Placed): DistanceWords | null {
  if (release === null || distance === null || first.release === null) return null
  const { isSame, releases } = distance
  if (isSame) return { isSame, words: 'same files as {env}', count: null, apartMs: null }
  if (releases !== null) {
    const count = Math.abs(releases)
    const noun = count === 1 ? '1 release' : '{count} releases'
    const words = releases > 0 ? `${noun} behind {env}` : `${noun} ahead of {env}`
    return { isSame, words, count, apartMs: null }
  }
  const laterMs = Date.parse(release.since) - Date.parse(first.release.since)
  const words = `other files than {env}, {time} ${laterMs < 0 ? 'older' : 'newer'}`
  return { isSame, words, count: null, apartMs: Math.abs(laterMs) }
}
