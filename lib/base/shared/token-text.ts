/*
 * The text of a named token: `svc_<8 characters of its id>_<32 random bytes>_<check sum>`. The prefix lets scanners find
 * tokens that were published by mistake. The check sum (CRC-32 of all before it) lets a client recognize a text that was
 * cut or mistyped, without asking the server.
 */
import { crc32 } from './zip-records.js'

const idLength = 8
const secretLength = 43
const sumLength = 6
const sumAt = 'svc_'.length + idLength + 1 + secretLength + 1
const form = /^svc_[a-z2-7]{8}_[\w-]{43}_[\w-]{6}$/
const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** Returns the text of a token. `id` is the id of its record without a prefix, `secret` 32 bytes in base64url. */
export function tokenTextOf(id: string, secret: string): string {
  const start = `svc_${id.slice(0, idLength)}_${secret}_`
  return start + sumOf(start)
}

/** Returns whether a text is a complete named token. */
export function isTokenText(text: string): boolean {
  return form.test(text) && sumOf(text.slice(0, sumAt)) === text.slice(sumAt)
}

/**
 * Returns whether a text may be a named token: its beginning and its length are those of one. A server that looks up a
 * digest needs no more, and the check sum would take a tenth of the time of a short request (bench/api).
 */
export function resemblesToken(text: string): boolean {
  return text.length === sumAt + sumLength && text.startsWith('svc_')
}

/** Returns why a text that begins like a named token is not one, as the end of a sentence; null for every other text. */
export function tokenTextFault(text: string): string | null {
  if (!/^svc_[a-z2-7]{8}_/.test(text) || isTokenText(text)) return null
  const length = sumAt + sumLength
  if (text.length < length) return `it is cut off: it has ${text.length} of ${length} characters`
  if (text.length > length) return `it is too long: it has ${text.length} instead of ${length} characters`
  return 'at least one of its characters is wrong'
}

/** Returns the CRC-32 of a text as six base64url digits (RFC 4648 §5). */
function sumOf(text: string): string {
  const crc = crc32(Uint8Array.from(text, character => character.charCodeAt(0)))
  // 32 bits and four zero bits are six digits of six bits each.
  return Array.from({ length: sumLength }, (_, at) => {
    const shift = 26 - 6 * at
    return digits[(shift >= 0 ? crc >>> shift : crc << -shift) & 63]
  }).join('')
}
