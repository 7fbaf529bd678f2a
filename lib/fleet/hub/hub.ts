/*
 * The hub of a fleet: nodes, placements and rollouts, the streams of the agents, and their reports. It works in the
 * memory of one process; what must not be lost is in the store.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { type Clock, elapsedOf } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import type { Reply, Sink } from '../../http/core/route.js'
import { type AgentReport, type DesiredLine, fleetProtocol, heartbeatMs, type Rolls } from '../../model/fleet-wire.js'
import type { AuditEvent } from '../../model/audit.js'
import type { Store, Transaction } from '../../core/store/database.js'
import type { Incident } from '../../model/setting.js'
import type { FleetNode } from '../../model/node.js'
import type { Rollout } from '../../model/rollout.js'
import { countNodes, listNodes } from '../../core/store/tables/fleet.js'
import { findProject } from '../../core/store/tables/projects.js'
import { hasDoneRollout, lastRollout, rolledProjects } from '../../core/store/tables/rollouts.js'
import { createBeginIn, createCatchUp, createRollings, type Release } from './rolling.js'
import { createEnrollments, createNodes, createPlacements, type HubEnrollments } from './nodes.js'
import type { Fleet } from './fleet.js'
import { createHistory, createOrders, createReports, ordersOf } from './orders.js'
import {
  createHubKey,
  createReleases,
  createVoice,
  type HubKey,
  type NodeRequest,
  type Releases,
  type ReleasesNeeds
} from './voice.js'
import { createLinks, createPresence, createTwins, type NodeLinks, sharedError } from './links.js'
import { createRolloutEvents, createRolloutReader, createRollouts, createRolls } from './rollouts.js'
import type { ServerKey } from '../../core/audit/signed-note.js'

export interface HubNeeds extends Pick<ReleasesNeeds, 'sealing' | 'variables' | 'headers' | 'fromSettings'> {
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
  /** Called when a rollout is done or reverted: the record of its deployment may say what it was before. */
  ended(deployId: string, state: 'done' | 'reverted', rolloutId: string): void
  endSessions(nodeId: string): void
  /** Reports a rollout that waits for somebody. Never throws. */
  tell(incident: Incident): void
  /** Called when a node says whether files of a project were edited there. */
  drifted(projectId: string, isDrifted: boolean, node: FleetNode): void
  log(message: string, error?: unknown): void
}

/** What agents do. */
export interface HubAgents {
  enroll: HubEnrollments['enroll']
  /** Writes the stream of a node until it ends. */
  desired(asked: NodeRequest, sink: Sink): Promise<void>
  /** Returns what a node gets that begins a session. */
  greet: HubKey['greet']
  /** Takes a report. Resolves when it is on the disk. */
  report(nodeId: string, report: AgentReport): Promise<void>
  document: Releases['document']
  archiveOf: Releases['archiveOf']
  /** Limits the rate of a reply with an archive. */
  limited: UploadRate['limited']
}

export interface Hub extends Fleet {
  agents: HubAgents
  /** Begins a rollout. Resolves with its id. */
  begin(release: Release): Promise<string>
  /** Rollouts of deployments. */
  rolls: Rolls
  /** The open streams, for what relays requests to nodes. */
  links: NodeLinks
  key: HubKey
  /** Begins another history after a restore, and halts what was going on when the backup was made. */
  restored(): Promise<void>
  /** Does what is due: heartbeats, ends of pauses, lost nodes. `start` calls it each second. */
  tick(): Promise<void>
  start(): void
  /** Ends the streams, and writes what is only in memory. */
  stop(): Promise<void>
  /** The nodes that were not heard of for too long, and the ids of those that are connected. */
  presence(): { lost: FleetNode[]; connected: ReadonlySet<string> }
  /** Figures for metrics. */
  figures(): { connected: number; outdated: number; followers: number }
}

const tickMs = 1000
const restoredReason =
  'The hub was restored from a backup, and nodes may have had later releases. Push again, or resume it'

type Parts = ReturnType<typeof createParts>

