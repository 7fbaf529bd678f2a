/*
 * The owner of a file descriptor. The system reuses the number of a closed descriptor, so closing it twice would close
 * another file or socket. Here the number is private. It is closed exactly once, after the last read in progress has
 * finished, and cannot be used afterwards. The number is never passed to a stream, because streams close their file on
 * failure, whatever `autoClose` says.
 */
import { close, closeSync, fstatSync, openSync, read, readSync, writeSync } from 'node:fs'

/** An open file that owns its descriptor. */
export class OpenFile {
  /** The descriptor, or -1 after it is closed. */
  #fd: number
  #readsUnderWay = 0
  #isClosing = false

  /**
   * Opens a file like `fs.openSync`, and throws the same errors. A number is an open descriptor that this object owns
   * from then on.
   */
  constructor(path: string | number, flags: string | number = 'r', mode?: number) {
    this.#fd = typeof path === 'number' ? path : openSync(path, flags, mode)
  }

  /** The current size of the file in bytes. */
  get size(): number {
    return fstatSync(this.#number('fstat')).size
  }

  /** Fills `into` with the bytes at `position`. Returns their number, which is smaller only if the file ends. */
  readSync(into: Uint8Array, position: number): number {
    const fd = this.#number('read')
    let length = 0
    while (length < into.length) {
      const count = readSync(fd, into, length, into.length - length, position + length)
      if (count === 0) break
      length += count
    }
    return length
  }

  /** Like `readSync`, but in the thread pool. A close during the read waits for it. */
  async read(into: Uint8Array, position: number): Promise<number> {
    const fd = this.#number('read')
    this.#readsUnderWay++
    try {
      let length = 0
      while (length < into.length) {
        const count = await readOnce(fd, into.subarray(length), position + length)
        if (count === 0) break
        length += count
      }
      return length
    } finally {
      if (--this.#readsUnderWay === 0 && this.#isClosing) close(this.#release(), () => {})
    }
  }

  /** Writes all of `bytes` at the end of the last write. */
  writeSync(bytes: Uint8Array): void {
    const fd = this.#number('write')
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
  }

  /** Closes the file. A second call does nothing. */
  close(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    if (this.#readsUnderWay === 0) closeSync(this.#release())
  }

  #number(syscall: string): number {
    if (!this.#isClosing) return this.#fd
    throw Object.assign(new Error(`EBADF: the file was closed, ${syscall}`), { code: 'EBADF', syscall })
  }

  #release(): number {
    const fd = this.#fd
    this.#fd = -1
    return fd
  }
}

function readOnce(fd: number, into: Uint8Array, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, into, 0, into.length, position, (error, count) => (error === null ? resolve(count) : reject(error)))
  })
}
