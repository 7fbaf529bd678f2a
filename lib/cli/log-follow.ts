import type { LogApi, LogPlace } from './log-api.js'

/*
 * Following a log source over connections that break. The first snapshot tells the place from which on everything is
 * told; what lies before it is the caller's. After a break the lines between the two places are read from the file.
 */

export interface FollowedLog {
  api: LogApi
  id: string
  signal: AbortSignal
  /** Up to this byte of the file the caller may read what was written before. Called once, before the first lines. */
  onBegin(offset: number): Promise<void>
  onLines(lines: readonly string[]): Promise<void>
  /** What the reader should know: rotated, lost, missing, broken. */
  onNote(words: string): void
}

/** Follows until the signal is aborted, or the server refuses. */
export async function followLog(followed: FollowedLog): Promise<void> {
  const { api, id, signal, onBegin, onLines, onNote } = followed
  let place: LogPlace | null = null
  let isRotating = false
  let isMissing = false
  const onBroken = (): void => onNote('the connection broke: trying again…')
  for await (const event of api.follow(id, { signal, onBroken })) {
    if (event.event === 'error') {
      onNote(event.message)
      if (place !== null || isMissing) continue
      // A file that is not there has no past, and all of it is new when it comes.
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
    } else {
      if (event.binary) onNote('this is no text')
      const before: LogPlace | null = place
      place = event.place
      if (isRotating) await onLines(event.lines)
      else if (before === null && !isMissing) await onBegin(place.offset)
      else await catchUp(followed, before, place)
      isRotating = false
    }
  }
}

/** What was written while nobody listened. Another file, or a shorter one: all of it. */
async function catchUp({ api, id, signal, onLines, onNote }: FollowedLog, before: LogPlace | null, now: LogPlace): Promise<void> {
  const isSame = before !== null && before.file === now.file && before.offset <= now.offset
  if (before !== null && !isSame) onNote('the file was rotated meanwhile: lines of the old one may be missing')
  for await (const lines of api.lines(id, { from: isSame ? before.offset : 0, to: now.offset }, { signal })) await onLines(lines)
}
