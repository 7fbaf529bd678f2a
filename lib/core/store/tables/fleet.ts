/* The tables of a fleet: nodes, enrollments, placements, releases that wait, and the copies of archives. */

import type { ProjectScope } from '../../../model/access.js'
import type { Enrollment, FleetNode, ListedPlacement, Placement } from '../../../model/node.js'
import type { RolloutPolicy } from '../../../model/rollout.js'
import type { PlacedProject } from '../../../model/marks.js'
import type { Reader, Transaction } from '../database.js'
import { liveDeployment } from './deployments.js'
import type { Duty } from '../../../model/fleet-wire.js'
import {
  among,
  type Column,
  type Columns,
  equalities,
  flag,
  isObject,
  json,
  nullable,
  number,
  rowReader,
  tableOf,
  text,
  valueReader,
  where
} from './table.js'

/** The column of labels. */
const labels: Column<Record<string, string>> = json(
  'labels',
  (value): value is Record<string, string> =>
    isObject(value) && Object.values(value).every(each => typeof each === 'string')
)

const nodes = tableOf<FleetNode>('nodes', {
  id: text,
  name: text,
  labels,
  publicKey: text,
  isDrained: flag,
  enrolledAt: text,
  lastSeenAt: nullable(text),
  version: nullable(text),
  freeBytes: nullable(number),
  sharedSince: nullable(text)
})
const readId = valueReader('nodes.id', text)
const readNodeCount = valueReader('count of nodes', number)

export const insertNode = nodes.insert

/** Writes the fields that are present; returns false if there is no such node. */
export const updateNode = nodes.update

/** Removes a node with its placements and its part in rollouts; returns false if there is none. */
export const deleteNode = nodes.delete

export const findNode = nodes.find

/** Returns the node with this name, whatever the case of its letters. */
export function findNodeByName(db: Reader, name: string): FleetNode | undefined {
  return db.all('SELECT * FROM nodes WHERE name = ?', name).map(nodes.read)[0]
}

/** Returns all nodes, by name. */
export function listNodes(db: Reader): FleetNode[] {
  return db.all('SELECT * FROM nodes ORDER BY name').map(nodes.read)
}

/** Returns the nodes of a project, by name. */
export function nodesOfProject(db: Reader, projectId: string): FleetNode[] {
  const sql = `SELECT nodes.* FROM nodes JOIN placements ON placements.nodeId = nodes.id
    WHERE placements.projectId = ? ORDER BY nodes.name`
  return db.all(sql, projectId).map(nodes.read)
}

export function countNodes(db: Reader): number {
  return db.all('SELECT count(*) FROM nodes').map(readNodeCount)[0] ?? 0
}

/** Returns the ids of the nodes that are two machines. */
export function sharedNodes(db: Reader): string[] {
  return db.all('SELECT id FROM nodes WHERE sharedSince IS NOT NULL').map(readId)
}

/** Writes when nodes were heard of last: pairs of an id and an instant. */
export function noteSeen(tx: Transaction, seen: ReadonlyArray<readonly [id: string, at: string]>): void {
  const sql = `UPDATE nodes SET lastSeenAt = json_extract(given.value, '$[1]') FROM json_each(?) AS given
    WHERE nodes.id = json_extract(given.value, '$[0]')`
  tx.run(sql, JSON.stringify(seen))
}

export interface StoredEnrollment extends Enrollment {
  /** Identifies the secret, which is not stored. */
  digest: string
  /** The node that has used it; null: it is unused. */
  nodeId: string | null
}

const enrollments = tableOf<StoredEnrollment>('enrollments', {
  id: text,
  digest: text,
  name: nullable(text),
  labels,
  createdAt: text,
  createdBy: text,
  expiresAt: text,
  nodeId: nullable(text)
})
const readEnrollmentCount = valueReader('count of enrollments', number)

export const insertEnrollment = enrollments.insert

/** Removes an enrollment; returns false if there is none. */
export const deleteEnrollment = enrollments.delete

export const findEnrollment = enrollments.find

/** Returns the enrollment of a secret. */
export function findEnrollmentByDigest(db: Reader, digest: string): StoredEnrollment | undefined {
  return db.all('SELECT * FROM enrollments WHERE digest = ?', digest).map(enrollments.read)[0]
}

/** Notes the node that has used an enrollment. */
export function useEnrollment(tx: Transaction, id: string, nodeId: string): void {
  tx.run('UPDATE enrollments SET nodeId = ? WHERE id = ?', nodeId, id)
}

/** Returns the unused enrollments that have not expired at `now` (ISO text), the oldest first. */
export function listEnrollments(db: Reader, now: string): StoredEnrollment[] {
  return db
    .all('SELECT * FROM enrollments WHERE nodeId IS NULL AND expiresAt > ? ORDER BY createdAt, id', now)
    .map(enrollments.read)
}

