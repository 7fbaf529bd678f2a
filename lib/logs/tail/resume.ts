/*
 * The ids of a log's events, and how a file is found again by one:
 *
 *   <bytes>@<file>;<checksum>;<time>                    the place up to which lines were sent
 *   <bytes>@<file>;<checksum>;<time>,<the same>         and the place in the file rotated away, while it is still read
 *   ,<bytes>@<file>;<checksum>;<time>                   only that, because no line of the current file was sent yet
 *
 * Clients treat an id as opaque text, but anybody can send one. So it only finds the log itself and its rotated files,
 * which are opened like every log, and only continues after bytes that have its checksum.
 */
import { dirname, join } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { contentsOf } from '../read/contents.js'
import { bytesBefore, createGeneration, type Generation, type LogPlace } from '../read/generation.js'
import type { InflatedFiles } from '../read/inflated.js'
import type { OpenLog } from '../read/open.js'
import { listRotated } from './between.js'

const form = /^(\d{1,15})@(\d{1,20}:\d{1,20});([0-9a-z]{1,7});([0-9a-z]{1,9})$/
/** Maximum number of rotated files that are opened to find one. */
const maxOpened = 16
/** File times may be this far behind the clock. */
const coarseMs = 100

/** Returns the id of an event after these places: of the current file, and of one rotated away. */
export function idOf(current: LogPlace | undefined, leaving: LogPlace | undefined): string {
  return `${current === undefined ? '' : textOf(current)}${leaving === undefined ? '' : `,${textOf(leaving)}`}`
}

function textOf({ offset, identity, mark, mtimeMs }: LogPlace): string {
  return `${offset}@${identity};${mark.toString(36)};${mtimeMs.toString(36)}`
}

/** Returns the places of an id: one or two. An id that no stream has sent: an empty list. */
export function placesOf(id: string): LogPlace[] {
  const found = id
    .replace(/^,/, '')
    .split(',', 3)
    .map(part => form.exec(part))
  if (found.length > 2) return []
  const places = found.flatMap(each => {
    if (each === null) return []
    const [, bytes, identity, mark, time] = each as unknown as [string, string, string, string, string]
    return [{ offset: Number(bytes), identity, mark: parseInt(mark, 36), mtimeMs: parseInt(time, 36) }]
  })
  return places.length === found.length ? places : []
}

/** What `findRotated` needs. */
export interface ResumeNeeds {
  openLog: OpenLog
  inflated: InflatedFiles
}

/**
 * Finds the file of a place among the rotated files of a log: by its identity, or by its bytes if it was copied or
 * compressed. Returns null if it no longer exists. The caller releases it.
 */
export async function findRotated(
  { openLog, inflated }: ResumeNeeds,
  { path, place, signal }: { path: string; place: LogPlace; signal: AbortSignal }
): Promise<Generation | null> {
  const listed = await listRotated(path)
  const moved = listed.filter(({ identity }) => identity === place.identity)
  // The oldest first: a younger one may begin with the same lines.
  const copies = listed
    .filter(each => !moved.includes(each) && place.offset > 0 && each.mtimeMs >= place.mtimeMs - coarseMs)
    .sort((one, other) => one.mtimeMs - other.mtimeMs)
  for (const { name } of [...moved, ...copies].slice(0, maxOpened)) {
    const found = await openLog(join(dirname(path), name))
      .then(async log => ({ log, contents: await contentsOf(log, inflated, signal) }))
      .catch(error => unlessRefused(error, signal))
    if (found === null) continue
    const { log, contents } = found
    const mark = await bytesBefore(contents, place).catch(() => null)
    const { offset, mtimeMs } = place
    if (mark !== null) return createGeneration({ identity: log.identity, contents, offset, mark, mtimeMs })
    await contents.release()
  }
  return null
}

function unlessRefused(error: unknown, signal: AbortSignal): null {
  if (!(error instanceof Refusal) || signal.aborted) throw error
  return null
}
