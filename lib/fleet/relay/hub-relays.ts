/*
 * Requests of users that the hub relays to a node. A request goes down the stream of the node as a signed line; the answer
 * comes up as parts, one POST each, because a proxy in between may collect the body of a request. A part is answered when
 * there is room for the next one, so a slow client slows the node down. Nothing that a node sends is read before it has a
 * place, and the places have limits for each node, for each user and in all: a node that never answers, or answers without
 * end, takes nothing from the others.
 */
import { type Budget, type Claim, createBudget } from '../../base/budget.js'
import { createLineSplitter } from '../../base/text.js'
import { Refusal, notFound } from '../../base/errors.js'
import type { Ids } from '../../base/digests.js'
import { type DesiredLine, type RelayedRequest, relayPartBytes, type RelayedHead } from '../../model/fleet-wire.js'
import { commonHeaders, pageTypes, readAnswerHead, type AnswerRules } from '../../http/outgoing/answer-head.js'
import type { TerminalMessage } from '../../model/terminal.js'

/** The open stream of a node. */
export interface RelayLink {
  /** Aborted when the stream ends. */
  readonly ended: AbortSignal
  send(line: DesiredLine): 'queued' | 'full' | 'ended'
}

export interface RelayNeeds {
  links: { find(nodeId: string): RelayLink | null }
  ids: Pick<Ids, 'id'>
  limits?: Partial<RelayLimits>
}

export interface RelayLimits {
  /** Maximum number of relays that are open at the same time: of one node, of one user (at one node, and in all), and of all. */
  perNode: number
  perCallerOfNode: number
  perCaller: number
  all: number
  /** Maximum time until a node begins to answer. */
  answerMs: number
  /** Maximum time between two parts of the answer to a request. Streams say every 15 s that they live. */
  silentMs: number
  /** Maximum time that a part waits for a slow client. The node then sends it again. */
  roomMs: number
}

const defaultRelayLimits: RelayLimits = {
  perNode: 64,
  perCallerOfNode: 32,
  perCaller: 128,
  all: 512,
  answerMs: 30_000,
  silentMs: 150_000,
  roomMs: 20_000
}

/** A part of an answer. */
export interface RelayPart {
  /** From 1. */
  number: number
  isLast: boolean
  /** Reads the bytes: called when there is a place for them. */
  read(): Promise<Buffer>
}

export interface RelayedAnswer {
  head: ReadHead
  /** The body. Throws if the node is gone or silent. Leaving the loop ends the relay. */
  body: AsyncIterable<Buffer>
  /** Ends the relay of an answer whose body is not wanted. */
  end(): void
}

export interface RelayedTerminal {
  /** The lines of the node, as it wrote them. */
  lines: AsyncIterable<string>
  send(message: string): void
  end(): void
}

interface Open {
  keys: Record<PlaceKind, string>
  expected: number
  /** Whether a part has its place and is being read. */
  isReading: boolean
  waiting: Array<{ bytes: Buffer; place: Claim | null }>
  isComplete: boolean
  /** Until the node begins to answer: fails the relay. */
  late: NodeJS.Timeout | undefined
  failure: Error | null
  /** Called when a part arrives, the relay fails, or there is room. */
  wakers: Set<() => void>
}

type PlaceKind = 'node' | 'caller' | 'callerOfNode'

/** Number of parts that wait for the client. */
const maxWaiting = 2
/** Maximum size of a message of a terminal. Output comes in pieces of 64 KiB, which JSON may escape to six times that size. */
const maxLineBytes = 1024 * 1024
/** Limits of the bytes that wait for clients, besides one part of each relay. */
const waitingBytes = { all: 32 << 20, each: { node: 8 << 20, caller: 8 << 20, callerOfNode: 4 << 20 } }

/** The relays of a hub: the requests that nodes have not answered to their end. */
export class HubRelays {
  readonly #needs: RelayNeeds
  readonly #limits: RelayLimits
  readonly #open = new Map<string, Open>()
  readonly #places: Budget<PlaceKind>
  readonly #bytesWaiting = createBudget<PlaceKind>({ ...waitingBytes, refuse: noRoom })

