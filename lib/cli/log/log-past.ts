import type { LogApi } from './log-api.js'
import { createLineReader, type LineFilter, type TailLine } from './log-lines.js'
import type { NamedSource } from './log-names.js'

/** The lines to read, and the API to read them with. */
export interface PastNeeds {
  api: LogApi
  filter: LineFilter
  /** Time of the first line to read; undefined reads from the start of the file. */
  sinceMs: number | undefined
  /** Maximum number of lines of one source. */
  count: number
  signal: AbortSignal
}

/** Returns the last matching lines of a log source before a byte. */
export type PastOf = (named: NamedSource, to: number) => Promise<TailLine[]>

const windowBytes = 256 * 1024
/** Number of concurrent searches. The server refuses more than a few, and other users search, too. */
const maxSearches = 2

/** Creates a reader for existing lines. With a filter the server searches them, else they are read by windows. */
export function createPast(needs: PastNeeds): PastOf {
  const inTurn = createTurns(maxSearches)
  const {
    filter: { pattern, least },
    count
  } = needs
  return async ({ source: { id }, name }, to) => {
    if (count === 0 || to === 0) return []
    const texts =
      pattern === null && least === undefined ? await linesOf(needs, id, to) : await inTurn(() => hitsOf(needs, id, to))
    const read = createLineReader({ name, sourceId: id }, { pattern: null, isRaw: false, least: undefined })
    // Extra lines were read because they give a time to later lines that have none.
    return texts
      .map(read)
      .filter((line): line is TailLine => line !== null)
      .slice(-count)
  }
}

async function hitsOf(
  { api, filter: { pattern, isRaw, least }, sinceMs, count, signal }: PastNeeds,
  id: string,
  to: number
): Promise<string[]> {
  const hits = await api.search(id, {
    q: pattern?.source ?? '^',
    ignoresCase: pattern?.ignoreCase ?? false,
    isRaw,
    level: least,
    since: sinceMs === undefined ? undefined : new Date(sinceMs).toISOString(),
    toOffset: to,
    maxHits: count,
    signal
  })
  return hits.reverse().map(({ text }) => text)
}

async function linesOf({ api, sinceMs, count, signal }: PastNeeds, id: string, to: number): Promise<string[]> {
  let lines: string[] = []
  if (sinceMs !== undefined) {
    const query = { direction: 'forward', time: new Date(sinceMs).toISOString(), size: '1' }
    const { startOffset } = await api.window(id, query, { signal })
    for await (const more of api.lines(id, { from: startOffset, to }, { signal }))
      lines = [...lines, ...more].slice(-count)
    return lines
  }
  for (let offset = to; offset > 0 && lines.length < count; ) {
    const query = { direction: 'backward', offset: String(offset), size: String(windowBytes) }
    const window = await api.window(id, query, { signal })
    if (window.startOffset >= offset) break
    lines = [...window.lines, ...lines]
    offset = window.startOffset
  }
  return lines
}

/** Limits the number of tasks that run at the same time. The others wait in order. */
function createTurns(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: Array<() => void> = []
  let running = 0
  return async work => {
    if (running >= most)
      await new Promise<void>(resolve => {
        waiting.push(resolve)
      })
    else running++
    try {
      return await work()
    } finally {
      // The next waiting task takes over the slot.
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