/** Returns the number of unused enrollments. */
export function countEnrollments(db: Reader): number {
  return db.all('SELECT count(*) FROM enrollments WHERE nodeId IS NULL').map(readEnrollmentCount)[0] ?? 0
}

/** Removes the enrollments that expired before an instant (ISO text). */
export function removeExpiredEnrollments(tx: Transaction, now: string): number {
  return tx.run('DELETE FROM enrollments WHERE expiresAt <= ?', now)
}

const columns: Columns<Placement> = {
  projectId: text,
  nodeId: text,
  deployPath: text,
  liveDeployId: nullable(text),
  liveTree: nullable(text),
  seenAt: nullable(text),
  isDrifted: flag
}
const readPlacement = rowReader<Placement>('placements', columns)
const readListed = rowReader<ListedPlacement>('placements', { ...columns, projectName: text, nodeName: text })
const readPlacementCount = valueReader('count of placements', number)

export function insertPlacement(tx: Transaction, placement: Placement): void {
  const { projectId, nodeId, deployPath, liveDeployId, liveTree, seenAt, isDrifted } = placement
  const sql = `INSERT INTO placements (projectId, nodeId, deployPath, liveDeployId, liveTree, seenAt, isDrifted)
    VALUES (?, ?, ?, ?, ?, ?, ?)`
  tx.run(sql, projectId, nodeId, deployPath, liveDeployId, liveTree, seenAt, Number(isDrifted))
}

/** Writes what a node says about a placement; returns false if there is none. */
export function noteLive(tx: Transaction, placement: Omit<Placement, 'deployPath'>): boolean {
  const { projectId, nodeId, liveDeployId, liveTree, seenAt, isDrifted } = placement
  const sql = `UPDATE placements SET liveDeployId = ?, liveTree = ?, seenAt = ?, isDrifted = ?
    WHERE projectId = ? AND nodeId = ?`
  return tx.run(sql, liveDeployId, liveTree, seenAt, Number(isDrifted), projectId, nodeId) > 0
}

/** Removes a placement; returns false if there is none. */
export function deletePlacement(tx: Transaction, projectId: string, nodeId: string): boolean {
  return tx.run('DELETE FROM placements WHERE projectId = ? AND nodeId = ?', projectId, nodeId) > 0
}

export function findPlacement(db: Reader, projectId: string, nodeId: string): Placement | undefined {
  return db.all('SELECT * FROM placements WHERE projectId = ? AND nodeId = ?', projectId, nodeId).map(readPlacement)[0]
}

const readCount = rowReader<{ projectId: string; nodes: number }>('placements', { projectId: text, nodes: number })

/** Adds to each project the number of nodes that it is placed on. 0: it is deployed on this server. */
export function withNodes<P extends { id: string }>(db: Reader, projects: readonly P[]): Array<P & { nodes: number }> {
  const sql = 'SELECT projectId, count(*) AS nodes FROM placements GROUP BY projectId'
  const counts = new Map(
    db
      .all(sql)
      .map(readCount)
      .map(({ projectId, nodes }) => [projectId, nodes])
  )
  return projects.map(project => ({ ...project, nodes: counts.get(project.id) ?? 0 }))
}

const readPlaced = rowReader<PlacedProject>('placements', { projectId: text, first: text, nodes: number })

/** Returns the projects on nodes, each with its first node by name and the number of its nodes. */
export function listPlaced(db: Reader, scope?: ProjectScope): PlacedProject[] {
  const { conditions, values } = among({ conditions: [], values: [] }, 'placements.projectId', scope)
  const sql = `SELECT placements.projectId AS projectId, min(nodes.name) AS first, count(*) AS nodes FROM placements
    JOIN nodes ON nodes.id = placements.nodeId ${where(conditions)} GROUP BY placements.projectId`
  return db.all(sql, ...values).map(readPlaced)
}

/** Returns whether a project is placed on any node. */
export function isPlaced(db: Reader, projectId: string): boolean {
  return db.get('SELECT 1 FROM placements WHERE projectId = ? LIMIT 1', projectId) !== undefined
}

/** Returns whether the files of a deployment are in the target of its project, or on each of its nodes. */
export function isInPlace(db: Reader, projectId: string, deployId: string): boolean {
  const nodes = db.all('SELECT * FROM placements WHERE projectId = ?', projectId).map(readPlacement)
  if (nodes.length === 0) return liveDeployment(db, projectId)?.id === deployId
  return nodes.every(({ liveDeployId }) => liveDeployId === deployId)
}

