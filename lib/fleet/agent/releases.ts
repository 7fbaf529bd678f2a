/*
 * The releases that a node has fetched and not yet put in place. Archives are files in `prepared/` of the data directory:
 * `<sha256>.zip`, and `<sha256>.part` while one is being fetched, which continues there after a lost connection. They are
 * kept for 24 hours. Documents are only in memory, because they contain secrets.
 */

import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readAtMost } from '../../base/async.js'
import { freeBytes, syncPath } from '../../base/files.js'
import { isDiskFull, Refusal } from '../../base/errors.js'
import {
  type BlobRanges,
  type Duty,
  maxBlobRanges,
  type ReleaseDocument,
  releaseSignatureHeader
} from '../../model/fleet-wire.js'
import { formatBytes } from '../../base/shared/api.js'
import { type Segment, segmentsOf } from '../../core/archive/compose.js'
import { type Archive, openArchive } from '../../core/archive/read.js'
import { endBytes, maxUint32, signatures } from '../../base/shared/zip-records.js'
import { type Keyring, readRelease } from './from-hub.js'
import type { HubClient } from './hub-client.js'

/** A release that a node can put in place without its hub. */
export interface Release {
  document: ReleaseDocument
  archivePath: string
}

export interface ReleasesNeeds {
  /** The directory of the archives. It is created if it is missing. */
  directory: string
  client: Pick<HubClient, 'open'>
  keyring: Keyring
  /** Returns the path of the archive of what is in place of a project; null if there is none. It may be gone. */
  earlierArchive(projectId: string): string | null
}

/** How long a prepared archive is kept. */
const preparedForMs = 24 * 60 * 60_000
const maxDocumentBytes = 8 * 1024 * 1024
const directoryMode = 0o700
const fileMode = 0o600
/** A complete archive, one of which the beginning was received, and one that is being joined. */
const endings = ['zip', 'part', 'delta'] as const
type Ending = (typeof endings)[number]
const sha256Pattern = /^[0-9a-f]{64}$/

export class Releases {
  readonly #needs: ReleasesNeeds
  readonly #documents = new Map<string, ReleaseDocument>()

  constructor(needs: ReleasesNeeds) {
    this.#needs = needs
  }

