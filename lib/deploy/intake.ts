import { createHash, type Hash } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, link, rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createActivity } from '../base/activity.js'
import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import { Refusal } from '../base/refusal.js'
import { formatBytes } from '../base/size.js'
import { withWriteStream } from '../base/write-stream.js'
import type { Received, ReceiveOptions } from './deployer.js'
import { refuseFullDisk } from './failure.js'
import { makeDirectories, syncPath, type DeployFiles, type DeployHome } from './files.js'

/** Uploads: those that are received now, those that were begun, and their bytes. */
export interface UploadFigures {
  now: number
  total: number
  bytes: number
}

export interface Intake {
  uploads(): UploadFigures
  receive(bytes: Readable, options: ReceiveOptions): Promise<Received>
  /** Keeps the file at `path` as the archive of `deployId`: once this resolves, a power cut does not lose it. */
  keep(path: string, deployId: string): Promise<void>
}

/** Written at once; bounds what an upload holds in memory. */
const writeBytes = 256 * 1024
/** File systems that know no hard links, or none between these two places. */
const noLinkCodes = ['EPERM', 'EXDEV', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EACCES']

export function createIntake(needs: { home: DeployHome; files: DeployFiles; ids: Ids; clock: Clock }): Intake {
  const { home, files, ids, clock } = needs
  const uploads = createActivity()
  let receivedBytes = 0
  const now = (): string => new Date(clock.now()).toISOString()

  /** As it is asked for, and counted. */
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
    const startedAt = now()
    const path = files.upload(ids.token())
    const discard = (): Promise<void> => rm(path, { force: true })
    try {
      signal.throwIfAborted()
      await makeDirectories(home)
      const { length, hash } = await store(bytes, path, options)
      return { path, bytes: length, sha256: hash.digest('hex'), startedAt, endedAt: now(), discard }
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
  bytes: Readable, path: string, { limitBytes, onLength, signal }: ReceiveOptions
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
  await withWriteStream(path, { flags: 'wx', mode: 0o600, highWaterMark: writeBytes }, out => pipeline(bytes, counted, out, { signal }))
  if (length === 0) throw empty()
  return { length, hash }
}

function empty(): Refusal {
  return new Refusal('invalid', 'empty_upload', 'The upload is empty: "file" must be a zip archive', { field: 'file' })
}

function tooLarge(limitBytes: number): Refusal {
  const limit = formatBytes(limitBytes)
  const sentence = `The upload is larger than ${limit}: make it smaller, or raise the setting max_upload_size`
  return new Refusal('too_large', 'too_large', sentence, { field: 'file' })
}

async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    if (!noLinkCodes.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  }
}