  constructor(needs: RelayNeeds) {
    this.#needs = needs
    this.#limits = { ...defaultRelayLimits, ...needs.limits }
    this.#places = createBudget<PlaceKind>({
      all: this.#limits.all,
      each: { node: this.#limits.perNode, caller: this.#limits.perCaller, callerOfNode: this.#limits.perCallerOfNode },
      refuse: tooMany
    })
  }

  /** Refuses 503 node_away, too_many_relays and node_silent, and 502 `node_answer`. */
  async request(nodeId: string, request: RelayedRequest, signal: AbortSignal): Promise<RelayedAnswer> {
    const { relay, end } = await this.#begin(nodeId, request)
    const parts = this.#partsOf(relay, this.#limits.silentMs)
    const leave = (): void => {
      relay.failure ??= signal.aborted ? (signal.reason as Error) : away()
      end()
      parts.return(undefined).catch(() => {})
    }
    signal.addEventListener('abort', leave, { once: true })
    try {
      signal.throwIfAborted()
      const first = await parts.next()
      const { head, rest } = readNodeHead(first.done ? Buffer.alloc(0) : first.value, request)
      return { head, body: bodyOf(parts, rest, { maxBytes: head.maxBytes, leave }), end: leave }
    } catch (error) {
      leave()
      throw error
    }
  }

  async terminal(nodeId: string, request: RelayedRequest): Promise<RelayedTerminal> {
    const { relay, input, end } = await this.#begin(nodeId, request)
    return {
      // A terminal may be silent for days. That the node is gone is known by its stream.
      lines: linesOf(this.#partsOf(relay, Infinity)),
      send: message => input(Buffer.from(message).toString('base64')),
      end
    }
  }

  /**
   * Takes a part from a node. Resolves when there is room for another one. Refuses: 404 if nobody waits for it, 409
   * `wrong_part`, 429 `relay_full` if there is no room in time.
   */
  async take(nodeId: string, id: string, { number, isLast, read }: RelayPart): Promise<void> {
    const relay = this.#open.get(id)
    if (relay === undefined || relay.keys.node !== nodeId || relay.failure !== null) throw notFound('Relay', id)
    // The answer to an earlier attempt was lost.
    if (number < relay.expected) return
    if (number > relay.expected || relay.isComplete) throw wrongPart(number, relay.expected)
    if (relay.isReading) throw noRoom()
    const check = (): void => {
      if (this.#open.get(id) !== relay || relay.failure !== null) throw notFound('Relay', id)
    }
    relay.isReading = true
    let place: Claim | null = null
    try {
      place = await this.#placeOf(relay, check)
      const bytes = await read()
      check()
      place?.release(relayPartBytes - bytes.length)
      relay.waiting.push({ bytes, place })
    } catch (error) {
      place?.release()
      throw error
    } finally {
      relay.isReading = false
    }
    clearTimeout(relay.late)
    relay.expected++
    relay.isComplete = isLast
    wake(relay)
  }

  async #begin(nodeId: string, request: RelayedRequest) {
    const { links, ids } = this.#needs
    const link = links.find(nodeId)
    if (link === null) throw away()
    const caller = `${request.caller.role} ${request.caller.name}`
    const keys = { node: nodeId, caller, callerOfNode: `${nodeId} ${caller}` }
    const place = this.#places.claim(keys, 1)
    const id = ids.id('rel_')
    const relay: Open = {
      keys,
      expected: 1,
      isReading: false,
      waiting: [],
      isComplete: false,
      late: undefined,
      failure: null,
      wakers: new Set()
    }
    this.#open.set(id, relay)
    const failWith = (failure: Error): void => {
      relay.failure ??= failure
      wake(relay)
    }
    const fail = (): void => failWith(away())
    link.ended.addEventListener('abort', fail, { once: true })
    relay.late = setTimeout(() => failWith(silent()), this.#limits.answerMs)
    let number = 0
    const input = (bytes: string): void => {
      if (link.send({ type: 'input', id, number: ++number, bytes }) !== 'queued') fail()
    }
    const end = (): void => {
      link.ended.removeEventListener('abort', fail)
      clearTimeout(relay.late)
      if (!this.#open.delete(id)) return
      place.release()
      for (const { place: waiting } of relay.waiting.splice(0)) waiting?.release()
      wake(relay)
      if (!relay.isComplete) input('')
    }
    try {
      if (link.send({ type: 'relay', id, request: JSON.stringify(request) }) !== 'queued') throw away()
    } catch (error) {
      end()
      throw error
    }
    return { relay, input, end }
  }

  /** Yields the parts of an answer until its end. */
  async *#partsOf(relay: Open, silentMs: number): AsyncGenerator<Buffer> {
    for (;;) {
      const part = relay.waiting.shift()
      if (part !== undefined) {
        wake(relay)
        try {
          if (part.bytes.length > 0) yield part.bytes
        } finally {
          part.place?.release()
        }
      } else if (relay.isComplete) return
      else if (relay.failure !== null) throw relay.failure
      else if (!(await changed(relay, silentMs))) throw silent()
    }
  }

  /** Waits for the place of a part. The first one that waits has it: a slow client takes nothing from others. */
  async #placeOf(relay: Open, check: () => void): Promise<Claim | null> {
    const untilMs = performance.now() + this.#limits.roomMs
    for (;;) {
      check()
      if (relay.waiting.length === 0) return null
      if (relay.waiting.length < maxWaiting) {
        const place = this.#bytesWaiting.tryClaim(relay.keys, relayPartBytes)
        if (place !== null) return place
      }
      const leftMs = untilMs - performance.now()
      if (leftMs <= 0 || !(await changed(relay, leftMs))) throw noRoom()
    }
  }
}