  /**
   * Fetches what is missing of a release, and checks it. Refuses: `no_space`, `wrong_release`, `wrong_digest`; what the
   * hub refuses; (`unavailable`) if the hub cannot be reached.
   */
  async fetch(duty: Pick<Duty, 'projectId' | 'release'>, signal: AbortSignal): Promise<Release> {
    const document = await this.#documentOf(duty, signal)
    const earlier = this.#needs.earlierArchive(duty.projectId)
    return { document, archivePath: await this.#fetchArchive(duty.release, earlier, signal) }
  }

  async remove({ deployId, archiveSha256 }: Duty['release']): Promise<void> {
    this.#documents.delete(deployId)
    if (!sha256Pattern.test(archiveSha256)) return
    for (const ending of endings) await rm(this.#pathOf(archiveSha256, ending), { force: true })
  }

  /** Removes the archives that were fetched more than 24 hours ago. `isInUse` says which ones stay. */
  async sweep(nowMs: number, isInUse: (sha256: string) => boolean): Promise<void> {
    const { directory } = this.#needs
    for (const name of await readdir(directory).catch(() => [])) {
      const [, sha256] = /^([0-9a-f]{64})\.(?:zip|part|delta)$/.exec(name) ?? []
      const found = await stat(join(directory, name)).catch(() => null)
      if (sha256 === undefined || found === null || isInUse(sha256)) continue
      if (nowMs - found.mtimeMs < preparedForMs) continue
      await rm(join(directory, name), { force: true })
      for (const [id, document] of this.#documents) if (document.archiveSha256 === sha256) this.#documents.delete(id)
    }
  }

  #pathOf(sha256: string, ending: Ending): string {
    return join(this.#needs.directory, `${sha256}.${ending}`)
  }

  async #documentOf({ projectId, release }: Pick<Duty, 'projectId' | 'release'>, signal: AbortSignal) {
    const { client, keyring } = this.#needs
    const known = this.#documents.get(release.deployId)
    if (known !== undefined) return known
    const path = `/api/agent/releases/${encodeURIComponent(release.deployId)}`
    const { answer, asked } = await client.open({ method: 'GET', path, signal })
    const tooLong = () => wrongRelease('its description is too long')
    const text = (await readAtMost(answer, { maxBytes: maxDocumentBytes, tooLong })).toString('utf8')
    const document = readRelease({ text, signature: answer.headers[releaseSignatureHeader] }, asked, keyring)
    if (document.projectId !== projectId || document.deployId !== release.deployId)
      throw wrongRelease('it is about another deployment')
    if (document.archiveSha256 !== release.archiveSha256) throw wrongRelease('it names another archive than the order')
    this.#documents.set(release.deployId, document)
    return document
  }

  /** Fetches an archive. What the archive `earlier` has of it is not transferred again. */
  async #fetchArchive(
    { archiveSha256, archiveBytes }: Duty['release'],
    earlier: string | null,
    signal: AbortSignal
  ): Promise<string> {
    const { directory, client } = this.#needs
    if (!sha256Pattern.test(archiveSha256)) throw wrongRelease('its digest is not a SHA-256')
    const [path, part] = [this.#pathOf(archiveSha256, 'zip'), this.#pathOf(archiveSha256, 'part')]
    if ((await sizeOf(path)) === archiveBytes) return path
    await mkdir(directory, { recursive: true, mode: directoryMode })
    await refuseFullDisk(directory, archiveBytes - ((await sizeOf(part)) ?? 0))
    const [into, isBegun] = [this.#pathOf(archiveSha256, 'delta'), (await sizeOf(part)) !== null]
    if (earlier !== null && !isBegun && archiveBytes >= minDeltaBytes) {
      const wanted = { sha256: archiveSha256, bytes: archiveBytes, earlier, into }
      // Whatever went wrong, the whole archive is fetched next, and that says what is wrong.
      const isDone = (await fetchDelta(client, wanted, signal).catch(() => null)) === archiveSha256
      if (isDone) return this.#keep(into, path)
      await rm(into, { force: true })
      signal.throwIfAborted()
    }
    const found = await this.#receive({ part, archiveSha256, archiveBytes }, signal)
    if (found !== archiveSha256) {
      await rm(part, { force: true })
      throw new Refusal(
        'invalid',
        'wrong_digest',
        `The archive from the hub has the SHA-256 ${found}, not ${archiveSha256}`
      )
    }
    return this.#keep(part, path)
  }

  async #keep(complete: string, path: string): Promise<string> {
    await syncPath(complete)
    await rename(complete, path)
    return path
  }

  /** Fetches the rest of an archive. Returns the digest of the whole file. */
  async #receive(
    { part, archiveSha256, archiveBytes }: { part: string; archiveSha256: string; archiveBytes: number },
    signal: AbortSignal
  ): Promise<string> {
    const before = (await sizeOf(part)) ?? 0
    if (before > archiveBytes) await rm(part)
    const from = before > archiveBytes ? 0 : before
    const hash = createHash('sha256')
    if (from === archiveBytes) return (await addFile(hash, part)).digest('hex')
    const headers: Record<string, string> = from === 0 ? {} : { range: `bytes=${from}-` }
    const path = `/api/agent/blobs/${archiveSha256}`
    const { answer } = await this.#needs.client.open({ method: 'GET', path, headers, signal })
    const isRest = answer.statusCode === 206
    if (isRest && !answer.headers['content-range']?.startsWith(`bytes ${from}-`)) {
      answer.destroy()
      throw new Refusal('unavailable', 'bad_answer', 'The hub sent another part of the archive than the one asked for')
    }
    if (isRest) await addFile(hash, part)
    await write(answer, { part, hash, offset: isRest ? from : 0, maxBytes: archiveBytes })
    return hash.digest('hex')
  }
}

interface Writing {
  part: string
  hash: Hash
  offset: number
  maxBytes: number
}

async function write(answer: IncomingMessage, { part, hash, offset, maxBytes }: Writing): Promise<void> {
  giveUpIfSilent(answer)
  const file = await open(part, offset === 0 ? 'w' : 'r+', fileMode)
  try {
    let at = offset
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      if (at + chunk.length > maxBytes) throw wrongRelease('the archive is longer than the order says')
      await file.write(chunk, 0, chunk.length, at)
      hash.update(chunk)
      at += chunk.length
    }
    if (at < maxBytes) throw new Refusal('unavailable', 'stream_broken', 'The transfer of the archive ended early')
  } catch (error) {
    if (isDiskFull(error)) {
      await rm(part, { force: true })
      throw new Refusal('invalid', 'no_space', `Cannot store the archive: no space left for "${part}"`, {
        cause: error
      })
    }
    throw error
  } finally {
    answer.destroy()
    await file.close()
  }
}

