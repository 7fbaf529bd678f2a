/*
 * Sends an archive in pieces (deploy/pieces.ts is the other side). The server says where to continue, so a broken
 * connection costs what was on its way, and a second push of the same archive continues what an earlier one began.
 *
 * The first piece passes proxies with their defaults. Pieces double while they arrive, so a good line needs few requests,
 * and halve after a 413.
 */
import { Refusal, isTlsRefusal } from '../../base/errors.js'
import { pause } from '../../base/clock.js'
import { formatBytes } from '../../base/shared/api.js'
import type { OpenUpload } from '../../model/access.js'
import type { Api } from '../client/api.js'
import { isUnknownRoute } from '../client/answer.js'
import { isBroken, mayRepeat } from '../client/streams.js'

/** Archives of this size are sent in pieces from the beginning. */
export const piecesFromBytes = 32 * 1024 * 1024
const largestPieceBytes = 16 * 1024 * 1024
/** No proxy is configured with less: then the limit is another one. */
const smallestPieceBytes = 64 * 1024
const firstPauseMs = 500
const longestPauseMs = 30_000
/** Attempts in a row that may bring nothing. */
const maxFailures = 8
/** How often a server may forget an upload: another hub of its cluster leads now, or the archive came damaged. */
const maxLost = 3

/** The archive, and what is told on the way. */
export interface PiecesRequest {
  api: Pick<Api, 'beginUpload' | 'findUpload' | 'appendPiece'>
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
  const { archive, onProgress, signal, sleep = pause } = request
  const sizes = createSizes()
  const state: State = { upload: null, isKnown: false, lost: 0 }
  let reached = -1
  for (let failures = 0; ; ) {
    try {
      const { offset, uploadId } = (state.upload = await refreshed(request, state))
      onProgress(offset)
      if (offset > reached) failures = 0
      reached = Math.max(reached, offset)
      if (offset === archive.bytes) return uploadId
      const bytes = Math.min(sizes.next(state.upload), archive.bytes - offset)
      const piece = { id: uploadId, offset, bytes, path: archive.path, signal }
      state.upload = await request.api.appendPiece({ ...piece, onProgress: sent => onProgress(offset + sent) })
      state.isKnown = true
      sizes.arrived()
    } catch (error) {
      if (signal.aborted) throw error
      if (state.upload === null && isNotOffered(error)) return null
      state.isKnown = false
      if (isLost(error) && state.lost++ < maxLost) state.upload = null
      else if (isFromProxy(error)) sizes.refuse(error)
      else if (isMisplaced(error)) failures++
      else {
        if (!maySendAgain(error) || failures++ >= maxFailures) throw error
        await sleep(waitMs(error, failures), signal)
      }
      if (failures > maxFailures) throw error
    }
  }
}

interface State {
  upload: OpenUpload | null
  /** Whether the offset is that of the server. After a failure it may be another one. */
  isKnown: boolean
  lost: number
}

/** Returns the upload with its offset. Begins it, and tells if an earlier push has. */
async function refreshed({ api, projectId, archive, note, signal }: PiecesRequest, state: State): Promise<OpenUpload> {
  if (state.upload !== null) {
    return state.isKnown ? state.upload : await api.findUpload(state.upload.uploadId, { signal })
  }
  const { bytes, sha256 } = archive
  const begun = await api.beginUpload({ projectId, bytes, sha256 }, { signal })
  if (begun.offset > 0) {
    note(
      `Continuing an upload of the same archive: the server has ${formatBytes(begun.offset)} of ${formatBytes(bytes)}`
    )
  }
  return begun
}

/** How long pieces are. */
function createSizes() {
  let size = 0
  let largest = largestPieceBytes
  return {
    next: ({ pieceBytes }: OpenUpload): number => (size ||= Math.min(pieceBytes, largest)),
    arrived: (): void => void (size = Math.min(size * 2, largest)),
    /** Halves them. Throws the error if they are small already: it names the limit of the proxy. */
    refuse(error: unknown): void {
      largest = Math.floor(size / 2)
      if (largest < smallestPieceBytes) throw error
      size = largest
    }
  }
}

/** Whether the server has no routes for pieces, or takes no more uploads: one request may still do. */
function isNotOffered(error: unknown): boolean {
  return isUnknownRoute(error) || codeOf(error) === 'too_many_uploads'
}

function isLost(error: unknown): boolean {
  return codeOf(error) === 'upload_unknown'
}

/** Whether the piece did not begin at the right place: what was on its way has arrived meanwhile. */
function isMisplaced(error: unknown): boolean {
  return codeOf(error) === 'wrong_offset'
}

/** Whether a proxy refused the size of a piece. svc says something else about one. */
function isFromProxy(error: unknown): boolean {
  return codeOf(error) === 'too_large'
}

/** The server says these while it restarts, and about a piece whose end did not come. */
const passing: ReadonlySet<string> = new Set([
  'upload_busy',
  'aborted',
  'body_timeout',
  'shutting_down',
  'stopping',
  'server_full',
  'too_much_at_once',
  'leader_lost',
  'hub_refused'
])

/** Whether a later attempt may do better: the server was reached before, so also a name that is not found may come back. */
function maySendAgain(error: unknown): boolean {
  if (error instanceof Refusal && error.code === 'unreachable') return !isTlsRefusal(error.cause)
  return mayRepeat(error) || isBroken(error) || passing.has(codeOf(error))
}

/** Returns half of the pause to all of it, or more if the server asks for more. */
function waitMs(error: unknown, failures: number): number {
  const longestMs = Math.min(firstPauseMs * 2 ** (failures - 1), longestPauseMs)
  const askedMs = error instanceof Refusal ? (error.retryAfterSeconds ?? 0) * 1000 : 0
  return Math.max(longestMs * (0.5 + Math.random() / 2), Math.min(askedMs, longestPauseMs))
}

function codeOf(error: unknown): string {
  return error instanceof Refusal ? error.code : ''
}
