/*
 * The hub of a fleet: nodes, placements and rollouts, the streams of the agents, and their reports. It works in the
 * memory of one process; what must not be lost is in the store.
 */
import type { Clock } from '../../base/clock.js'
import type { Ids } from '../../base/ids.js'
import type { Sink } from '../../http/core/route.js'
import { heartbeatMs, type AgentReport, type DesiredLine } from '../../model/fleet-wire.js'
import type { AuditEvent } from '../../model/audit.js'
import type { ServerKey } from '../../audit/server-key.js'
import type { Store, Transaction } from '../../store/database.js'
import { createBegin, type Release } from './begin.js'
import { createEnrollments, type HubEnrollments } from './enrollments.js'
import type { Fleet } from './fleet.js'
import { createHubKey, type HubKey } from './hub-key.js'
import { createLinks, type NodeLinks } from './links.js'
import { createNodes } from './nodes.js'
import { createOrders, ordersOf } from './orders.js'
import { createPlacements } from './placements.js'
import { createPresence } from './presence.js'
import { createReleases, type Releases, type ReleasesNeeds } from './releases.js'
import { createReports } from './reports.js'
import { createRolls, type Rolls } from './roll.js'
import { createRollings } from './rolling.js'
import { createRolloutEvents } from './rollout-events.js'
import { createUploadRate, type UploadRate } from './upload-rate.js'
import { createRolloutReader, createRollouts } from './rollouts.js'

/** Dependencies of the hub on the rest of the server. */
export interface HubNeeds extends Pick<ReleasesNeeds, 'sealing' | 'variables' | 'mayClientsSendScripts'> {
  store: Store
  clock: Clock
  ids: Ids
  audit: { within(tx: Transaction, event: AuditEvent): void }
  serverKey: Pick<ServerKey, 'signers'>
  version: string
  /** The addresses at which agents may find hubs; empty: only the one that they know. */
  hubs(): string[]
  /** Whether a deployment of a project is queued or running. */
  hasRunning(projectId: string): boolean
  /** The limit of the rate of archives to all nodes together; 0: none. */
  megabytesPerSecond(): number
  /** Called when a rollout is done: after a halt, the record of its deployment says that it failed. */
  done(deployId: string): void
  /** Ends the sessions of a node. */
  endSessions(nodeId: string): void
  log(message: string, error?: unknown): void
}

/** What agents do. */
export interface HubAgents {
  enroll: HubEnrollments['enroll']
  /** Writes the stream of a node until it ends. */
  desired(node: { nodeId: string; session: string }, sink: Sink): Promise<void>
  /** Takes a report. Resolves when it is on the disk. */
  report(nodeId: string, report: AgentReport): Promise<void>
  document: Releases['document']
  archiveOf: Releases['archiveOf']
  /** Limits the rate of a reply with an archive. */
  limited: UploadRate['limited']
}

/** The hub of a fleet. */
export interface Hub extends Fleet {
  agents: HubAgents
  /** Begins a rollout. Resolves with its id. */
  begin(release: Release): Promise<string>
  /** Rollouts of deployments. */
  rolls: Rolls
  sealOffer: Releases['sealOffer']
  openOffer: Releases['openOffer']
  /** The open streams, for what relays requests to nodes. */
  links: NodeLinks
  key: HubKey
  /** Does what is due: heartbeats, ends of pauses, lost nodes. `start` calls it each second. */
  tick(): Promise<void>
  start(): void
  /** Ends the streams, and writes what is only in memory. */
  stop(): Promise<void>
  /** Figures for metrics. */
  figures(): { connected: number; followers: number }
}

const tickMs = 1000

