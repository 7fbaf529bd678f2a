import { posix } from 'node:path'
import { notFound, invalid, Refusal } from '../../base/errors.js'
import type { AuditEvent } from '../../model/audit.js'
import { isGoing } from '../../model/rollout.js'
import type { ListedPlacement } from '../../model/node.js'
import type { Reader, Store, Transaction } from '../../store/database.js'
import { deletePlacement, findPlacement, insertPlacement, listPlacements } from '../../store/tables/fleet.js'
import { deleteRolloutNode } from '../../store/tables/rollouts.js'
import { findProject } from '../../store/tables/projects.js'
import type { CatchUp } from './catch-up.js'
import type { Placements } from './fleet.js'
import { requireNode } from './nodes.js'
import type { Rollings } from './rolling.js'

/** Dependencies of the placements. */
export interface PlacementsNeeds {
  store: Store
  audit: { within(tx: Transaction, event: AuditEvent): void }
  rollings: Rollings
  catchUp: CatchUp
  /** Whether a deployment of the project is queued or running. */
  hasRunning(projectId: string): boolean
  /** Tells nodes that a project is no longer placed on them. */
  unplaced(projectId: string, nodeIds: readonly string[]): void
}

/** Creates the placements of a fleet. */
export function createPlacements({
  store,
  audit,
  rollings,
  catchUp,
  hasRunning,
  unplaced
}: PlacementsNeeds): Placements {
  return {
    ofProject: projectId => listPlacements(store, { projectId }),

    async change(projectId, { add, remove }, actor) {
      const removed = await rollings.write(turn => {
        const { tx } = turn
        const project = findProject(tx, projectId)
        if (project === undefined) throw notFound('Project', projectId)
        const machine = turn.of(projectId)?.machine
        const isBusy = hasRunning(projectId) || (machine !== undefined && isGoing(machine.rollout.state))
        const isFirst = listPlacements(tx, { projectId }).length === 0
        if (isBusy && (remove.length > 0 || isFirst)) throw inProgress(project.name)
        const gone = remove.map(name => {
          const node = requireNode(tx, name)
          if (!deletePlacement(tx, projectId, node.id)) throw notFound('Placement', name)
          machine?.remove(node.id)
          if (machine !== undefined) deleteRolloutNode(tx, machine.rollout.id, node.id)
          audit.within(tx, { action: 'placement.remove', actor, projectId, target: node.id, detail: node.name })
          return node.id
        })
        const added: string[] = []
        for (const { node: name, deployPath } of add) {
          const node = requireNode(tx, name)
          const before = findPlacement(tx, projectId, node.id)
          const path = absolute(deployPath ?? before?.deployPath ?? project.deployPath)
          if (before?.deployPath === path) continue
          if (before !== undefined) throw placedElsewhere(node.name, before.deployPath)
          refuseOverlap(tx, node.id, path)
          const nothing = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
          insertPlacement(tx, { projectId, nodeId: node.id, deployPath: path, ...nothing })
          machine?.add(node.id)
          added.push(node.id)
          const detail = `${node.name}: ${path}`
          audit.within(tx, { action: 'placement.add', actor, projectId, target: node.id, detail })
        }
        catchUp(turn, projectId, { placed: new Set(added), actor })
        return gone
      })
      unplaced(projectId, removed)
      return listPlacements(store, { projectId })
    }
  }
}

function absolute(path: string): string {
  if (path.includes('\0') || !posix.isAbsolute(path) || posix.normalize(path) === '/')
    throw invalid('deployPath', `"deployPath" is not valid: "${path}" is not the absolute path of a directory`)
  return posix.normalize(path).replace(/\/$/, '')
}

/** Refuses (409 `path_taken`) a directory that contains another project's on the node, or lies in it. */
function refuseOverlap(db: Reader, nodeId: string, path: string): void {
  const other = listPlacements(db, { nodeId }).find(each => overlaps(each, path))
  if (other === undefined) return
  const { projectId, projectName, nodeName, deployPath } = other
  const sentence = `Cannot place the project in "${path}" of "${nodeName}": "${projectName}" is placed in "${deployPath}"`
  throw new Refusal('conflict', 'path_taken', sentence, {
    field: 'deployPath',
    other: { kind: 'project', id: projectId, name: projectName }
  })
}

function overlaps({ deployPath }: ListedPlacement, path: string): boolean {
  return `${path}/`.startsWith(`${deployPath}/`) || `${deployPath}/`.startsWith(`${path}/`)
}

function placedElsewhere(nodeName: string, deployPath: string): Refusal {
  const sentence = `The project is placed in "${deployPath}" of "${nodeName}". Remove it there first`
  return new Refusal('conflict', 'path_taken', sentence, { field: 'deployPath' })
}

function inProgress(projectName: string): Refusal {
  const sentence = `Cannot change the nodes of "${projectName}": a deployment is in progress. Wait, or cancel it`
  return new Refusal('conflict', 'rollout_in_progress', sentence)
}
