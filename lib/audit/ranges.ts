/*
 * Lists of numbers as text: `1-4000` or `12,15,18-30`. Entries of the action `audit.trimmed` name in this way the leaves
 * whose entries were removed, so that a removal without such an entry is found.
 */

/** The action of an entry that says which other entries were removed. Its target is a list of their numbers. */
export const trimmedAction = 'audit.trimmed'

/** The newest summaries of failed attempts that always stay, about 10 MB. */
export const keptFailures = 20_000

/** Writes ascending numbers as text. */
export function writeRanges(numbers: readonly number[]): string {
  const parts: string[] = []
  for (let at = 0; at < numbers.length; ) {
    const from = numbers[at] as number
    let to = from
    while (numbers[++at] === to + 1) to++
    parts.push(from === to ? String(from) : `${from}-${to}`)
  }
  return parts.join(',')
}

/** Reads such a text; an unreadable part is left out. */
export function readRanges(text: string): Array<[from: number, to: number]> {
  return text.split(',').flatMap(part => {
    const [, from, to] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(part) ?? []
    return from === undefined ? [] : [[Number(from), Number(to ?? from)] as [number, number]]
  })
}

/** The leaves without an entry, and those that entries say were removed. */
export interface Gaps {
  /** Notes that the entries of these leaves are missing. Must be called in ascending order. */
  miss(from: number, to: number): void
  /** Notes the target of an entry that says which ones were removed. */
  announce(target: string): void
  /** Returns the number of missing entries. */
  count(): number
  /** Returns the first missing entry that no entry names; null if there is none. */
  unannounced(): number | null
}

/** Creates an empty record of gaps. */
export function createGaps(): Gaps {
  const missing: Array<[from: number, to: number]> = []
  const announced: Array<[from: number, to: number]> = []

  return {
    miss(from, to) {
      const last = missing.at(-1)
      if (last !== undefined && last[1] + 1 === from) last[1] = to
      else missing.push([from, to])
    },
    announce: target => void announced.push(...readRanges(target)),
    count: () => missing.reduce((sum, [from, to]) => sum + to - from + 1, 0),
    unannounced() {
      announced.sort(([a], [b]) => a - b)
      let next = 0
      let covered = 0
      for (const [from, to] of missing) {
        for (let open = from; open <= to; open = covered + 1) {
          for (let range = announced[next]; range !== undefined && range[0] <= open; range = announced[++next])
            covered = Math.max(covered, range[1])
          if (covered < open) return open
        }
      }
      return null
    }
  }
}
