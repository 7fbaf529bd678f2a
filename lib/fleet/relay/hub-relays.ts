/*
 * Requests of users that the hub relays to a node. A request goes down the stream of the node as a signed line; the answer
 * comes up as parts, one POST each, because a proxy in between may collect the body of a request. A part is answered when
 * there is room for the next one, so a slow client slows the node down.
 */
import { Refusal, notFound } from '../../base/refusal.js'
import type { Ids } from '../../base/ids.js'
import {
  inputText,
  relayText,
  type DesiredLine,
  type RelayedHead,
  type RelayedRequest
} from '../../model/fleet-wire.js'

/** The open stream of a node. */
export interface RelayLink {
  readonly session: string
  /** Aborted when the stream ends. */
  readonly ended: AbortSignal
  send(line: DesiredLine): 'queued' | 'full' | 'ended'
}

/** Dependencies of the relays. */
export interface RelayNeeds {
  links: { find(nodeId: string): RelayLink | null }
  key: { current(): Promise<{ sign(text: string): string }> }
  ids: Pick<Ids, 'id'>
  limits?: Partial<RelayLimits>
}

/** Limits of relays. */
export interface RelayLimits {
  /** Maximum number of relays that are open at the same time: of one node, and of all. */
  perNode: number
  all: number
  /** Maximum time until a node begins to answer. */
  answerMs: number
  /** Maximum time that a part waits for a slow client. The node then sends it again. */
  roomMs: number
}

/** The default limits. */
export const defaultRelayLimits: RelayLimits = { perNode: 64, all: 512, answerMs: 30_000, roomMs: 20_000 }

/** A part of an answer. */
export interface RelayPart {
  /** From 1. */
  number: number
  isLast: boolean
  bytes: Buffer
}

/** The answer of a node. */
export interface RelayedAnswer {
  head: RelayedHead
  /** The body. Throws if the node is gone. Leaving the loop ends the relay. */
  body: AsyncIterable<Buffer>
}

/** A terminal on a node. */
export interface RelayedTerminal {
  /** The messages of the node, one line each. */
  lines: AsyncIterable<string>
  send(message: string): void
  /** Ends the relay. */
  end(): void
}

/** The relays of a hub. */
export interface HubRelays {
  /** Refuses (`unavailable`) node_away, too_many_relays, node_silent. */
  request(nodeId: string, request: RelayedRequest, signal: AbortSignal): Promise<RelayedAnswer>
  terminal(nodeId: string, request: RelayedRequest): Promise<RelayedTerminal>
  /**
   * Takes a part from a node. Resolves when there is room for another one. Refuses: 404 if nobody waits for it, 409
   * `wrong_part`, 429 `relay_full` if there is no room in time.
   */
  take(nodeId: string, id: string, part: RelayPart): Promise<void>
}

interface Open {
  nodeId: string
  expected: number
  waiting: Buffer[]
  isComplete: boolean
  failure: Error | null
  /** Called when a part arrives, the relay fails, or there is room. */
  wakers: Set<() => void>
}

/** Number of parts that wait for the client. */
const maxWaiting = 2
const newline = 10

