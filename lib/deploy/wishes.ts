/*
 * What requests wish, and where that is done: in a target of this server, or on the nodes of a project. A wish that cannot be
 * carried out there is refused with what to do instead, and never dropped. Each new field of a request needs a row here; each
 * new key of a policy needs one in `obeyedBy` (model/policy.ts).
 */

import { Refusal } from '../base/errors.js'
import type { Project } from '../model/project.js'
import type { Reader } from '../core/store/database.js'
import { isPlaced } from '../core/store/tables/fleet.js'
import type { DeployNeeds } from './needs.js'

const onNode = 'The page of a node does it for the files there'
const goBack = 'Use "svc rollout revert", or the page of a node'
/** What the server does only to its own targets, and what to do for a project on nodes instead. */
const placedWorks = {
  deploy: onNode,
  'do this with': onNode,
  'plan a deployment of': onNode,
  'hold to its plan a deployment of': onNode,
  undo: goBack,
  'roll back exactly': `${goBack}. "svc rollback --overlay" rolls the archive out again`,
  'roll back by force': `${goBack}. Without force, the policy "drift" applies on each node`,
  'restore the archive of': goBack
} as const

type Named = Pick<Project, 'id' | 'name'>

/** Refuses (409 `project_is_placed`) what the server does only to its own targets. */
export function refusePlaced(db: Reader, { id, name }: Named, doing: keyof typeof placedWorks): void {
  if (!isPlaced(db, id)) return
  const sentence = `Cannot ${doing} "${name}" here: its files are on the nodes of the fleet. ${placedWorks[doing]}`
  throw new Refusal('conflict', 'project_is_placed', sentence)
}

/**
 * Refuses (409 `not_placed`) to deploy a project without nodes on a hub of a cluster: another machine may lead tomorrow, so a
 * target is always that of a node. Elsewhere, it refuses what was accepted for nodes (`isForNodes`): a directory of this server
 * is another place.
 */
export function refuseUnplaced(
  { store, copies }: Pick<DeployNeeds, 'store' | 'copies'>,
  { id, name }: Named,
  isForNodes = false
): void {
  if ((copies === undefined && !isForNodes) || isPlaced(store, id)) return
  const sentence =
    copies === undefined
      ? `The project "${name}" was on nodes when this was accepted, and is on none now. Push again to deploy to this server, or place it first: svc fleet place`
      : `The project "${name}" is on no node of the cluster. Place it on one first: svc fleet place`
  throw new Refusal('conflict', 'not_placed', sentence)
}

/** What says who asks, and for which project or release. */
type Fact = 'projectId' | 'from' | 'deployId' | 'traceId' | 'origin' | 'actor' | 'isFromHub' | 'takesBack' | 'signal'

/** Where each wish is carried out: everywhere, only on nodes, or only in a target of this server, which does this work. */
const carriedOut = {
  preDeploy: 'everywhere',
  postDeploy: 'everywhere',
  postDeployAsync: 'everywhere',
  env: 'everywhere',
  message: 'everywhere',
  provenance: 'everywhere',
  sent: 'everywhere',
  sbom: 'everywhere',
  confirmSeconds: 'everywhere',
  override: 'everywhere',
  startAt: 'everywhere',
  rollout: 'nodes',
  planId: 'hold to its plan a deployment of',
  mode: 'roll back exactly',
  force: 'roll back by force',
  since: 'undo',
  paths: 'do this with',
  runScripts: 'do this with'
} as const satisfies Record<string, 'everywhere' | 'nodes' | keyof typeof placedWorks>

type Wish = keyof typeof carriedOut
/** A request of which each field has a row in the table, or says who asks. Another one does not compile. */
type Judged<R> = [Exclude<keyof R, Wish | Fact>] extends [never] ? R : never

/**
 * Refuses a wish of a request that cannot be carried out where the files of the project are: 409 `project_is_placed`, or
 * `not_placed` what is about waves. An absent field wishes nothing.
 */
export function refuseWishes<R extends object>(db: Reader, project: Named, request: Judged<R>): void {
  const wishes: Partial<Record<string, unknown>> = { ...request }
  for (const [wish, where] of Object.entries(carriedOut)) {
    if (where === 'everywhere' || !asks(wishes[wish])) continue
    if (where !== 'nodes') refusePlaced(db, project, where)
    else if (!isPlaced(db, project.id)) throw noWaves(project)
  }
}

/** Whether a value asks for more than what happens without it. */
function asks(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(each => each !== undefined)
  return value !== undefined && value !== null && value !== false && value !== 'overlay'
}

function noWaves({ name }: Named): Refusal {
  const sentence = `Cannot roll out "${name}" in waves: it is on no node. Push without "rollout", or place it first: svc fleet place`
  return new Refusal('conflict', 'not_placed', sentence, { field: 'rollout' })
}
