/*
 * The two things that yazl computes, done the quick way. Both come out the same, so nothing but time depends on this,
 * and where a runtime does not let itself be changed yazl computes them as before. measured: bench/pack
 */
import { createRequire } from 'node:module'
import zlib, { deflateRawSync, type ZlibOptions } from 'node:zlib'
import { crc32, type Crc32 } from '../base/crc32.js'

const require = createRequire(import.meta.url)

/** yazl takes CRC-32 byte by byte in JavaScript, from a package that nothing else uses: 12 us for 6 KB against one. */
export function hastenCrc(): void {
  const own = createRequire(require.resolve('yazl'))('buffer-crc32') as { unsigned: Crc32 }
  attempt(() => { own.unsigned = crc32 })
}

/**
 * yazl deflates through a stream and a thread of the pool, which costs more than deflating a small file. For a thread
 * that does nothing but pack: there it is done on the spot. False: it is not.
 */
export function hastenDeflate(): boolean {
  const own = zlib as unknown as { deflateRaw: unknown }
  const deflateRaw = (bytes: Buffer, options: ZlibOptions, done: (error: null, packed: Buffer) => void): void =>
    done(null, deflateRawSync(bytes, { ...options, ...tablesFor(bytes.length) }))
  attempt(() => { own.deflateRaw = deflateRaw })
  return own.deflateRaw === deflateRaw
}

/** What does not get smaller grows a little: with room for it, zlib need not join two buffers. */
const spareBytes = 1024
/** What zlib keeps free of its window (MIN_LOOKAHEAD). */
const lookaheadBytes = 262

/**
 * Tables as large as the file fills: a larger window, or room for more symbols in a block, would change nothing. The
 * usual 256 KiB are cleared for each file, and V8 collects garbage more often the more a file has.
 */
function tablesFor(bytes: number): ZlibOptions {
  const windowBits = Math.max(9, Math.min(15, Math.ceil(Math.log2(bytes + lookaheadBytes))))
  return { windowBits, memLevel: Math.min(8, windowBits - 6), chunkSize: bytes + spareBytes }
}

function attempt(change: () => void): void {
  try {
    change()
  } catch {
    // Frozen: slower.
  }
}
