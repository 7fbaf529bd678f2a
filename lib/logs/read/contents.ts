import type { FileHandle } from 'node:fs/promises'
import type { InflatedFiles, Reached } from './inflated.js'
import { readAt } from '../../base/files.js'
import type { OpenedLog } from './open.js'

/** The uncompressed contents of a log file, addressed by byte. */
export interface Contents {
  /** Handle to read the contents from: the log file itself, or its decompressed copy. */
  handle: FileHandle
  size: number
  isCompressed: boolean
  release(): Promise<void>
}

/** Contents of a log file that may still be growing, because the file is being decompressed. */
export interface ComingContents {
  handle: FileHandle
  isCompressed: boolean
  /**
   * Resolves once `wanted` bytes are available, or all of them. Returns how many bytes there are and whether that is
   * all. Refuses: 413 `inflates_too_large`, 400 `broken_gzip`.
   */
  reach(wanted: number): Promise<Reached>
  release(): Promise<void>
}

/**
 * Returns the contents of an opened log as soon as their first bytes can be read. The contents own the log from now on:
 * releasing them closes it, and so does a failure.
 */
export async function contentsComing(log: OpenedLog, inflated: InflatedFiles): Promise<ComingContents> {
  const { handle, size } = log
  try {
    if (!(await isGzip(log))) {
      return {
        handle,
        isCompressed: false,
        reach: async () => ({ size, isWhole: true }),
        release: () => handle.close()
      }
    }
    const { release, ...coming } = await inflated.acquire(log)
    await handle.close()
    return { ...coming, isCompressed: true, release: async () => release() }
  } catch (error) {
    await handle.close().catch(() => {})
    throw error
  }
}

/** Returns the contents of an opened log when they are complete. An abort rejects with its reason. */
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
  // It may fail after the caller has stopped waiting.
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

/**
 * Whether the file is gzip, by its content (RFC 1952 §2.3): two magic bytes and the only defined method. Names are not
 * trusted, because a `.gz` file may be anything.
 */
async function isGzip({ handle, size }: OpenedLog): Promise<boolean> {
  if (size < 18) return false
  const head = await readAt(handle, 0, 3)
  return head[0] === 0x1f && head[1] === 0x8b && head[2] === 8
}
