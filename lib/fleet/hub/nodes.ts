import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { invalid, nameTaken, notFound, Refusal } from '../../base/errors.js'
import { writeChanges } from '../../base/shared/audit.js'
import { isInScope, type ProjectScope } from '../../model/access.js'
import { type Actor, type AuditEvent, systemActor } from '../../model/audit.js'
import { beyondDefaults, changes, type Readers } from '../../model/readers.js'
import {
  areNestedThere,
  type Enrollment,
  fleetLimits,
  type FleetNode,
  type ListedNode,
  type ListedPlacement
} from '../../model/node.js'
import type { Reader, Store, Transaction } from '../../core/store/database.js'
import {
  countEnrollments,
  countNodes,
  deleteEnrollment,
  deleteNode,
  deletePlacement,
  findEnrollment,
  findEnrollmentByDigest,
  findNode,
  findNodeByName,
  findPlacement,
  insertEnrollment,
  insertNode,
  insertPlacement,
  listEnrollments,
  listNodes,
  listPlacements,
  removeExpiredEnrollments,
  type StoredEnrollment,
  updateNode,
  useEnrollment
} from '../../core/store/tables/fleet.js'
import { type Clock, instantOf } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import type { EnrollAnswer, EnrollRequest } from '../../model/fleet-wire.js'
import { isGoing } from '../../model/rollout.js'
import { deleteRolloutNode, troubledNodes } from '../../core/store/tables/rollouts.js'
import { placements } from '../../core/store/tables/deployments.js'
import { requireProject } from '../../core/store/tables/projects.js'
import type { Enrollments, Nodes, Placements } from './fleet.js'
import type { NodeLinks } from './links.js'
import type { CatchUp, Rollings } from './rolling.js'
import type { HubKey } from './voice.js'

export interface NodesNeeds {
  store: Store
  audit: { within(tx: Transaction, event: AuditEvent): void }
  links: NodeLinks
  rollings: Rollings
  /** Returns when a node was heard of last; null: not since it was enrolled. */
  lastSeenOf(node: FleetNode): string | null
  /** Ends the sessions and the stream of a node that was removed. */
  forgotten(nodeId: string): void
}

export function createNodes({ store, audit, links, rollings, lastSeenOf, forgotten }: NodesNeeds): Nodes {
  function listed(node: FleetNode, placements: ListedPlacement[]): ListedNode {
    const link = links.find(node.id)
    const lastSeenAt = lastSeenOf(node)
    return {
      ...node,
      lastSeenAt,
      isConnected: link !== null,
      ...(link?.isOutdated && { isOutdated: true }),
      placements
    }
  }

  function get(idOrName: string, scope?: ProjectScope): ListedNode {
    const node = requireNode(store, idOrName)
    const placements = listPlacements(store, { nodeId: node.id, scope })
    if (scope != null && placements.length === 0) throw notFound('Node', idOrName)
    return listed(node, placements)
  }

  return {
    list({ projectId, label, scope } = {}) {
      const byNode = new Map<string, ListedPlacement[]>()
      const troubles = new Map(
        troubledNodes(store).map(({ projectId, nodeId, ...trouble }) => [`${projectId} ${nodeId}`, trouble])
      )
      for (const found of listPlacements(store, { scope })) {
        const trouble = troubles.get(`${found.projectId} ${found.nodeId}`)
        const placement = trouble === undefined ? found : { ...found, trouble }
        const others = byNode.get(placement.nodeId)
        if (others === undefined) byNode.set(placement.nodeId, [placement])
        else others.push(placement)
      }
      return listNodes(store)
        .map(node => listed(node, byNode.get(node.id) ?? []))
        .filter(({ labels, placements }) => {
          const hasLabel = label === undefined || labels[label.key] === label.value
          const isSeen = scope == null || placements.length > 0
          const isOfProject = projectId === undefined || placements.some(each => each.projectId === projectId)
          return hasLabel && isSeen && isOfProject && (projectId === undefined || isInScope(scope, projectId))
        })
    },

    get,

    async update(id, { name, labels }, actor) {
      const { id: nodeId } = requireNode(store, id)
      await store.write(tx => {
        if (name !== undefined) refuseTaken(tx, name, nodeId)
        const before = requireNode(tx, nodeId)
        const patch = { ...(name && { name }), ...(labels && { labels }) }
        updateNode(tx, nodeId, patch)
        const changed = changes<AuditedNode>(before, { ...before, ...patch }, auditReaders)
        const detail = writeChanges(before.name, changed)
        if (changed.length > 0) audit.within(tx, { action: 'node.update', actor, target: nodeId, detail })
      })
      return get(nodeId)
    },

    async drain(id, isDrained, actor) {
      const { id: nodeId } = requireNode(store, id)
      await rollings.write(turn => {
        const node = requireNode(turn.tx, nodeId)
        if (node.isDrained === isDrained) return
        updateNode(turn.tx, nodeId, { isDrained })
        const action = isDrained ? 'node.drain' : 'node.undrain'
        audit.within(turn.tx, { action, actor, target: nodeId, detail: node.name })
        for (const { projectId } of listPlacements(turn.tx, { nodeId })) {
          const machine = turn.of(projectId)?.machine
          if (isDrained) machine?.drain(nodeId)
          else machine?.wake(nodeId)
        }
      })
      return get(nodeId)
    },

    async forget(id, actor) {
      const { id: nodeId } = requireNode(store, id)
      await rollings.write(turn => {
        const node = requireNode(turn.tx, nodeId)
        for (const { projectId } of listPlacements(turn.tx, { nodeId })) turn.of(projectId)?.machine.remove(nodeId)
        deleteNode(turn.tx, nodeId)
        audit.within(turn.tx, { action: 'node.forget', actor, target: nodeId, detail: node.name })
      })
      forgotten(nodeId)
    }
  }
}