function createParts(needs: HubNeeds) {
  const { store, clock, log } = needs
  const presence = createPresence(needs)
  const links = createLinks(clock)
  const key = createHubKey({ store, key: needs.serverKey })
  const history = createHistory(needs)
  const twins = createTwins({
    ...needs,
    isConnected: nodeId => links.find(nodeId) !== null,
    free(nodeId, why) {
      if (why === 'single') links.close(nodeId)
      else orders.send(ordersOf(store, nodeId))
    }
  })
  const orders = createOrders({ store, links, isHeld: twins.isHeld, log })
  const reader = createRolloutReader({ store, links })
  const events = createRolloutEvents(reader)
  const rollings = createRollings({
    store,
    clock,
    send: orders.send,
    changed(rollout, nodeIds, from) {
      const { id, projectId, state, deployId } = rollout
      events.changed(id, nodeIds)
      if (state !== from && (state === 'approval' || state === 'halted')) tellOf(needs, rollout, state)
      if (state === 'reverted' && from !== state)
        void rollings
          .write(turn => catchUp(turn, projectId))
          .catch(error => log('Cannot begin the rollout to nodes that have nothing', error))
      // A rollout to nodes that were placed later says nothing about the others.
      if (state === 'reverted' && hasDoneRollout(store, deployId)) return
      if ((state === 'done' || state === 'reverted') && from !== state) needs.ended(deployId, state, id)
    }
  })
  const unplaced = (projectIds: readonly string[], nodeId: string): void => {
    const link = twins.isHeld(nodeId) ? null : links.find(nodeId)
    for (const projectId of projectIds) link?.send({ type: 'unplaced', projectId })
  }
  /** Sends all orders again, with the history that has begun. */
  const sendAgain = (): void => {
    for (const nodeId of links.connected()) orders.send(ordersOf(store, nodeId))
  }
  const report = createReports({ ...needs, rollings, history, begun: sendAgain, unplaced })
  const releases = createReleases({ ...needs, key })
  const beginIn = createBeginIn({ ...needs, presence, twins })
  const begin = (release: Release): Promise<string> => rollings.write(turn => beginIn(turn, release).stored.id)
  const catchUp = createCatchUp({ ...needs, beginIn })
  const enrollments = createEnrollments({ ...needs, key })
  return {
    needs,
    presence,
    links,
    key,
    history,
    twins,
    orders,
    reader,
    events,
    rollings,
    unplaced,
    sendAgain,
    report,
    releases,
    begin,
    catchUp,
    enrollments
  }
}

/** Reports a rollout that waits for somebody. One that another one replaced waits for nobody. */
function tellOf({ store, tell }: HubNeeds, rollout: Rollout, state: 'approval' | 'halted'): void {
  const project = findProject(store, rollout.projectId)
  if (project === undefined || lastRollout(store, rollout.projectId)?.id !== rollout.id) return
  const { id, name, deployPath } = project
  const { number, deployId, wave, waves, haltedReason } = rollout
  const event = state === 'approval' ? 'rollout_waiting' : 'rollout_halted'
  const about = { id: rollout.id, number, deployId, state: rollout.state, wave, waves, haltedReason }
  tell({ event, project: { id, name, deployPath }, rollout: about })
}

function welcomeOf({ version, hubs }: HubNeeds): DesiredLine {
  return { type: 'welcome', version, heartbeatMs, hubs: hubs() }
}

/** Writes the stream of a node until it ends. */
async function writeStream(parts: Parts, asked: NodeRequest, sink: Sink): Promise<void> {
  const { needs, key, presence, links, history, twins, orders, rollings } = parts
  const { nodeId, protocol, instance } = asked
  if (instance !== undefined) await twins.opened(nodeId, instance, !presence.isLost(nodeId))
  const say = createVoice({ key, clock: needs.clock }, asked)
  const link = links.open({ nodeId, say, isOutdated: protocol < fleetProtocol })
  presence.heard(nodeId)
  link.send(welcomeOf(needs))
  const running = link.run(sink)
  // A write waits for the writes before it: no order leaves before it is on the disk.
  await rollings
    .write(({ tx }) => {
      history.ensure(tx)
      return ordersOf(tx, nodeId)
    })
    .then(orders.send, error => {
      links.close(nodeId)
      needs.log(`Cannot read the orders of node ${nodeId}`, error)
    })
  await running
}

/** Lets rollouts continue whose pause has ended, and takes note of nodes that do not answer. */
async function continueRollouts({ rollings, presence, twins }: Parts): Promise<void> {
  const isAway = (nodeId: string): boolean => presence.isLost(nodeId) || twins.isShared(nodeId)
  for (const projectId of rollings.going()) {
    const machine = rollings.read(projectId)?.machine
    if (machine === undefined) continue
    const lost = [...machine.nodes].filter(({ nodeId }) => machine.isWaitedFor(nodeId) && isAway(nodeId))
    if (!machine.isDue() && lost.length === 0) continue
    const ids = lost.map(({ nodeId }) => nodeId)
    await rollings.write(turn => {
      const machine = turn.of(projectId)?.machine
      for (const nodeId of ids) machine?.lost(nodeId, twins.isShared(nodeId) ? sharedError : null)
      machine?.tick()
    })
  }
}

