/*
 * `deployments/<id>.before.zip`: the contents that a deployment replaced or removed and that no kept archive has. They
 * are files that somebody edited, and files that svc never put there. An exact way back needs them. The manifest says
 * where the contents of each earlier file are kept (`before.kept`), and contains times and modes.
 *
 * The file is written during staging and synced before the undo journal lists any move, so a complete deployment has it.
 * It does not exist if there is nothing to keep, which is the usual case.
 */
import { createHash } from 'node:crypto'
import { deflateRawSync } from 'node:zlib'
import { dirname, join } from 'node:path'
import { crc32 } from '../base/digests.js'
import { isDiskFull, Refusal } from '../base/errors.js'
import { formatBytes } from '../shared/size.js'
import { deflated, directoryOf, localHeader, newRecord, stored, type ZipRecord } from '../shared/zip-records.js'
import { syncOpen, writeFully, type Disk } from './disk.js'
import { changedMeanwhile, type Folders } from './folders.js'
import { deployIdOf } from './journal-file.js'
import { openRegular } from './regular.js'

/** The open file of the before-images. */
export interface BeforeFile {
  /** Calls `write` with the open file, which it creates. Its contents and its name are on disk when this resolves. */
  fill(write: (fd: number) => void): Promise<void>
  remove(): void
}

/** An entry of the target whose contents are to be kept. */
export interface BeforeImage {
  path: string
  mode: number
  size: number
  mtimeMs: number
  /** The SHA-256 that staging found, in hex digits. */
  sha256: string
}

/** Returns the path of the before-images of a deployment, given that of its journal or its manifest. */
export function beforePathOf(journalPath: string, deployId = deployIdOf(journalPath)): string {
  return join(dirname(journalPath), `${deployId}.before.zip`)
}

/** Removes the before-images of an extraction that was put back. */
export function removeBeforeImages(disk: Disk, journalPath: string): void {
  const path = beforePathOf(journalPath)
  if (disk.lstatSync(path, { throwIfNoEntry: false }) !== undefined) disk.unlinkSync(path)
}

/** Returns the before-images at a path. */
export function beforeAt(disk: Disk, path: string): BeforeFile {
  return {
    async fill(write) {
      await refusingFullDisk(async () => {
        const fd = disk.openSync(path, 'w', 0o600)
        try {
          write(fd)
          await syncOpen(disk, 'fdatasync', fd)
        } finally {
          disk.closeSync(fd)
        }
      })
    },
    remove() {
      if (disk.lstatSync(path, { throwIfNoEntry: false }) !== undefined) disk.unlinkSync(path)
    }
  }
}

/** Returns the before-images of a helper process. svc has created the file, and removes it if it stays empty. */
export function openedBefore(disk: Disk, fd: number): BeforeFile {
  return {
    fill: write =>
      refusingFullDisk(async () => {
        write(fd)
        await syncOpen(disk, 'fdatasync', fd)
      }),
    remove: () => disk.ftruncateSync(fd, 0)
  }
}

/** A full disk is that of the data directory. Only what reads the target also runs here, and reading needs no space. */
async function refusingFullDisk(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!isDiskFull(error)) throw error
    const sentence =
      'Nothing was changed: the disk of the data directory is full, and svc keeps there what the deployment replaces. ' +
      'Free some space there'
    throw new Refusal('unavailable', 'no_space', sentence, { cause: error })
  }
}

/**
 * Returns the entries that are kept within the limit: the largest are left out until the others fit. Refuses
 * (`too_large`, before_too_large) instead if everything must be kept.
 */
export function fitBeforeImages<T extends Pick<BeforeImage, 'size'>>(
  images: readonly T[],
  { maxBytes, isRequired }: { maxBytes: number; isRequired: boolean }
): ReadonlySet<T> {
  let bytes = images.reduce((sum, { size }) => sum + size, 0)
  if (bytes <= maxBytes) return new Set(images)
  if (isRequired) {
    const sentence =
      `Nothing was changed: ${formatBytes(bytes)} would be replaced that no archive contains, and the setting ` +
      `max_before_size allows ${formatBytes(maxBytes)} to be kept for a way back`
    throw new Refusal('too_large', 'before_too_large', sentence)
  }
  const kept = new Set(images)
  for (const image of [...images].sort((a, b) => b.size - a.size)) {
    if (bytes <= maxBytes) break
    kept.delete(image)
    bytes -= image.size
  }
  return kept
}

