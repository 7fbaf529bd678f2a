import * as zlib from 'node:zlib'
import { crc32 as tableCrc32 } from '../shared/crc32.js'

/**
 * Returns the CRC-32 of `bytes`. `seed` is the CRC of the bytes before them. Uses the runtime's own function if it has
 * one (Node 20.15, 22.2 and later; about 1 us for 6 KB), otherwise a table of 256 words (about 12 us).
 */
export const crc32: typeof tableCrc32 = (zlib as { crc32?: typeof tableCrc32 }).crc32 ?? tableCrc32
