/*
 * Differences within files, found as rsync finds them: who has the earlier contents says a sum of each of their blocks;
 * who has the new contents looks for these blocks at every offset, and sends which of them to copy, and the bytes between
 * them. The result is compared with a SHA-256, so equal sums of other blocks do no harm.
 *
 * Sums. Blocks of n bytes of contents have sqrt(8 n) bytes, rounded down, and at least 256; the last one has the rest. The
 * sum of a block is its weak sum, 4 bytes, the highest one first, and the beginning of its SHA-256: with n of a binary digits
 * and the size of the blocks of b, (2 a - b + 20) / 8 - 4 bytes, rounded up, and at least 1. The weak sum of the bytes b[0] to b[k - 1] is the sum of
 * b[i] * factor^(k - 1 - i), modulo 2^32: that of the block one byte further on follows from it.
 *
 * Patches are one after the other, in the order of the lines of the differences of the trees (base/shared/tree-delta.ts):
 *
 *   <number of its line among those of entries, from 0>
 *   <number of new bytes> <these bytes> <number of bytes to copy> <where>      as often as its size needs
 *
 * A number is LEB128, the lowest seven bits first. `where` is only there if there are bytes to copy: the distance of their
 * place in the earlier contents from the end of the last ones that were copied, n as 2n, and -n as 2n - 1.
 */
import { Refusal } from '../../base/errors.js'
import { sha256 } from '../../base/digests.js'

/** Maximum size of the patches of one upload. Both sides hold them in memory. */
export const maxPatchBytes = 32 * 1024 * 1024
/** Maximum size of contents with sums, and of all those of one request. */
export const maxSummedBytes = 1024 * 1024 * 1024
/** Maximum number of files of one request for sums. */
export const maxSummedFiles = 10_000

const minBlockBytes = 256
const weakBytes = 4
const factor = 0x6ac690c5
/** Equal sums of other blocks are found in one of 2^20 files. */
const spareBits = 20

/** Returns the size of the blocks of contents. */
export function blockBytesOf(bytes: number): number {
  return Math.max(minBlockBytes, Math.floor(Math.sqrt(8 * bytes)))
}

/** Returns how many bytes of a SHA-256 are in a sum. A weak sum of each offset is compared with one of each block. */
export function strongBytesOf(bytes: number): number {
  const comparisons = 2 * digitsOf(bytes) - digitsOf(blockBytesOf(bytes))
  return Math.max(1, Math.ceil((comparisons + spareBits) / 8) - weakBytes)
}

/** Returns the number of binary digits. A logarithm may be another one on another machine. */
function digitsOf(number: number): number {
  return number.toString(2).length
}

/** Returns the size of the sums of contents. */
export function sumsBytesOf(bytes: number): number {
  return Math.ceil(bytes / blockBytesOf(bytes)) * (weakBytes + strongBytesOf(bytes))
}

export function weakSum(block: Uint8Array, from = 0, to = block.length): number {
  let sum = 0
  for (let at = from; at < to; at++) sum = (Math.imul(sum, factor) + (block[at] as number)) | 0
  return sum
}

/** Returns what a first byte contributes to the weak sum of its block. */
function firstFactor(blockBytes: number): number {
  let power = 1
  for (let at = 1; at < blockBytes; at++) power = Math.imul(power, factor)
  return power
}

/** Makes the sums of contents of `bytes` bytes, which come in pieces. */
export function createSummer(bytes: number) {
  const [blockBytes, strongBytes] = [blockBytesOf(bytes), strongBytesOf(bytes)]
  const sums = Buffer.alloc(sumsBytesOf(bytes))
  const block = Buffer.allocUnsafe(blockBytes)
  let [filled, at] = [0, 0]
  function end(whole: Uint8Array): void {
    at = sums.writeInt32BE(weakSum(whole), at)
    at += sha256(whole).copy(sums, at, 0, strongBytes)
  }
  return {
    add(piece: Uint8Array): void {
      for (let done = 0; done < piece.length; ) {
        const part = piece.subarray(done, done + blockBytes - filled)
        done += part.length
        if (part.length === blockBytes) {
          end(part)
          continue
        }
        block.set(part, filled)
        filled += part.length
        if (filled < blockBytes) continue
        end(block)
        filled = 0
      }
    },
    end(): Buffer {
      if (filled > 0) end(block.subarray(0, filled))
      return sums
    }
  }
}

/** New contents. */
interface NewContents {
  bytes: number
  /** Reads bytes at a position. Returns their number, at least one. */
  read(into: Uint8Array, position: number): number
}

/** Number of bytes of new contents in memory; some blocks, at least. */
const windowBytes = 4 * 1024 * 1024