/** What the audit entries of a node show. */
type AuditedNode = Pick<FleetNode, 'name' | 'labels'>

const auditReaders: Readers<AuditedNode> = {
  fields: { name: 'everybody', labels: { values: 'everybody' } }
}

/** Returns a node by its id or name. Refuses `not_found`. */
export function requireNode(db: Reader, idOrName: string): FleetNode {
  const node = findNode(db, idOrName) ?? findNodeByName(db, idOrName)
  if (node === undefined) throw notFound('Node', idOrName)
  return node
}

/** Refuses (409 `name_taken`) the name of another node. */
function refuseTaken(db: Reader, name: string, ownId?: string): void {
  const other = findNodeByName(db, name)
  if (other === undefined || other.id === ownId) return
  throw nameTaken(name, { kind: 'node', id: other.id, name: other.name })
}

/*
 * One-time tokens with which machines become nodes: `svcnode_<secret>_<public key of the hub>`. The secret is stored as a
 * hash only. From the token, the machine knows which hub to trust. A used token is kept until it expires, to give the same
 * machine the same answer again: the first one may have been lost.
 */

export interface EnrollmentsNeeds {
  store: Store
  clock: Clock
  ids: Ids
  audit: { within(tx: Transaction, event: AuditEvent): void }
  key: HubKey
}

/** The enrolments of a hub, with what machines do with them. */
export interface HubEnrollments extends Enrollments {
  /**
   * Makes a machine a node. Audited. The same machine, known by its key, gets the same answer again. Refuses 403 `enrollment_invalid`, 409 `too_many_nodes`, 400 for a wrong key. A
   * proposed name that is taken gets a number.
   */
  enroll(request: EnrollRequest, from: Pick<Actor, 'ip' | 'claimedIp'>): Promise<EnrollAnswer>
}

const prefix = 'svcnode'
const publicKeyBytes = 32

export function createEnrollments({ store, clock, ids, audit, key }: EnrollmentsNeeds): HubEnrollments {
  return {
    list: () => listEnrollments(store, instantOf(clock)).map(shown),

    async create({ name, labels, seconds }, actor) {
      const { publicKey } = await key.current()
      const secret = ids.token().replaceAll('_', '-')
      const token = [prefix, secret, Buffer.from(publicKey, 'base64').toString('base64url')].join('_')
      const createdAt = instantOf(clock)
      const enrollment: StoredEnrollment = {
        id: ids.id('enr_'),
        digest: digestOf(secret),
        name,
        labels,
        createdAt,
        createdBy: actor.name,
        expiresAt: new Date(Date.parse(createdAt) + seconds * 1000).toISOString(),
        nodeId: null
      }
      await store.write(tx => {
        removeExpiredEnrollments(tx, createdAt)
        if (countEnrollments(tx) >= fleetLimits.enrollments) throw tooMany()
        if (name !== null) {
          refuseTaken(tx, name)
          refuseOpen(listEnrollments(tx, createdAt), name)
        }
        insertEnrollment(tx, enrollment)
        const detail = writeChanges(name ?? '', changes<AuditedEnrollment>(null, enrollment, enrollmentReaders))
        audit.within(tx, { action: 'enrollment.create', actor, target: enrollment.id, detail })
      })
      return { enrollment: shown(enrollment), token }
    },

    revoke: (id, actor) =>
      store.write(tx => {
        const enrollment = findEnrollment(tx, id)
        if (enrollment === undefined || enrollment.nodeId !== null) throw notFound('Enrollment', id)
        deleteEnrollment(tx, id)
        audit.within(tx, { action: 'enrollment.revoke', actor, target: id, detail: enrollment.name })
      }),

    async enroll({ token, publicKey, name, labels, version }, { ip, claimedIp = null }) {
      const hubKey = (await key.current()).publicKey
      const secret = token.split('_')[1] ?? ''
      if (Buffer.from(publicKey, 'base64').length !== publicKeyBytes)
        throw invalid('publicKey', '"publicKey" is not valid: it is not an Ed25519 key of 32 bytes in base64')
      return store.write(tx => {
        const found = findEnrollmentByDigest(tx, digestOf(secret))
        if (found === undefined || found.expiresAt <= instantOf(clock)) throw unusable()
        if (found.nodeId !== null) return { ...enrolled(tx, found.nodeId, publicKey), hubKey }
        if (countNodes(tx) >= fleetLimits.nodes) throw fullFleet()
        const chosen = found.name ?? freeName(tx, name)
        refuseTaken(tx, chosen)
        const nodeId = ids.id('node_')
        const enrolledAt = instantOf(clock)
        const node = {
          id: nodeId,
          name: chosen,
          labels: { ...labels, ...found.labels },
          publicKey,
          isDrained: false,
          enrolledAt,
          lastSeenAt: null,
          version,
          freeBytes: null,
          sharedSince: null
        }
        insertNode(tx, node)
        useEnrollment(tx, found.id, nodeId)
        const actor = { ...systemActor, name: `node:${chosen}`, ip, claimedIp }
        const detail = writeChanges(
          `${chosen}, with ${found.id}`,
          beyondDefaults<AuditedNode>({ ...node, labels: {} }, node, auditReaders)
        )
        audit.within(tx, { action: 'node.enroll', actor, target: nodeId, detail })
        return { nodeId, name: chosen, hubKey }
      })
    }
  }
}

