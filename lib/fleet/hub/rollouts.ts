import { notFound, Refusal } from '../../base/errors.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import { isGoing, type ListedRollout, type ListedRolloutNode, type RolloutDetail } from '../../model/rollout.js'
import type { Store, Transaction } from '../../store/database.js'
import {
  countPhases,
  findRollout,
  listRollouts,
  type StoredRollout,
  storedRolloutNode,
  type StoredRolloutNode,
  storedRolloutNodes
} from '../../store/tables/rollouts.js'
import { findProject } from '../../store/tables/projects.js'
import type { Machine } from '../machine.js'
import type { Rollouts } from './fleet.js'
import type { NodeLinks } from './links.js'
import { requireNode } from './nodes.js'
import type { Rollings } from './rolling.js'
import type { RolloutEvents, RolloutReader } from './rollout-events.js'

/** Dependencies of the rollouts. */
export interface RolloutsNeeds {
  store: Store
  audit: { within(tx: Transaction, event: AuditEvent): void }
  links: NodeLinks
  rollings: Rollings
}

/** Creates the reader of rollouts. */
export function createRolloutReader({ store, links }: Pick<RolloutsNeeds, 'store' | 'links'>): RolloutReader {
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
    listed: id => listed(requireRollout(store, id)),
    detail(id): RolloutDetail {
      const nodes = storedRolloutNodes(store, id).map(shownNode)
      return { ...listed(requireRollout(store, id)), nodes }
    },
    node(id, nodeId) {
      const node = storedRolloutNode(store, id, nodeId)
      return node === undefined ? undefined : shownNode(node)
    },
    list: query => listRollouts(store, query).map(listed)
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
        machine.halt(`${actor.name} stopped it${reason === null ? '' : `: ${reason}`}`)
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
        machine.revert(from, `${actor.name} reverts it`)
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
export function requireRollout(db: Pick<Store, 'all' | 'get'>, id: string): StoredRollout {
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
