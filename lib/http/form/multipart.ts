/*
 * Reads multipart/form-data from a stream and calls handlers (RFC 7578): fields as whole values, files as streams, one
 * part after the other. multipart-parser.ts implements the grammar; this file handles names, limits, and flow control.
 *
 *   source ──chunk──▶ parser ──content──▶ field: kept until its end      ──▶ field(name, value)
 *                                     └─▶ file:  a Readable that is read ◀── file({name, filename, stream})
 *
 * The source is paused while the reader of the file lags behind, and at the end of a part until its handler has
 * finished. So at most one chunk and the buffer of one Readable are in memory, whatever the sizes.
 *
 * DIFFERENCES from RFC 7578, on purpose
 *   - A part is a file if it has a file name, even an empty one; otherwise a field, whatever its Content-Type is.
 *   - `filename*` is read (§4.2 forbids to send it, but some clients do) and takes precedence over `filename`.
 *   - Of a file name, only the part after the last slash or backslash is used (§4.2: never trust the path).
 *   - Field values are UTF-8. `_charset_` and the charsets of parts (§4.5, §4.6) are ignored.
 *   - A Content-Transfer-Encoding (§4.7: deprecated) is refused unless it changes nothing.
 */
import { Readable } from 'node:stream'
import { invalid, Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import { parseHeaderValue } from '../core/headers.js'
import { gather, type Gathered } from '../../base/async.js'
import { MultipartParser, type ParserLimits } from './multipart-parser.js'

export interface MultipartLimits extends ParserLimits {
  maxParts: number
  maxFields: number
  maxFiles: number
  /** Maximum size of one field's value. */
  maxFieldBytes: number
  /** Maximum size of all fields' values together. */
  maxFieldsBytes: number
}

/** Default limits of a form. */
const defaultMultipartLimits: MultipartLimits = {
  maxHeaderBytes: 16 * 1024,
  maxPreambleBytes: 64 * 1024,
  maxEpilogueBytes: 64 * 1024,
  maxParts: 100,
  maxFields: 100,
  maxFiles: 10,
  maxFieldBytes: 1024 * 1024,
  maxFieldsBytes: 4 * 1024 * 1024
}

export interface FilePart {
  name: string
  /** File name without any path; may be empty. */
  filename: string
  /** Content type that the client sent; default `application/octet-stream`. */
  contentType: string
  /** Content of the file. Fails with the form's own refusal if the form cannot be read to its end. */
  stream: Readable
}

/** Handlers and limits for reading a form. */
export interface MultipartHandlers {
  field(name: string, value: string): void
  /** Handles a file. Awaited before the next part is read. Unread content is dropped; an error ends the parsing. */
  file(part: FilePart): Promise<void>
  /** Takes memory for fields, before the bytes that it is for. What it throws ends the parsing. */
  hold?(bytes: number): void
  limits?: Partial<MultipartLimits>
  signal?: AbortSignal
}

/**
 * Reads a form to its end. Refuses: 415 `unsupported_type`; 400 `no_boundary`, `broken_boundary`, `broken_header`,
 * `truncated`, `aborted`, `invalid_field`; 413 `header_too_long`, `too_many_parts`, `too_many_fields`, `too_many_files`,
 * `field_too_long`, `epilogue_too_long`. Rejects with the first failure, after the current handler has ended.
 */
export async function parseMultipart(
  source: Readable,
  contentType: string | undefined,
  handlers: MultipartHandlers
): Promise<void> {
  const boundary = readBoundary(contentType)
  handlers.signal?.throwIfAborted()
  const form = new FormReader(source, boundary, handlers)
  await form.finished
}

/** Returns the text of a field (RFC 7578 §5.1.2). Refuses (400 `invalid_field`) bytes that are not UTF-8, as in JSON. */
function textOf(name: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    const field = oneLine(name.slice(0, 100))
    throw invalid(field, `"${field}" is not valid: it must be UTF-8`)
  }
}

