import { randomBytes } from 'node:crypto'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Refusal } from './errors.js'
import { readAt } from './files.js'

/** What one piece of work holds of a budget. */
export interface Claim {
  /** Takes more. Throws the refusal of the budget, and then takes nothing. */
  add(amount: number): void
  /** Gives back an amount, or all that is left. */
  release(amount?: number): void
}

/** Who holds something: a key of each kind, for example the caller, or the node and the caller. */
export type Keys<K extends string> = Readonly<Record<K, string>>

/**
 * A number of bytes, or of anything else that can be counted, that all work shares. Each key of a kind (a caller) may
 * hold a part of it, so that one leaves room for the others.
 */
export interface Budget<K extends string = 'caller'> {
  /** Takes an amount. Throws the refusal of the budget. */
  claim(keys: Keys<K>, amount: number): Claim
  /** Takes an amount. Returns null if there is no room. */
  tryClaim(keys: Keys<K>, amount: number): Claim | null
  /** Takes an amount while `use` runs. Rejects with the refusal of the budget. */
  during<T>(keys: Keys<K>, amount: number, use: () => Promise<T>): Promise<T>
  /** The amount that is held, by a key or in all. */
  held(kind?: K, key?: string): number
}

export interface BudgetLimits<K extends string = 'caller'> {
  /** Maximum amount in all. */
  all: number
  /** Maximum amount of one key of each kind. */
  each: Readonly<Record<K, number>>
}

export interface BudgetOptions<K extends string> extends BudgetLimits<K> {
  /** Creates the refusal: a key of a kind holds too much, or all together do. */
  refuse(over: K | 'all'): Refusal
}

/** Creates a budget of which nothing is held. */
export function createBudget<K extends string>({ all, each, refuse }: BudgetOptions<K>): Budget<K> {
  const kinds = Object.keys(each) as K[]
  const heldBy = new Map<string, number>()
  let held = 0

  const nameOf = (kind: K, key: string): string => `${kind} ${key}`

  /** Returns the kind of the limit that would be exceeded, and takes nothing then. */
  function take(keys: Keys<K>, amount: number): K | 'all' | null {
    const over = kinds.find(kind => (heldBy.get(nameOf(kind, keys[kind])) ?? 0) + amount > each[kind])
    if (over !== undefined) return over
    if (held + amount > all) return 'all'
    change(keys, amount)
    return null
  }

  function change(keys: Keys<K>, amount: number): void {
    held += amount
    for (const kind of kinds) {
      const name = nameOf(kind, keys[kind])
      const sum = (heldBy.get(name) ?? 0) + amount
      if (sum === 0) heldBy.delete(name)
      else heldBy.set(name, sum)
    }
  }

  function taken(keys: Keys<K>, amount: number): Claim {
    let left = amount
    return {
      add(more) {
        const over = take(keys, more)
        if (over !== null) throw refuse(over)
        left += more
      },
      release(given = left) {
        const back = Math.min(given, left)
        left -= back
        if (back > 0) change(keys, -back)
      }
    }
  }

  function claim(keys: Keys<K>, amount: number): Claim {
    const over = take(keys, amount)
    if (over !== null) throw refuse(over)
    return taken(keys, amount)
  }

  return {
    claim,
    tryClaim: (keys, amount) => (take(keys, amount) === null ? taken(keys, amount) : null),
    async during(keys, amount, use) {
      const { release } = claim(keys, amount)
      try {
        return await use()
      } finally {
        release()
      }
    },
    held: (kind, key = '') => (kind === undefined ? held : (heldBy.get(nameOf(kind, key)) ?? 0))
  }
}

/*
 * Bodies that are kept until they are used: small ones in memory, large ones in a file without a name. A client that
 * sends slowly, or work that is queued, then costs disk and no memory. The file is gone with its handle, so a
 * killed process leaves nothing.
 */

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