/** What the audit entries of an enrollment show. */
type AuditedEnrollment = Pick<Enrollment, 'name' | 'labels' | 'expiresAt'>

const enrollmentReaders: Readers<AuditedEnrollment> = {
  fields: { name: 'everybody', labels: { values: 'everybody' }, expiresAt: 'everybody' }
}

function shown({ digest: _, nodeId: __, ...enrollment }: StoredEnrollment): Enrollment {
  return enrollment
}

/** Returns the node that has used a token, if it has this key and was not forgotten. */
function enrolled(db: Reader, nodeId: string, publicKey: string): Pick<EnrollAnswer, 'nodeId' | 'name'> {
  const node = findNode(db, nodeId)
  if (node === undefined || node.publicKey !== publicKey) throw unusable()
  return { nodeId, name: node.name }
}

/** Returns the proposed name, with a number if it is taken. */
function freeName(db: Reader, name: string): string {
  for (let number = 1; ; number++) {
    const tried = number === 1 ? name : `${name}-${number}`
    if (findNodeByName(db, tried) === undefined) return tried
  }
}

/** Two machines would get one name, and one of them another than the one that was chosen for it. */
function refuseOpen(enrollments: readonly StoredEnrollment[], name: string): void {
  const open = enrollments.find(each => each.name?.toLowerCase() === name.toLowerCase())
  if (open === undefined) return
  const sentence = `An enrollment with the name "${name}" is open: ${open.id}. Use its token, or revoke it`
  throw new Refusal('conflict', 'name_taken', sentence, { field: 'name' })
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url')
}

function unusable(): Refusal {
  const sentence = 'The enrollment token is not valid: it was used, was revoked, or has expired. Create another one'
  return new Refusal('forbidden', 'enrollment_invalid', sentence)
}

function tooMany(): Refusal {
  const sentence = `Cannot create an enrollment: ${fleetLimits.enrollments} are open. Revoke some`
  return new Refusal('conflict', 'too_many_enrollments', sentence)
}

function fullFleet(): Refusal {
  const sentence = `Cannot enroll a node: the fleet has ${fleetLimits.nodes}. Forget some`
  return new Refusal('conflict', 'too_many_nodes', sentence)
}

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
      const { removed, left } = await rollings.write(turn => {
        const { tx } = turn
        const project = requireProject(tx, projectId)
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
        const left = isFirst && added.length > 0 ? (placements(tx, projectId)[0]?.target ?? null) : null
        return { removed: gone, left }
      })
      unplaced(projectId, removed)
      return { placements: listPlacements(store, { projectId }), ...(left !== null && { left }) }
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
  const other = listPlacements(db, { nodeId }).find(({ deployPath }) => areNestedThere(deployPath, path))
  if (other === undefined) return
  const { projectId, projectName, nodeName, deployPath } = other
  const sentence = `Cannot place the project in "${path}" of "${nodeName}": "${projectName}" is placed in "${deployPath}"`
  throw new Refusal('conflict', 'path_taken', sentence, {
    field: 'deployPath',
    other: { kind: 'project', id: projectId, name: projectName }
  })
}

function placedElsewhere(nodeName: string, deployPath: string): Refusal {
  const sentence = `The project is placed in "${deployPath}" of "${nodeName}". Remove it there first`
  return new Refusal('conflict', 'path_taken', sentence, { field: 'deployPath' })
}

function inProgress(projectName: string): Refusal {
  const sentence = `Cannot change the nodes of "${projectName}": a deployment is in progress. Wait, or cancel it`
  return new Refusal('conflict', 'rollout_in_progress', sentence)
}
