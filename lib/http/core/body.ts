import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { Refusal } from '../../base/refusal.js'
import type { BodyLimits } from './route.js'

const bufferedBytes = 64 * 1024
const minBufferBytes = 512

/** Limits and callbacks of a request body. */
export interface BodyOptions {
  limits: BodyLimits
  /** Maximum time without data from the client while the server waits for it; then 408 `body_timeout`. */
  idleMs: number
  /** Called before the first byte is read. If the client waits for it, this sends `100 Continue`. */
  onFirstRead(): void
}

/**
 * The body of a request, separate from its connection. Destroying the body (as a pipeline does when its other end
 * fails) leaves the socket open, so that the client can still be told why. Nothing is read until somebody asks. Fails
 * with the refusals `aborted` (the client went away) and `body_timeout`.
 */
export class RequestBody extends Readable {
  /** Number of bytes that were read from the connection so far. */
  receivedBytes = 0
  readonly #source: IncomingMessage
  readonly #options: BodyOptions
  #idle: NodeJS.Timeout | undefined
  #total: NodeJS.Timeout | undefined
  #isOurTurn = false
  #isEnded = false

  constructor(source: IncomingMessage, options: BodyOptions) {
    super({ highWaterMark: bufferedBytes })
    this.#source = source
    this.#options = options
    // The reader may have stopped listening before the body fails. That must not end the process.
    this.on('error', () => {})
  }

  override _read(): void {
    this.#isOurTurn = false
    if (this.#idle === undefined) this.#start()
    else if (this.#source.isPaused()) this.#resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#total)
    this.#source.off('data', this.#take).off('end', this.#finish).off('close', this.#lose)
    if (!this.#isEnded) this.#source.pause()
    done(error)
  }

  #start(): void {
    if (this.#source.destroyed && !this.#source.readableEnded && !this.#source.complete) return this.#lose()
    this.#options.onFirstRead()
    const {
      idleMs,
      limits: { totalMs }
    } = this.#options
    this.#idle = setTimeout(this.#expire, idleMs)
    if (totalMs !== Infinity)
      this.#total = setTimeout(() => this.#fail(`it did not arrive within ${totalMs / 1000} s`), totalMs)
    this.#source.on('error', this.#lose).on('close', this.#lose).on('end', this.#finish).on('data', this.#take)
  }

  #resume(): void {
    this.#idle?.refresh()
    this.#source.resume()
  }

  readonly #take = (chunk: Buffer): void => {
    this.receivedBytes += chunk.length
    if (this.receivedBytes > this.#options.limits.maxBytes) return void this.destroy(tooLarge(this.#options.limits))
    this.#idle?.refresh()
    if (this.push(chunk)) return
    this.#isOurTurn = true
    this.#source.pause()
  }

  readonly #finish = (): void => {
    this.#isEnded = true
    clearTimeout(this.#idle)
    clearTimeout(this.#total)
    this.push(null)
  }

  readonly #lose = (): void => {
    if (this.#isEnded || this.destroyed) return
    this.destroy(new Refusal('invalid', 'aborted', 'The body is incomplete: the connection was closed before its end'))
  }

  readonly #expire = (): void => {
    if (this.#isOurTurn) return void this.#idle?.refresh()
    this.#fail(`no data arrived for ${this.#options.idleMs / 1000} s`)
  }

  #fail(reason: string): void {
    this.destroy(new Refusal('timed_out', 'body_timeout', `The body is incomplete: ${reason}`))
  }
}

/**
 * Reads the body as JSON. Returns undefined if the request has no body. Refuses: 415 `unsupported_type`; 413
 * `too_large`, before reading if the length is announced; 400 `invalid_body`.
 */
export async function readJson(body: RequestBody, headers: IncomingHttpHeaders, limits: BodyLimits): Promise<unknown> {
  if (!hasBody(headers)) return undefined
  checkType(headers)
  const announced = Number(headers['content-length'] ?? 0)
  if (announced > limits.maxBytes) throw tooLarge(limits)
  return parseJson(await collect(body, announced))
}

/** Whether the head announces a body (RFC 9112 §6.3). */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  const length = headers['content-length']
  return headers['transfer-encoding'] !== undefined || (length !== undefined && Number(length) > 0)
}

function checkType(headers: IncomingHttpHeaders): void {
  const [type = '', ...parameters] = (headers['content-type'] ?? '')
    .toLowerCase()
    .split(';')
    .map(part => part.trim())
  const isJson = type === 'application/json' || /^application\/[^/]+\+json$/.test(type)
  const charset = parameters.find(parameter => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  const encoding = headers['content-encoding'] ?? 'identity'
  if (isJson && isUtf8 && encoding === 'identity') return
  const sentence = 'Cannot read the body: it must be JSON in UTF-8, with "Content-Type: application/json"'
  throw new Refusal('unsupported_type', 'unsupported_type', sentence)
}

/**
 * Reads the whole body, whose size is limited. Chunks are joined as they arrive: 8,000 chunks of one byte would take
 * megabytes.
 */
function collect(body: RequestBody, announced: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0)
    let length = 0
    body.on('error', reject)
    body.on('data', (chunk: Buffer) => {
      if (length === 0 && chunk.length === announced) bytes = chunk
      else {
        if (length + chunk.length > bytes.length) bytes = enlarged(bytes, length + chunk.length)
        chunk.copy(bytes, length)
      }
      length += chunk.length
    })
    body.on('end', () => resolve(bytes.subarray(0, length)))
  })
}

/** Returns a buffer of at least twice the size, so that joining many chunks copies each byte only a few times. */
function enlarged(bytes: Buffer, least: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.max(least, 2 * bytes.length, minBufferBytes))
  bytes.copy(larger)
  return larger
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw new Refusal('invalid', 'invalid_body', 'Cannot read the body: it is not valid JSON', { cause: error })
  }
}

function tooLarge({ maxBytes }: BodyLimits): Refusal {
  return new Refusal('too_large', 'too_large', `The body is too large: the maximum for JSON is ${maxBytes} bytes`)
}
