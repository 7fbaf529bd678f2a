/*
 * The owner of a file descriptor. A descriptor is a number that the system gives away again as soon as it is closed, so
 * closing one twice closes a file or a socket of somebody else. Here the number is private: it is closed exactly once,
 * not before the last read under way has ended, and no use reaches it afterwards. No stream is ever given the number,
 * because streams close what they read when they fail, whatever `autoClose` says.
 */
import { close, closeSync, fstatSync, openSync, read, readSync, writeSync } from 'node:fs'

export class OpenFile {
  /** -1 once it is closed. */
  #fd: number
  #readsUnderWay = 0
  #isClosing = false

  /** Opens a file as `fs.openSync` does, and throws what it throws. A number is an open file that it owns from now on. */
  constructor(path: string | number, flags: string | number = 'r', mode?: number) {
    this.#fd = typeof path === 'number' ? path : openSync(path, flags, mode)
  }

  /** The size of the file now, in bytes. */
  get size(): number {
    return fstatSync(this.#number('fstat')).size
  }

  /** Fills `into` with the bytes at `position`; returns how many there were, fewer only if the file ends. */
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

  /** As `readSync`, in the thread pool. A close meanwhile waits for it. */
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

  /** Writes all of `bytes` where the last write ended. */
  writeSync(bytes: Uint8Array): void {
    const fd = this.#number('write')
    for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
  }

  /** Closes the file; the second call does nothing. */
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
