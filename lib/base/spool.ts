/*
 * Bodies that are kept until they are used: small ones in memory, large ones in a file without a name. A client that
 * sends slowly, or work that is queued, then costs disk and no memory. The file is gone with its handle, so a
 * killed process leaves nothing.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, open, rm, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { Budget } from './budget.js'
import { readAt } from './files.js'

/** A body that was received. */
export interface Spooled {
  readonly bytes: number
  /** Returns all of it, or its first bytes. The caller limits how many read large bodies at a time. */
  read(maxBytes?: number): Promise<Buffer>
  /** Frees the memory or the file. */
  discard(): Promise<void>
}

/** What to receive. */
export interface SpoolOptions {
  /** Who sends it, for the budget. */
  caller: string
  /** The size that the sender has announced; 0: unknown. */
  announcedBytes: number
  /** Takes memory before the bytes that it is for. */
  hold(bytes: number): void
  /** Creates the refusal of a body above the limit. */
  tooLarge(): Error
  maxBytes: number
}

/** A directory for bodies, and the budget of their bytes. */
export type Spool = ReturnType<typeof createSpool>

/** Up to this size a body stays in memory. */
export const spoolFromBytes = 1024 * 1024

/** Creates a spool. The directory is made when it is needed. */
export function createSpool({ directory, budget }: { directory: string; budget: Budget }) {
  async function openFile(): Promise<FileHandle> {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const path = join(directory, `${randomBytes(12).toString('hex')}.spool`)
    const handle = await open(path, 'wx+', 0o600)
    await rm(path)
    return handle
  }

  return {
    /** Receives a body. Rejects with the refusals of `hold`, of the budget and of the source; then nothing is kept. */
    async receive(source: AsyncIterable<Buffer>, options: SpoolOptions): Promise<Spooled> {
      const { caller, announcedBytes, hold, maxBytes, tooLarge } = options
      if (announcedBytes > maxBytes) throw tooLarge()
      // The place is taken before the first byte.
      const isLarge = announcedBytes > spoolFromBytes
      hold(isLarge ? spoolFromBytes : announcedBytes)
      const claim = budget.claim({ caller }, isLarge ? announcedBytes : 0)
      const state: { handle: FileHandle | null } = { handle: null }
      const discard = async (): Promise<void> => {
        claim.release()
        await state.handle?.close()
        state.handle = null
      }
      let chunks: Buffer[] = []
      let bytes = 0
      let [heldBytes, claimedBytes] = [isLarge ? spoolFromBytes : announcedBytes, isLarge ? announcedBytes : 0]
      let writtenBytes = 0
      const write = async (): Promise<void> => {
        if (bytes > claimedBytes) claim.add(bytes - claimedBytes)
        claimedBytes = Math.max(claimedBytes, bytes)
        state.handle ??= await openFile()
        const block = Buffer.concat(chunks)
        chunks = []
        await state.handle.write(block, 0, block.length, writtenBytes)
        writtenBytes += block.length
      }
      try {
        for await (const chunk of source) {
          bytes += chunk.length
          if (bytes > maxBytes) throw tooLarge()
          const waitingBytes = bytes - writtenBytes
          if (waitingBytes > heldBytes) hold(waitingBytes - heldBytes)
          heldBytes = Math.max(heldBytes, waitingBytes)
          chunks.push(chunk)
          if (waitingBytes > spoolFromBytes) await write()
        }
        if (state.handle !== null && chunks.length > 0) await write()
      } catch (error) {
        await discard()
        throw error
      }
      const { handle } = state
      const whole = handle === null ? Buffer.concat(chunks) : null
      chunks = []
      const read = async (most = bytes): Promise<Buffer> =>
        whole?.subarray(0, most) ?? (await readAt(handle as FileHandle, 0, Math.min(bytes, most)))
      return { bytes, read, discard }
    }
  }
}