/** Returns the boundary (RFC 2046 §5.1.1): 1 to 70 characters of a small set, the last one not a space. */
function readBoundary(contentType: string | undefined): string {
  const header = parseHeaderValue(contentType ?? '')
  if (header?.value !== 'multipart/form-data') {
    const sentence = 'Cannot read the body: it must be a form, with "Content-Type: multipart/form-data"'
    throw new Refusal('unsupported_type', 'unsupported_type', sentence)
  }
  const boundary = header.parameters.get('boundary')
  if (boundary === undefined || boundary === '') {
    throw new Refusal('invalid', 'no_boundary', 'Cannot read the form: its Content-Type has no boundary')
  }
  if (!/^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/.test(boundary)) {
    const sentence = 'Cannot read the form: its boundary must be 1 to 70 of the characters that RFC 2046 allows'
    throw new Refusal('invalid', 'broken_boundary', sentence)
  }
  return boundary
}

/** The part that is being read. */
type Part = { kind: 'field'; name: string; value: Gathered } | { kind: 'file'; stream: PartStream }

/** The content of a file part. Destroying it drops the content, but does not end the form. */
class PartStream extends Readable {
  readonly #wanted: () => void

  constructor(wanted: () => void) {
    super({ highWaterMark: 64 * 1024 })
    this.#wanted = wanted
    // The reader may have stopped listening before the form fails. That must not end the process.
    this.on('error', () => {})
  }

  override _read(): void {
    this.#wanted()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#wanted()
    done(error)
  }
}