function wake({ wakers }: Open): void {
  for (const waker of [...wakers]) waker()
}

/** Resolves with true when something about a relay changes, or with false after a time. */
function changed({ wakers }: Open, limitMs: number): Promise<boolean> {
  return new Promise(resolve => {
    const timer = limitMs === Infinity ? undefined : setTimeout(() => done(false), limitMs)
    const woken = (): void => done(true)
    function done(isChanged: boolean): void {
      clearTimeout(timer)
      wakers.delete(woken)
      resolve(isChanged)
    }
    wakers.add(woken)
  })
}

async function* bodyOf(
  parts: AsyncGenerator<Buffer>,
  rest: Buffer,
  { maxBytes, leave }: { maxBytes: number; leave: () => void }
): AsyncGenerator<Buffer> {
  let bytes = rest.length
  try {
    if (rest.length > 0) yield rest
    for await (const part of parts) {
      bytes += part.length
      if (bytes > maxBytes) throw nodeAnswer(`it is longer than ${maxBytes >> 20} MiB`)
      yield part
    }
  } finally {
    leave()
  }
}

/** Yields the messages of a terminal, one a line. A part may end within a line, and within a character. */
async function* linesOf(parts: AsyncGenerator<Buffer>): AsyncGenerator<string> {
  let lines: string[] = []
  const splitter = createLineSplitter(line => void lines.push(line), maxLineBytes)
  for await (const bytes of parts) {
    splitter.push(bytes)
    const whole = lines
    lines = []
    for (const line of whole) if (line !== '') yield line
  }
}

function away(): Refusal {
  return new Refusal('unavailable', 'node_away', 'The node is not connected. Try again later', {
    retryAfterSeconds: 10
  })
}

function silent(): Refusal {
  return new Refusal('unavailable', 'node_silent', 'The node did not answer in time. Try again later')
}

const whose: Record<PlaceKind | 'all', string> = {
  node: 'to this node',
  caller: 'to nodes for you',
  callerOfNode: 'to this node for you',
  all: 'to nodes'
}

function tooMany(over: PlaceKind | 'all'): Refusal {
  const sentence = `Too many requests ${whose[over]} are in progress. Close some pages of nodes, or try again in a moment`
  return new Refusal('unavailable', 'too_many_relays', sentence, { retryAfterSeconds: 5 })
}

function wrongPart(number: number, expected: number): Refusal {
  return new Refusal('conflict', 'wrong_part', `Part ${number} of the answer is not the expected one: ${expected}`)
}

function noRoom(): Refusal {
  return new Refusal('too_many', 'relay_full', 'The client reads slowly. Send this part again', {
    retryAfterSeconds: 1
  })
}

/*
 * Reads what a node answers to a relayed request. The node may be taken over, and a browser shows the answer in the origin
 * of the hub. So nothing of it passes as it is.
 */

