/*
 * The terms of a hub: the times in which it has the same role. Each term has its own services, built from the database.
 * So nothing that a service remembers outlives a change of the leader.
 *
 *   follower   answers reads; its store refuses writes; nothing runs in the background
 *   leader     as a server alone: recovers what the leader before it left, then runs the background work
 *
 * When a term ends, its store refuses writes first. Services that are still ending change nothing, even if this hub
 * leads again meanwhile.
 */

import type { IncomingMessage } from 'node:http'
import type { HubRole, ReplicatedStore } from '../cluster/replicated-store.js'
import { beginWork, endWork } from './begin.js'
import { createTable } from './table.js'
import { createFront, type Front } from './front.js'
import type { World } from './world.js'
import type { Reporter } from './report.js'
import { createServices, type Services } from './services.js'
import type { AdminToken } from '../access/admin-token.js'
import { Refusal } from '../base/errors.js'
import type { Store } from '../core/store/database.js'
import { belowBase } from '../http/core/dispatch.js'
import type { Exchange } from '../http/core/exchange.js'
import type { Reply } from '../http/core/route.js'
import { HttpServer, type HubSide, type ServerOptions } from '../http/core/server.js'
import { type Forwarder, sequenceHeader } from '../cluster/forward.js'
import { forwardedHeader, type HubReader, type Peer } from '../cluster/forwarded.js'
import { isCutOff } from '../base/shared/api.js'
import type { Entrance } from './entrance.js'

/** A time in which a hub has the same role. */
export interface Term {
  isLeader: boolean
  front: Front
  services: Services
}

/** The terms of a hub, one after the other. */
export type Terms = ReturnType<typeof openTerms>

export interface TermsNeeds {
  store: ReplicatedStore
  world: Omit<World, 'store'>
  admin: AdminToken
  publicUrl: string | null
  /** Called with the services of a new term before it begins to work. */
  onTerm(term: Term, table: ReturnType<typeof createTable>): void
  /** Called with each change, for the operator. */
  report(sentence: string): void
}

/** Time for notifications after a term has ended. */
const notificationGraceMs = 1000
/** Time until a change of the role that failed is tried again. */
const retryMs = 1000

/** Begins the first term, as a follower, and then follows the role of the store. */
export function openTerms(needs: TermsNeeds) {
  const { store, report } = needs
  let isStopping = false
  let active = prepare(needs, false)
  let changing: Promise<void> = Promise.resolve()

  async function change(): Promise<void> {
    const wanted = isLeader(store.role())
    if (isStopping || (wanted === active.term.isLeader && active.isReady)) return
    if (active.term.isLeader) report('This hub is not the leader any more')
    const before = active
    before.store.fence()
    // The next term begins before the last one has ended, so that reads go on.
    active = prepare(needs, wanted)
    await end(before)
    if (!wanted) return
    await lead(active, needs.world.home)
    report('This hub leads the cluster now')
  }

  function later(error: unknown): void {
    needs.world.log('Cannot change the role of this hub', error)
    setTimeout(turn, retryMs).unref()
  }

  const turn = (): void => {
    if (active.term.isLeader && !isLeader(store.role())) active.store.fence()
    changing = changing.then(change).catch(later)
  }
  const stopListening = store.onRole(turn)
  turn()

  return {
    current: (): Term => active.term,
    /** Whether this hub leads, and its services are ready for changes. */
    isLeading: (): boolean => active.term.isLeader && active.isReady && isLeader(store.role()),
    /** Resolves when no change of the role is in progress. */
    async settled(): Promise<void> {
      let seen
      do {
        seen = changing
        await seen
      } while (seen !== changing)
    },
    /** Ends the current term; no other one begins. Deployments are left to the next leader. */
    async stop(): Promise<void> {
      isStopping = true
      stopListening()
      await changing
      // Its last writes are welcome.
      await end(active).finally(() => active.store.fence())
    }
  }
}

interface Active {
  term: Term
  store: FencedStore
  isReady: boolean
}

function isLeader({ kind }: HubRole): boolean {
  return kind === 'leader'
}