/** Returns placements by project name, then node name. */
export function listPlacements(
  db: Reader,
  { projectId, nodeId, scope }: { projectId?: string; nodeId?: string; scope?: ProjectScope } = {}
): ListedPlacement[] {
  const wanted = equalities({ 'placements.projectId': projectId, 'placements.nodeId': nodeId })
  const { conditions, values } = among(wanted, 'placements.projectId', scope)
  const sql = `SELECT placements.*, projects.name AS projectName, nodes.name AS nodeName FROM placements
    JOIN projects ON projects.id = placements.projectId JOIN nodes ON nodes.id = placements.nodeId
    ${where(conditions)} ORDER BY projects.name, placements.projectId, nodes.name`
  return db.all(sql, ...values).map(readListed)
}

export function countPlacements(db: Reader): number {
  return db.all('SELECT count(*) FROM placements').map(readPlacementCount)[0] ?? 0
}

/*
 * What a client sent for a deployment that waits longer than this process may run: to be rolled out, for an approval, or for its
 * time. After a kill, this server, or another hub, queues the deployment again, with the same scripts, variables and
 * policy.
 */

/** The wishes of a client for a deployment that waits. */
export interface QueuedRelease {
  /** Scripts and variables, encrypted; null: none. */
  sealed: string | null
  /** What the push sets instead of the policy of rollouts. */
  rollout: Partial<RolloutPolicy>
  /** The role of the client; null: of an earlier version. */
  role: string | null
  /** The plan that the deployment is held to, as JSON; null: none. */
  plan: string | null
  /** Whether its project was on nodes when it was accepted. */
  isForNodes: boolean
}

const readQueuedRelease = rowReader<QueuedRelease>('queuedReleases', {
  sealed: nullable(text),
  rollout: json('a part of a rollout policy', (value): value is Partial<RolloutPolicy> => isObject(value)),
  role: nullable(text),
  plan: nullable(text),
  isForNodes: flag
})

/** Keeps the wishes for a deployment that is queued, and removes those of deployments that have begun. */
export function putQueuedRelease(tx: Transaction, deployId: string, release: QueuedRelease): void {
  const { sealed, rollout, role, plan, isForNodes } = release
  tx.run(`DELETE FROM queuedReleases WHERE deployId NOT IN (SELECT id FROM deployments WHERE status = 'queued')`)
  const sql = 'INSERT INTO queuedReleases (deployId, sealed, rollout, role, plan, isForNodes) VALUES (?, ?, ?, ?, ?, ?)'
  tx.run(sql, deployId, sealed, JSON.stringify(rollout), role, plan, Number(isForNodes))
}

/** Removes the wishes for a deployment. */
export function dropQueuedRelease(tx: Transaction, deployId: string): void {
  tx.run('DELETE FROM queuedReleases WHERE deployId = ?', deployId)
}

/** Returns the wishes for a deployment; undefined: none are kept. */
export function findQueuedRelease(db: Reader, deployId: string): QueuedRelease | undefined {
  return db
    .all('SELECT sealed, rollout, role, plan, isForNodes FROM queuedReleases WHERE deployId = ?', deployId)
    .map(readQueuedRelease)[0]
}

/** An archive on a hub of a cluster. */
interface BlobCopy {
  deployId: string
  hub: string
}

const readCopy = rowReader<BlobCopy>('blobCopies', { deployId: text, hub: text })

/** Returns the hubs that have the archive of a deployment. */
export function copiesOf(db: Reader, deployId: string): string[] {
  return db
    .all('SELECT deployId, hub FROM blobCopies WHERE deployId = ? ORDER BY hub', deployId)
    .map(row => readCopy(row).hub)
}

/** Records that a hub has the archive of a deployment. */
export function putCopy(tx: Transaction, { deployId, hub }: BlobCopy): void {
  tx.run('INSERT OR IGNORE INTO blobCopies (deployId, hub) VALUES (?, ?)', deployId, hub)
}

/** Removes the copies of deployments that do not exist or have no archive any more. */
export function dropCopies(tx: Transaction): number {
  return tx.run('DELETE FROM blobCopies WHERE deployId NOT IN (SELECT id FROM deployments WHERE hasArtifact = 1)')
}

/** Removes the copies of a hub that has left. */
export function dropCopiesOf(tx: Transaction, hub: string): void {
  tx.run('DELETE FROM blobCopies WHERE hub = ?', hub)
}

/*
 * What an agent was told and has done (`duties`), and which of its deployments it made for its hub
 * (`hubDeployments`: null stands for files that no deployment of the hub put there).
 */

const readStored = valueReader('duties.duty', json('a duty', isDuty))
const readMade = rowReader<HubDeployment>('hubDeployments', { id: text, projectId: text, deployId: nullable(text) })

/** A deployment of the node that its hub asked for. */
export interface HubDeployment {
  /** The deployment of the node. */
  id: string
  projectId: string
  /** The deployment of the hub whose files it puts in place; null: none. */
  deployId: string | null
}

/** Returns the duties of a node, by project. */
export function listDuties(db: Reader): Duty[] {
  return db.all('SELECT duty FROM duties ORDER BY projectId').map(readDuty)
}