/** Reads one form: the listeners of the source, the current part, and the current handler. */
class FormReader {
  readonly finished: Promise<void>
  readonly #source: Readable
  readonly #handlers: MultipartHandlers
  readonly #limits: MultipartLimits
  readonly #hold = (bytes: number): void => this.#handlers.hold?.(bytes)
  readonly #parser
  #part: Part | undefined
  /** The current file handler. */
  #working: Promise<void> | undefined
  /** The rest of a chunk after a part whose handler is still running. */
  #rest: Buffer | undefined
  #counts = { parts: 0, fields: 0, files: 0, fieldBytes: 0 }
  #hasEnded = false
  /** Whether a chunk is being parsed. A reader may ask for more meanwhile. */
  #isParsing = false
  #isAsked = false
  #isOver = false
  #resolve: () => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor(source: Readable, boundary: string, handlers: MultipartHandlers) {
    this.#source = source
    this.#handlers = handlers
    this.#limits = { ...defaultMultipartLimits, ...handlers.limits }
    this.#parser = new MultipartParser(boundary, this.#limits, {
      headers: lines => this.#beginPart(lines),
      content: bytes => this.#addContent(bytes),
      partEnd: () => this.#endPart()
    })
    this.finished = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    handlers.signal?.addEventListener('abort', this.#onAbort)
    source.on('error', this.#fail).on('close', this.#onClose).on('end', this.#onEnd).on('data', this.#take)
  }

  readonly #take = (chunk: Buffer): void => {
    this.#isParsing = true
    try {
      const taken = this.#parser.write(chunk)
      if (taken < chunk.length) this.#rest = chunk.subarray(taken)
    } catch (error) {
      this.#fail(error)
    }
    this.#isParsing = false
    if (this.#isAsked) this.#goOn()
  }

  /** Called even while the source is paused, if its last chunk was just handed out. */
  readonly #onEnd = (): void => {
    this.#hasEnded = true
    if (!this.#isHeld() && this.#rest === undefined) this.#finish()
  }

  #finish(): void {
    try {
      this.#parser.end()
    } catch (error) {
      return this.#fail(error)
    }
    this.#settle()
    this.#resolve()
  }

  readonly #onClose = (): void => {
    if (!this.#hasEnded)
      this.#fail(new Refusal('invalid', 'aborted', 'Cannot read the form: the connection was closed before its end'))
  }

  readonly #onAbort = (): void => this.#fail(this.#handlers.signal?.reason)

  /** Ends everything with the first failure. The reader of the file gets it first, then the caller. */
  readonly #fail = (error: unknown): void => {
    if (this.#isOver) return
    this.#settle()
    this.#source.pause()
    if (this.#part?.kind === 'file') this.#part.stream.destroy(error as Error)
    const reject = (): void => this.#reject(error)
    if (this.#working === undefined) reject()
    else this.#working.then(reject, reject)
  }

  #settle(): void {
    this.#isOver = true
    this.#handlers.signal?.removeEventListener('abort', this.#onAbort)
    this.#source.off('data', this.#take).off('end', this.#onEnd).off('close', this.#onClose)
  }

  #beginPart(lines: string[]): void {
    const head = readPartHead(lines)
    this.#count('parts', this.#limits.maxParts)
    if (head.filename === undefined) {
      this.#count('fields', this.#limits.maxFields)
      this.#part = { kind: 'field', name: head.name, value: gather(0, this.#hold) }
      return
    }
    this.#count('files', this.#limits.maxFiles)
    const stream = new PartStream(() => this.#goOn())
    this.#part = { kind: 'file', stream }
    this.#working = this.#runHandler({
      name: head.name,
      filename: head.filename,
      contentType: head.contentType,
      stream
    })
  }

  #count(what: 'parts' | 'fields' | 'files', limit: number): void {
    if (++this.#counts[what] <= limit) return
    throw new Refusal('too_large', `too_many_${what}`, `The form has too many ${what}: the maximum is ${limit}`)
  }

  async #runHandler(part: FilePart): Promise<void> {
    try {
      await this.#handlers.file(part)
    } catch (error) {
      this.#working = undefined
      return this.#fail(error)
    }
    this.#working = undefined
    if (!part.stream.readableEnded) part.stream.destroy()
    this.#goOn()
  }

  #addContent(bytes: Buffer): void {
    const part = this.#part as Part
    if (part.kind === 'file') {
      if (!part.stream.destroyed && !part.stream.push(bytes)) this.#source.pause()
      return
    }
    this.#counts.fieldBytes += bytes.length
    const length = part.value.length + bytes.length
    if (length > this.#limits.maxFieldBytes || this.#counts.fieldBytes > this.#limits.maxFieldsBytes) {
      const sentence =
        `The field "${part.name.slice(0, 100)}" is too long: ` +
        `the maximum is ${this.#limits.maxFieldBytes} bytes for one field and ${this.#limits.maxFieldsBytes} for all`
      throw new Refusal('too_large', 'field_too_long', sentence, { field: part.name.slice(0, 100) })
    }
    part.value.add(bytes)
  }

  /** Ends the part. Returns true while its handler is running, so that the rest waits. */
  #endPart(): boolean {
    const part = this.#part as Part
    this.#part = undefined
    if (part.kind === 'field') {
      this.#handlers.field(part.name, textOf(part.name, part.value.bytes()))
      return false
    }
    part.stream.push(null)
    if (this.#working === undefined) return false
    this.#source.pause()
    return true
  }

  /** Whether a part has ended but its handler has not. */
  #isHeld(): boolean {
    return this.#part === undefined && this.#working !== undefined
  }

  /**
   * Continues when the reader wants more or the handler has finished: first with the rest of the last chunk, then with
   * the source.
   */
  #goOn(): void {
    this.#isAsked = this.#isParsing
    if (this.#isOver || this.#isParsing || this.#isHeld()) return
    const rest = this.#rest
    this.#rest = undefined
    if (rest !== undefined) this.#take(rest)
    if (this.#isOver || this.#rest !== undefined || this.#isHeld()) return
    if (this.#hasEnded) this.#finish()
    else if (this.#source.isPaused()) this.#source.resume()
  }
}

interface PartHead {
  name: string
  filename: string | undefined
  contentType: string
}

function readPartHead(lines: string[]): PartHead {
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    if (colon < 1 || !/^[!#$%&'*+.^`|~\w-]+$/.test(name)) throw brokenHeader('a header line is not "Name: value"')
    if (!headers.has(name)) headers.set(name, line.slice(colon + 1).trim())
  }
  const disposition = parseHeaderValue(headers.get('content-disposition') ?? '')
  const name = disposition?.parameters.get('name')
  if (disposition?.value !== 'form-data' || name === undefined) {
    throw brokenHeader('each part needs "Content-Disposition: form-data" with a name')
  }
  if (!/^(?:7bit|8bit|binary)?$/i.test(headers.get('content-transfer-encoding') ?? '')) {
    throw brokenHeader('a Content-Transfer-Encoding that changes the bytes is not supported')
  }
  const filename = disposition.parameters.get('filename*') ?? disposition.parameters.get('filename')
  return {
    name,
    filename: filename?.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1),
    contentType: headers.get('content-type') ?? 'application/octet-stream'
  }
}

function brokenHeader(reason: string): Refusal {
  return new Refusal('invalid', 'broken_header', `Cannot read the form: the headers of a part are invalid: ${reason}`)
}
