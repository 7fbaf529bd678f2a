/* Readers of bytes and texts that signatures and keys consist of: SSH (RFC 4251 §5), base64, and lines. */
import { Refusal } from '../../base/errors.js'

/** Maximum length of a text that is read: the longest has 16 signatures of 16 KiB. */
const maxTextLength = 256 * 1024

/** Returns the refusal of a key or a signature that cannot be read. */
export function unreadable(what: string, why: string): Refusal {
  return new Refusal('invalid', 'key_unreadable', `Cannot read ${what}: ${why}`)
}

/** Returns the bytes of base64. Refuses any other text, and one that would be written in another way. */
export function bytesOf(text: string, what: string): Buffer {
  if (text.length > maxTextLength) throw unreadable(what, 'it is too long')
  const bytes = Buffer.from(text, 'base64')
  if (text === '' || bytes.toString('base64') !== text) throw unreadable(what, 'it is not base64')
  return bytes
}

/** Returns the base64 between the lines of a head and an end. */
export function armored(text: string, name: string, what: string): Buffer {
  const lines = linesOf(text, what)
  const [first, last] = [`-----BEGIN ${name}-----`, `-----END ${name}-----`]
  if (lines[0] !== first || lines.at(-1) !== last) throw unreadable(what, `it is not between "${first}" and "${last}"`)
  return bytesOf(lines.slice(1, -1).join(''), what)
}

/** Returns the lines of a text, without the last newline. */
export function linesOf(text: string, what: string): string[] {
  if (text.length > maxTextLength) throw unreadable(what, 'it is too long')
  const lines = text.split('\n').map(line => (line.endsWith('\r') ? line.slice(0, -1) : line))
  while (lines.at(-1) === '') lines.pop()
  return lines
}

/** Reads the parts of SSH's bytes, one after the other. */
export function sshReader(bytes: Buffer, what: string) {
  let at = 0
  const take = (length: number): Buffer => {
    if (length > bytes.length - at) throw unreadable(what, 'it ends too early')
    const part = bytes.subarray(at, at + length)
    at += length
    return part
  }
  const number = (): number => take(4).readUInt32BE()
  return {
    take,
    number,
    string: (): Buffer => take(number()),
    text: (): string => take(number()).toString('latin1'),
    rest: (): Buffer => take(bytes.length - at),
    /** Refuses what follows. */
    end(): void {
      if (at !== bytes.length) throw unreadable(what, 'something follows it')
    }
  }
}
