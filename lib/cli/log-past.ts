import type { LogApi } from './log-api.js'
import { createLineReader, type LineFilter, type TailLine } from './log-lines.js'
import type { NamedSource } from './log-names.js'

export interface PastNeeds {
  api: LogApi
  filter: LineFilter
  /** Undefined: from the start of the file. */
  sinceMs: number | undefined
  /** The most lines of one source. */
  count: number
  signal: AbortSignal
}

/** The last lines that are wanted, of what was written to a log source before a byte. */
export type PastOf = (named: NamedSource, to: number) => Promise<TailLine[]>

const windowBytes = 256 * 1024
/** The server refuses more than a few searches, and others search, too. */
const maxSearches = 2

/** The past of log sources: searched by the server where there is a filter, else read by windows. */
export function createPast(needs: PastNeeds): PastOf {
  const inTurn = createTurns(maxSearches)
  const { filter: { pattern, least }, count } = needs
  return async ({ source: { id }, name }, to) => {
    if (count === 0 || to === 0) return []
    const texts = pattern === null && least === undefined
      ? await linesOf(needs, id, to)
      : await inTurn(() => hitsOf(needs, id, to))
    const read = createLineReader({ name, sourceId: id }, { pattern: null, least: undefined })
    // More was read than is wanted: it tells the time of lines that say none.
    return texts.map(read).filter((line): line is TailLine => line !== null).slice(-count)
  }
}

async function hitsOf({ api, filter: { pattern, least }, sinceMs, count, signal }: PastNeeds, id: string, to: number): Promise<string[]> {
  const hits = await api.search(id, {
    q: pattern?.source ?? '^',
    ignoresCase: pattern?.ignoreCase ?? false,
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
    for await (const more of api.lines(id, { from: startOffset, to }, { signal })) lines = [...lines, ...more].slice(-count)
    return lines
  }
  for (let offset = to; offset > 0 && lines.length < count;) {
    const query = { direction: 'backward', offset: String(offset), size: String(windowBytes) }
    const window = await api.window(id, query, { signal })
    if (window.startOffset >= offset) break
    lines = [...window.lines, ...lines]
    offset = window.startOffset
  }
  return lines
}

/** Runs so many at the same time; the others wait. */
function createTurns(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: Array<() => void> = []
  let running = 0
  return async work => {
    if (running >= most) await new Promise<void>(resolve => { waiting.push(resolve) })
    else running++
    try {
      return await work()
    } finally {
      // Whoever waits takes the place.
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
