import { notFound, Refusal } from '../../base/errors.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import {
  isGoing,
  type ListedRollout,
  type ListedRolloutNode,
  type RolloutDetail,
  type RolloutEvent
} from '../../model/rollout.js'
import type { Store, Transaction } from '../../core/store/database.js'
import {
  countPhases,
  findRollout,
  listRollouts,
  type RolloutFilter,
  rolloutOfDeployment,
  type StoredRollout,
  storedRolloutNode,
  type StoredRolloutNode,
  storedRolloutNodes
} from '../../core/store/tables/rollouts.js'
import { takingPart } from '../../base/shared/api.js'
import { findProject, nameOfActor } from '../../core/store/tables/projects.js'
import type { Machine } from '../machine.js'
import { type Clock, elapsedOf } from '../../base/clock.js'
import { countOf } from '../../base/text.js'
import type { RollEnd, RolloutWatch, Rolls } from '../../model/fleet-wire.js'
import { nodesOfProject } from '../../core/store/tables/fleet.js'
import type { Rollouts } from './fleet.js'
import type { NodeLinks } from './links.js'
import { requireNode } from './nodes.js'
import type { Release, Rollings } from './rolling.js'
import { createRolloutLines } from './rollout-lines.js'
import type { Releases } from './voice.js'

export interface RolloutsNeeds {
  store: Store
  audit: { within(tx: Transaction, event: AuditEvent): void }
  links: NodeLinks
  rollings: Rollings
}

/** Creates the reader of rollouts. */
export function createRolloutReader({ store, links }: Pick<RolloutsNeeds, 'store' | 'links'>) {
  function listed(stored: StoredRollout & { projectName?: string }): ListedRollout {
    const { archiveSha256: _, archiveBytes: __, sealed: ___, ...rollout } = stored
    const counts = countPhases(store, stored.id)
    const nodeCount = Object.values(counts).reduce((sum, each) => sum + each, 0)
    const projectName = stored.projectName ?? findProject(store, stored.projectId)?.name ?? stored.projectId
    return { ...rollout, projectName, counts, nodeCount }
  }

  function shownNode(node: StoredRolloutNode): ListedRolloutNode {
    return { ...node, isConnected: links.find(node.nodeId) !== null }
  }

  return {
    listed: (id: string): ListedRollout => listed(requireRollout(store, id)),
    detail(id: string): RolloutDetail {
      const nodes = storedRolloutNodes(store, id).map(shownNode)
      return { ...listed(requireRollout(store, id)), nodes }
    },

    /** Returns a node; undefined: it was forgotten. */
    node(id: string, nodeId: string): ListedRolloutNode | undefined {
      const node = storedRolloutNode(store, id, nodeId)
      return node === undefined ? undefined : shownNode(node)
    },
    list: (query: RolloutFilter): ListedRollout[] => listRollouts(store, query).map(listed)
  }
}

/** Creates what users do with rollouts. */
export function createRollouts(needs: RolloutsNeeds & { reader: RolloutReader; events: RolloutEvents }): Rollouts {
  const { store, audit, rollings, reader, events } = needs

  /** Changes a rollout, if it is the last one of its project. */
  async function change(
    id: string,
    { action, actor, detail = null }: { action: string; actor: Actor; detail?: string | null },
    work: (machine: Machine) => void
  ): Promise<ListedRollout> {
    await rollings.write(turn => {
      const { projectId } = requireRollout(turn.tx, id)
      const rolling = turn.of(projectId)
      if (rolling === null || rolling.stored.id !== id) throw replaced(id, rolling?.stored.id)
      work(rolling.machine)
      audit.within(turn.tx, { action, actor, projectId, target: id, detail })
    })
    return reader.listed(id)
  }

  return {
    list: query => reader.list(query),
    get: reader.detail,
    projectOf: id => findRollout(store, id)?.projectId,

    node(id, nodeIdOrName) {
      requireRollout(store, id)
      const node = reader.node(id, requireNode(store, nodeIdOrName).id)
      if (node === undefined) throw notFound('Node', nodeIdOrName)
      return node
    },

    halt: (id, reason, actor) =>
      change(id, { action: 'rollout.halt', actor, detail: reason }, machine => {
        refuseUnless(machine, isGoing(machine.rollout.state), 'halt')
        machine.halt(`${nameOfActor(store, actor.name)} stopped it${reason === null ? '' : `: ${reason}`}`)
      }),

    resume: (id, actor) =>
      change(id, { action: 'rollout.resume', actor }, machine => {
        const { state } = machine.rollout
        refuseUnless(machine, state === 'halted' || state === 'reverted', 'resume')
        machine.resume()
      }),

    revert: (id, wave, actor) =>
      change(id, { action: 'rollout.revert', actor, detail: wave === null ? null : `from wave ${wave}` }, machine => {
        const { state, revertFrom } = machine.rollout
        const from = wave ?? 1
        const isFurther = revertFrom === null || from < revertFrom
        refuseUnless(machine, isFurther || (state !== 'reverting' && state !== 'reverted'), 'revert')
        machine.revert(from, `${nameOfActor(store, actor.name)} reverts it`)
      }),

    approve: (id, actor) =>
      change(id, { action: 'rollout.approve', actor }, machine => {
        const { state, wave } = machine.rollout
        refuseUnless(machine, state === 'approval' || state === 'pausing', `approve wave ${wave + 1} of`)
        machine.approve()
      }),

    follow(id, signal) {
      requireRollout(store, id)
      return events.follow(id, signal)
    }
  }
}

