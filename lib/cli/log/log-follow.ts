import type { LogApi, LogPlace } from './log-api.js'

/*
 * Follows a log source across lost connections. The first snapshot gives the position from which on every line arrives
 * as an event; the caller reads the lines before it. After a reconnect, the server continues after the last event. If it
 * sends a snapshot instead, the lines in between are read from the file.
 */

/** A log source to follow, and the callbacks for its lines. */
export interface FollowedLog {
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
