import type { LogApi, LogPlace } from './log-api.js'
import { createLineReader, type LineFilter, type NamedSource, type TailLine } from './log-lines.js'

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
    const query = { direction: 'forward', time: new Date(sinceMs).toISOString(), size: 1 } as const
    const { startOffset } = await api.window(id, query, { signal })
    for await (const more of api.lines(id, { from: startOffset, to }, { signal }))
      lines = [...lines, ...more].slice(-count)
    return lines
  }
  for (let offset = to; offset > 0 && lines.length < count; ) {
    const query = { direction: 'backward', offset, size: windowBytes } as const
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

/*
 * Follows a log source across lost connections. The first snapshot gives the position from which on every line arrives
 * as an event; the caller reads the lines before it. After a reconnect, the server continues after the last event. If it
 * sends a snapshot instead, the lines in between are read from the file.
 */

/** A log source to follow, and the callbacks for its lines. */
interface FollowedLog {
  api: LogApi
  id: string
  signal: AbortSignal
  /** Called once, before the first lines. The caller can read existing lines up to this byte of the file. */
  onBegin(offset: number): Promise<void>
  onLines(lines: readonly string[]): Promise<void>
  /** Reports a rotation, lost lines, a missing file or a lost connection. */
  onNote(words: string): void
}

/** Follows a log source until the signal is aborted or the server refuses. */
export async function followLog(followed: FollowedLog): Promise<void> {
  const { api, id, signal, onBegin, onLines, onNote } = followed
  let place: LogPlace | null = null
  let isRotating = false
  let isMissing = false
  const onBroken = (): void => onNote('the connection was lost, reconnecting…')
  for await (const event of api.follow(id, { signal, onBroken })) {
    if (event.event === 'error') {
      onNote(event.message)
      if (place !== null || isMissing) continue
      // A missing file has no existing lines. All of its lines are new once it exists.
      isMissing = true
      await onBegin(0)
    } else if (event.event === 'rotated') {
      isRotating = true
      onNote('the file was rotated')
    } else if (event.event === 'gap') {
      onNote(event.bytes === 0 ? 'lines may have been lost here' : `at least ${event.bytes} bytes were lost here`)
    } else if (event.event === 'lines') {
      place = event.place ?? place
      await onLines(event.lines)
    } else if (event.event === 'snapshot') {
      if (event.binary) onNote('this file is binary')
      const before: LogPlace | null = place
      place = event.place
      if (isRotating) await onLines(event.lines)
      else if (before === null && !isMissing) await onBegin(place.offset)
      else await catchUp(followed, before, place)
      isRotating = false
    }
  }
}

/** Reads the lines that were written during a lost connection: the whole file if it was replaced or is shorter. */
async function catchUp(
  { api, id, signal, onLines, onNote }: FollowedLog,
  before: LogPlace | null,
  now: LogPlace
): Promise<void> {
  const isSame = before !== null && before.file === now.file && before.offset <= now.offset
  if (before !== null && !isSame) onNote(lostWords(before.offset))
  for await (const lines of api.lines(id, { from: isSame ? before.offset : 0, to: now.offset }, { signal }))
    await onLines(lines)
}

const lostWords = (offset: number): string =>
  `the file was rotated meanwhile: lines of the old file after byte ${offset} may be missing, how many is not known`
