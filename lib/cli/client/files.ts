import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { hasCode, isDiskFull, reasonOf, Refusal, spaceCure } from '../../base/errors.js'
import { withWriteStream } from '../../base/files.js'
import type { Progress } from '../terminal/output.js'
import type { Body, Client } from './client.js'
import { readNdjson } from './answer.js'

const readBytes = 256 * 1024

/** The file of a form. */
interface UploadFile {
  /** Name of the form field. */
  field: string
  filename: string
  /** Path of the file, which must not change during the upload. */
  path: string
  bytes: number
}

/** A file of a form that is in memory. */
interface SmallFile {
  field: string
  type: string
  contents: Uint8Array
}

/**
 * Returns a multipart form with one file as a body of known length (RFC 7578), and small ones before it. It reads the
 * file from disk while sending; null: there is none. The fields come first, so that the server knows them before the
 * files. `onProgress` receives the bytes of the file that were sent so far.
 */
export function formBody(
  { fields, small = [] }: { fields: Record<string, string | readonly string[]>; small?: readonly SmallFile[] },
  file: UploadFile | null,
  onProgress: (bytes: number) => void
): Body {
  const boundary = `svc-${randomBytes(16).toString('hex')}`
  const parts = Object.entries(fields).flatMap(([name, values]) =>
    [values].flat().map(value => `--${boundary}\r\n${disposition(name)}\r\n\r\n${value}\r\n`)
  )
  const fileHead = (field: string, filename: string, type: string): Buffer =>
    Buffer.from(
      `--${boundary}\r\n${disposition(field)}; filename="${escapeName(filename)}"\r\nContent-Type: ${type}\r\n\r\n`
    )
  const head = Buffer.concat([
    Buffer.from(parts.join('')),
    ...small.flatMap(({ field, type, contents }) => [fileHead(field, field, type), contents, Buffer.from('\r\n')]),
    ...(file === null ? [] : [fileHead(file.field, file.filename, 'application/zip')])
  ])
  const tail = Buffer.from(`${file === null ? '' : '\r\n'}--${boundary}--\r\n`)

  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    bytes: head.length + (file?.bytes ?? 0) + tail.length,
    async *chunks() {
      yield head
      if (file !== null) yield* chunksOf(file.path, {}, onProgress)
      yield tail
    }
  }
}

interface FilePart {
  path: string
  offset: number
  bytes: number
}

/** Returns a part of a file as a body. It is read from disk while it is sent. */
export function partBody({ path, offset, bytes }: FilePart, onProgress: (bytes: number) => void): Body {
  return {
    contentType: 'application/octet-stream',
    bytes,
    chunks: () => chunksOf(path, { start: offset, end: offset + bytes - 1 }, onProgress)
  }
}

async function* chunksOf(
  path: string,
  range: { start?: number; end?: number },
  onProgress: (bytes: number) => void
): AsyncGenerator<Buffer> {
  let sent = 0
  for await (const chunk of createReadStream(path, { ...range, highWaterMark: readBytes }) as AsyncIterable<Buffer>) {
    yield chunk
    sent += chunk.length
    onProgress(sent)
  }
}

function disposition(name: string): string {
  return `Content-Disposition: form-data; name="${escapeName(name)}"`
}

/** Escapes a name as browsers do (HTML Living Standard §4.10.21.8); RFC 7578 §2 does not define it. */
function escapeName(name: string): string {
  return name.replace(/\r/g, '%0D').replace(/\n/g, '%0A').replace(/"/g, '%22')
}

/** A zip to get from the API. */
export interface ZipDownload {
  client: Client
  /** Route of the API. It answers with a zip or, with `to`, writes the zip to that path. */
  route: string
  query: URLSearchParams
  bar: Progress
  signal: AbortSignal
  /** Name of the zip in sentences: `export`, `backup`. */
  what: string
  /** Beginning of the sentence of a failure. */
  nothing: string
}

/** Time limit for packing everything. */
const answerLimitMs = 24 * 60 * 60_000

/**
 * Writes a zip to an existing empty file. The server writes it itself if it can access the path, because bytes through
 * a socket take several times as long (bench/export).
 */
export async function downloadZip(download: ZipDownload, file: string): Promise<void> {
  try {
    await letWrite(download, file).catch(async (error: unknown) => {
      if (!(error instanceof Refusal) || error.code !== 'cannot_write_there') throw error
      await receive(download, file)
    })
  } catch (error) {
    download.signal.throwIfAborted()
    throw explain(error, download)
  }
}

/** Returns the zip as it arrives through the socket. */
export async function openZip({
  client,
  route,
  query,
  signal
}: ZipDownload): Promise<AsyncIterable<Buffer> & { expectedBytes: number }> {
  const answer = await client.open({ path: `${route}?${query}`, accept: 'application/zip', answerLimitMs, signal })
  return Object.assign(answer, { expectedBytes: Number(answer.headers['x-svc-expected-bytes'] ?? 0) })
}

async function letWrite(
  { client, route, query, bar, signal, what, nothing }: ZipDownload,
  file: string
): Promise<void> {
  const asked = new URLSearchParams(query)
  asked.set('to', file)
  const answer = await client.open({ path: `${route}?${asked}`, accept: 'application/x-ndjson', answerLimitMs, signal })
  let expected = 0
  for await (const { event, expectedBytes, bytes, error } of readNdjson(answer)) {
    if (event === 'begin') expected = Number(expectedBytes)
    else if (event === 'progress') bar.update(Number(bytes), Math.max(Number(bytes), expected))
    else if (event === 'error') throw new Refusal('unavailable', `${what}_failed`, `${nothing}: ${String(error)}`)
    else if (event === 'done') return
  }
  throw broken(what)
}

async function receive(download: ZipDownload, file: string): Promise<void> {
  const { bar, signal } = download
  const zip = await openZip(download)
  let bytes = 0
  async function* counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      bytes += chunk.length
      bar.update(bytes, Math.max(bytes, zip.expectedBytes))
      yield chunk
    }
  }
  await withWriteStream(file, { highWaterMark: 1024 * 1024 }, out => pipeline(zip, counted, out, { signal }))
}

/** Converts errors of an incomplete download and of a full disk to refusals. Returns other errors as they are. */
export function explain(error: unknown, { what, nothing }: Pick<ZipDownload, 'what' | 'nothing'>): unknown {
  if (isDiskFull(error)) {
    const sentence = `${nothing}: ${reasonOf(error)}. ${spaceCure(error)}, or choose another path`
    return new Refusal('unavailable', 'no_space', sentence, { cause: error })
  }
  return hasCode(error, 'ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE') ? broken(what, error) : error
}

function broken(what: string, cause?: unknown): Refusal {
  const sentence = `The ${what} is incomplete: a file could not be read, or the server stopped. See the output of the server`
  return new Refusal('unavailable', `${what}_broken`, sentence, { cause })
}
