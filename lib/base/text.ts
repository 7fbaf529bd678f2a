/*
 * Text that people, editors and secret stores wrote. A byte order mark at its beginning belongs to no word of it, and
 * UTF-16 (a redirection of Windows PowerShell) is refused instead of read as garbage.
 */
import { readFile } from 'node:fs/promises'
import { invalid, Refusal } from './refusal.js'

const byteOrderMark = '\ufeff'

/** Returns a text without the byte order mark at its beginning. */
export function withoutMark(text: string): string {
  return text.startsWith(byteOrderMark) ? text.slice(1) : text
}

/** Decodes UTF-8. Refuses (`not_utf8`) UTF-16, with or without its mark. `name` is what is read, for the sentence. */
export function decodeText(bytes: Buffer, name: string): string {
  const [first, second] = bytes
  const hasMark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
  // Without a mark, every other byte of its ASCII characters is zero. UTF-8 text contains no zero bytes.
  const isWide = hasMark || (bytes.length > 1 && (first === 0) !== (second === 0))
  if (!isWide) return withoutMark(bytes.toString('utf8'))
  throw new Refusal('invalid', 'not_utf8', `Cannot read ${name}: it is UTF-16 text. Save it as UTF-8`)
}

/** Reads a text file. Refuses what `decodeText` refuses, and rejects with the errors of the file system. */
export async function readText(path: string): Promise<string> {
  return decodeText(await readFile(path), `"${path}"`)
}

/** Returns the text of a file, or an empty one if there is none to read. Refuses what `decodeText` refuses. */
export async function readTextIfAny(path: string): Promise<string> {
  return await readText(path).catch((error: unknown) => {
    if (error instanceof Refusal) throw error
    return ''
  })
}

/**
 * Returns a token without the white space around it, which secret stores and editors add. Refuses (`invalid_field`) a
 * character that no HTTP header can carry (RFC 9110 §5.5). `from` is the option, variable or file.
 */
export function tokenOf(text: string, from: string): string {
  const token = text.trim()
  const at = token.search(/[^\t\x20-\x7e\x80-\xff]/)
  if (at === -1) return token
  const code = (token.codePointAt(at) as number).toString(16).toUpperCase().padStart(4, '0')
  throw invalid(from, `The token of ${from} is not one: its character ${at + 1} is U+${code}. Copy it again`)
}