/** Adds the duty for a project, or replaces it. */
export function putDuty(tx: Transaction, duty: Duty): void {
  const sql =
    'INSERT INTO duties (projectId, duty) VALUES (?, ?) ON CONFLICT (projectId) DO UPDATE SET duty = excluded.duty'
  tx.run(sql, duty.projectId, JSON.stringify(duty))
}

/** Forgets which deployments of a project the hub asked for. */
export function deleteHubDeployments(tx: Transaction, projectId: string): void {
  tx.run('DELETE FROM hubDeployments WHERE projectId = ?', projectId)
}

/** Returns whether the hub asked for a deployment of a project. */
export function hasHubDeployment(db: Reader, projectId: string): boolean {
  return db.all('SELECT 1 FROM hubDeployments WHERE projectId = ? LIMIT 1', projectId).length > 0
}

/** Adds a deployment that the hub asked for. Forgets those of the project whose records were removed. */
export function insertHubDeployment(tx: Transaction, { id, projectId, deployId }: HubDeployment): void {
  tx.run('DELETE FROM hubDeployments WHERE projectId = ? AND id NOT IN (SELECT id FROM deployments)', projectId)
  tx.run('INSERT INTO hubDeployments (id, projectId, deployId) VALUES (?, ?, ?)', id, projectId, deployId)
}

/** Returns a deployment of the node that the hub asked for. */
export function findHubDeployment(db: Reader, id: string): HubDeployment | undefined {
  return db.all('SELECT id, projectId, deployId FROM hubDeployments WHERE id = ?', id).map(readMade)[0]
}

function isDuty(value: unknown): value is Duty {
  return isObject(value) && isObject(value['state']) && isObject(value['release'])
}

/** Rows of earlier versions lack what has been added since. */
function readDuty(value: Parameters<typeof readStored>[0]): Duty {
  const { state, ...duty } = readStored(value)
  return { ...{ nodeId: '', isRemoved: false }, ...duty, state: { ...{ epoch: '' }, ...state } }
}

/* What hubs and nodes keep for one another: keys of the server, secrets of a cluster, and epochs. */

/** A key of this server after the first one, as agents learn it. */
interface HubKey {
  /** The 32 bytes in base64. */
  publicKey: string
  /** The signature of the key before. */
  signature: string
}

const readHubKey = rowReader<HubKey>('hubKeys', { publicKey: text, signature: text })

export function insertHubKey(tx: Transaction, { publicKey, signature }: HubKey): void {
  tx.run('INSERT INTO hubKeys (publicKey, signature) VALUES (?, ?)', publicKey, signature)
}

/** Returns the keys in their order. */
export function listHubKeys(db: Reader): HubKey[] {
  return db.all('SELECT publicKey, signature FROM hubKeys ORDER BY position').map(readHubKey)
}

/** The secrets that every hub of a cluster knows. A server without a cluster keeps them in files. */
export type SecretName = 'adminToken' | 'server.ed25519' | 'server.old.ed25519' | 'session.key' | 'variables.key'

const readValue = valueReader('clusterSecrets.value', text)

/** Returns a secret; null if there is none. */
export function findSecret(db: Reader, name: SecretName): string | null {
  const row = db.get('SELECT value FROM clusterSecrets WHERE name = ?', name)
  return row === undefined ? null : readValue(row)
}

/** Writes a secret, replacing its previous value. */
export function putSecret(tx: Transaction, name: SecretName, value: string): void {
  tx.run(
    'INSERT INTO clusterSecrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    name,
    value
  )
}

/** Removes all secrets. */
export function clearSecrets(tx: Transaction): void {
  tx.run('DELETE FROM clusterSecrets')
}

/*
 * The histories of a hub's database. Each has an id, its epoch, which orders name: after a restore, another one begins. A
 * hub keeps its own ones, the last one is the current one; a node keeps those of its hub.
 */

const readEpoch = valueReader('epochs.epoch', text)
/** Number of epochs that are kept. */
const keptEpochs = 200

/** Returns the epochs, the current one last. */
export function listEpochs(db: Reader): string[] {
  return db.all('SELECT epoch FROM epochs ORDER BY position').map(readEpoch)
}

/** Returns the current epoch; empty if none has begun. */
export function currentEpoch(db: Reader): string {
  return db.all('SELECT epoch FROM epochs ORDER BY position DESC LIMIT 1').map(readEpoch)[0] ?? ''
}

/** Begins an epoch, unless it has begun before. */
export function beginEpoch(tx: Transaction, epoch: string): void {
  tx.run('INSERT INTO epochs (epoch) VALUES (?) ON CONFLICT DO NOTHING', epoch)
  tx.run('DELETE FROM epochs WHERE position <= (SELECT max(position) FROM epochs) - ?', keptEpochs)
}
