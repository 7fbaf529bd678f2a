import type { OpenUpload } from '../../lib/model/access.js'
import { sha256OfFile } from '../archive/plan-tree.js'
import { sendAllPieces } from '../shared/pieces.js'
import { type Client, Refused, Unreachable } from './client.js'
import { isProxyLimit } from './upload.js'

/** A file to send in pieces. */
export interface PiecesOptions {
  client: Client
  projectId: string
  file: Blob
  /** Before anything is sent, the whole file is read, so that the server knows what it will get. */
  onRead: (readBytes: number, totalBytes: number) => void
  onProgress: (sentBytes: number, totalBytes: number) => void
  signal: AbortSignal
}

/**
 * Sends a file in pieces, over broken connections. If the page was loaded again, the same file continues what the earlier
 * page began. Returns the id of the upload; null: the server takes no more of them.
 * If the reader cancels, the server removes what it has. Rejects as `Client.ask` does.
 */
export async function uploadInPieces(options: PiecesOptions): Promise<string | null> {
  const { client, projectId, file, onRead, onProgress, signal } = options
  let begun: string | null = null
  const path = (id: string): string => `api/uploads/${encodeURIComponent(id)}`
  try {
    const sha256 = await sha256OfFile(file, { signal, onProgress: readBytes => onRead(readBytes, file.size) })
    return await sendAllPieces({
      bytes: file.size,
      async begin() {
        const upload = await client.ask<OpenUpload>('POST', 'api/uploads', {
          body: { projectId, bytes: file.size, sha256 },
          signal
        })
        begun = upload.uploadId
        return upload
      },
      find: id => client.ask<OpenUpload>('GET', path(id), { signal }),
      async append({ id, offset, bytes }) {
        const body = file.slice(offset, offset + bytes, 'application/octet-stream')
        const headers = { 'upload-offset': String(offset) }
        return await client.ask<OpenUpload>('PATCH', path(id), { body, headers, signal }).catch((error: unknown) => {
          throw isProxyLimit(error) ? Object.assign(error, { code: 'too_large' }) : error
        })
      },
      mayPass,
      onProgress: sent => onProgress(sent, file.size),
      sleep: ms => pause(ms, signal),
      signal
    })
  } catch (error) {
    if (signal.aborted && begun !== null) await client.send('DELETE', path(begun)).catch(() => {})
    throw error
  }
}

/** Whether the connection is broken, or a proxy does not reach the server. */
function mayPass(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof Refused && [408, 502, 503, 504].includes(error.status))
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer)
        reject(signal.reason)
      },
      { once: true }
    )
  })
}
