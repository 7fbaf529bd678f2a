/*
 * Signed requests of the nodes of a fleet:
 *
 *   Authorization: SvcNode <node id> <session> <counter> <Ed25519 signature in base64url>
 *   Svc-Content-SHA256: <SHA-256 of the body in hexadecimal; it may be absent if there is no body>
 *
 * The text is `requestText` of model/fleet-wire.ts. No clock is involved: a session begins with a random text of the hub,
 * and each number of it is accepted once. The request that begins a session names the session `-`; a replay of it only
 * begins a session that nobody uses. Sessions are in memory, so a hub that starts again asks for new ones.
 */
import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import type { Ids } from '../base/ids.js'
import { Refusal } from '../base/refusal.js'
import { sha256 } from '../base/sha256.js'
import type { RequestFacts } from '../http/core/route.js'
import { requestText } from '../model/fleet-wire.js'
import type { Reader } from '../store/database.js'
import { findNode } from '../store/tables/nodes.js'

/** The node that signed a request. */
export interface SigningNode {
  readonly id: string
  readonly name: string
  /** The session; `-`: the request begins one. */
  readonly session: string
  /** The digest of the body that was signed, in hexadecimal. */
  readonly bodySha256: string
}

/** Verifies signed requests. */
export interface NodeRequests {
  /**
   * Returns the node that signed a request. Refuses 401: `unauthorized` without a signature, `node_unknown`,
   * `session_unknown`, `wrong_signature`, `request_repeated`.
   */
  verify(request: Pick<RequestFacts, 'method' | 'path' | 'query' | 'headers'>): SigningNode
  /** Begins a session of a node. */
  begin(nodeId: string): string
  /** Ends the sessions of a node. */
  end(nodeId: string): void
}

/** The path that begins a session. */
export const sessionPath = '/api/agent/session'
/** Number of sessions of a node: the last one, and the one before, whose requests may still arrive. */
const sessionsPerNode = 2
/** How far the number of a request may be behind the highest one. */
const windowSize = 1024
const emptySha256 = sha256(Buffer.alloc(0)).toString('hex')
const header = /^SvcNode ([a-z0-9_]{1,40}) ([\w-]{1,64}) ([\w-]{1,64}) ([\w-]{86})$/

/** Creates the verification of signed requests. */
export function createNodeRequests({ store, ids }: { store: Reader; ids: Pick<Ids, 'token'> }): NodeRequests {
  const sessions = new Map<string, Session[]>()
  const keys = new Map<string, { publicKey: string; key: KeyObject }>()

  function keyOf(id: string, publicKey: string): KeyObject {
    const known = keys.get(id)
    if (known?.publicKey === publicKey) return known.key
    const x = Buffer.from(publicKey, 'base64').toString('base64url')
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
    keys.set(id, { publicKey, key })
    return key
  }

  return {
    verify({ method, path, query, headers }) {
      const [, id, session, counter, signature] = header.exec(headers.authorization ?? '') ?? []
      if (id === undefined || session === undefined || counter === undefined || signature === undefined)
        throw new Refusal('unauthorized', 'unauthorized', 'A request of a node must be signed with its key')
      const node = findNode(store, id)
      if (node === undefined) throw unknownNode(id)
      const begins = session === '-'
      const found = sessions.get(id)?.find(each => each.name === session)
      if (found === undefined && !(begins && path === sessionPath)) throw unknownSession()
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
      if (!verify(null, Buffer.from(text), keyOf(id, node.publicKey), Buffer.from(signature, 'base64url')))
        throw new Refusal('unauthorized', 'wrong_signature', `The signature of the request is not one of node ${id}`)
      if (found !== undefined && !found.takes(Number(counter))) throw repeated()
      return { id, name: node.name, session, bodySha256 }
    },

    begin(nodeId) {
      const name = ids.token()
      const others = sessions.get(nodeId) ?? []
      sessions.set(nodeId, [createSession(name), ...others].slice(0, sessionsPerNode))
      return name
    },

    end(nodeId) {
      sessions.delete(nodeId)
      keys.delete(nodeId)
    }
  }
}

interface Session {
  readonly name: string
  /** Whether a number was not used yet. From then on it is. */
  takes(counter: number): boolean
}

function createSession(name: string): Session {
  let highest = 0
  const used = new Uint32Array(windowSize / 32)
  const placeOf = (counter: number): [number, number] => [(counter % windowSize) >>> 5, 1 << (counter & 31)]
  return {
    name,
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
