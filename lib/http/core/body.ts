import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { gather } from '../../base/gathered.js'
import { Refusal } from '../../base/refusal.js'
import type { BodyLimits, BodySeal } from './route.js'

const bufferedBytes = 64 * 1024

/** Limits and callbacks of a request body. */
export interface BodyOptions {
  limits: BodyLimits
  /** Maximum time without data from the client while the server waits for it; then 408 `body_timeout`. */
  idleMs: number
  /** Checks a body that another hub of the cluster sent. Its signature is not part of the content. */
  seal?: BodySeal | undefined
  /** Called before the first byte is read. If the client waits for it, this sends `100 Continue`. */
  onFirstRead(): void
}

/**
 * The body of a request, separate from its connection. Destroying the body (as a pipeline does when its other end
 * fails) leaves the socket open, so that the client can still be told why. Nothing is read until somebody asks. Fails
 * with the refusals `aborted` (the client went away) and `body_timeout`.
 */
export class RequestBody extends Readable {
  /** Number of bytes of the content that were read from the connection so far. */
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

  readonly #take = (arrived: Buffer): void => {
    const chunk = this.#options.seal?.take(arrived) ?? arrived
    this.receivedBytes += chunk.length
    if (this.receivedBytes > this.#options.limits.maxBytes) return void this.destroy(tooLarge(this.#options.limits))
    this.#idle?.refresh()
    if (chunk.length === 0 || this.push(chunk)) return
    this.#isOurTurn = true
    this.#source.pause()
  }

  readonly #finish = (): void => {
    this.#isEnded = true
    clearTimeout(this.#idle)
    clearTimeout(this.#total)
    if (this.#options.seal?.isWhole() === false) return void this.destroy(notWhole())
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

/** A body that is read whole. */
export interface WholeBody {
  body: RequestBody
  headers: IncomingHttpHeaders
  limits: BodyLimits
  /** Takes memory, before the bytes that it is for. */
  hold(bytes: number): void
}

/** Reads the body as JSON. Returns undefined if there is none. Refuses: 415 `unsupported_type`, 413, 400 `invalid_body`. */
export async function readJson(whole: WholeBody): Promise<unknown> {
  if (!hasBody(whole.headers)) return undefined
  checkType(whole.headers)
  return parseJson(await readWhole(whole))
}

/** Reads the whole body. Refuses: 413 `too_large`, before reading if the length is announced; what `hold` refuses. */
export async function readWhole({ body, headers, limits, hold }: WholeBody): Promise<Buffer> {
  if (!hasBody(headers)) return Buffer.alloc(0)
  const announced = Number(headers['content-length'] ?? 0)
  if (announced > limits.maxBytes) throw tooLarge(limits)
  const gathered = gather(announced, hold)
  return await new Promise((resolve, reject) => {
    body.on('error', reject)
    body.on('data', (chunk: Buffer) => {
      try {
        gathered.add(chunk)
      } catch (error) {
        body.destroy(error as Error)
      }
    })
    body.on('end', () => resolve(gathered.bytes()))
  })
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

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw new Refusal('invalid', 'invalid_body', 'Cannot read the body: it is not valid JSON', { cause: error })
  }
}

function notWhole(): Refusal {
  const sentence = 'The body is not the one that the hub has signed: it was changed on the way'
  return new Refusal('forbidden', 'hub_refused', sentence)
}

function tooLarge({ maxBytes }: BodyLimits): Refusal {
  return new Refusal('too_large', 'too_large', `The body is too large: the maximum for JSON is ${maxBytes} bytes`)
}
