/*
 * The way back to an earlier state of a target: which deployments must be undone, in which order they changed the target,
 * and whether that is known completely. exact-change.ts finds the contents.
 *
 * The numbers of the changes (`placed`) have no gaps. If there is one, a record was removed or placed again by an import,
 * so what happened in between is not known.
 */
import { existsSync } from 'node:fs'
import { Refusal } from '../base/refusal.js'
import type { Project } from '../model/project.js'
import type { ExactWindow } from '../model/rollback.js'
import type { Reader } from '../store/database.js'
import { findDeployment } from '../store/tables/deployments.js'
import {
  foreignAfter,
  notKept,
  ownImages,
  placementBefore,
  placementsAfter,
  type Placement
} from '../store/tables/placements.js'
import { findProject } from '../store/tables/projects.js'
import type { DeployFiles } from './files.js'

/** An earlier state of a target. */
export interface Goal {
  /** The deployment after which the target was in this state; null: before the first one. */
  to: string | null
  /** The deployment that is undone, whatever came before; null: all deployments since `to` are undone. */
  undoOf: string | null
}

/** The deployments that must be undone to reach a goal. */
export interface WayBack {
  goal: Goal
  to: Placement | null
  /** Oldest first. */
  undone: Placement[]
}

/** What finding a way back needs. */
export interface WayBackNeeds {
  store: Reader
  files: Pick<DeployFiles, 'archive' | 'before' | 'manifest'>
}

/** Returns the goal of undoing the last deployment. Refuses (`conflict`) nothing_to_undo. */
export function goalOfUndo(store: Reader, { id, name, deployPath }: Project): Goal {
  const [live] = placementsAfter(store, id, 0, 1)
  if (live === undefined) {
    throw new Refusal('conflict', 'nothing_to_undo', `Cannot undo: nothing of "${name}" is deployed`)
  }
  return { to: placementBefore(store, id, { placed: live.placed, target: deployPath })?.id ?? null, undoOf: live.id }
}

/**
 * Returns the way back to a goal. Refuses (`conflict`): not_exact, foreign_change, and plan_outdated if the deployment
 * to undo is not the last one any more.
 */
export function findWayBack({ store, files }: WayBackNeeds, project: Project, goal: Goal): WayBack {
  const way = goal.undoOf === null ? wayOver(store, project, goal) : wayOfUndo(store, project, goal)
  for (const { id } of [...way.undone].reverse()) {
    if (!existsSync(files.manifest(id))) throw notExact(goal, `the file list of deployment ${id} is gone`)
  }
  return way
}

function wayOfUndo(store: Reader, project: Project, goal: Goal): WayBack {
  const [live] = placementsAfter(store, project.id, 0, 1)
  if (live === undefined || live.id !== goal.undoOf) {
    const sentence = `Nothing was changed: deployment ${goal.undoOf} is not the last one any more. Undo again`
    throw new Refusal('conflict', 'plan_outdated', sentence)
  }
  if (live.target !== project.deployPath) throw notExact(goal, `it is in another directory: "${live.target}"`)
  refuseForeign(store, { project, goal, from: live.placed })
  const to = placementBefore(store, project.id, { placed: live.placed, target: project.deployPath }) ?? null
  return { goal, to, undone: [live] }
}

function wayOver(store: Reader, project: Project, goal: Goal): WayBack {
  const number = findDeployment(store, goal.to as string)?.placed ?? null
  if (number === null) throw notExact(goal, 'its files are not among the changes of the target')
  const changes = placementsAfter(store, project.id, number - 1)
  const to = changes.at(-1) as Placement
  if (to.target !== project.deployPath) throw notExact(goal, `it went to another directory: "${to.target}"`)
  for (const [at, change] of changes.entries()) {
    const before = changes[at + 1]
    if (before !== undefined && before.placed !== change.placed - 1) {
      throw notExact(goal, `the record of the change before deployment ${change.id} is gone`)
    }
  }
  refuseForeign(store, { project, goal, from: number })
  const undone = changes.slice(0, -1).filter(({ target }) => target === project.deployPath)
  return { goal, to, undone: undone.reverse() }
}

function refuseForeign(store: Reader, { project, goal, from }: { project: Project; goal: Goal; from: number }): void {
  const foreign = foreignAfter(store, project.id)
  if (foreign === null || foreign < from) return
  const sentence = `Cannot ${wordsOf(goal)}: an import has changed the target since, without a deployment${advice(goal)}`
  throw new Refusal('conflict', 'foreign_change', sentence)
}

/** Returns the 409 for a state that cannot be restored exactly. */
export function notExact(goal: Goal, why: string): Refusal {
  return new Refusal('conflict', 'not_exact', `Cannot ${wordsOf(goal)}: ${why}${advice(goal)}`)
}

function wordsOf({ to, undoOf }: Goal): string {
  return undoOf === null ? `go back exactly to deployment ${to}` : `undo deployment ${undoOf} exactly`
}

function advice({ to }: Goal): string {
  return to === null ? '' : `. Roll back to ${to} with --overlay to put the files of its archive over the others`
}

/** Returns how far a project can go back exactly. It looks at files and records, and reads no manifest. */
export function exactWindow({ store, files }: WayBackNeeds, projectId: string, steps: number): ExactWindow {
  const nothing: ExactWindow = { undo: null, exactBackTo: null }
  const project = findProject(store, projectId)
  const changes = placementsAfter(store, projectId, 0, steps + 1)
  const [live] = changes
  if (project === undefined || live === undefined || live.target !== project.deployPath) return nothing
  const foreign = foreignAfter(store, projectId) ?? -1
  const known = createKnown({ store, files })
  let undone = 0
  const found = { ...nothing }
  for (const [at, change] of changes.slice(0, steps).entries()) {
    const isOurs = change.target === project.deployPath
    if (foreign >= change.placed || (isOurs && !known(change))) break
    if (isOurs) undone++
    found.undo ??= { deployId: live.id, message: live.message }
    const before = changes[at + 1]
    if (before === undefined || before.placed !== change.placed - 1) break
    if (before.target === project.deployPath && before.placed > foreign) {
      found.exactBackTo = { deployId: before.id, steps: undone }
    }
  }
  return found
}

/** Returns the function that says whether everything is there that a way back from a deployment needs. */
function createKnown({ store, files }: WayBackNeeds): (change: Placement) => boolean {
  const archives = new Map<string, boolean>()
  const hasArchive = (id: string): boolean => {
    const known = archives.get(id) ?? isArchiveKept({ store, files }, id)
    archives.set(id, known)
    return known
  }
  return ({ id, beforeFrom }) => {
    if (beforeFrom.length === 0 || beforeFrom.includes(notKept) || !existsSync(files.manifest(id))) return false
    return beforeFrom.every(source => (source === ownImages ? existsSync(files.before(id)) : hasArchive(source)))
  }
}

/** Whether the archive of a deployment still exists. */
export function isArchiveKept({ store, files }: WayBackNeeds, deployId: string): boolean {
  return findDeployment(store, deployId)?.hasArtifact === true && existsSync(files.archive(deployId))
}
