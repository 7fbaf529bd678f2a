import { pipeline } from 'node:stream/promises'
import { Refusal } from '../base/refusal.js'
import { isDiskFull } from '../base/system-error.js'
import { withWriteStream } from '../base/write-stream.js'
import type { Client } from './client.js'
import type { Progress } from './progress.js'
import { readNdjson } from './streams.js'

export interface ZipDownload {
  client: Client
  /** Of the API; answers a zip, or, with `to`, writes it. */
  route: string
  query: URLSearchParams
  bar: Progress
  signal: AbortSignal
  /** Of sentences: `export`, `backup`. */
  what: string
  /** How the sentence of a failure begins. */
  nothing: string
}

/** Until all of it is packed. */
const answerLimitMs = 24 * 60 * 60_000

/**
 * Has a zip written into an empty file. The server writes it itself where it can see it: bytes that go through a socket
 * take several times as long (bench/export).
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

/** The zip as it comes through the socket. */
export async function openZip({ client, route, query, signal }: ZipDownload): Promise<AsyncIterable<Buffer> & { expectedBytes: number }> {
  const answer = await client.open({ path: `${route}?${query}`, accept: 'application/zip', answerLimitMs, signal })
  return Object.assign(answer, { expectedBytes: Number(answer.headers['x-svc-expected-bytes'] ?? 0) })
}

async function letWrite({ client, route, query, bar, signal, what, nothing }: ZipDownload, file: string): Promise<void> {
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

/** What a zip that broke off is refused with, or the error as it is. */
export function explain(error: unknown, { what, nothing }: Pick<ZipDownload, 'what' | 'nothing'>): unknown {
  if (isDiskFull(error)) {
    const sentence = `${nothing}: there is no space left where it was to be written; make some, or choose another place`
    return new Refusal('unavailable', 'no_space', sentence, { cause: error })
  }
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ECONNRESET' && code !== 'ERR_STREAM_PREMATURE_CLOSE') return error
  return broken(what, error)
}

function broken(what: string, cause?: unknown): Refusal {
  const sentence = `The ${what} broke off: a file could not be read, or the server stopped; its output says which`
  return new Refusal('unavailable', `${what}_broken`, sentence, { cause })
}