async function addFile(hash: Hash, path: string): Promise<Hash> {
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
  return hash
}

async function sizeOf(path: string): Promise<number | null> {
  return stat(path).then(
    ({ size }) => size,
    () => null
  )
}

async function refuseFullDisk(directory: string, bytes: number): Promise<void> {
  const free = await freeBytes(directory)
  if (free === null || bytes <= free) return
  const sentence = `The archive needs ${formatBytes(bytes)} in "${directory}", and ${formatBytes(free)} are free`
  throw new Refusal('invalid', 'no_space', sentence)
}

function wrongRelease(why: string): Refusal {
  return new Refusal('invalid', 'wrong_release', `Cannot use the release from the hub: ${why}`)
}

/*
 * Fetches an archive of which this node has most of the bytes already, in the archive of the release before: first the
 * directory at its end, which says what has changed, then only the missing bytes, in one request. The node knows the digest
 * of the whole archive from its order and compares it, so a delta that does not fit is noticed, and the whole archive is
 * fetched.
 */

export interface WantedArchive {
  sha256: string
  bytes: number
  /** The path of an archive on this node that may have the same entries. */
  earlier: string
  /** Where it is written to. The file may be incomplete afterwards. */
  into: string
}

/** Archives that are smaller are fetched whole. */
const minDeltaBytes = 256 * 1024
/** What is read first: the directory of some 700 entries. */
const tailBytes = 64 * 1024
/** The directory of a larger archive is not held in memory. */
const maxDirectoryBytes = 16 * 1024 * 1024
/** Share of the archive that the node must have. */
const minShare = 0.1
const blockBytes = 1024 * 1024
/** Time without a byte after which a transfer is given up. */
const silentMs = 60_000
const anyArchive = { maxEntries: Infinity, maxExtractedBytes: Infinity, mayBeEmpty: true }

/**
 * Fetches an archive. Returns the digest of what was written; null if the node has too little of it, or it is not a zip as svc
 * writes it.
 */
async function fetchDelta(
  client: Pick<HubClient, 'open'>,
  { sha256, bytes, earlier, into }: WantedArchive,
  signal: AbortSignal
): Promise<string | null> {
  const directory = await fetchDirectory(client, { sha256, bytes }, signal)
  if (directory === null) return null
  const end = bytes - directory.length
  const file = await open(into, 'w+', 0o600)
  try {
    await file.write(directory, 0, directory.length, end)
    const segments = await compare({ into, earlier, end })
    const had = segments.reduce((sum, { bytes, from }) => sum + (from === null ? 0 : bytes), 0)
    if (had < bytes * minShare) return null
    return await joinArchives(client, { sha256, segments, directory, earlier, file }, signal)
  } finally {
    await file.close()
  }
}

/** Fetches the end of an archive, from its directory on. */
async function fetchDirectory(
  client: Pick<HubClient, 'open'>,
  { sha256, bytes }: { sha256: string; bytes: number },
  signal: AbortSignal
): Promise<Buffer | null> {
  const from = Math.max(0, bytes - tailBytes)
  const tail = await fetchFrom(client, { sha256, from, bytes: bytes - from }, signal)
  const record = tail.subarray(-endBytes)
  // A zip with a comment, or of more than 4 GiB.
  if (record.length < endBytes || record.readUInt32LE(0) !== signatures.end) return null
  const at = record.readUInt32LE(16)
  if (at === maxUint32 || at > bytes - endBytes || bytes - at > maxDirectoryBytes) return null
  return at >= from ? tail.subarray(at - from) : fetchFrom(client, { sha256, from: at, bytes: bytes - at }, signal)
}

