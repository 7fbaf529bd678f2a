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
import type { HubRole, ReplicatedStore } from '../../store/log/replicated-store.js'
import { createTable } from '../table.js'
import { createFront, type Front, type World } from '../front.js'
import { createServices, type Services } from '../services.js'
import { callAll } from '../../base/async.js'
import type { AdminToken } from '../../auth/admin-token.js'
import { createFencedStore, isOfRole, type FencedStore } from './fenced-store.js'

/** A time in which a hub has the same role. */
export interface Term {
  isLeader: boolean
  front: Front
  services: Services
}

/** The terms of a hub, one after the other. */
export interface Terms {
  current(): Term
  /** Whether this hub leads, and its services are ready for changes. */
  isLeading(): boolean
  /** Resolves when no change of the role is in progress. */
  settled(): Promise<void>
  /** Ends the current term; no other one begins. Deployments are left to the next leader. */
  stop(): Promise<void>
}

/** Dependencies of `openTerms`. */
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
/** How often a follower looks whether tokens or sessions have changed, and their tables. */
const reviewMs = 1000
const accessTables = ['tokens', 'sessions'] as const
/** Time until a change of the role that failed is tried again. */
const retryMs = 1000

/** Begins the first term, as a follower, and then follows the role of the store. */
export function openTerms(needs: TermsNeeds): Terms {
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
    await lead(active)
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
    current: () => active.term,
    isLeading: () => active.term.isLeader && active.isReady && isLeader(store.role()),
    async settled() {
      let seen
      do {
        seen = changing
        await seen
      } while (seen !== changing)
    },
    async stop() {
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
  stopReviews(): void
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
  return { term, store, isReady: !isLeader, stopReviews: isLeader ? () => {} : startReviews(store, front) }
}

/** Ends streams of a follower when the log brings the end of their token or session. The leader ends its own at once. */
function startReviews(store: FencedStore, { named, sessions }: Front): () => void {
  let seen = store.version(accessTables)
  const timer = setInterval(() => {
    const now = store.version(accessTables)
    if (now === seen) return
    seen = now
    named.review()
    sessions.review()
  }, reviewMs).unref()
  return () => clearInterval(timer)
}

/** Recovers what the leader before left, and begins the background work. */
async function lead(active: Active): Promise<void> {
  const { front, services } = active.term
  await services.headers.sealStored()
  await services.deployer.recover()
  await services.fleet.start()
  front.keeper.start()
  services.history.start()
  services.reminders.start()
  services.webhook.start()
  active.isReady = true
}

/** Ends the services of a term. */
function end({ term: { front, services, isLeader }, stopReviews }: Active): Promise<void> {
  stopReviews()
  return callAll([
    () => services.fleet.stop(),
    () => Promise.all([services.terminals.stop(), services.deployer.leave(), services.logViewer.close()]),
    () => isLeader && Promise.all([services.reminders.stop(), services.history.stop(), front.keeper.stop()]),
    () => services.webhook.stop({ graceMs: notificationGraceMs }),
    () => front.failures.flush(),
    () => front.named.close().catch(() => {})
  ])
}