/** The head of an answer as the hub sends it to the client. */
export interface ReadHead extends RelayedHead {
  /** Whether the answer is a stream that continues until somebody stops it. */
  isLasting: boolean
  /** Maximum size of the body in bytes. */
  maxBytes: number
}

/** Maximum size of the first line of an answer, in bytes. */
const maxHeadBytes = 16 * 1024
/** Maximum size of an answer that a page reads as a whole, in bytes. */
const maxJsonBytes = 64 * 1024 * 1024
/** What a node may answer. It cannot sign anybody out (401) or send a browser elsewhere (3xx). */
const rules: AnswerRules = {
  statuses: new Set([200, 206, 304, 400, 403, 404, 408, 409, 410, 412, 413, 416, 429, 502, 503, 504]),
  types: pageTypes,
  headers: commonHeaders,
  refuse: nodeAnswer
}
const newline = 10

/**
 * Reads the head of an answer from its first bytes. Returns it and the bytes after it. Refuses 502 `node_answer` for
 * everything that is no answer of a page of svc.
 */
export function readNodeHead(
  bytes: Buffer,
  asked: Pick<RelayedRequest, 'method' | 'headers' | 'path'>
): { head: ReadHead; rest: Buffer } {
  const at = bytes.subarray(0, maxHeadBytes).indexOf(newline)
  if (at < 0) throw nodeAnswer('its head is incomplete or too long')
  const value = parse(bytes.subarray(0, at).toString('utf8'))
  const { status, headers } = (value ?? {}) as Partial<RelayedHead>
  if (typeof status !== 'number' || typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw nodeAnswer('its head is malformed')
  }
  if (status === 500 || status === 501) throw nodeAnswer('it reports an internal error, and its log has the cause')
  const { isFile, isLasting, ...head } = readAnswerHead({ status, headers }, asked, rules)
  const maxBytes = isFile || isLasting ? Infinity : maxJsonBytes
  return { head: { ...head, isLasting, maxBytes }, rest: bytes.subarray(at + 1) }
}

/** Returns the message of a terminal that a line of a node is, or how it ends. Refuses 502 `node_answer`. */
export function readTerminalLine(line: string): { message: string } | { code: number; reason: string } {
  const value = (parse(line) ?? {}) as Record<string, unknown>
  const { type, code, reason, error } = value
  if (type === 'refused' && typeof error === 'string') return { code: closeCodes.failed, reason: error }
  if (type === 'close' && typeof reason === 'string' && isCloseCode(code)) return { code, reason }
  const fields = Object.hasOwn(messages, String(type)) ? messages[type as TerminalMessage['type']] : undefined
  if (fields === undefined) throw nodeAnswer('it is not a message of a terminal')
  const message: Record<string, unknown> = { type }
  for (const [name, kinds] of Object.entries(fields)) {
    const given = value[name]
    if (!kinds.includes(given === null ? 'null' : typeof given)) throw nodeAnswer('it is not a message of a terminal')
    message[name] = given
  }
  return { message: JSON.stringify(message) }
}

/** Returns the refusal for an answer of a node that the hub does not pass on. */
function nodeAnswer(why: string): Refusal {
  return new Refusal('bad_gateway', 'node_answer', `Cannot pass on the answer of the node: ${why}. Look at the node`)
}

/** Codes with which the hub closes a terminal (RFC 6455 §7.4). */
export const closeCodes = { left: 1001, failed: 1011 }

function isCloseCode(code: unknown): code is number {
  return Number.isInteger(code) && ([1000, 1001, 1003, 1011].includes(code as number) || /^4\d{3}$/.test(String(code)))
}

const messages: Record<TerminalMessage['type'], Record<string, readonly string[]>> = {
  ready: {
    sessionId: ['string'],
    pid: ['number'],
    shell: ['string'],
    cwd: ['string'],
    projectId: ['string', 'null'],
    cols: ['number'],
    rows: ['number'],
    offset: ['number'],
    modes: ['string', 'undefined'],
    inputOffset: ['number', 'undefined']
  },
  data: { data: ['string'] },
  taken: { bytes: ['number'] },
  exit: { exitCode: ['number', 'null'], signal: ['string', 'null'] },
  error: { reason: ['string'], message: ['string'] },
  pong: { ts: ['number'] }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw nodeAnswer('it is not JSON')
  }
}