function prepare(needs: TermsNeeds, isLeader: boolean): Active {
  const { admin, publicUrl } = needs
  const store = createFencedStore(needs.store, { isReader: !isLeader })
  const log = (message: string, error?: unknown): void => {
    // On a follower, background writes of services are refused. That is no failure.
    if (!isOfRole(error)) needs.world.log(message, error)
  }
  const world: World = { ...needs.world, store, log }
  const front = createFront(world, admin)
  const services = createServices(world, front)
  const term = { isLeader, front, services }
  needs.onTerm(term, createTable(services, { base: world.base, publicUrl }))
  return { term, store, isReady: !isLeader }
}

/** Recovers what the leader before left, and begins the background work. */
async function lead(active: Active, home: World['home']): Promise<void> {
  await beginWork(active.term, { store: active.store, home })
  active.isReady = true
}

/** Ends the services of a term. A follower, and a leader that is none any more, leave their last writes. */
function end({ term }: Active): Promise<void> {
  const { fleet, deployer } = term.services
  const deployments = async (): Promise<void> => {
    // The nodes go to the next leader at once.
    await fleet.stop()
    await deployer.leave()
  }
  return endWork(term, { deployments, graceMs: notificationGraceMs }).catch((error: unknown) => {
    if (!isOfRole(error)) throw error
  })
}

/** A store for the services of one term: the time in which a hub has the same role. */
export interface FencedStore extends Store {
  /** Refuses every further write, even if this hub becomes the leader again: other services write then. */
  fence(): void
}

/** Creates the store of a term. With `isReader`, it never writes. */
export function createFencedStore(store: Store, { isReader }: { isReader: boolean }): FencedStore {
  let isFenced = isReader
  return {
    get: (sql, ...values) => store.get(sql, ...values),
    all: (sql, ...values) => store.all(sql, ...values),
    write: async work => {
      if (isFenced) throw notLeader()
      return store.write(work)
    },
    state: () => store.state(),
    revision: () => store.revision(),
    sequence: () => store.sequence(),
    syncs: () => store.syncs(),
    follow: table => store.follow(table),
    version: tables => store.version(tables),
    checkpoint: () => store.checkpoint(),
    image: at => store.image(at),
    close: () => store.close(),
    fence: () => void (isFenced = true)
  }
}

/** Returns the refusal of a write on a hub that is not the leader. */
export function notLeader(): Refusal {
  const sentence = 'This hub is not the leader of the cluster, so it changes nothing. Try again in a moment'
  return new Refusal('unavailable', 'not_leader', sentence, { retryAfterSeconds: 2 })
}

/** Whether an error only says that another hub leads. */
export function isOfRole(error: unknown): boolean {
  return error instanceof Refusal && (error.code === 'not_leader' || error.code === 'no_leader')
}

/*
 * Decides which hub answers a request. The leader answers changes, and reads that depend on its memory. Any hub answers
 * other reads from its own copy of the database.
 */

/** The header with the age of an answer in seconds, if this hub is cut off. */
const staleHeader = 'x-svc-stale'

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

interface WaitingNeeds {
  entrance: Pick<Entrance, 'open' | 'secure'>
  base: string
  report: Pick<Reporter, 'info'>
}

const retryAfterSeconds = 5

/**
 * Creates the answers of a hub whose database is not open yet, for example because its cluster has the schema of an older
 * version. Nothing listens before the first `tell`.
 */
export function createWaiting({ entrance, base, report }: WaitingNeeds) {
  let hasEnded = false
  let opening: Promise<unknown> | undefined

  function refuse(): never {
    // The reason names hubs and members of etcd, which not every client may know.
    const sentence = 'This hub waits for its cluster and answers nothing yet. Its log says why. Ask another hub'
    throw new Refusal('unavailable', 'not_leader', sentence, { retryAfterSeconds })
  }

  const options: ServerOptions<string, unknown> = {
    routes: [],
    base,
    authorize: refuse,
    trustedProxies: () => [],
    // It is asked first for every request, whatever its path is.
    allowedHosts: refuse,
    log() {},
    ...entrance.secure
  }
  let http: HttpServer | undefined

  return {
    /** Reports why the hub waits. From then on every request is answered: 503 `not_leader`. */
    tell(sentence: string): void {
      if (hasEnded) return
      report.info(sentence)
      http ??= new HttpServer(options)
      // A failure to listen is refused when the hub itself listens.
      opening ??= entrance.open(http).catch(() => {})
    },

    /** Stops answering, so that the hub itself can listen. */
    async end(): Promise<void> {
      hasEnded = true
      await opening
      await http?.close({ graceMs: 0 })
    }
  }
}
