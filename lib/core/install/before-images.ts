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
import type { Stats } from 'node:fs'
import { crc32 } from '../../base/digests.js'
import { isDiskFull, Refusal, spaceCure } from '../../base/errors.js'
import { formatBytes } from '../../base/shared/api.js'
import { deflated, directoryOf, localHeader, newRecord, stored, type ZipRecord } from '../../base/shared/zip-records.js'
import { parentOf } from '../../base/files.js'
import { type Disk, openRegular, sameTimeMs, syncOpen, writeFully } from './disk.js'
import { changedMeanwhile, type Folders, type HeldDirectory, nameOf } from './held.js'
import { deployIdOf } from './journal.js'
import { createDigester, type Digester } from './found-entry.js'

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
      `${spaceCure(error)} there`
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

/*
 * Files that were edited after a deployment had put them in place, and that a revert would lose. They are kept:
 *
 *   <staging>/displaced/<path>          while the target is put back
 *   <target>/.svc-displaced-<id>/<path> afterwards, mode 0700, for an operator to look at and to remove
 *
 * Both are on the file system of the target, so a file is kept by a link or a rename: nothing is copied, and an
 * interrupted revert can be repeated. Only staging is written to by path, because no other user can enter it.
 *
 * The kernel sets the change time (ctime) of an inode at every write and every rename. So a file whose change time is
 * before the journal's line `placed`, and whose size and modification time are those of the manifest, was not edited.
 * Any other file is compared by its contents.
 */

/** What the manifest says about a file. */
export interface PlacedFile {
  size: number
  sha256: string
  /** Absent in manifests of earlier versions. */
  mtimeMs?: number | null
}

/** Keeps edited files while a target is put back. */
export type Displacing = ReturnType<typeof createDisplacing>

/** What decides whether a file was edited. */
export interface DisplacingNeeds {
  disk: Disk
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  /** When everything was in place, in ms since 1970. */
  placedAtMs: number
  /** The files of the deployment by their paths. */
  files: ReadonlyMap<string, PlacedFile>
}

/** The kernel's time of an inode is behind its clock by up to one tick. */
const tickMs = 50
/** The beginning of the names of the directories with kept files. */
export const displacedPrefix = '.svc-displaced-'
/** Maximum number of paths in a report. */
const maxPaths = 100

/** Creates what keeps edited files. */
export function createDisplacing(needs: DisplacingNeeds) {
  const { disk, staging } = needs
  const digester = createDigester(disk)
  const nameFor = createNaming(disk, staging)

  return {
    /**
     * Keeps the file at `place` if it was edited. A file that is about to be replaced gets a second name; one that is
     * about to be removed is moved. Returns whether it was kept.
     */
    keep(path: string, place: string, how: 'link' | 'move'): boolean {
      if (!isEdited(needs, digester, { path, place })) return false
      const kept = nameFor(path)
      if (how === 'move' || !link(disk, place, kept)) disk.renameSync(place, kept)
      return true
    }
  }
}

/** Creates the function that keeps an entry at `place`, whatever it is. */
export function createDisplace(disk: Disk, staging: string): (path: string, place: string) => void {
  const nameFor = createNaming(disk, staging)
  return (path, place) => disk.renameSync(place, nameFor(path))
}

/** The directory of earlier files, in that of the kept ones. */
const earlierName = '.earlier'

/** Creates the function that keeps an earlier file for which there is no place any more. */
export function createKeepEarlier(disk: Disk, staging: string): (path: string, from: string) => void {
  const nameFor = createNaming(disk, staging)
  return (path, from) => disk.renameSync(from, nameFor(`${earlierName}/${path}`))
}

/** Creates the function that returns the path of a kept file in staging, whose directory it makes. */
function createNaming(disk: Disk, staging: string): (path: string) => string {
  const made = new Set<string>()

  function makeDirectory(path: string): string {
    const directory = path === '' ? `${staging}/displaced` : `${staging}/displaced/${path}`
    if (made.has(path)) return directory
    if (path !== '') makeDirectory(parentOf(path))
    try {
      disk.mkdirSync(directory, 0o700)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    made.add(path)
    return directory
  }

  return path => `${makeDirectory(parentOf(path))}/${nameOf(path)}`
}

function isEdited(
  { disk, placedAtMs, files }: DisplacingNeeds,
  digester: Digester,
  { path, place }: { path: string; place: string }
): boolean {
  const stats = disk.lstatSync(place, { throwIfNoEntry: false })
  // svc never put a directory where a file is listed.
  if (stats === undefined || stats.isDirectory()) return false
  const file = files.get(path)
  if (file === undefined) return true
  if (stats.ctimeMs < placedAtMs - tickMs && isAsPlaced(stats, file)) return false
  const digest = stats.isSymbolicLink() ? digester.link(place) : stats.isFile() ? digester.file(place, file) : null
  return digest === null || Buffer.from(digest.sha256).toString('hex') !== file.sha256
}

function isAsPlaced(stats: Stats, { size, mtimeMs }: PlacedFile): boolean {
  const isSameTime = mtimeMs === undefined || mtimeMs === null || Math.abs(stats.mtimeMs - mtimeMs) < sameTimeMs
  return stats.size === size && isSameTime
}

/** Returns whether the file now has the second name. */
function link(disk: Disk, place: string, kept: string): boolean {
  try {
    disk.linkSync(place, kept)
    return true
  } catch (error) {
    // An interrupted revert may have made it before.
    return (error as NodeJS.ErrnoException).code === 'EEXIST'
  }
}

/** Files that were edited and kept. */
export interface Displaced {
  /** The name of their directory in the target. */
  directory: string
  /** Some of their paths. */
  paths: string[]
  count: number
  /** The earlier files that could not be put back. svc's copies of them are in the directory, below `.earlier`. */
  notBack?: string[]
}

/** Moves the kept files from staging into the target. Returns null if there are none. */
export function publishDisplaced(
  disk: Disk,
  {
    root,
    staging,
    deployId,
    notBack = []
  }: { root: HeldDirectory; staging: string; deployId: string; notBack?: readonly string[] }
): Displaced | null {
  const from = `${staging}/displaced`
  if (disk.lstatSync(from, { throwIfNoEntry: false }) === undefined) return null
  const found = { paths: [] as string[], count: 0 }
  list(disk, { directory: from, prefix: '' }, found)
  for (let number = 1; ; number++) {
    const directory = `${displacedPrefix}${deployId}${number === 1 ? '' : `-${number}`}`
    if (disk.lstatSync(`${root.path}/${directory}`, { throwIfNoEntry: false }) !== undefined) continue
    disk.renameSync(from, `${root.path}/${directory}`)
    return { directory, ...found, ...(notBack.length > 0 && { notBack: notBack.slice(0, maxPaths) }) }
  }
}

function list(
  disk: Disk,
  { directory, prefix }: { directory: string; prefix: string },
  found: { paths: string[]; count: number }
): void {
  for (const name of disk.readdirSync(directory).sort()) {
    const path = `${directory}/${name}`
    if (prefix === '' && name === earlierName) continue
    if (disk.lstatSync(path).isDirectory()) {
      list(disk, { directory: path, prefix: `${prefix}${name}/` }, found)
    } else {
      found.count++
      if (found.paths.length < maxPaths) found.paths.push(`${prefix}${name}`)
    }
  }
}