async function fetchFrom(
  client: Pick<HubClient, 'open'>,
  { sha256, from, bytes }: { sha256: string; from: number; bytes: number },
  signal: AbortSignal
): Promise<Buffer> {
  const request = { method: 'GET', path: `/api/agent/blobs/${sha256}`, headers: { range: `bytes=${from}-` } } as const
  const { answer } = await client.open({ ...request, signal })
  const taker = createTaker(answer)
  try {
    if (answer.statusCode !== 206) throw new Error('the hub did not send a part of the archive')
    const pieces: Buffer[] = []
    await taker.take(bytes, async piece => void pieces.push(piece))
    return Buffer.concat(pieces)
  } finally {
    taker.end()
  }
}

/** Compares the directory of an archive whose contents are missing with that of the earlier archive. */
async function compare({ into, earlier, end }: { into: string; earlier: string; end: number }): Promise<Segment[]> {
  const opened: Archive[] = []
  try {
    for (const path of [into, earlier]) opened.push(await openArchive(path, anyArchive))
    const [wanted, other] = opened as [Archive, Archive]
    return await segmentsOf(wanted.entries, { end, earlier: other, most: maxBlobRanges - 1 })
  } finally {
    for (const archive of opened) archive.close()
  }
}

interface Joining {
  sha256: string
  segments: readonly Segment[]
  directory: Buffer
  earlier: string
  file: FileHandle
}

/** Writes the archive: what is missing comes from the hub, the rest from the earlier archive. Returns its digest. */
async function joinArchives(
  client: Pick<HubClient, 'open'>,
  { sha256, segments, directory, earlier, file }: Joining,
  signal: AbortSignal
): Promise<string> {
  const hash = createHash('sha256')
  let at = 0
  const add = async (piece: Buffer): Promise<void> => {
    hash.update(piece)
    await file.write(piece, 0, piece.length, at)
    at += piece.length
  }
  const ranges = missingOf(segments)
  const other = await open(earlier, 'r')
  let taker: Taker | null = null
  try {
    if (ranges.length > 0) {
      const body: BlobRanges = { ranges: ranges.flat() }
      const { answer } = await client.open({ method: 'POST', path: `/api/agent/blobs/${sha256}/ranges`, body, signal })
      taker = createTaker(answer)
    }
    for (const { bytes, from } of segments) {
      if (from === null) await taker?.take(bytes, add)
      else await copy(other, { from, bytes }, add)
    }
  } finally {
    taker?.end()
    await other.close()
  }
  hash.update(directory)
  return hash.digest('hex')
}

/** Returns the missing ranges: offset and length. */
function missingOf(segments: readonly Segment[]): Array<[offset: number, bytes: number]> {
  const ranges: Array<[number, number]> = []
  let at = 0
  for (const { bytes, from } of segments) {
    if (from === null) ranges.push([at, bytes])
    at += bytes
  }
  return ranges
}

async function copy(
  file: FileHandle,
  { from, bytes }: { from: number; bytes: number },
  add: (piece: Buffer) => Promise<void>
): Promise<void> {
  const block = Buffer.allocUnsafe(Math.min(blockBytes, bytes))
  for (let done = 0; done < bytes; ) {
    const { bytesRead } = await file.read(block, 0, Math.min(block.length, bytes - done), from + done)
    if (bytesRead === 0) throw new Error('the earlier archive is shorter than its directory says')
    await add(block.subarray(0, bytesRead))
    done += bytesRead
  }
}

type Taker = ReturnType<typeof createTaker>

function createTaker(answer: IncomingMessage) {
  giveUpIfSilent(answer)
  const pieces = (answer as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  let rest: Buffer = Buffer.of()
  return {
    /** Hands over the next bytes of the answer, in pieces. */
    async take(bytes: number, add: (piece: Buffer) => Promise<void>): Promise<void> {
      for (let left = bytes; left > 0; ) {
        if (rest.length === 0) {
          const { value, done } = await pieces.next()
          if (done === true) throw new Error('the hub sent less than was asked for')
          rest = value
        }
        const piece = rest.subarray(0, left)
        rest = rest.subarray(piece.length)
        await add(piece)
        left -= piece.length
      }
    },
    end: (): void => void answer.destroy()
  }
}

/** Ends a transfer when nothing has come for a minute. */
function giveUpIfSilent(answer: IncomingMessage): void {
  answer.setTimeout(silentMs, () => answer.destroy(new Error('the transfer of the archive stopped')))
}
