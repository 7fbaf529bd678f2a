/* Sends an archive in pieces. A second push of the same archive continues what an earlier one began. */
import { type Client, requestOf } from '../client/client.js'
import { partBody } from '../client/files.js'
import type { OpenUpload } from '../../model/access.js'
import { isTlsRefusal, Refusal } from '../../base/errors.js'
import { pause } from '../../base/clock.js'
import { formatBytes } from '../../base/shared/api.js'
import { sendAllPieces } from '../../base/shared/pieces.js'
import { isUnknownRoute, isBroken, mayRepeat } from '../client/answer.js'

/** The archive, and what is told on the way. */
export interface PiecesRequest {
  client: Pick<Client, 'call' | 'json'>
  projectId: string
  archive: { path: string; bytes: number; sha256: string }
  /** Called with the bytes that the server has. */
  onProgress(bytes: number): void
  note(line: string): void
  signal: AbortSignal
  /** Tests replace it. */
  sleep?(ms: number, signal: AbortSignal): Promise<unknown>
}

/**
 * Sends all pieces, and returns the id of the upload; null: the server does not take pieces, or no more of them. Throws
 * the last error if too many attempts in a row bring nothing.
 */
export async function sendPieces(request: PiecesRequest): Promise<string | null> {
  const { client, projectId, archive, onProgress, note, signal, sleep = pause } = request
  const { path, bytes, sha256 } = archive
  let hasBegun = false
  const sending = sendAllPieces({
    bytes,
    async begin() {
      const begun = await client.call('POST /api/uploads', { body: { projectId, bytes, sha256 }, signal })
      hasBegun = true
      if (begun.offset > 0) {
        const size = formatBytes(bytes)
        note(`Continuing an upload of the same archive: the server has ${formatBytes(begun.offset)} of ${size}`)
      }
      return begun
    },
    find: id => client.call('GET /api/uploads/:id', { id, signal }),
    append({ id, offset, bytes }) {
      const headers = { 'upload-offset': String(offset) }
      const asked = requestOf('PATCH /api/uploads/:id', { id, headers, signal })
      const body = partBody({ path, offset, bytes }, sent => onProgress(offset + sent))
      return client.json<OpenUpload>({ ...asked, body })
    },
    mayPass,
    onProgress,
    sleep: ms => sleep(ms, signal),
    signal
  })
  return await sending.catch((error: unknown) => {
    if (hasBegun || !isUnknownRoute(error)) throw error
    return null
  })
}

/** Whether a later attempt may do better: the server was reached before, so also a name that is not found may come back. */
function mayPass(error: unknown): boolean {
  if (error instanceof Refusal && error.code === 'unreachable') return !isTlsRefusal(error.cause)
  return mayRepeat(error) || isBroken(error)
}
