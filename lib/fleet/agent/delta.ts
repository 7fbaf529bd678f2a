/*
 * Fetches an archive of which this node has most of the bytes already, in the archive of the release before: first the
 * directory at its end, which says what has changed, then only the missing bytes, in one request. The node knows the digest
 * of the whole archive from its order and compares it, so a delta that does not fit is noticed, and the whole archive is
 * fetched.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { open, type FileHandle } from 'node:fs/promises'
import { segmentsOf, type Segment } from '../../archive/reuse.js'
import { openArchive, type Archive } from '../../archive/read.js'
import { maxBlobRanges, type BlobRanges } from '../../model/fleet-wire.js'
import { endBytes, maxUint32, signatures } from '../../shared/zip-records.js'
import type { HubClient } from './hub-client.js'

/** An archive to fetch. */
export interface WantedArchive {
  sha256: string
  bytes: number
  /** The path of an archive on this node that may have the same entries. */
  earlier: string
  /** Where it is written to. The file may be incomplete afterwards. */
  into: string
}

/** Archives that are smaller are fetched whole. */
export const minDeltaBytes = 256 * 1024
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
export async function fetchDelta(
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
    return await join(client, { sha256, segments, directory, earlier, file }, signal)
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
async function join(
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

interface Taker {
  /** Hands over the next bytes of the answer, in pieces. */
  take(bytes: number, add: (piece: Buffer) => Promise<void>): Promise<void>
  end(): void
}

function createTaker(answer: IncomingMessage): Taker {
  giveUpIfSilent(answer)
  const pieces = (answer as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  let rest: Buffer = Buffer.of()
  return {
    async take(bytes, add) {
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
    end: () => void answer.destroy()
  }
}

/** Ends a transfer when nothing has come for a minute. */
export function giveUpIfSilent(answer: IncomingMessage): void {
  answer.setTimeout(silentMs, () => answer.destroy(new Error('the transfer of the archive stopped')))
}
