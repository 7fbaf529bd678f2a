import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { giveToOwner, syncPath } from '../../base/files.js'
import { nullIfMissing } from '../../base/errors.js'

/** A file that the store reads and writes by position. */
export interface DiskFile {
  /** Reads `bytes` bytes from `position`; returns fewer only at the end of the file. */
  read(position: number, bytes: number): Promise<Uint8Array>
  write(bytes: Uint8Array, position: number): Promise<void>
  truncate(bytes: number): Promise<void>
  /** Resolves when everything written is on the disk (`fdatasync`: this includes the size, but not the times). */
  sync(): Promise<void>
  close(): Promise<void>
}

/** The store's access to the file system. Tests replace it so that the n-th step fails. */
export interface Disk {
  /** Throws if the directory is not that of this process any more. Absent: nobody can take it away. */
  check?(): void
  /** Returns the whole file in a buffer of its own; null if it does not exist. */
  read(path: string): Uint8Array | null
  /** Returns the file in pieces of `pieceBytes`; the last one may be shorter. The pieces do not share memory. */
  readPieces(path: string, pieceBytes: number): Uint8Array[] | null
  /** Like `readPieces`, for a file that nobody changes meanwhile: a large file is read by threads, on all cores. */
  loadPieces(path: string, pieceBytes: number): Promise<Uint8Array[] | null>
  /** Size of a file in bytes; null if it does not exist. */
  size(path: string): number | null
  /** Opens an existing file for reading and writing. */
  open(path: string): Promise<DiskFile>
  /** Creates a file with mode 0600, replacing an existing one. */
  create(path: string): Promise<DiskFile>
  rename(from: string, to: string): Promise<void>
  /** Removes a file; a missing file is not an error. */
  remove(path: string): Promise<void>
  /** Syncs a directory, so that creations and renames in it are durable. */
  syncDirectory(path: string): Promise<void>
}

/**
 * Writes up to this size are direct calls into the page cache (about 10 us), which is cheaper than handing them to a
 * thread. The sync that follows always runs in a thread. Measured: test/bench/store.
 */
const directWriteBytes = 64 * 1024
/** Up to this size, reading directly is faster than waking threads. Measured: test/bench/store. */
const directReadBytes = 8 * 1024 * 1024

const [open, close, read, write, ftruncate, fdatasync, rename, unlink] = [
  promisify(fs.open),
  promisify(fs.close),
  promisify(fs.read),
  promisify(fs.write),
  promisify(fs.ftruncate),
  promisify(fs.fdatasync),
  promisify(fs.rename),
  promisify(fs.unlink)
]

/** The file system of this machine. */
export const realDisk: Disk = {
  read: path => unlessMissing(() => fs.readFileSync(path)),
  readPieces: (path, pieceBytes) => unlessMissing(() => readPieces(path, pieceBytes)),
  loadPieces: async (path, pieceBytes) => unlessMissing(() => loadPieces(path, pieceBytes)),
  size: path => unlessMissing(() => fs.statSync(path).size),
  async open(path) {
    return fileOf(await open(path, 'r+'))
  },
  async create(path) {
    await realDisk.remove(path)
    const fd = await open(path, 'wx+', 0o600)
    giveToOwner(fd, dirname(path))
    return fileOf(fd)
  },
  rename,
  async remove(path) {
    await unlink(path).catch(nullIfMissing)
  },
  syncDirectory: syncPath
}

/** Returns a disk that touches nothing by its name once `check` throws: the files may be those of another process. */
export function ownedDisk(check: () => void): Disk {
  const checked =
    <Args extends unknown[], T>(call: (...args: Args) => T) =>
    (...args: Args): T => {
      check()
      return call(...args)
    }
  const { read, readPieces, open, create, rename, remove } = realDisk
  return {
    ...realDisk,
    check,
    read: checked(read),
    readPieces: checked(readPieces),
    open: checked(open),
    create: checked(create),
    rename: checked(rename),
    remove: checked(remove)
  }
}

function readPieces(path: string, pieceBytes: number): Uint8Array[] {
  const fd = fs.openSync(path, 'r')
  try {
    const pieces: Uint8Array[] = []
    for (;;) {
      const piece = Buffer.allocUnsafeSlow(pieceBytes)
      const got = fill(fd, piece)
      if (got > 0) pieces.push(piece.subarray(0, got))
      if (got < pieceBytes) return pieces
    }
  } finally {
    fs.closeSync(fd)
  }
}

/**
 * Issues all reads at once, so that the threads work while this thread compiles sql.js. Most of the time is spent in
 * the kernel, which has to clear the memory first.
 */
function loadPieces(path: string, pieceBytes: number): Uint8Array[] | Promise<Uint8Array[]> {
  const bytes = fs.statSync(path).size
  if (bytes <= directReadBytes) return readPieces(path, pieceBytes)
  const fd = fs.openSync(path, 'r')
  const pieces = Array.from({ length: Math.ceil(bytes / pieceBytes) }, (_, index) =>
    Buffer.allocUnsafeSlow(Math.min(pieceBytes, bytes - index * pieceBytes))
  )
  const reads = pieces.map((piece, index) => read(fd, piece, 0, piece.length, index * pieceBytes))
  return Promise.allSettled(reads).then(results => {
    fs.closeSync(fd)
    const isWhole = results.every(
      (result, index) => result.status === 'fulfilled' && result.value.bytesRead === pieces[index]?.length
    )
    // A read may return fewer bytes than requested, or fail. Reading in order finds out which.
    return isWhole ? pieces : readPieces(path, pieceBytes)
  })
}

/** Reads from the file's current position. Returns fewer bytes than `into` has room for only at the end of the file. */
function fill(fd: number, into: Uint8Array): number {
  let got = 0
  while (got < into.length) {
    const more = fs.readSync(fd, into, got, into.length - got, null)
    if (more === 0) break
    got += more
  }
  return got
}

function fileOf(fd: number): DiskFile {
  return {
    async read(position, bytes) {
      const into = Buffer.alloc(bytes)
      let got = 0
      while (got < bytes) {
        const { bytesRead } = await read(fd, into, got, bytes - got, position + got)
        if (bytesRead === 0) break
        got += bytesRead
      }
      return into.subarray(0, got)
    },
    async write(bytes, position) {
      const direct = bytes.length <= directWriteBytes
      let put = 0
      while (put < bytes.length) {
        const left = bytes.length - put
        put += direct
          ? fs.writeSync(fd, bytes, put, left, position + put)
          : (await write(fd, bytes, put, left, position + put)).bytesWritten
      }
    },
    truncate: bytes => ftruncate(fd, bytes),
    sync: () => fdatasync(fd),
    close: () => close(fd)
  }
}

function unlessMissing<T>(use: () => T): T | null {
  try {
    return use()
  } catch (error) {
    return nullIfMissing(error)
  }
}
