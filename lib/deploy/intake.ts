import { createHash, type Hash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createActivity } from '../base/async.js'
import { type Clock, instantOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { linkOrCopy, syncPath, withWriteStream } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import { formatBytes } from '../shared/size.js'
import { refuseFullDisk } from './failure.js'
import { makeDirectories, type DeployFiles, type DeployHome } from './files.js'

/** Upload counters since the start of the server: uploads in progress, all uploads, and bytes received. */
export interface UploadFigures {
  now: number
  total: number
  bytes: number
}

/** A complete upload in `tmp/`. `deploy` takes ownership of it. */
export interface Received {
  path: string
  bytes: number
  /** SHA-256 of the upload, in hexadecimal. */
  sha256: string
  /** Times of the first and the last byte. */
  startedAt: string
  endedAt: string
  /** Removes the file. Does nothing if it no longer exists. */
  discard(): Promise<void>
}

/** Options of one upload. */
export interface ReceiveOptions {
  limitBytes: number
  /** Called with the number of bytes received so far. If it throws, the upload is refused with that error. */
  onLength?: (bytes: number) => void
  signal: AbortSignal
}

/** Receives uploads and turns them into archives. */
export interface Intake {
  uploads(): UploadFigures
  receive(bytes: Readable, options: ReceiveOptions): Promise<Received>
  /** Keeps the file at `path` as the archive of `deployId`. When this resolves, the archive survives a power cut. */
  keep(path: string, deployId: string): Promise<void>
}

/** Bytes written at once. Limits the memory of one upload. */
const writeBytes = 256 * 1024

/** Creates the intake of a data directory. */
export function createIntake(needs: { home: DeployHome; files: DeployFiles; ids: Ids; clock: Clock }): Intake {
  const { home, files, ids, clock } = needs
  const uploads = createActivity()
  let receivedBytes = 0

  /** Returns options that also count the received bytes. */
  function counting(options: ReceiveOptions): ReceiveOptions {
    let before = 0
    return {
      ...options,
      onLength(length) {
        receivedBytes += length - before
        before = length
        options.onLength?.(length)
      }
    }
  }

  async function receive(bytes: Readable, options: ReceiveOptions): Promise<Received> {
    const { signal } = options
    const startedAt = instantOf(clock)
    const path = files.upload(ids.token())
    const discard = (): Promise<void> => rm(path, { force: true })
    try {
      signal.throwIfAborted()
      await makeDirectories(home)
      const { length, hash } = await store(bytes, path, options)
      return { path, bytes: length, sha256: hash.digest('hex'), startedAt, endedAt: instantOf(clock), discard }
    } catch (error) {
      bytes.destroy()
      await discard()
      throw signal.aborted ? signal.reason : refuseFullDisk(error)
    }
  }

  return {
    uploads: () => ({ now: uploads.now, total: uploads.total, bytes: receivedBytes }),
    receive: (bytes, options) => uploads.during(() => receive(bytes, counting(options))),
    async keep(path, deployId) {
      const archive = files.archive(deployId)
      await makeDirectories(home)
      await linkOrCopy(path, archive)
      await syncPath(archive)
      await syncPath(home.deployments)
    }
  }
}

async function store(
  bytes: Readable,
  path: string,
  { limitBytes, onLength, signal }: ReceiveOptions
): Promise<{ length: number; hash: Hash }> {
  const hash = createHash('sha256')
  let length = 0
  async function* counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      length += chunk.length
      if (length > limitBytes) throw tooLarge(limitBytes)
      onLength?.(length)
      hash.update(chunk)
      yield chunk
    }
  }
  await withWriteStream(path, { flags: 'wx', mode: 0o600, highWaterMark: writeBytes }, out =>
    pipeline(bytes, counted, out, { signal })
  )
  if (length === 0) throw empty()
  return { length, hash }
}

function empty(): Refusal {
  return new Refusal('invalid', 'empty_upload', 'The upload is empty: "file" must be a zip archive', { field: 'file' })
}

function tooLarge(limitBytes: number): Refusal {
  const limit = formatBytes(limitBytes)
  const sentence = `The upload is larger than ${limit}. Make it smaller, or raise the setting max_upload_size`
  return new Refusal('too_large', 'too_large', sentence, { field: 'file' })
}
