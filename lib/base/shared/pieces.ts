/*
 * Sends a file in pieces, for the command line and the panel (deploy/pieces.ts is the other side). The server says where
 * to continue, so a broken connection costs what was on its way.
 *
 * The first piece passes proxies with their defaults. Pieces double while they arrive, so a good line needs few requests,
 * and halve after a 413.
 */

/** Files of this size are sent in pieces from the beginning. */
export const piecesFromBytes = 32 * 1024 * 1024
const largestPieceBytes = 16 * 1024 * 1024
/** No proxy is configured with less: then the limit is another one. */
const smallestPieceBytes = 64 * 1024
const firstPauseMs = 500
const longestPauseMs = 30_000
/** Attempts in a row that may bring nothing. */
const maxFailures = 8
/** How often a server may forget an upload: another hub of its cluster leads now, or the file came damaged. */
const maxLost = 3

/** What the server says about an upload. */
export interface UploadState {
  uploadId: string
  /** Where the next piece begins. */
  offset: number
  /** Length of a first piece. */
  pieceBytes: number
}

/** The way to a server. What it throws has the error codes of the API in `code`. */
export interface PieceSender {
  /** Length of the file. */
  bytes: number
  begin(): Promise<UploadState>
  find(uploadId: string): Promise<UploadState>
  append(piece: { id: string; offset: number; bytes: number }): Promise<UploadState>
  /** Whether a later attempt may do better. Not asked about the errors of pieces themselves. */
  mayPass(error: unknown): boolean
  /** Called with the number of bytes that the server has. */
  onProgress(bytes: number): void
  sleep(ms: number): Promise<unknown>
  signal: { readonly aborted: boolean }
}

/**
 * Sends all pieces, and returns the id of the upload; null: the server does not take any more uploads in pieces. Throws
 * the last error if too many attempts in a row bring nothing.
 */
export async function sendAllPieces(sender: PieceSender): Promise<string | null> {
  const { bytes, signal } = sender
  const sizes = createSizes()
  let known: UploadState | null = null
  // After a failure, the offset of the server may be another one.
  let isCurrent = false
  let reached = -1
  let lost = 0
  for (let failures = 0; ; ) {
    try {
      if (known === null) known = await sender.begin()
      else if (!isCurrent) known = await sender.find(known.uploadId)
      const { offset, uploadId }: UploadState = known
      sender.onProgress(offset)
      if (offset > reached) failures = 0
      reached = Math.max(reached, offset)
      if (offset === bytes) return uploadId
      known = await sender.append({ id: uploadId, offset, bytes: Math.min(sizes.next(known), bytes - offset) })
      isCurrent = true
      sizes.arrived()
    } catch (error) {
      if (signal.aborted) throw error
      isCurrent = false
      const code = codeOf(error)
      if (known === null && code === 'too_many_uploads') return null
      if (code === 'upload_unknown' && lost++ < maxLost) known = null
      else if (code === 'too_large' && known !== null) sizes.refuse(error)
      else if (failures++ >= maxFailures) throw error
      else if (code !== 'wrong_offset') {
        if (!passing.has(code) && !sender.mayPass(error)) throw error
        await sender.sleep(waitMs(error, failures))
      }
    }
  }
}

/** How long pieces are. */
function createSizes() {
  let size = 0
  let largest = largestPieceBytes
  return {
    next: ({ pieceBytes }: UploadState): number => (size ||= Math.min(pieceBytes, largest)),
    arrived: (): void => void (size = Math.min(size * 2, largest)),
    /** Halves them. Throws the error if they are small already: it names the limit of the proxy. */
    refuse(error: unknown): void {
      largest = Math.floor(size / 2)
      if (largest < smallestPieceBytes) throw error
      size = largest
    }
  }
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

/** Returns half of the pause to all of it, or more if the server asks for more. */
function waitMs(error: unknown, failures: number): number {
  const longestMs = Math.min(firstPauseMs * 2 ** (failures - 1), longestPauseMs)
  const askedMs = Number((error as { retryAfterSeconds?: unknown }).retryAfterSeconds ?? 0) * 1000
  return Math.max(longestMs * (0.5 + Math.random() / 2), Math.min(askedMs, longestPauseMs))
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : ''
}
