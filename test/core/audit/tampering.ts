/*
 * Random tamperings of an export, as somebody would do them who can write the file: a byte or a bit is changed, lines are
 * removed, added, repeated or swapped, the end is cut, an entry is edited together with its hash.
 */
import { hashLeaf } from '../../../lib/core/audit/tree.js'

/** Returns a whole number from 0 to below `limit`. */
export type Draw = (limit: number) => number

type Tamper = (text: string, draw: Draw) => Buffer

const linesOf = (text: string): string[] => text.slice(0, -1).split('\n')
const textOf = (lines: readonly string[]): Buffer => Buffer.from(lines.map(line => `${line}\n`).join(''))
const entryPattern = /^\{"leaf":"[^"]+","entry":(.*)\}$/

/** The kinds of tampering, by name. */
export const tamperings: Readonly<Record<string, Tamper>> = {
  'a changed bit'(text, draw) {
    const bytes = Buffer.from(text)
    const at = draw(bytes.length)
    bytes[at] = (bytes[at] as number) ^ (1 << draw(8))
    return bytes
  },
  'a changed byte'(text, draw) {
    const bytes = Buffer.from(text)
    const at = draw(bytes.length)
    bytes[at] = ((bytes[at] as number) + 1 + draw(255)) % 256
    return bytes
  },
  'a removed byte'(text, draw) {
    const [bytes, at] = [Buffer.from(text), draw(Buffer.byteLength(text))]
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)])
  },
  'an added byte'(text, draw) {
    const [bytes, at] = [Buffer.from(text), draw(Buffer.byteLength(text) + 1)]
    return Buffer.concat([bytes.subarray(0, at), Buffer.of(draw(256)), bytes.subarray(at)])
  },
  'removed lines'(text, draw) {
    const lines = linesOf(text)
    return textOf(lines.toSpliced(draw(lines.length), 1 + draw(3)))
  },
  'a repeated line'(text, draw) {
    const lines = linesOf(text)
    const line = lines[draw(lines.length)] as string
    return textOf(lines.toSpliced(draw(lines.length + 1), 0, line))
  },
  'swapped lines'(text, draw) {
    const lines = linesOf(text)
    const [a, b] = [draw(lines.length), draw(lines.length - 1)]
    const other = b >= a ? b + 1 : b
    return textOf(lines.with(a, lines[other] as string).with(other, lines[a] as string))
  },
  'a cut end': (text, draw) => Buffer.from(text).subarray(0, draw(Buffer.byteLength(text))),
  'an edited entry with its hash'(text, draw) {
    const lines = linesOf(text)
    const places = lines.flatMap((line, at) => (entryPattern.test(line) ? [at] : []))
    const at = places[draw(places.length)] as number
    const entry = (entryPattern.exec(lines[at] as string) as RegExpExecArray)[1] as string
    const edited = entry.replace(/"at":"2/, '"at":"3')
    return textOf(lines.with(at, `{"leaf":"${hashLeaf(edited).toString('base64')}","entry":${edited}}`))
  },
  'an entry that became a gap'(text, draw) {
    const lines = linesOf(text)
    const places = lines.flatMap((line, at) => (entryPattern.test(line) ? [at] : []))
    const at = places[draw(places.length)] as number
    const seq = /"seq":(\d+)/.exec(lines[at] as string)?.[1]
    const kind = ['removed', 'omitted'][draw(2)]
    return textOf(lines.with(at, (lines[at] as string).replace(/,"entry":.*/, `,"${kind}":${seq}}`)))
  }
}

/** Returns a tampered export and the kind of the tampering. The text is always another one. */
export function tampered(text: string, draw: Draw): { kind: string; bytes: Buffer } {
  const kinds = Object.keys(tamperings)
  for (;;) {
    const kind = kinds[draw(kinds.length)] as string
    const bytes = (tamperings[kind] as Tamper)(text, draw)
    if (!bytes.equals(Buffer.from(text))) return { kind, bytes }
  }
}
