/*
 * Signed requests of the nodes of a fleet:
 *
 *   Authorization: SvcNode <node id> <session> <counter> <Ed25519 signature in base64url>
 *   Svc-Content-SHA256: <SHA-256 of the body in hexadecimal; it may be absent if there is no body>
 *
 * The text is `requestText` of model/fleet-wire.ts. No clock is involved: each number of a session is accepted once. The
 * request that begins a session names the session `-`, and has a nonce instead of a number, which is accepted once, too.
 *
 * To begin a session changes nothing: its name says who made it and when (`<protocol>-<place>-<MAC of this process>`), and it
 * counts from the first request that the node signs with it. So a begin that was recorded, and is repeated to a hub that has
 * started since, ends no session. A name that is older than the sessions in use is not accepted any more. Everything is in
 * memory, so a hub that starts again asks for new sessions.
 */
import { createHmac, createPublicKey, randomBytes, timingSafeEqual, verify, type KeyObject } from 'node:crypto'
import { Refusal } from '../base/errors.js'
import { sha256 } from '../base/digests.js'
import type { RequestFacts } from '../http/core/route.js'
import { requestText } from '../model/fleet-wire.js'
import type { Reader } from '../core/store/database.js'
import { findNode } from '../core/store/tables/fleet.js'

export interface SigningNode {
  readonly id: string
  readonly name: string
  /** The session; `-`: the request begins one. */
  readonly session: string
  /** The number of the request; of one that begins a session, the nonce. */
  readonly counter: string
  /** The protocol of the session (model/fleet-wire.ts); 0: the request begins one. */
  readonly protocol: number
  /** The digest of the body that was signed, in hexadecimal. */
  readonly bodySha256: string
}

/** Verifies signed requests. */
export type NodeRequests = ReturnType<typeof createNodeRequests>

/** The path that begins a session. */
const sessionPath = '/api/agent/session'
/** Number of sessions of a node: the last one, and the one before, whose requests may still arrive. */
const sessionsPerNode = 2
/** How far the number of a request may be behind the highest one. */
const windowSize = 1024
/** Number of nonces of a node that are remembered. */
const keptNonces = 1024
const emptySha256 = sha256(Buffer.alloc(0)).toString('hex')
const header = /^SvcNode ([a-z0-9_]{1,40}) ([\w-]{1,64}) ([\w-]{1,64}) ([\w-]{86})$/

/** Creates the verification of signed requests. */
export function createNodeRequests({ store }: { store: Reader }) {
  const names = createNames()
  const sessions = new Map<string, Session[]>()
  const nonces = new Map<string, Set<string>>()
  const keys = new Map<string, { publicKey: string; key: KeyObject }>()

  function keyOf(id: string, publicKey: string): KeyObject {
    const known = keys.get(id)
    if (known?.publicKey === publicKey) return known.key
    const x = Buffer.from(publicKey, 'base64').toString('base64url')
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
    keys.set(id, { publicKey, key })
    return key
  }

  /** Returns the session with this name: one in use, or one that was begun after those. */
  function sessionOf(id: string, name: string): Session | undefined {
    const all = sessions.get(id) ?? []
    const found = all.find(each => each.name === name)
    if (found !== undefined) return found
    const named = names.read(id, name)
    const isNewer = named !== null && all.every(({ place }) => place < named.place)
    return isNewer ? createSession(name, named) : undefined
  }

  /** Takes note of a session that is used. */
  function use(id: string, session: Session): void {
    const all = sessions.get(id) ?? []
    if (!all.includes(session)) sessions.set(id, [session, ...all].slice(0, sessionsPerNode))
  }

  /** Whether a nonce was not used yet. From then on it is. */
  function takesNonce(id: string, nonce: string): boolean {
    const used = nonces.get(id) ?? new Set()
    nonces.set(id, used)
    if (used.has(nonce)) return false
    used.add(nonce)
    for (const first of used) if (used.size > keptNonces) used.delete(first)
    return true
  }

  return {
    /**
     * Returns the node that signed a request. Refuses 401: `unauthorized` without a signature, `node_unknown`,
     * `session_unknown`, `wrong_signature`, `request_repeated`.
     */
    verify({ method, path, query, headers }: Pick<RequestFacts, 'method' | 'path' | 'query' | 'headers'>): SigningNode {
      const [, id, session, counter, signature] = header.exec(headers.authorization ?? '') ?? []
      if (id === undefined || session === undefined || counter === undefined || signature === undefined)
        throw new Refusal('unauthorized', 'unauthorized', 'A request of a node must be signed with its key')
      const node = findNode(store, id)
      if (node === undefined) throw unknownNode(id)
      const found = session === '-' ? undefined : sessionOf(id, session)
      if (found === undefined && (session !== '-' || path !== sessionPath)) throw unknownSession()
      const search = query.toString()
      const given = headers['svc-content-sha256']
      const bodySha256 = typeof given === 'string' ? given : emptySha256
      const text = requestText({
        nodeId: id,
        session,
        counter,
        method,
        path: search === '' ? path : `${path}?${search}`,
        bodySha256
      })
      if (!verify(null, Buffer.from(text), keyOf(id, node.publicKey), Buffer.from(signature, 'base64')))
        throw new Refusal('unauthorized', 'wrong_signature', `The signature of the request is not one of node ${id}`)
      if (found !== undefined) use(id, found)
      if (!(found?.takes(Number(counter)) ?? takesNonce(id, counter))) throw repeated()
      return { id, name: node.name, session, counter, protocol: found?.protocol ?? 0, bodySha256 }
    },

    /** Whether a node was not forgotten. */
    isKnown: (id: string): boolean => findNode(store, id) !== undefined,

    /** Returns the name of a new session of a node. */
    begin: names.next,

    /** Ends the sessions of a node. */
    end(nodeId: string): void {
      sessions.delete(nodeId)
      nonces.delete(nodeId)
      keys.delete(nodeId)
    }
  }
}

