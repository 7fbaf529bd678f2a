import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

/** A file the store writes, by position. */
export interface DiskFile {
  read(position: number, bytes: number): Promise<Uint8Array>
  write(bytes: Uint8Array, position: number): Promise<void>
  truncate(bytes: number): Promise<void>
  /** Resolves when everything written is on the disk (`fdatasync`: the size included, times not). */
  sync(): Promise<void>
  close(): Promise<void>
}

/** All the store does to the file system: the seam where a test lets the n-th step fail. */
export interface Disk {
  /** The whole file, in memory of its own; null: there is none. */
  read(path: string): Uint8Array | null
  /** The same in pieces of so many bytes, the last one with what is left: no piece holds the memory of another. */
  readPieces(path: string, pieceBytes: number): Uint8Array[] | null
  /** As `readPieces`, of a file that nobody changes meanwhile: a large one is read by threads, on all cores. */
  loadPieces(path: string, pieceBytes: number): Promise<Uint8Array[] | null>
  /** Bytes of a file; null: there is none. */
  size(path: string): number | null
  open(path: string): Promise<DiskFile>
  /** A new file that only its owner may read, in place of one that is there. */
  create(path: string): Promise<DiskFile>
  rename(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
  /** Makes creations and renames in a directory last. */
  syncDirectory(path: string): Promise<void>
}

/**
 * Up to this, a write is a plain call into the page cache (about 10 us), which is cheaper than handing it to a thread;
 * the sync that follows is always left to a thread. Measured: test/bench/store.
 */
const directWriteBytes = 64 * 1024
/** Up to this size, reading directly is faster than waking threads. Measured: test/bench/store. */
const directReadBytes = 8 * 1024 * 1024

const [open, close, read, write, ftruncate, fdatasync, fsync, rename, unlink] = [
  promisify(fs.open),
  promisify(fs.close),
  promisify(fs.read),
  promisify(fs.write),
  promisify(fs.ftruncate),
  promisify(fs.fdatasync),
  promisify(fs.fsync),
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
    await unlink(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
  },
  async syncDirectory(path) {
    // Windows opens no directories; NTFS keeps its own journal of names.
    if (process.platform === 'win32') return
    const directory = await open(path, 'r')
    try {
      await fsync(directory)
    } finally {
      await close(directory)
    }
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
 * Issues all reads at once, so that the threads work on while this one compiles sql.js. Most of the time is spent in the
 * kernel, which has to clear the memory first.
 */
function loadPieces(path: string, pieceBytes: number): Uint8Array[] | Promise<Uint8Array[]> {
  const bytes = fs.statSync(path).size
  if (bytes <= directReadBytes) return readPieces(path, pieceBytes)
  const fd = fs.openSync(path, 'r')
  const pieces = Array.from({ length: Math.ceil(bytes / pieceBytes) }, (_, index) =>
    Buffer.allocUnsafeSlow(Math.min(pieceBytes, bytes - index * pieceBytes)))
  const reads = pieces.map((piece, index) => read(fd, piece, 0, piece.length, index * pieceBytes))
  return Promise.allSettled(reads).then(results => {
    fs.closeSync(fd)
    const isWhole = results.every((result, index) => result.status === 'fulfilled' && result.value.bytesRead === pieces[index]?.length)
    // A read may give less than it was asked for, or fail: reading in order finds out which.
    return isWhole ? pieces : readPieces(path, pieceBytes)
  })
}

/** Reads on from where the file is; gives less than there is room only at its end. */
function fill(fd: number, into: Uint8Array): number {
  let got = 0
  while (got < into.length) {
    const more = fs.readSync(fd, into, got, into.length - got, null)
    if (more === 0) break
    got += more
  }
  return got
}

/** A command that root runs must not make what the server's own user cannot read. */
function giveToOwner(fd: number, directory: string): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = fs.statSync(directory)
  if (uid !== 0) fs.fchownSync(fd, uid, gid)
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
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
