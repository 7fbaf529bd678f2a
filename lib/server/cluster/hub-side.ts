/*
 * Decides which hub answers a request. The leader answers changes, and reads that depend on its memory. Any hub answers
 * other reads from its own copy of the database.
 */
import type { IncomingMessage } from 'node:http'
import { Refusal } from '../../base/errors.js'
import { belowBase } from '../../http/core/dispatch.js'
import type { Exchange } from '../../http/core/exchange.js'
import type { Reply } from '../../http/core/route.js'
import type { HubSide } from '../../http/core/server.js'
import { sequenceHeader, type Forwarder } from '../../http/outgoing/forward.js'
import { forwardedHeader, type HubReader, type Peer } from '../../http/outgoing/forwarded.js'
import { isCutOff } from '../../shared/cut-off.js'
import type { HubRole } from '../../store/log/replicated-store.js'
import { notLeader } from './fenced-store.js'

/** The header with the age of an answer in seconds, if this hub is cut off. */
export const staleHeader = 'x-svc-stale'

/** Dependencies of `createHubSide`. */
export interface HubSideNeeds {
  /** Base path of this hub, as `normaliseBase` returns it. */
  base: string
  /** Reads which hub sent a request. */
  read: HubReader
  store: { role(): HubRole; peers: { find(name: string): Peer | null } }
  forwarder: Pick<Forwarder, 'pass'>
  terms: { isLeading(): boolean; settled(): Promise<void> }
}

/** Creates the part of a hub that its HTTP server calls. */
export function createHubSide<R extends string, A>(needs: HubSideNeeds): HubSide<R, A> {
  const { base, read, store, forwarder, terms } = needs

  /** Answers for the leader: by this hub, by the leader, or not at all. */
  async function byLeader(exchange: Exchange): Promise<Reply | undefined> {
    if (store.role().kind === 'leader') {
      // The work of the leader before is being taken over.
      await terms.settled()
      if (terms.isLeading()) return undefined
    }
    const { leader, kind } = store.role()
    // The hub that passed it on knows more about the leader than this one: it passes on no further.
    if (exchange.client.hub !== undefined) throw notLeader()
    if (leader === null || kind !== 'follower') throw noLeader(store.role())
    const to = store.peers.find(leader.name)
    if (to === null) throw unlisted(leader.name)
    return forwarder.pass(exchange, to)
  }

  return {
    clientOf(request: IncomingMessage) {
      if (request.headers[forwardedHeader] === undefined) return null
      const [path = '', search] = splitOnce(request.url ?? '')
      const below = belowBase(base, path)
      if (below === undefined) return null
      const target = search === undefined ? below : `${below}?${search}`
      const found = read({ method: request.method as string, target, headers: request.headers })
      const length = request.headers['content-length']
      if (found !== null && 'hub' in found && found.hub.seal !== undefined && length !== undefined) {
        // The content is what a handler asks for.
        request.headers['content-length'] = String(Number(length) - found.hub.seal.tailBytes)
      }
      return found
    },

    divert(exchange, route) {
      const { method, client } = exchange
      if (client.hub?.isOwn || route.answeredBy === 'receiver') return undefined
      const isRead = method === 'GET' || method === 'HEAD'
      const isForLeader = !isRead || route.answeredBy !== undefined || exchange.query.has('ticket')
      if (!isForLeader || terms.isLeading()) return undefined
      if (client.local && route.auth === 'local') throw onlyThere(store.role())
      const isOptional = isRead && route.answeredBy === 'leader_if_any' && !exchange.query.has('ticket')
      if (isOptional && store.role().kind === 'alone') return undefined
      return byLeader(exchange)
    },

    mark(exchange) {
      if (exchange.client.hub !== undefined) {
        exchange.stamp = () => ({ [sequenceHeader]: String(store.role().sequence) })
        exchange.trailers = exchange.stamp
      } else if (isCutOff(stateOf(store.role()))) {
        exchange.stamp = () => ({ [staleHeader]: String(Math.ceil(store.role().staleMs / 1000)) })
      }
    }
  }
}

function stateOf({ kind, problem }: HubRole) {
  return { role: kind, problem }
}

/** Returns the refusal for a leader that this hub does not know: it may have joined a moment ago, or be removed and replaced soon. */
function unlisted(name: string): Refusal {
  return noLeader({ problem: `the list of hubs in etcd does not contain "${name}"`, passes: true })
}

/**
 * Returns the refusal of a change while nobody leads, or while this hub cannot follow. Waiting does not help with a problem
 * that does not pass.
 */
export function noLeader({ problem, passes }: Pick<HubRole, 'problem' | 'passes'>): Refusal {
  const options = { ...((problem === null || passes) && { retryAfterSeconds: 2 }) }
  if (problem !== null) {
    return new Refusal('unavailable', 'no_leader', `Nothing can be changed through this hub: ${problem}`, options)
  }
  const sentence =
    'The cluster has no leader, so nothing can be changed now: a new one is elected within seconds. Try again in a moment'
  return new Refusal('unavailable', 'no_leader', sentence, options)
}

/** Returns the refusal of what only the local operator may do, while another hub would do it. */
function onlyThere({ leader }: HubRole): Refusal {
  const where = leader === null ? 'of the hub that leads' : `of "${leader.name}", which leads`
  const sentence = `Permission denied: this hub follows, and another hub does not believe its local operator. Run the command on the machine ${where}`
  return new Refusal('forbidden', 'forbidden', sentence)
}

function splitOnce(url: string): [string, string?] {
  const at = url.indexOf('?')
  return at === -1 ? [url] : [url.slice(0, at), url.slice(at + 1)]
}