/** Returns a rollout. Refuses `not_found`. */
function requireRollout(db: Pick<Store, 'all' | 'get'>, id: string): StoredRollout {
  const rollout = findRollout(db, id)
  if (rollout === undefined) throw notFound('Rollout', id)
  return rollout
}

/** Refuses (409 `rollout_state`) what the state of a rollout does not allow. */
function refuseUnless({ rollout }: Machine, isAllowed: boolean, doing: string): void {
  if (isAllowed) return
  const sentence = `Cannot ${doing} rollout ${rollout.id}: it is ${stateWords[rollout.state]}`
  throw new Refusal('conflict', 'rollout_state', sentence)
}

const stateWords = {
  preparing: 'preparing',
  swapping: 'in progress',
  pausing: 'pausing before the next wave',
  approval: 'waiting for an approval',
  halted: 'halted',
  reverting: 'going back',
  reverted: 'reverted',
  done: 'done'
} as const

function replaced(id: string, last: string | undefined): Refusal {
  const sentence = `Cannot change rollout ${id}: rollout ${last} of the same project has replaced it`
  return new Refusal('conflict', 'rollout_state', sentence)
}

/* A rollout as the deployment sees it that began it: it waits for the end, and writes what happens to its output. */

export interface RollsNeeds {
  store: Store
  clock: Clock
  begin(release: Release): Promise<string>
  releases: Pick<Releases, 'sealOffer' | 'offerOf'>
  rollings: Rollings
  events: RolloutEvents
}

/** Creates the rollouts of deployments. */
export function createRolls({ store, clock, begin, releases, rollings, events }: RollsNeeds): Rolls {
  async function follow(
    { id, archiveBytes }: Pick<StoredRollout, 'id' | 'archiveBytes'>,
    { say, signal, isResumed }: RolloutWatch & { isResumed: boolean }
  ): Promise<RollEnd> {
    const take = createRolloutLines({ say, archiveBytes, nowMs: () => elapsedOf(clock), isResumed })
    for await (const event of events.follow(id, signal)) {
      take(event)
      if (event.type !== 'end') continue
      const { state, haltedReason } = event.rollout
      const outcome = state === 'done' || state === 'reverted' ? state : 'halted'
      if (outcome === 'done')
        return { outcome, sentence: `rolled out to ${countOf(takingPart(event.rollout), 'node')}` }
      return { outcome, sentence: `The rollout ${id} was ${outcome}: ${haltedReason}` }
    }
    throw new Error(`The events of rollout ${id} have no end`)
  }

  /** Changes a rollout that is the last one of its project. */
  const change = ({ id, projectId }: StoredRollout, work: (last: { machine: Machine }) => void): Promise<void> =>
    rollings.write(turn => {
      const last = turn.of(projectId)
      if (last?.stored.id === id) work(last)
    })

  return {
    async begin({ offer, rollbackOf, ...release }, watch) {
      const nodes = nodesOfProject(store, release.projectId)
      if (nodes.every(({ isDrained }) => isDrained)) throw noNodes()
      const given = rollbackOf === null ? offer : ((await releases.offerOf(rollbackOf)) ?? offer)
      const sealed = await releases.sealOffer(release.deployId, given)
      const id = await begin({ ...release, sealed })
      return follow({ id, archiveBytes: release.archiveBytes }, { ...watch, isResumed: false })
    },

    async follow(deployId, watch) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined) throw new Error(`Deployment ${deployId} has no rollout`)
      return follow(rollout, { ...watch, isResumed: true })
    },

    async revert(deployId, reason, watch) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined) throw new Error(`Deployment ${deployId} has no rollout`)
      await change(rollout, ({ machine }) => {
        const { state } = machine.rollout
        if (state !== 'reverting' && state !== 'reverted') machine.revert(1, reason)
      })
      return follow(rollout, { ...watch, isResumed: true })
    },

    async halt(deployId, reason) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout !== undefined) await change(rollout, ({ machine }) => machine.halt(reason))
    }
  }
}

