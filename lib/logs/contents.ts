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

/** The contents of an opened log, which is theirs from now on: it is closed when they are released, or at once on failure. */
export async function contentsOf(log: OpenedLog, inflated: InflatedFiles, signal: AbortSignal): Promise<Contents> {
  try {
    if (!(await isGzip(log))) {
      return { handle: log.handle, size: log.size, isCompressed: false, release: () => log.handle.close() }
    }
    const { handle, size, release } = await inflated.acquire(log, signal)
    await log.handle.close()
    return { handle, size, isCompressed: true, release: async () => release() }
  } catch (error) {
    await log.handle.close().catch(() => {})
    throw error
  }
}

/** RFC 1952 §2.3: two magic bytes and the one method there is. Names are not trusted: `.gz` may be anything. */
async function isGzip({ handle, size }: OpenedLog): Promise<boolean> {
  if (size < 18) return false
  const head = await readAt(handle, 0, 3)
  return head[0] === 0x1f && head[1] === 0x8b && head[2] === 8
}
