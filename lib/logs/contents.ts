import type { FileHandle } from 'node:fs/promises'
import type { InflatedFiles } from './inflated.js'
import type { OpenedLog } from './open.js'

/** What a log file holds, compressed or not, addressed by byte. */
export interface Contents {
  /** Of which they are read: the file itself, or what was inflated of it. */
  handle: FileHandle
  size: number
  isCompressed: boolean
  release(): Promise<void>
}

/** Contents that may still be on their way, from a compressed file. */
export interface ComingContents {
  handle: FileHandle
  isCompressed: boolean
  /**
   * Resolves once there are `wanted` bytes, or all: how many there are now, and whether that is all. Refuses: 413
   * `inflates_too_large`, 400 `broken_gzip`.
   */
  reach(wanted: number): Promise<Reached>
  release(): Promise<void>
}

export interface Reached {
  size: number
  isWhole: boolean
}

/** Reads up to `length` bytes at `at`; fewer where the file ends. */
export async function readAt(handle: FileHandle, at: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, at + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}

/**
 * The contents of an opened log, as soon as the first of them can be read. The log is theirs from now on: it is closed
 * when they are released, or at once on failure.
 */
export async function contentsComing(log: OpenedLog, inflated: InflatedFiles): Promise<ComingContents> {
  const { handle, size } = log
  try {
    if (!(await isGzip(log))) {
      return { handle, isCompressed: false, reach: async () => ({ size, isWhole: true }), release: () => handle.close() }
    }
    const { release, ...coming } = await inflated.acquire(log)
    await handle.close()
    return { ...coming, isCompressed: true, release: async () => release() }
  } catch (error) {
    await handle.close().catch(() => {})
    throw error
  }
}

/** As `contentsComing`, once all is there. An abort rejects with its reason. */
export async function contentsOf(log: OpenedLog, inflated: InflatedFiles, signal: AbortSignal): Promise<Contents> {
  const { handle, isCompressed, reach, release } = await contentsComing(log, inflated)
  try {
    const { size } = await unlessAborted(reach(Infinity), signal)
    return { handle, size, isCompressed, release }
  } catch (error) {
    await release()
    throw error
  }
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // It may fail when nobody waits for it any more.
  work.catch(() => {})
  signal.throwIfAborted()
  let onAbort = (): void => {}
  try {
    return await Promise.race([
      work,
      new Promise<never>((_, reject) => {
        onAbort = () => reject(signal.reason as Error)
        signal.addEventListener('abort', onAbort)
      })
    ])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** RFC 1952 §2.3: two magic bytes and the one method there is. Names are not trusted: `.gz` may be anything. */
async function isGzip({ handle, size }: OpenedLog): Promise<boolean> {
  if (size < 18) return false
  const head = await readAt(handle, 0, 3)
  return head[0] === 0x1f && head[1] === 0x8b && head[2] === 8
}