export function createHub(needs: HubNeeds): Hub {
  const parts = createParts(needs)
  const { presence, links, key, history, twins, orders, rollings, events, releases, enrollments } = parts
  const { begin, catchUp, unplaced, report } = parts
  let told = needs.hubs().join()
  let timer: NodeJS.Timeout | undefined

  /** Tells the agents of a hub that has joined since they connected: they need it when this one is lost. */
  function tellHubs(): void {
    const now = needs.hubs().join()
    if (now === told) return
    told = now
    for (const nodeId of links.connected()) links.find(nodeId)?.send(welcomeOf(needs))
  }

  async function tick(): Promise<void> {
    await links.beat()
    tellHubs()
    await twins.tick()
    await continueRollouts(parts)
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
        twins.forget(nodeId)
        links.close(nodeId)
      }
    }),
    enrollments,
    placements: createPlacements({
      ...needs,
      rollings,
      catchUp,
      unplaced(projectId, nodeIds) {
        for (const nodeId of nodeIds) unplaced([projectId], nodeId)
      }
    }),
    rollouts: createRollouts({ ...needs, ...parts }),
    agents: {
      enroll: enrollments.enroll,
      greet: key.greet,
      document: releases.document,
      archiveOf: releases.archiveOf,
      limited: createUploadRate(needs).limited,
      desired: (asked, sink) => writeStream(parts, asked, sink),
      async report(nodeId, given) {
        presence.heard(nodeId)
        if (!twins.isShared(nodeId)) await report(nodeId, given)
      }
    },
    begin,
    rolls: createRolls({ ...needs, ...parts }),
    links,
    key,
    tick,
    async restored() {
      await rollings.write(turn => {
        history.begin(turn.tx, 'restored from a backup')
        for (const projectId of rolledProjects(turn.tx)) turn.of(projectId)?.machine.restored(restoredReason)
      })
      parts.sendAgain()
    },
    start() {
      if (timer !== undefined) return
      let isBusy = false
      timer = setInterval(() => {
        if (isBusy) return
        isBusy = true
        void tick()
          .catch(error => needs.log('Cannot continue the rollouts', error))
          .finally(() => (isBusy = false))
      }, tickMs).unref()
    },
    async stop() {
      clearInterval(timer)
      links.closeAll()
      await orders.sent()
      await presence.write({ now: true }).catch(error => needs.log('Cannot write when nodes were heard of', error))
    },
    presence() {
      const connected = new Set(links.connected())
      // The usual state: nobody is missing, and the nodes need not be read.
      if (connected.size >= countNodes(needs.store)) return { lost: [], connected }
      const nodes = listNodes(needs.store).map(node => ({ ...node, lastSeenAt: presence.lastSeenOf(node) }))
      const isLost = ({ id, lastSeenAt, isDrained }: FleetNode): boolean =>
        lastSeenAt !== null && !isDrained && presence.isLost(id)
      return { lost: nodes.filter(isLost), connected }
    },
    figures: () => ({ connected: links.count(), outdated: links.countOutdated(), followers: events.count() })
  }
}

/* Limits how fast the hub sends archives, to all nodes together. */

/** Limits the rate of replies. */
export type UploadRate = ReturnType<typeof createUploadRate>

const bytesPerMegabyte = 1024 * 1024

/** Creates a limit. `megabytesPerSecond` is read again at each piece; 0 means none. */
export function createUploadRate({
  megabytesPerSecond,
  clock,
  wait = sleep
}: {
  megabytesPerSecond(): number
  clock: Clock
  wait?: (ms: number, value: undefined, options: { signal: AbortSignal }) => Promise<unknown>
}) {
  /** When the bytes that were taken so far are due. */
  let dueMs = 0

  async function take(bytes: number, signal: AbortSignal): Promise<void> {
    const rate = megabytesPerSecond() * bytesPerMegabyte
    if (rate === 0) return
    const nowMs = elapsedOf(clock)
    dueMs = Math.max(dueMs, nowMs) + (bytes / rate) * 1000
    const aheadMs = dueMs - nowMs
    if (aheadMs > 1) await wait(aheadMs, undefined, { signal })
  }

  function slowed(sink: Sink): Sink {
    return {
      signal: sink.signal,
      sendHead: () => sink.sendHead(),
      async write(chunk) {
        await take(chunk.length, sink.signal)
        await sink.write(chunk)
      }
    }
  }

  function limited(reply: Reply): Reply {
    if (reply.kind === 'stream') return { ...reply, run: sink => reply.run(slowed(sink)) }
    if (reply.kind === 'file') return { kind: 'file', open: async request => limited(await reply.open(request)) }
    return reply
  }

  return {
    /** Returns a reply whose body is sent no faster than the limit allows, together with all others. */
    limited
  }
}
