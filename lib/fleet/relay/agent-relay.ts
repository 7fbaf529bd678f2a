/*
 * The side of the agent: it answers the requests that the hub relays, as its own server answers them to the same user,
 * and connects terminals. Only the hub can ask: each line is signed.
 */

import { reasonOf, Refusal } from '../../base/errors.js'
import {
  type DesiredLine,
  type RelayedHead,
  relayedHeaders,
  type RelayedRequest,
  relayedRoles,
  relayPartBytes
} from '../../model/fleet-wire.js'
import type { AgentRelay } from '../agent/agent.js'
import type { HubClient } from '../agent/hub-client.js'
import { pause } from '../../base/clock.js'
import {
  checked,
  flag,
  line,
  list,
  maxNameLength,
  nullable,
  object,
  oneOf,
  optional,
  readFields
} from '../../base/fields.js'
import type { ClientLeft } from '../../model/terminal.js'

/** The answer of the node's own server. */
export interface OwnAnswer {
  head: RelayedHead
  body: AsyncIterable<Buffer>
}

/** A client of a terminal on the node, at the other end of the relay. */
export interface TerminalEnd {
  /** Sends a message of the terminal. Never rejects: if the client cannot be reached, `left` resolves. */
  send(message: string): Promise<void>
  /** Ends the terminal for the client. */
  close(code: number, reason: string): void
  /** The messages of the client, until it leaves. */
  messages(): AsyncIterable<string>
  left: Promise<ClientLeft>
}

export interface AgentRelayNeeds {
  client: Pick<HubClient, 'json'>
  /** Whether users of the hub may read the pages of this node. */
  isOn: boolean
  /** Asks the node's own server. */
  ask(request: RelayedRequest, signal: AbortSignal): Promise<OwnAnswer>
  /** Runs a terminal until its client has left. */
  terminal(request: RelayedRequest, end: TerminalEnd): Promise<void>
  log(message: string, error?: unknown): void
}

/** Maximum number of relays that are open at the same time. */
const maxOpen = 64
/** Maximum number of messages that wait for a terminal. */
const maxMessages = 1000

interface Open {
  ending: AbortController
  lastNumber: number
  input(bytes: Buffer): void
}

