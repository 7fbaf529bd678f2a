import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { Refusal } from '../base/refusal.js'

/** decisions §1 */
export const maxJsonBytes = 1024 * 1024
const bufferedBytes = 64 * 1024

export interface BodyOptions {
  /** How long the client may send nothing while it is its turn; then 408 `body_timeout`. */
  idleMs: number
  /** Called before the first byte is asked for: where the client waits for it, this says `100 Continue`. */
  onFirstRead(): void
}

/**
 * The body of a request, apart from its connection: destroying this one (a pipeline does, when its other end fails)
 * leaves the socket open, so that the client can still be told why. Nothing is read before somebody asks.
 * Fails with the refusals `aborted` (the client went away) and `body_timeout`.
 */
export class RequestBody extends Readable {
  /** Bytes taken from the connection so far. */
  receivedBytes = 0
  readonly #source: IncomingMessage
  readonly #options: BodyOptions
  #idle: NodeJS.Timeout | undefined
  #isOurTurn = false
  #isEnded = false

  constructor(source: IncomingMessage, options: BodyOptions) {
    super({ highWaterMark: bufferedBytes })
    this.#source = source
    this.#options = options
    // Its reader may have turned away before it fails; that must not end the process.
    this.on('error', () => {})
  }

  override _read(): void {
    this.#isOurTurn = false
    if (this.#idle === undefined) this.#start()
    else if (this.#source.isPaused()) this.#resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#idle)
    this.#source.off('data', this.#take).off('end', this.#finish).off('close', this.#lose)
    if (!this.#isEnded) this.#source.pause()
    done(error)
  }

  #start(): void {
    if (this.#source.destroyed && !this.#source.readableEnded && !this.#source.complete) return this.#lose()
    this.#options.onFirstRead()
    this.#idle = setTimeout(this.#expire, this.#options.idleMs)
    this.#source.on('error', this.#lose).on('close', this.#lose).on('end', this.#finish).on('data', this.#take)
  }

  #resume(): void {
    this.#idle?.refresh()
    this.#source.resume()
  }

  readonly #take = (chunk: Buffer): void => {
    this.receivedBytes += chunk.length
    this.#idle?.refresh()
    if (this.push(chunk)) return
    this.#isOurTurn = true
    this.#source.pause()
  }

  readonly #finish = (): void => {
    this.#isEnded = true
    clearTimeout(this.#idle)
    this.push(null)
  }

  readonly #lose = (): void => {
    if (this.#isEnded || this.destroyed) return
    this.destroy(new Refusal('invalid', 'aborted', 'The body is incomplete: the connection was closed before its end'))
  }

  readonly #expire = (): void => {
    if (this.#isOurTurn) return void this.#idle?.refresh()
    const seconds = this.#options.idleMs / 1000
    this.destroy(new Refusal('timed_out', 'body_timeout', `The body is incomplete: nothing came for ${seconds} s`))
  }
}

/**
 * The body as JSON; undefined when the request has none. Refuses: 415 `unsupported_type`, 413 `too_large` (before
 * reading, where the length is announced), 400 `invalid_body`.
 */
export async function readJson(
  body: RequestBody,
  headers: IncomingHttpHeaders,
  maxBytes: number = maxJsonBytes
): Promise<unknown> {
  if (!hasBody(headers)) return undefined
  checkType(headers)
  if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
  return parseJson(await collect(body, maxBytes))
}

/** Whether the head announces a body at all (RFC 9112 §6.3). */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  const length = headers['content-length']
  return headers['transfer-encoding'] !== undefined || (length !== undefined && Number(length) > 0)
}

function checkType(headers: IncomingHttpHeaders): void {
  const [type = '', ...parameters] = (headers['content-type'] ?? '').toLowerCase().split(';').map(part => part.trim())
  const isJson = type === 'application/json' || /^application\/[^/]+\+json$/.test(type)
  const charset = parameters.find(parameter => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  const encoding = headers['content-encoding'] ?? 'identity'
  if (isJson && isUtf8 && encoding === 'identity') return
  const sentence = 'The body cannot be read: it must be JSON in UTF-8, with "Content-Type: application/json"'
  throw new Refusal('unsupported_type', 'unsupported_type', sentence)
}

function collect(body: RequestBody, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    body.on('error', reject)
    body.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      if (body.receivedBytes > maxBytes) body.destroy(tooLarge(maxBytes))
    })
    body.on('end', () => resolve(chunks.length === 1 ? chunks[0] as Buffer : Buffer.concat(chunks)))
  })
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw new Refusal('invalid', 'invalid_body', 'The body cannot be read: it is not valid JSON', { cause: error })
  }
}

function tooLarge(maxBytes: number): Refusal {
  return new Refusal('too_large', 'too_large', `The body is too large: JSON may have at most ${maxBytes} bytes`)
}