/** Creates the hub of a fleet. */
export function createHub(needs: HubNeeds): Hub {
  const { store, clock, version, hubs, log } = needs
  const presence = createPresence(needs)
  const links = createLinks(clock)
  const key = createHubKey({ store, key: needs.serverKey })
  const orders = createOrders({ key, links, log })
  const reader = createRolloutReader({ store, links })
  const events = createRolloutEvents(reader)
  const rollings = createRollings({
    store,
    clock,
    send: orders.send,
    changed({ id, state, deployId }, nodeIds, from) {
      events.changed(id, nodeIds)
      if (state === 'done' && from !== 'done') needs.done(deployId)
    }
  })
  const unplaced = (projectIds: readonly string[], nodeId: string): void => {
    for (const projectId of projectIds) links.find(nodeId)?.send({ type: 'unplaced', projectId })
  }
  const report = createReports({ store, clock, rollings, unplaced })
  const releases = createReleases({ ...needs, key })
  const begin = createBegin({ ...needs, rollings, presence })
  const enrollments = createEnrollments({ ...needs, key })
  let timer: NodeJS.Timeout | undefined
  let told = hubs().join()

  function welcome(): DesiredLine {
    return { type: 'welcome', version, heartbeatMs, hubs: hubs() }
  }

  /** Tells the agents of a hub that has joined since they connected: they need it when this one is lost. */
  function tellHubs(): void {
    const now = hubs().join()
    if (now === told) return
    told = now
    for (const nodeId of links.connected()) links.find(nodeId)?.send(welcome())
  }

  async function desired({ nodeId, session }: { nodeId: string; session: string }, sink: Sink): Promise<void> {
    const link = links.open({ nodeId, session })
    presence.heard(nodeId)
    link.send(welcome())
    for (const line of key.lines()) link.send(line)
    const running = link.run(sink)
    // A write waits for the writes before it: no order leaves before it is on the disk.
    await rollings
      .write(({ tx }) => ordersOf(tx, nodeId))
      .then(orders.send, error => {
        links.close(nodeId)
        log(`Cannot read the orders of node ${nodeId}`, error)
      })
    await running
  }

  /** Lets rollouts continue whose pause has ended, and takes note of nodes that do not answer. */
  async function tick(): Promise<void> {
    links.beat()
    tellHubs()
    for (const projectId of rollings.going()) {
      const machine = rollings.read(projectId)?.machine
      if (machine === undefined) continue
      const { state, pausedUntil } = machine.rollout
      const isDue = state === 'pausing' && pausedUntil !== null && Date.parse(pausedUntil) <= clock.now()
      const lost = [...machine.nodes].filter(({ nodeId }) => machine.isWaitedFor(nodeId) && presence.isLost(nodeId))
      if (!isDue && lost.length === 0) continue
      const ids = lost.map(({ nodeId }) => nodeId)
      await rollings.write(turn => {
        const machine = turn.of(projectId)?.machine
        for (const nodeId of ids) machine?.lost(nodeId)
        machine?.tick()
      })
    }
    for (const nodeId of [...links.connected()]) if (presence.isLost(nodeId)) links.close(nodeId)
    await presence.write()
  }

  return {
    nodes: createNodes({
      ...needs,
      links,
      rollings,
      lastSeenOf: presence.lastSeenOf,
      forgotten(nodeId) {
        needs.endSessions(nodeId)
        presence.forget(nodeId)
        links.close(nodeId)
      }
    }),
    enrollments,
    placements: createPlacements({
      ...needs,
      rollings,
      unplaced(projectId, nodeIds) {
        for (const nodeId of nodeIds) unplaced([projectId], nodeId)
      }
    }),
    rollouts: createRollouts({ ...needs, links, rollings, reader, events }),
    agents: {
      enroll: enrollments.enroll,
      document: releases.document,
      archiveOf: releases.archiveOf,
      limited: createUploadRate(needs).limited,
      desired,
      async report(nodeId, given) {
        presence.heard(nodeId)
        await report(nodeId, given)
      }
    },
    begin,
    rolls: createRolls({ ...needs, begin, rollings, events, releases }),
    sealOffer: releases.sealOffer,
    openOffer: releases.openOffer,
    links,
    key,
    tick,
    start() {
      if (timer !== undefined) return
      let isBusy = false
      timer = setInterval(() => {
        if (isBusy) return
        isBusy = true
        void tick()
          .catch(error => log('Cannot continue the rollouts', error))
          .finally(() => (isBusy = false))
      }, tickMs).unref()
    },
    async stop() {
      clearInterval(timer)
      links.closeAll()
      await orders.sent()
      await presence.write({ now: true }).catch(error => log('Cannot write when nodes were heard of', error))
    },
    figures: () => ({ connected: links.count(), followers: events.count() })
  }
}
