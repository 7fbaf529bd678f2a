/** Returns the CRC-32 (PKWARE APPNOTE 4.4.7) of `bytes`. `seed` is the CRC of the bytes before them. */
export function crc32(bytes: Uint8Array, seed = 0): number {
  let crc = ~seed
  for (let at = 0; at < bytes.length; at++) {
    crc = (crc >>> 8) ^ (table[(crc ^ (bytes[at] as number)) & 0xff] as number)
  }
  return ~crc >>> 0
}

/** The CRC of each byte, with the reflected polynomial of ISO 3309. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let word = byte
  for (let bit = 0; bit < 8; bit++) word = word & 1 ? (word >>> 1) ^ 0xedb88320 : word >>> 1
  return word
})