export function createAgentRelay(needs: AgentRelayNeeds): AgentRelay {
  const { client, log } = needs
  const open = new Map<string, Open>()

  function senderOf(id: string, signal: AbortSignal): PartSender {
    return createPartSender(({ number, isLast, bytes }) => {
      const path = `/api/agent/relays/${id}?part=${number}${isLast ? '&last=1' : ''}`
      return client.json({ method: 'POST', path, body: bytes, signal })
    }, signal)
  }

  async function answer(sender: PartSender, request: RelayedRequest, signal: AbortSignal): Promise<void> {
    const { head, body } = needs.isOn ? await needs.ask(request, signal) : refusal()
    await sender.write(Buffer.from(`${JSON.stringify(head)}\n`))
    for await (const bytes of body) await sender.write(bytes)
    await sender.end()
  }

  async function connect(sender: PartSender, request: RelayedRequest, relay: Open): Promise<void> {
    const inbox = createInbox()
    relay.input = inbox.add
    relay.ending.signal.addEventListener('abort', () => inbox.end('broken'), { once: true })
    const say = (line: object | string): Promise<void> =>
      sender.write(Buffer.from(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`))
    const end: TerminalEnd = {
      send: message => say(message).catch(() => inbox.end('broken')),
      close: (code, reason) => {
        inbox.end('broken')
        void say({ type: 'close', code, reason }).catch(() => {})
      },
      messages: inbox.messages,
      left: inbox.left
    }
    try {
      if (needs.isOn) await needs.terminal(request, end)
      else await say({ type: 'refused', ...relayOff })
    } catch (error) {
      if (relay.ending.signal.aborted) return
      const { code = 'internal', message = 'The node failed' } = error as { code?: string; message?: string }
      await say({ type: 'refused', code, error: message })
    }
    await sender.end()
  }

  function begin({ id, request: text }: Extract<DesiredLine, { type: 'relay' }>): void {
    if (open.size >= maxOpen || open.has(id)) return
    const ending = new AbortController()
    const relay: Open = { ending, lastNumber: 0, input: () => {} }
    open.set(id, relay)
    const sender = senderOf(id, ending.signal)
    const work = async (): Promise<void> => {
      const request = readRelayedRequest(text)
      if (request.kind === 'terminal') await connect(sender, request, relay)
      else await answer(sender, request, ending.signal)
    }
    work()
      .catch((error: unknown) => {
        if (!ending.signal.aborted) log(`Cannot answer a request of the hub: ${reasonOf(error)}`)
      })
      .finally(() => {
        open.delete(id)
        ending.abort()
      })
  }

  return {
    take(line) {
      if (line.type === 'relay') return begin(line)
      const relay = open.get(line.id)
      // A doubled line is not typed twice.
      if (relay === undefined || line.number <= relay.lastNumber) return
      relay.lastNumber = line.number
      if (line.bytes === '') relay.ending.abort()
      else relay.input(Buffer.from(line.bytes, 'base64'))
    },
    endAll() {
      for (const { ending } of open.values()) ending.abort()
    }
  }
}

const relayOff = {
  error: 'The pages of this node cannot be read through the hub: svc agent runs with --no-relay',
  code: 'relay_off'
}

function refusal(): OwnAnswer {
  async function* body(): AsyncGenerator<Buffer> {
    yield Buffer.from(JSON.stringify({ success: false, ...relayOff, message: relayOff.error }))
  }
  return { head: { status: 403, headers: { 'content-type': 'application/json' } }, body: body() }
}

/** The messages of a client. `{"type":"left","how":…}` is the last one. */
function createInbox() {
  let waiting: string[] = []
  let wake = (): void => {}
  let leave!: (how: ClientLeft) => void
  let hasLeft = false
  const left = new Promise<ClientLeft>(resolve => (leave = resolve))

  function end(how: ClientLeft): void {
    hasLeft = true
    leave(how)
    wake()
  }

  async function* messages(): AsyncGenerator<string> {
    for (;;) {
      const batch = waiting
      waiting = []
      yield* batch
      if (waiting.length > 0) continue
      if (hasLeft) return
      await new Promise<void>(resolve => (wake = resolve))
    }
  }

  return {
    left,
    end,
    messages,
    add(bytes: Buffer) {
      const text = bytes.toString('utf8')
      if (text.startsWith('{"type":"left"'))
        end((['closed', 'revoked'] as const).find(how => text.includes(`"${how}"`)) ?? 'broken')
      else if (waiting.length >= maxMessages) end('broken')
      else if (!hasLeft) {
        waiting.push(text)
        wake()
      }
    }
  }
}

/*
 * Sends the answer to a relayed request to the hub in parts. What arrives while a part is on its way goes into the next
 * one, so a slow way makes larger parts, and a fast one small delays.
 */

/** Sends one part. Refuses what the hub refuses. */
export type SendPart = (part: { number: number; isLast: boolean; bytes: Buffer }) => Promise<unknown>

/** Sends an answer. */
export type PartSender = ReturnType<typeof createPartSender>

/** Time in which more bytes join the first part, so that a short answer is one part. */
const gatherMs = 5
const retriesMs = [250, 500, 1000, 2000, 4000]

/** Creates a sender. It stops when the signal aborts. */
export function createPartSender(send: SendPart, signal: AbortSignal) {
  let pending: Buffer[] = []
  let size = 0
  let number = 0
  let hasEnded = false
  let isComplete = false
  let sending: Promise<void> | null = null
  let failure: unknown = null
  let room = (): void => {}

  function take(): Buffer {
    const all = Buffer.concat(pending)
    const part = all.subarray(0, relayPartBytes)
    const rest = all.subarray(relayPartBytes)
    pending = rest.length > 0 ? [rest] : []
    size = rest.length
    return part
  }

  async function sendOne(bytes: Buffer, isLast: boolean): Promise<void> {
    const part = { number: ++number, isLast, bytes }
    for (let attempt = 0; ; attempt++) {
      try {
        await send(part)
        return
      } catch (error) {
        signal.throwIfAborted()
        const isSlow = error instanceof Refusal && error.code === 'relay_full'
        const isFinal = error instanceof Refusal && error.kind !== 'unavailable' && !isSlow
        if (isFinal || (!isSlow && attempt >= retriesMs.length)) throw error
        await pause(retriesMs[isSlow ? 0 : attempt] as number, signal)
      }
    }
  }

  async function sendAll(): Promise<void> {
    await pause(number === 0 ? gatherMs : 0, signal)
    while (size > 0) {
      const bytes = take()
      const isLast = hasEnded && size === 0
      room()
      isComplete = isLast
      await sendOne(bytes, isLast)
    }
    if (!hasEnded || isComplete) return
    isComplete = true
    await sendOne(Buffer.alloc(0), true)
  }

  function start(): Promise<void> {
    sending ??= sendAll().then(
      () => {
        sending = null
      },
      (error: unknown) => {
        failure = error
        room()
      }
    )
    return sending
  }

  return {
    /** Adds bytes. Resolves when more may be added. Rejects if the hub does not want the answer. */
    async write(bytes: Buffer): Promise<void> {
      if (failure !== null) throw failure
      signal.throwIfAborted()
      pending.push(bytes)
      size += bytes.length
      void start()
      if (size >= relayPartBytes) await new Promise<void>(resolve => (room = resolve))
      if (failure !== null) throw failure
    },

    /** Sends the rest. Resolves when the hub has everything. */
    async end(): Promise<void> {
      hasEnded = true
      await sending
      if (failure === null && !isComplete) await start()
      if (failure !== null) throw failure
    }
  }
}

/*
 * Reads a request that the hub relays to this node. The hub may be taken over, and the request goes to a socket at which
 * the node's own server trusts its operator. So only a path below the API, and the headers that change an answer, get there.
 */

const base = 'http://localhost'
const maxLength = 16 * 1024
const maxProjects = 10_000

const fields = {
  kind: oneOf(['request', 'terminal']),
  method: oneOf(['GET', 'HEAD']),
  path: checked(line({ min: 1, max: maxLength }), path => {
    const plain = `/api/${path}`
    const { pathname, search, hash } = new URL(plain, base)
    const isSame = hash === '' && pathname + search === plain
    return isSame ? null : 'expected a path below the API, and its query, percent-encoded'
  }),
  headers: object(Object.fromEntries(relayedHeaders.map(name => [name, optional(line({ max: maxLength }))]))),
  caller: object({
    name: line({ max: maxNameLength }),
    role: oneOf(relayedRoles),
    projects: nullable(list(line({ max: maxNameLength }), { max: maxProjects })),
    seesScripts: flag
  })
}

/** Reads a request from the text of a line. Refuses 400 for everything else; unknown fields and headers are ignored. */
export function readRelayedRequest(text: string): RelayedRequest {
  const { headers, ...request } = readFields(JSON.parse(text), fields)
  const given = Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  return { ...request, headers: Object.fromEntries(given) }
}
