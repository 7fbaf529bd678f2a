/*
 * The index of a kept archive that shares contents with others: which entries it has, in the order of the whole zip, and
 * in which file the packed bytes of each are. These files, the packs, lie in `deployments/`:
 *
 *   <id>.index     the index of the archive of a deployment
 *   <id>.pack      a zip of entries that came with a deployment, or that are left of its archive
 *   <id>.zip       a whole archive, which is a pack, too
 *
 * An index is one line of text, and deflated JSON (`PackIndex`):
 *
 *   svc-index 1 <SHA-256 of the JSON, in hexadecimal>
 *
 * An entry is named by its pack and its number there, in the order of the bytes. Numbers never change: a pack that lost
 * entries has a trailer with the numbers of those that are left (`readNumbers`):
 *
 *   <zip> <JSON: first number and count of each run> <length of the JSON, 4 bytes> SVCPACK1
 *
 * Only the server writes these files. Nothing that was uploaded is read as an index, and nothing shares contents with an
 * upload whose comment ends like a trailer.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { ReadableFile } from '../../base/files.js'
import { sha256 } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'

/** The index of an archive. */
export interface PackIndex {
  /** The deployment whose archive it was made of: as long as that is kept, its packs are. */
  base: string
  /** The deployments that the packs are named after. `''` is the pack beside an archive that is not kept yet. */
  packs: string[]
  /** Pack, first number and count of each run of entries. */
  runs: number[]
  /** The entries whose facts are not those in the pack, by their positions in the archive. */
  paths: Array<[position: number, path: string]>
  modes: Array<[position: number, mode: number]>
  /** Seconds since 1970; both numbers are differences to the entry before. */
  times: number[]
  /** The length of the whole zip in bytes, and the SHA-256 of its directory. */
  bytes: number
  directorySha256: string
}

const head = 'svc-index'
const version = 1
/** Length of the longest first line. */
const maxHeadBytes = 128
/** Maximum size of an index in memory: 200,000 entries, each with another path and time. */
const maxIndexBytes = 64 * 1024 * 1024
const trailerMagic = Buffer.from('SVCPACK1')
const trailerBytes = 4 + trailerMagic.length
const maxTrailerBytes = 8 * 1024 * 1024

/** Returns the bytes of an index. */
export function writeIndex(index: PackIndex): Buffer {
  const json = Buffer.from(JSON.stringify(index))
  const line = `${head} ${version} ${sha256(json).toString('hex')}\n`
  return Buffer.concat([Buffer.from(line), deflateRawSync(json)])
}

/** Reads the bytes of an index. Refuses (`invalid`) damaged_index, and index_too_new if a newer svc has written it. */
export function readIndex(bytes: Buffer, name: string): PackIndex {
  const end = bytes.subarray(0, maxHeadBytes).indexOf('\n')
  const [, format, digest] = /^svc-index (\d{1,9}) ([0-9a-f]*)$/.exec(bytes.subarray(0, end).toString()) ?? []
  if (end === -1 || format === undefined) throw damagedIndex(name, 'its first line is not that of an index')
  if (Number(format) > version) {
    const sentence = `Cannot read the index "${name}": its format is ${format}, but this svc supports at most ${version}. Install a newer svc`
    throw new Refusal('invalid', 'index_too_new', sentence)
  }
  try {
    const json = inflateRawSync(bytes.subarray(end + 1), { maxOutputLength: maxIndexBytes })
    if (sha256(json).toString('hex') !== digest) throw damagedIndex(name, 'its SHA-256 is wrong')
    return JSON.parse(json.toString('utf8')) as PackIndex
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw damagedIndex(name, 'its contents are damaged', error)
  }
}

/** Returns the refusal of a damaged index, or of one whose packs are others. */
export function damagedIndex(name: string, why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'damaged_index', `Cannot read the index "${name}": ${why}`, { cause })
}

/** Returns the trailer of a pack that contains only the entries with these numbers, which are sorted. */
export function writeTrailer(numbers: readonly number[]): Buffer {
  const runs: number[] = []
  for (const number of numbers) {
    const last = runs.length - 1
    if (last > 0 && (runs[last - 1] as number) + (runs[last] as number) === number) (runs[last] as number)++
    else runs.push(number, 1)
  }
  const json = Buffer.from(JSON.stringify(runs))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(json.length)
  return Buffer.concat([json, length, trailerMagic])
}

/** What a trailer says: the size of the zip before it, and the numbers of its entries. */
export interface PackNumbers {
  zipBytes: number
  numbers: number[]
}

/** Whether a zip ends like a pack that lost entries. Nothing shares contents with an uploaded one whose comment does so. */
export function endsLikePack(file: ReadableFile): boolean {
  const trailer = Buffer.alloc(trailerBytes)
  const at = file.size - trailerBytes
  return at >= 0 && file.readSync(trailer, at) === trailerBytes && trailer.subarray(4).equals(trailerMagic)
}

/** Returns what the trailer of a pack says; null: it is a whole zip. Refuses (`invalid`) damaged_pack. */
export function readNumbers(file: ReadableFile, name: string): PackNumbers | null {
  if (!endsLikePack(file)) return null
  const { size } = file
  const stated = Buffer.alloc(4)
  file.readSync(stated, size - trailerBytes)
  const length = stated.readUInt32LE(0)
  const zipBytes = size - trailerBytes - length
  if (length > maxTrailerBytes || zipBytes < 0) throw damagedPack(name, 'its trailer is too long')
  const json = Buffer.alloc(length)
  try {
    if (file.readSync(json, zipBytes) < length) throw damagedPack(name, 'its trailer is cut off')
    const runs = JSON.parse(json.toString()) as number[]
    const numbers: number[] = []
    for (let at = 0; at < runs.length; at += 2)
      for (let n = 0; n < (runs[at + 1] as number); n++) numbers.push((runs[at] as number) + n)
    return { zipBytes, numbers }
  } catch (error) {
    throw error instanceof Refusal ? error : damagedPack(name, 'its trailer is damaged', error)
  }
}

/** Returns the refusal of a damaged or missing pack. */
export function damagedPack(name: string, why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'damaged_pack', `Cannot read the pack "${name}": ${why}`, { cause })
}
