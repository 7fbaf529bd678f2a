/*
 * SHA-256 (FIPS 180-4) in plain JavaScript, piece by piece. The panel uses it for what crypto.subtle cannot do: digest a
 * stream, and digest anything on a page that was loaded by plain http. The server uses node:crypto.
 */

const blockBytes = 64
/** Length of the message in bits, at the end of the last block. */
const lengthBytes = 8
const words = 64

export function createSha256() {
  const state = Uint32Array.from(initial)
  const block = new Uint8Array(blockBytes)
  let filled = 0
  let length = 0

  function push(bytes: Uint8Array): void {
    length += bytes.length
    let at = 0
    if (filled > 0) {
      at = Math.min(blockBytes - filled, bytes.length)
      block.set(bytes.subarray(0, at), filled)
      filled += at
      if (filled < blockBytes) return
      digest(state, block, 0)
    }
    for (; at + blockBytes <= bytes.length; at += blockBytes) digest(state, bytes, at)
    block.set(bytes.subarray(at), 0)
    filled = bytes.length - at
  }

  return {
    push,

    /** Returns the digest in hex digits. Call it once. */
    hex(): string {
      const bits = length * 8
      const zeros = (2 * blockBytes - 1 - lengthBytes - filled) % blockBytes
      const end = new Uint8Array(1 + zeros + lengthBytes)
      end[0] = 0x80
      new DataView(end.buffer).setBigUint64(1 + zeros, BigInt(bits))
      push(end)
      return Array.from(state, word => word.toString(16).padStart(8, '0')).join('')
    }
  }
}

/** Memory of `digest`, which never yields. */
const schedule = new Uint32Array(words)

/** Digests one block of 64 bytes (6.2.2). */
function digest(state: Uint32Array, bytes: Uint8Array, at: number): void {
  const w = (t: number): number => schedule[t] as number
  for (let t = 0; t < 16; t++, at += 4) {
    schedule[t] =
      ((bytes[at] as number) << 24) |
      ((bytes[at + 1] as number) << 16) |
      ((bytes[at + 2] as number) << 8) |
      (bytes[at + 3] as number)
  }
  for (let t = 16; t < words; t++) {
    const [x, y] = [w(t - 15), w(t - 2)]
    const small0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)
    const small1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10)
    schedule[t] = w(t - 16) + small0 + w(t - 7) + small1
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as Eight
  for (let t = 0; t < words; t++) {
    const big1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))
    const first = (h + big1 + ((e & f) ^ (~e & g)) + (constants[t] as number) + w(t)) | 0
    const big0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))
    const second = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    h = g
    g = f
    f = e
    e = (d + first) | 0
    d = c
    c = b
    b = a
    a = (first + second) | 0
  }
  for (const [index, word] of [a, b, c, d, e, f, g, h].entries()) state[index] = (state[index] as number) + word
}

type Eight = [number, number, number, number, number, number, number, number]

/** The first 64 primes. */
const primes: number[] = []
for (let number = 2; primes.length < words; number++) {
  if (primes.every(prime => number % prime !== 0)) primes.push(number)
}

/** Returns the first 32 bits of the fraction of the cube or square root of a prime (4.2.2, 5.3.3). */
function fractionOf(root: number): number {
  return Math.floor((root - Math.floor(root)) * 2 ** 32)
}

const constants = Uint32Array.from(primes, prime => fractionOf(Math.cbrt(prime)))
const initial = Uint32Array.from(primes.slice(0, 8), prime => fractionOf(Math.sqrt(prime)))