function noNodes(): Refusal {
  const sentence = 'No node takes the release: all nodes of the project are drained'
  return new Refusal('conflict', 'no_nodes', sentence)
}

/*
 * Followers of rollouts. A follower that is slow gets each changed node once, in its newest state, so that it costs no
 * more memory than the rollout has nodes.
 */

/** Tells followers what has changed. */
export type RolloutEvents = ReturnType<typeof createRolloutEvents>

/** Reads rollouts for the followers. */
export type RolloutReader = ReturnType<typeof createRolloutReader>

interface Follower {
  nodeIds: Set<string>
  isChanged: boolean
  wake(): void
}

/** Creates the events. */
export function createRolloutEvents(reader: RolloutReader) {
  const byRollout = new Map<string, Set<Follower>>()

  async function* follow(rolloutId: string, signal: AbortSignal): AsyncGenerator<RolloutEvent> {
    signal.throwIfAborted()
    const follower: Follower = { nodeIds: new Set(), isChanged: false, wake() {} }
    const followers = byRollout.get(rolloutId) ?? new Set()
    byRollout.set(rolloutId, followers.add(follower))
    const stop = (): void => follower.wake()
    signal.addEventListener('abort', stop)
    try {
      const known = new Map<string, string>()
      let rollout: ListedRollout = reader.detail(rolloutId)
      for (const node of (rollout as RolloutDetail).nodes) known.set(node.nodeId, stateOf(node))
      yield { type: 'rollout', rollout: rollout as RolloutDetail }
      while (isGoing(rollout.state)) {
        if (!follower.isChanged) await new Promise<void>(resolve => (follower.wake = resolve))
        signal.throwIfAborted()
        const { nodeIds } = follower
        follower.nodeIds = new Set()
        follower.isChanged = false
        const before = rollout
        rollout = reader.listed(rolloutId)
        // The store may be ahead of what was told: with a new state, all nodes are compared.
        const isTurn = rollout.state !== before.state || rollout.wave !== before.wave
        const nodes = isTurn
          ? reader.detail(rolloutId).nodes
          : [...nodeIds].flatMap(id => reader.node(rolloutId, id) ?? [])
        for (const node of nodes) {
          if (known.get(node.nodeId) === stateOf(node)) continue
          known.set(node.nodeId, stateOf(node))
          yield { type: 'node', node }
          signal.throwIfAborted()
        }
        if (JSON.stringify(rollout) !== JSON.stringify(before)) yield { type: 'state', rollout }
      }
      yield { type: 'end', rollout }
    } finally {
      signal.removeEventListener('abort', stop)
      followers.delete(follower)
      if (followers.size === 0) byRollout.delete(rolloutId)
    }
  }

  function stateOf({ phase, attempt, hasBegun, error, tookMs, updatedAt }: ListedRolloutNode): string {
    return `${phase} ${attempt} ${hasBegun} ${tookMs} ${updatedAt} ${error}`
  }

  return {
    /** Takes note of a change of a rollout, and of the nodes that changed. */
    changed(rolloutId: string, nodeIds: readonly string[]): void {
      for (const follower of byRollout.get(rolloutId) ?? []) {
        for (const nodeId of nodeIds) follower.nodeIds.add(nodeId)
        follower.isChanged = true
        follower.wake()
      }
    },

    /**
     * Yields the rollout, then what changes, until it is halted, reverted or done. An abort throws the signal's reason.
     */
    follow,
    /** Number of followers. */
    count: (): number => [...byRollout.values()].reduce((sum, { size }) => sum + size, 0)
  }
}