/**
 * Writes the patch that makes the new contents of those with these sums. Returns false, and writes nothing, if it would
 * have more than `maxBytes`.
 */
export function writePatch(
  sums: { bytes: number; sums: Buffer },
  contents: NewContents,
  out: { number: number; maxBytes: number; patches: PatchWriter }
): boolean {
  const blocks = createBlocks(sums)
  const { blockBytes } = blocks
  const window = Buffer.allocUnsafe(Math.min(contents.bytes, windowBytes))
  const patch = out.patches.begin(out.number)
  // Positions in the window, except `position`, which is that of the window.
  let [position, filled, kept, at] = [0, 0, 0, 0]
  /** The block after the last one that was found; -1: it is not at this place. */
  let next = 0

  function fill(): void {
    patch.add(window.subarray(kept, at))
    window.copyWithin(0, at, filled)
    position += at
    filled -= at
    kept = at = 0
    const wanted = window.subarray(filled, filled + contents.bytes - position - filled)
    filled += contents.read(wanted, position + filled)
  }
  function found(block: number): void {
    patch.add(window.subarray(kept, at))
    patch.copy(block * blockBytes, blocks.lengthOf(block))
    kept = at += blocks.lengthOf(block)
    next = block + 1
  }

  while (patch.bytes <= out.maxBytes) {
    if (filled - at < blockBytes && position + filled < contents.bytes) fill()
    if (next >= 0 && blocks.isAt(next, window.subarray(at, filled))) found(next)
    else if (filled - at >= blockBytes) {
      const place = blocks.seek(window, at, filled)
      at = place.at
      next = place.block
      if (next >= 0) found(next)
    } else if (position + filled === contents.bytes) {
      // A block that is shorter can be at the end only.
      at = Math.max(at, filled - blocks.lengthOf(blocks.count - 1))
      if (blocks.isAt(blocks.count - 1, window.subarray(at, filled))) found(blocks.count - 1)
      patch.add(window.subarray(kept, filled))
      break
    }
  }
  return patch.end(out.maxBytes)
}

/** The blocks of contents, by their sums. */
function createBlocks({ bytes, sums }: { bytes: number; sums: Buffer }) {
  const [blockBytes, strongBytes] = [blockBytesOf(bytes), strongBytesOf(bytes)]
  const sumBytes = weakBytes + strongBytes
  const first = firstFactor(blockBytes)
  const count = sums.length / sumBytes
  const weak = Int32Array.from({ length: count }, (_, at) => sums.readInt32BE(at * sumBytes))
  const lengthOf = (block: number): number => (block === count - 1 ? bytes - block * blockBytes : blockBytes)
  const bits = Math.max(8, 34 - Math.clz32(count))
  const shift = 32 - bits
  /** The last block with these upper bits of its sum, and for each block the one before it; 0: none, 1: the first one. */
  const [heads, before] = [new Int32Array(1 << bits), new Int32Array(count)]
  for (let block = 0; block < count; block++) {
    if (lengthOf(block) < blockBytes) continue
    const head = (weak[block] as number) >>> shift
    // Of equal blocks, one is enough.
    if (isSame(block, (heads[head] as number) - 1)) continue
    before[block] = heads[head] as number
    heads[head] = block + 1
  }

  function strongAt(block: number): Buffer {
    return sums.subarray(block * sumBytes + weakBytes, (block + 1) * sumBytes)
  }
  function isSame(block: number, other: number): boolean {
    return other >= 0 && weak[block] === weak[other] && strongAt(block).equals(strongAt(other))
  }
  function isBlock(block: number, sum: number, contents: Uint8Array): boolean {
    return weak[block] === sum && sha256(contents).subarray(0, strongBytes).equals(strongAt(block))
  }

  return {
    blockBytes,
    count,
    lengthOf,
    /** Whether contents begin with a block. */
    isAt(block: number, contents: Uint8Array): boolean {
      if (block >= count || contents.length < lengthOf(block)) return false
      const begin = contents.subarray(0, lengthOf(block))
      return isBlock(block, weakSum(begin), begin)
    },
    /**
     * Looks for a block at each place from `from` on. Returns the block and its place; -1 and the first place that fewer
     * bytes than a block follow, if there is none.
     */
    seek(contents: Uint8Array, from: number, end: number): { block: number; at: number } {
      const last = end - blockBytes
      let sum = weakSum(contents, from, from + blockBytes)
      for (let at = from; ; at++) {
        for (let block = heads[sum >>> shift] as number; block > 0; block = before[block - 1] as number) {
          if (weak[block - 1] === sum && isBlock(block - 1, sum, contents.subarray(at, at + blockBytes)))
            return { block: block - 1, at }
        }
        if (at === last) return { block: -1, at: at + 1 }
        const rest = sum - Math.imul(contents[at] as number, first)
        sum = (Math.imul(rest, factor) + (contents[at + blockBytes] as number)) | 0
      }
    }
  }
}