/** The names of sessions that this process gives. */
function createNames() {
  const secret = randomBytes(32)
  let last = 0

  function nameOf(nodeId: string, protocol: number, place: number): string {
    const mac = createHmac('sha256', secret).update(`${nodeId}\n${protocol}\n${place}`).digest('base64url')
    return `${protocol}-${place}-${mac}`
  }

  return {
    next: (nodeId: string, protocol: number): string => nameOf(nodeId, protocol, ++last),
    /** Returns what a name says; null: this process has not given it to the node. */
    read(nodeId: string, name: string): { protocol: number; place: number } | null {
      const [protocol, place] = name.split('-', 2).map(Number) as [number, number?]
      if (!Number.isSafeInteger(protocol) || !Number.isSafeInteger(place)) return null
      const [right, given] = [Buffer.from(nameOf(nodeId, protocol, place as number)), Buffer.from(name)]
      return right.length === given.length && timingSafeEqual(right, given)
        ? { protocol, place: place as number }
        : null
    }
  }
}

interface Session {
  readonly name: string
  readonly protocol: number
  /** Its place among all sessions. */
  readonly place: number
  /** Whether a number was not used yet. From then on it is. */
  takes(counter: number): boolean
}

function createSession(name: string, { protocol, place }: Pick<Session, 'protocol' | 'place'>): Session {
  let highest = 0
  const used = new Uint32Array(windowSize / 32)
  const placeOf = (counter: number): [number, number] => [(counter % windowSize) >>> 5, 1 << (counter & 31)]
  return {
    name,
    protocol,
    place,
    takes(counter) {
      if (!Number.isSafeInteger(counter) || counter < 1 || counter <= highest - windowSize) return false
      if (counter > highest) {
        const from = Math.max(highest + 1, counter - windowSize + 1)
        for (let at = from; at <= counter; at++) {
          const [word, bit] = placeOf(at)
          used[word] = (used[word] ?? 0) & ~bit
        }
        highest = counter
      }
      const [word, bit] = placeOf(counter)
      if (((used[word] ?? 0) & bit) !== 0) return false
      used[word] = (used[word] ?? 0) | bit
      return true
    }
  }
}

function unknownNode(id: string): Refusal {
  const sentence = `There is no node ${id} in this fleet: it was forgotten. Enroll the machine again`
  return new Refusal('unauthorized', 'node_unknown', sentence)
}

function unknownSession(): Refusal {
  return new Refusal('unauthorized', 'session_unknown', 'The session of the node is unknown: begin another one')
}

function repeated(): Refusal {
  return new Refusal('unauthorized', 'request_repeated', 'The request was sent before: its number is used')
}
