/*
 * The connection between svc and a helper process: a pair of sockets, descriptor 3 of the process. Each side sends one
 * frame: its length in four bytes, and its bytes. svc sends the job, structured as Node copies it. The process sends its
 * answer as JSON, with bytes in base64.
 *
 * It is not Node's own channel between processes: a process that somebody has taken over could send that one commands
 * for Node itself, a length of 4 GiB, and bytes that throw in the event loop of svc.
 */
import type { Readable, Writable } from 'node:stream'
import { checked, escapedLine, line, mapped, object, oneOf, optional, type Read, reads } from '../../base/fields.js'
import { oneLine } from '../../base/text.js'
import { invalid, type PackedError, packError, Refusal, type RefusalKind, unpackError } from '../../base/errors.js'

/** The number of the connection among the descriptors of a helper process. */
export const channelDescriptor = 3

const headBytes = 4

/** Sends a frame. An error means that the other side has ended, which its reader notices. */
export function sendFrame(to: Writable, bytes: Uint8Array): void {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(bytes.length)
  to.write(head)
  to.write(bytes)
}

/** A frame that is longer than the limit. */
export class FrameTooLong extends Error {}

/**
 * Resolves with the first frame; later bytes are not read. Resolves with null if the other side closes before. Rejects
 * with `FrameTooLong` as soon as its length is known, so that no more than the limit is ever in memory.
 */
export function readFrame(from: Readable, maxBytes: number): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    let wanted = Infinity
    const end = (settle: () => void): void => {
      from.off('data', onData).pause()
      settle()
    }
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk)
      length += chunk.length
      if (wanted === Infinity && length >= headBytes) {
        wanted = headBytes + Buffer.concat(chunks, headBytes).readUInt32BE()
        if (wanted - headBytes > maxBytes) return end(() => reject(new FrameTooLong(`${wanted - headBytes} bytes`)))
      }
      if (length >= wanted) end(() => resolve(Buffer.concat(chunks, length).subarray(headBytes, wanted)))
    }
    from.on('data', onData)
    from.once('error', () => resolve(null))
    from.once('close', () => resolve(null))
  })
}

/*
 * The answer of a helper process. The process runs as the user of a project, so svc treats everything that it sends as
 * written by that user: only what a reader of the job accepts (core/install/helper-answers.ts), within limits of size and
 * number, becomes a value of svc. Anything else is one refusal.
 */

/** Maximum size of an answer. The largest ones list the paths of 200,000 files. */
export const maxAnswerBytes = 128 * 1024 * 1024
/** Maximum number of values in an answer: an empty object needs twenty times its bytes in memory. */
const maxValues = 4_000_000
const maxMessageLength = 20_000
const maxStackLines = 50

/** Packs the result of a job. */
export function packAnswer(answer: unknown): Buffer {
  return Buffer.from(
    JSON.stringify({ kind: 'answer', answer }, (_key, value: unknown) =>
      value instanceof Uint8Array
        ? Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
        : value
    )
  )
}

/** Packs the error of a job. */
export function packFailure(error: unknown): Buffer {
  return Buffer.from(JSON.stringify({ kind: 'failed', error: packError(error) }))
}

/** Reads a value that a helper process has sent, or throws. */
export type ReadAnswer<Answer> = (value: unknown) => Answer

/** Returns the answer of a job, or throws the error of the job. Throws `notAccepted` for anything else. */
export function readAnswer<Answer>(frame: Buffer, user: string, read: ReadAnswer<Answer>): Answer {
  const sent = accept(user, () => {
    if (hasTooMany(frame)) throw new Error(`it has more than ${maxValues} values`)
    const value = JSON.parse(frame.toString('utf8')) as unknown
    const { kind } = ofKind(value, 'answer')
    return kind === 'answer'
      ? { answer: read((value as { answer?: unknown }).answer), error: undefined }
      : { error: unpackError(failed(value, 'answer').error) }
  })
  if (sent.error !== undefined) throw sent.error
  return sent.answer as Answer
}

/** Calls `read`. Every error becomes `notAccepted`. */
export function accept<T>(user: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw notAccepted(user, error instanceof Error ? error.message : String(error))
  }
}

/** The 503 for a helper process that does not answer as svc's own code does. */
export function notAccepted(user: string, why: string): Refusal {
  const sentence =
    `The process that svc runs with the rights of "${user}" does not work as it should (${oneLine(why).slice(0, 300)}) ` +
    `and was ended. Check which programs of "${user}" run on the server: one of them may interfere`
  return new Refusal('unavailable', 'helper_failed', sentence)
}

/** Whether the text has more values than any answer. Commas in strings count, too. */
function hasTooMany(frame: Buffer): boolean {
  if (frame.length <= maxValues) return false
  let count = 0
  for (let at = 0; at < frame.length; at++) {
    const byte = frame[at]
    if (byte === comma || byte === bracket || byte === brace) count++
  }
  return count > maxValues
}

const [comma, bracket, brace] = [0x2c, 0x5b, 0x7b]

/** The kinds of refusals of work below a target. Others would make svc say something about its own callers. */
const kinds: RefusalKind[] = [
  'invalid',
  'forbidden',
  'not_found',
  'conflict',
  'precondition',
  'too_large',
  'unsupported_type',
  'timed_out',
  'unsupported',
  'unavailable'
]
/** A text of any length and any characters. */
const anyText: Read<string> = reads({ type: 'string' }, 'text', (value, field) => {
  if (typeof value === 'string') return value
  throw invalid(field, `"${field}" is no string`)
})
const message = mapped(anyText, text => oneLine(text.slice(0, maxMessageLength)))
const stackLine = /^ {4}at [^\n]{1,500}$/gm

/** Reads a string that a pattern matches. */
export function matching(pattern: RegExp): Read<string> {
  return checked(line(), text => (pattern.test(text) ? null : `it does not match ${pattern}`))
}

const ofKind = object({ kind: oneOf(['answer', 'failed']) })
const refusal = object({
  kind: oneOf(['refusal']),
  refusal: object({
    kind: oneOf(kinds),
    code: matching(/^[a-z][a-z0-9_]{0,63}$/),
    message,
    field: optional(escapedLine({ max: 200 }))
  })
})
const plain = object({
  kind: oneOf(['error']),
  message,
  code: optional(matching(/^[A-Z][A-Z0-9_]{0,63}$/)),
  syscall: optional(matching(/^\w{1,64}$/)),
  stack: optional(
    mapped(anyText, text => (text.slice(0, maxMessageLength).match(stackLine) ?? []).slice(0, maxStackLines).join('\n'))
  )
})
const packed: Read<PackedError> = Object.assign(
  (value: unknown, field: string): PackedError => {
    if ((value as { kind?: unknown } | null)?.kind === 'refusal') return refusal(value, field) as PackedError
    const { message, code, syscall, stack } = plain(value, field)
    return { kind: 'error', message, code, syscall, stack: stack === undefined ? undefined : `${message}\n${stack}` }
  },
  { schema: {}, example: null }
)
const failed = object({ kind: oneOf(['failed']), error: packed })
