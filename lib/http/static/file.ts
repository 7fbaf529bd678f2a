import { type FileHandle, open } from 'node:fs/promises'
import { basename, extname } from 'node:path'
import { invalid, Refusal } from '../../base/errors.js'
import { type Headers, mergeHeaders, wantedPart } from '../core/reply.js'
import type { Reply, Request } from '../core/route.js'

interface ServedFile {
  /** Path of the file, or a function that opens it when the reply is sent. A reply that is never sent opens nothing. */
  file: string | (() => Promise<OpenedFile>)
  headers?: Headers
}

export interface FilePart {
  at: number
  bytes: number
}

/** A file that is open for reading, and its path. The receiver closes it. */
export interface OpenedFile {
  handle: FileHandle
  path: string
}

const readBytes = 256 * 1024
/** Pieces of a file are sent once they have this size. */
const collectedBytes = 64 * 1024

const fileHeaders: Headers = { 'accept-ranges': 'bytes', 'cache-control': 'private, no-cache' }

/**
 * Returns a reply with a file, an ETag, and a type by its name: the whole file, a part (`Range`), or a 304. Refuses:
 * 404 `not_found` if there is no regular file. The handle is always closed.
 */
export function fileReply(served: ServedFile): Reply {
  return { kind: 'file', open: request => openFile(served, request) }
}

/**
 * Returns a reply with the bytes of these parts of a file, without anything in between. Refuses: 404 `not_found`; 400
 * for the field `ranges` if the file ends before a part does.
 */
export function partsReply(file: string, { parts, headers }: { parts: readonly FilePart[]; headers: Headers }): Reply {
  return {
    kind: 'file',
    async open() {
      const handle = await openHandle(file)
      try {
        const { size } = await handle.stat()
        if (parts.some(({ at, bytes }) => at + bytes > size)) {
          throw invalid('ranges', `The file has only ${size} bytes`)
        }
        return fileStream(handle, { status: 200, headers: mergeHeaders(fileHeaders, headers), parts })
      } catch (error) {
        await handle.close()
        throw error
      }
    }
  }
}

async function openFile({ file, headers }: ServedFile, request: Pick<Request, 'headers' | 'method'>): Promise<Reply> {
  const { handle, path } = typeof file === 'string' ? { handle: await openHandle(file), path: file } : await file()
  try {
    const answer = await describe({ handle, path }, headers, request)
    if (answer.kind === 'stream' && request.method !== 'HEAD') return answer
    await handle.close()
    return answer
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function openHandle(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') throw noFile(path, error)
    throw error
  }
}

function noFile(path: string, cause?: unknown): Refusal {
  return new Refusal('not_found', 'not_found', `File not found: "${basename(path)}"`, { cause })
}

async function describe(
  { handle, path }: OpenedFile,
  given: Headers | undefined,
  request: Pick<Request, 'headers' | 'method'>
): Promise<Extract<Reply, { kind: 'stream' | 'empty' }>> {
  const stat = await handle.stat({ bigint: true })
  if (!stat.isFile()) throw noFile(path)
  const bytes = Number(stat.size)
  const modifiedMs = Number(stat.mtimeMs)
  const etag = `"${stat.mtimeNs.toString(36)}-${stat.size.toString(36)}"`
  const headers = mergeHeaders(
    {
      ...fileHeaders,
      'content-type': contentType(path),
      etag,
      'last-modified': new Date(modifiedMs).toUTCString()
    },
    given
  )
  const wanted = wantedPart(request.headers, { etag, modifiedMs, bytes })
  switch (wanted.outcome) {
    case 'unchanged':
      return { kind: 'empty', status: 304, headers }
    case 'unsatisfiable':
      return { kind: 'empty', status: 416, headers: { ...headers, 'content-range': `bytes */${bytes}` } }
    case 'part':
      headers['content-range'] = `bytes ${wanted.from}-${wanted.to}/${bytes}`
      return fileStream(handle, {
        status: 206,
        headers,
        parts: [{ at: wanted.from, bytes: wanted.to - wanted.from + 1 }]
      })
    case 'all':
      return fileStream(handle, { status: 200, headers, parts: [{ at: 0, bytes }] })
  }
}

/** Returns a reply with the parts of a file, one after the other. Small ones are collected. */
function fileStream(
  handle: FileHandle,
  { status, headers, parts }: { status: number; headers: Headers; parts: readonly FilePart[] }
): Extract<Reply, { kind: 'stream' }> {
  const total = parts.reduce((sum, { bytes }) => sum + bytes, 0)
  return {
    kind: 'stream',
    status,
    headers: { ...headers, 'content-length': String(total) },
    heldBytes: Math.min(total, readBytes + collectedBytes),
    async run(sink) {
      let held: Buffer[] = []
      let heldBytes = 0
      try {
        for (const { at, bytes } of parts) {
          for (let done = 0; done < bytes; ) {
            const wanted = Math.min(readBytes, bytes - done)
            const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(wanted), 0, wanted, at + done)
            // The file is now shorter than the length that was sent. Only breaking the connection can report that.
            if (bytesRead === 0) throw new Error('The file became shorter while it was being sent')
            held.push(buffer.subarray(0, bytesRead))
            done += bytesRead
            heldBytes += bytesRead
            if (heldBytes < collectedBytes) continue
            await sink.write(held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held))
            held = []
            heldBytes = 0
          }
        }
        if (heldBytes > 0) await sink.write(Buffer.concat(held))
      } finally {
        await handle.close()
      }
    }
  }
}

/**
 * Returns the `Content-Disposition` of a download: an ASCII name for all clients, and the exact name for clients that
 * support RFC 8187.
 */
export function attachment(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_')
  const exact = encodeURIComponent(wellFormed(name)).replace(/['()*]/g, escapeByte)
  return plain === name
    ? `attachment; filename="${name}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${exact}`
}

function escapeByte(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`
}

/** Replaces unpaired surrogates, which cannot be encoded. */
function wellFormed(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8')
}

/**
 * Content types of the panel's files, and of files of a deployed site that a browser can show. All others are plain
 * bytes.
 */
const types: Record<string, string> = {
  '.avif': 'image/avif',
  '.bmp': 'image/bmp',
  '.css': 'text/css; charset=utf-8',
  '.csv': 'text/csv; charset=utf-8',
  '.gif': 'image/gif',
  '.gz': 'application/gzip',
  '.htm': 'text/html; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.mp3': 'audio/mpeg',
  '.mp4': 'video/mp4',
  '.otf': 'font/otf',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.webm': 'video/webm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
  '.xml': 'application/xml; charset=utf-8',
  '.zip': 'application/zip'
}

/** Returns the content type of a file by the extension of its name. */
export function contentType(name: string): string {
  return types[extname(name).toLowerCase()] ?? 'application/octet-stream'
}

/** Whether compressing files of this type makes them smaller. */
export function isCompressible(type: string): boolean {
  return /^text\/|^application\/(?:json|xml|wasm|manifest\+json)|^image\/(?:svg\+xml|bmp|x-icon)|^font\/otf/.test(type)
}