/** A larger file is stored, piece by piece. */
const maxWholeBytes = 4 * 1024 * 1024
const level = 1

/** What the writing needs. */
export interface BeforeNeeds {
  disk: Disk
  folders: Folders
  /** Throws if the extraction must be abandoned. */
  check(): void
}

/**
 * Writes the contents of these entries of the target. Refuses (`conflict`, target_changed) an entry that has changed
 * since it was digested. Resolves with the size of the file in bytes.
 */
export async function writeBeforeImages(
  to: BeforeFile,
  images: Iterable<BeforeImage>,
  needs: BeforeNeeds
): Promise<number> {
  let offset = 0
  const records: ZipRecord[] = []
  await to.fill(fd => {
    const write = (bytes: Uint8Array): void => {
      writeFully(needs.disk, fd, bytes)
      offset += bytes.length
    }
    for (const image of images) {
      needs.check()
      const { mtimeMs, mode, size } = image
      const attributes = (mode & 0xffff) * 0x10000
      const record = newRecord({ name: Buffer.from(image.path), mtimeMs, attributes, bytes: size, offset })
      writeImage(record, image, { ...needs, write })
      records.push(record)
    }
    write(directoryOf(records, offset))
  })
  return offset
}

function writeImage(
  record: ZipRecord,
  image: BeforeImage,
  { disk, folders, write }: BeforeNeeds & { write(bytes: Uint8Array): void }
): void {
  const place = folders.place(image.path)
  if (image.size <= maxWholeBytes) {
    const contents = readWhole(disk, place, image)
    const packed = deflateRawSync(contents, { level })
    const isSmaller = packed.length < contents.length
    record.method = isSmaller ? deflated : stored
    record.crc = crc32(contents)
    record.packedBytes = isSmaller ? packed.length : contents.length
    write(localHeader(record))
    write(isSmaller ? packed : contents)
    return
  }
  // Read twice: the header comes first and contains the CRC.
  record.crc = readPieces({ disk, place }, image, () => {})
  record.packedBytes = image.size
  write(localHeader(record))
  readPieces({ disk, place }, image, write)
}

function readWhole(disk: Disk, place: string, image: BeforeImage): Buffer {
  if (isLink(image)) {
    const text = Buffer.from(disk.readlinkSync(place))
    if (hexOf(text) !== image.sha256) throw changed(image)
    return text
  }
  const pieces: Buffer[] = []
  readPieces({ disk, place }, image, piece => pieces.push(Buffer.from(piece)))
  return Buffer.concat(pieces)
}

const pieceBytes = 256 * 1024

/** Passes the contents of a file piece by piece, and returns their CRC-32. */
function readPieces(
  { disk, place }: { disk: Disk; place: string },
  image: BeforeImage,
  onPiece: (piece: Buffer) => void
): number {
  const opened = openRegular(disk, place)
  if (opened === null) throw changed(image)
  const { fd } = opened
  try {
    const hash = createHash('sha256')
    const buffer = Buffer.allocUnsafeSlow(Math.min(pieceBytes, Math.max(1, image.size)))
    let [crc, done] = [0, 0]
    while (done < image.size) {
      const count = disk.readSync(fd, buffer, 0, Math.min(buffer.length, image.size - done), null)
      if (count === 0) throw changed(image)
      const piece = buffer.subarray(0, count)
      hash.update(piece)
      crc = crc32(piece, crc)
      onPiece(piece)
      done += count
    }
    if (hash.digest('hex') !== image.sha256) throw changed(image)
    return crc
  } finally {
    disk.closeSync(fd)
  }
}

const typeBits = 0o170000
const linkBits = 0o120000

function isLink({ mode }: BeforeImage): boolean {
  return (mode & typeBits) === linkBits
}

function hexOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function changed({ path }: BeforeImage): Refusal {
  return changedMeanwhile(path, 'was changed')
}