/** Collects patches. */
export type PatchWriter = ReturnType<typeof createPatchWriter>

/** Creates an empty collection. */
export function createPatchWriter() {
  const whole: Buffer[] = []
  let bytes = 0
  return {
    /** Size of the patches in bytes. */
    bytes: (): number => bytes,
    /** Begins the patch of a file. */
    begin(number: number) {
      const parts = [numberText(number)]
      let length = (parts[0] as Buffer).length
      let added: Buffer[] = []
      let copied = { offset: 0, bytes: 0 }
      let end = 0
      function put(part: Buffer): void {
        parts.push(part)
        length += part.length
      }
      function flush(): void {
        put(numberText(added.reduce((sum, each) => sum + each.length, 0)))
        for (const each of added) put(each)
        put(numberText(copied.bytes))
        const distance = copied.offset - end
        if (copied.bytes > 0) put(numberText(distance < 0 ? -2 * distance - 1 : 2 * distance))
        end = copied.bytes > 0 ? copied.offset + copied.bytes : end
        added = []
        copied = { offset: end, bytes: 0 }
      }
      return {
        get bytes(): number {
          return length + added.reduce((sum, each) => sum + each.length, 0)
        },
        /** Adds new bytes. */
        add(bytes: Uint8Array): void {
          if (bytes.length === 0) return
          if (copied.bytes > 0) flush()
          added.push(Buffer.from(bytes))
        },
        /** Adds bytes of the earlier contents. */
        copy(offset: number, bytes: number): void {
          if (copied.bytes > 0 && offset === copied.offset + copied.bytes) {
            copied.bytes += bytes
            return
          }
          if (copied.bytes > 0) flush()
          copied = { offset, bytes }
        },
        /** Ends the patch, and keeps it if it has at most this size. Returns whether it has. */
        end(maxBytes: number): boolean {
          if (added.length > 0 || copied.bytes > 0) flush()
          if (length > maxBytes) return false
          whole.push(...parts)
          bytes += length
          return true
        }
      }
    },
    /** Returns all patches. */
    end: (): Buffer => Buffer.concat(whole)
  }
}

function numberText(number: number): Buffer {
  const bytes: number[] = []
  let rest = number
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  return Buffer.from([...bytes, rest])
}

/** Bytes of new contents: new ones, or where they are in the earlier contents. */
export type PatchPart = { added: Uint8Array } | { offset: number; bytes: number }

/** Creates a reader of patches. All refuse 400 `invalid_patch`. */
export function createPatchReader(patches: Uint8Array) {
  let at = 0
  let last = -1

  function number(): number {
    let [value, unit] = [0, 1]
    for (;;) {
      const byte = patches[at++]
      if (byte === undefined) throw invalidPatch('they end in the middle of one')
      value += (byte % 128) * unit
      if (!Number.isSafeInteger(value)) throw invalidPatch('a number is too large')
      if (byte < 128) return value
      unit *= 128
    }
  }

  return {
    /** Begins the next patch. Returns the number of its line; null: there is no other one. */
    next(): number | null {
      if (at === patches.length) return null
      const line = number()
      if (line <= last) throw invalidPatch(`line ${line} comes after line ${last}`)
      last = line
      return line
    },

    /** Yields the parts of the contents of a file, from both of its sizes. */
    *parts({ bytes, earlierBytes }: { bytes: number; earlierBytes: number }): Generator<PatchPart> {
      let [left, end] = [bytes, 0]
      while (left > 0) {
        const addedBytes = number()
        const added = patches.subarray(at, at + addedBytes)
        if (added.length < addedBytes) throw invalidPatch('they end in the middle of one')
        at += addedBytes
        const copied = number()
        if (addedBytes + copied === 0) throw invalidPatch('a part of one is empty')
        if (addedBytes + copied > left) throw invalidPatch(`one makes more than the ${bytes} bytes of its file`)
        left -= addedBytes + copied
        if (addedBytes > 0) yield { added }
        if (copied === 0) continue
        const distance = number()
        const offset = end + (distance % 2 === 0 ? distance / 2 : -(distance + 1) / 2)
        end = offset + copied
        if (offset < 0 || end > earlierBytes)
          throw invalidPatch(`one copies bytes ${offset} to ${end} of a file of ${earlierBytes} bytes`)
        yield { offset, bytes: copied }
      }
    }
  }
}

/** Returns the refusal (400 `invalid_patch`) of patches. */
export function invalidPatch(why: string): Refusal {
  return new Refusal('invalid', 'invalid_patch', `The differences within files are invalid: ${why}`, {
    field: 'patches'
  })
}