/** Creates the relays of a hub. */
export function createHubRelays({ links, key, ids, ...needs }: RelayNeeds): HubRelays {
  const limits = { ...defaultRelayLimits, ...needs.limits }
  const open = new Map<string, Open>()

  async function begin(nodeId: string, request: RelayedRequest) {
    const link = links.find(nodeId)
    if (link === null) throw away()
    const ofNode = [...open.values()].filter(each => each.nodeId === nodeId).length
    if (ofNode >= limits.perNode || open.size >= limits.all) throw tooMany()
    const id = ids.id('rel_')
    const relay: Open = { nodeId, expected: 1, waiting: [], isComplete: false, failure: null, wakers: new Set() }
    open.set(id, relay)
    const fail = (): void => {
      relay.failure = away()
      wake(relay)
    }
    link.ended.addEventListener('abort', fail, { once: true })
    let number = 0
    let sent: Promise<unknown> = Promise.resolve()
    /** Sends a message, after those before it. */
    const input = (bytes: string): void => {
      const message = { id, number: ++number, bytes }
      sent = sent
        .then(() => key.current())
        .then(({ sign }) =>
          link.send({ type: 'input', ...message, signature: sign(inputText(nodeId, link.session, message)) })
        )
        .catch(fail)
    }
    const end = (): void => {
      link.ended.removeEventListener('abort', fail)
      if (!open.delete(id)) return
      wake(relay)
      if (!relay.isComplete) input('')
    }
    try {
      const text = JSON.stringify(request)
      const { sign } = await key.current()
      const signature = sign(relayText(nodeId, link.session, { id, request: text }))
      if (link.send({ type: 'relay', id, request: text, signature }) !== 'queued') throw away()
    } catch (error) {
      end()
      throw error
    }
    return { relay, input, end }
  }

  /** Yields the parts of an answer until its end. */
  async function* partsOf(relay: Open): AsyncGenerator<Buffer> {
    for (;;) {
      const bytes = relay.waiting.shift()
      if (bytes !== undefined) {
        wake(relay)
        if (bytes.length > 0) yield bytes
      } else if (relay.isComplete) return
      else if (relay.failure !== null) throw relay.failure
      else await changed(relay)
    }
  }

  return {
    async request(nodeId, request, signal) {
      const { relay, end } = await begin(nodeId, request)
      const parts = partsOf(relay)
      const leave = (): void => {
        relay.failure ??= signal.reason as Error
        end()
      }
      signal.addEventListener('abort', leave, { once: true })
      const late = setTimeout(() => {
        relay.failure = silent()
        wake(relay)
      }, limits.answerMs)
      try {
        signal.throwIfAborted()
        const { head, rest } = await headOf(parts)
        return { head, body: bodyOf(parts, rest, leave) }
      } catch (error) {
        leave()
        throw error
      } finally {
        clearTimeout(late)
      }
    },

    async terminal(nodeId, request) {
      const { relay, input, end } = await begin(nodeId, request)
      return {
        lines: linesOf(partsOf(relay)),
        send: message => input(Buffer.from(message).toString('base64')),
        end
      }
    },

    async take(nodeId, id, { number, isLast, bytes }) {
      const relay = open.get(id)
      if (relay === undefined || relay.nodeId !== nodeId || relay.failure !== null) throw notFound('Relay', id)
      // The answer to an earlier attempt was lost.
      if (number < relay.expected) return
      if (number > relay.expected || relay.isComplete) throw wrongPart(number, relay.expected)
      const untilMs = Date.now() + limits.roomMs
      while (relay.waiting.length >= maxWaiting) {
        const leftMs = untilMs - Date.now()
        if (leftMs <= 0) throw noRoom()
        await changed(relay, leftMs)
        if (open.get(id) !== relay || relay.failure !== null) throw notFound('Relay', id)
        if (number < relay.expected) return
      }
      relay.expected++
      relay.waiting.push(bytes)
      relay.isComplete = isLast
      wake(relay)
    }
  }
}

function wake({ wakers }: Open): void {
  for (const waker of [...wakers]) waker()
}

/** Resolves when something about a relay changes, or after a time. */
function changed({ wakers }: Open, limitMs?: number): Promise<void> {
  return new Promise(resolve => {
    const timer = limitMs === undefined ? undefined : setTimeout(done, limitMs)
    function done(): void {
      clearTimeout(timer)
      wakers.delete(done)
      resolve()
    }
    wakers.add(done)
  })
}

/** Reads the first line of an answer. */
async function headOf(parts: AsyncGenerator<Buffer>): Promise<{ head: RelayedHead; rest: Buffer }> {
  const first = await parts.next()
  const bytes: Buffer = first.done ? Buffer.alloc(0) : first.value
  const at = bytes.indexOf(newline)
  const value: unknown = at < 0 ? null : JSON.parse(bytes.subarray(0, at).toString('utf8'))
  const { status, headers } = (value ?? {}) as Partial<RelayedHead>
  if (typeof status !== 'number' || typeof headers !== 'object' || headers === null) throw broken()
  return { head: { status, headers }, rest: bytes.subarray(at + 1) }
}

async function* bodyOf(parts: AsyncGenerator<Buffer>, rest: Buffer, leave: () => void): AsyncGenerator<Buffer> {
  try {
    if (rest.length > 0) yield rest
    yield* parts
  } finally {
    leave()
  }
}

/** A message is a line; a part ends with one. */
async function* linesOf(parts: AsyncGenerator<Buffer>): AsyncGenerator<string> {
  for await (const bytes of parts) for (const line of bytes.toString('utf8').split('\n')) if (line !== '') yield line
}

function away(): Refusal {
  return new Refusal('unavailable', 'node_away', 'The node is not connected. Try again later', {
    retryAfterSeconds: 10
  })
}

function silent(): Refusal {
  return new Refusal('unavailable', 'node_silent', 'The node did not answer in time. Try again later')
}

function tooMany(): Refusal {
  const sentence = 'Too many requests to nodes are in progress. Close some pages of the node, or try again in a moment'
  return new Refusal('unavailable', 'too_many_relays', sentence, { retryAfterSeconds: 5 })
}

function broken(): Refusal {
  return new Refusal('unavailable', 'node_silent', 'The node sent an answer that is not complete')
}

function wrongPart(number: number, expected: number): Refusal {
  return new Refusal('conflict', 'wrong_part', `Part ${number} of the answer is not the expected one: ${expected}`)
}

function noRoom(): Refusal {
  return new Refusal('too_many', 'relay_full', 'The client reads slowly. Send this part again', {
    retryAfterSeconds: 1
  })
}
