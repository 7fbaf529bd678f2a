import type { ProjectScope } from '../../../model/access.js'
import { withoutCommand } from '../../../model/deployment.js'
import {
  isGoing,
  type NodePhase,
  nodePhases,
  type Rollout,
  type RolloutAhead,
  type RolloutNode,
  type RolloutPolicy,
  type RolloutState,
  rolloutStates
} from '../../../model/rollout.js'
import { troubledPhases } from '../../../base/shared/api.js'
import type { NodeTrouble } from '../../../model/node.js'
import type { Reader, Transaction } from '../database.js'
import {
  among,
  choice,
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

export interface StoredRollout extends Rollout {
  archiveSha256: string
  archiveBytes: number
  /** What the client of the push sent for scripts, encrypted; null: nothing. */
  sealed: string | null
}

const columns: Columns<StoredRollout> = {
  id: text,
  projectId: text,
  number,
  deployId: text,
  treeSha256: text,
  archiveSha256: text,
  archiveBytes: number,
  policy: json('a rollout policy', (value): value is RolloutPolicy => isObject(value)),
  state: choice(rolloutStates),
  wave: number,
  waves: number,
  lastAttempt: number,
  pausedUntil: nullable(text),
  revertFrom: nullable(number),
  haltedReason: nullable(text),
  createdAt: text,
  endedAt: nullable(text),
  sealed: nullable(text)
}
const rollouts = tableOf<StoredRollout>('rollouts', columns)
const readPosition = rowReader<{ position: number }>('rollouts', { position: number })
const readNamed = rowReader<StoredRollout & { projectName: string }>('rollouts', { ...columns, projectName: text })
const readCount = rowReader('rollouts', { state: choice(rolloutStates), rollouts: number })
const readText = valueReader('rollouts', text)
const readMoved = valueReader('rolloutNodes.updatedAt', nullable(text))
const readNumber = valueReader('rollouts.number', nullable(number))

export const insertRollout = rollouts.insert

/** Writes the fields that are present; returns false if there is no such rollout. */
export const updateRollout = rollouts.update

export const findRollout = rollouts.find

export function lastRollout(db: Reader, projectId: string): StoredRollout | undefined {
  return db
    .all('SELECT * FROM rollouts WHERE projectId = ? ORDER BY number DESC LIMIT 1', projectId)
    .map(rollouts.read)[0]
}

/** Returns the last rollout before a number that was done, and whose archive is kept. */
export function doneBefore(db: Reader, projectId: string, number: number): StoredRollout | undefined {
  const sql = `SELECT rollouts.* FROM rollouts JOIN deployments ON deployments.id = rollouts.deployId
    WHERE rollouts.projectId = ? AND number < ? AND state = 'done' AND hasArtifact ORDER BY number DESC LIMIT 1`
  return db.all(sql, projectId, number).map(rollouts.read)[0]
}

/** Returns whether a rollout of a deployment was done, and not reverted since. */
export function hasDoneRollout(db: Reader, deployId: string): boolean {
  return db.get("SELECT 1 FROM rollouts WHERE deployId = ? AND state = 'done' LIMIT 1", deployId) !== undefined
}

/** Returns the rollout of a project that is going on; null: there is none. */
export function rolloutAhead(db: Reader, projectId: string): RolloutAhead | null {
  const last = lastRollout(db, projectId)
  if (last === undefined || !isGoing(last.state)) return null
  const { id, state, createdAt, pausedUntil: until } = last
  const isWaiting = state === 'approval' || state === 'pausing'
  return { id, state, since: (isWaiting ? lastMoved(db, id) : null) ?? createdAt, until }
}

/** Returns when a node of a rollout changed its phase last; null: it has no nodes. */
function lastMoved(db: Reader, id: string): string | null {
  return db.all('SELECT max(updatedAt) FROM rolloutNodes WHERE rolloutId = ?', id).map(readMoved)[0] ?? null
}

/** A rollout that waits for somebody, with the begin of its wait. */
export type WaitingRollout = StoredRollout & { projectName: string; since: string }

/** Returns the last rollouts of their projects that wait for an approval, or were halted. */
export function waitingRollouts(db: Reader, scope?: ProjectScope): WaitingRollout[] {
  const { conditions, values } = among(
    { conditions: ["state IN ('approval', 'halted')"], values: [] },
    'projectId',
    scope
  )
  const sql = `SELECT one.*, projects.name AS projectName FROM rollouts AS one JOIN projects ON projects.id = one.projectId
    ${where(conditions)} AND number = (SELECT max(number) FROM rollouts WHERE projectId = one.projectId)`
  return db
    .all(sql, ...values)
    .map(readNamed)
    .map(row => ({ ...row, since: lastMoved(db, row.id) ?? row.createdAt }))
}

const readTrouble = rowReader<NodeTrouble & { projectId: string; nodeId: string }>('rolloutNodes', {
  projectId: text,
  nodeId: text,
  rolloutId: text,
  phase: choice(troubledPhases)
})

/** Returns the nodes that need attention in the last rollouts of their projects, unless these were reverted. */
export function troubledNodes(db: Reader): Array<NodeTrouble & { projectId: string; nodeId: string }> {
  const sql = `SELECT one.projectId, nodeId, rolloutId, phase FROM rollouts AS one
    JOIN rolloutNodes ON rolloutId = one.id AND phase IN (SELECT value FROM json_each(?))
    WHERE state <> 'reverted' AND number = (SELECT max(number) FROM rollouts WHERE projectId = one.projectId)`
  return db.all(sql, JSON.stringify(troubledPhases)).map(readTrouble)
}

/** Returns the last rollout of a deployment. */
export function rolloutOfDeployment(db: Reader, deployId: string): StoredRollout | undefined {
  return db
    .all('SELECT * FROM rollouts WHERE deployId = ? ORDER BY position DESC LIMIT 1', deployId)
    .map(rollouts.read)[0]
}

/**
 * Returns the deployment whose archive has this SHA-256, if a project of the node has rolled it out. Several may have the
 * same contents: one that still has its archive comes first.
 */
export function archiveForNode(db: Reader, nodeId: string, archiveSha256: string): string | undefined {
  const sql = `SELECT rollouts.deployId FROM placements JOIN rollouts ON rollouts.projectId = placements.projectId
    LEFT JOIN deployments ON deployments.id = rollouts.deployId
    WHERE placements.nodeId = ? AND rollouts.archiveSha256 = ?
    ORDER BY coalesce(deployments.hasArtifact, 0) DESC, rollouts.position DESC LIMIT 1`
  return db.all(sql, nodeId, archiveSha256).map(readText)[0]
}

export function nextRolloutNumber(db: Reader, projectId: string): number {
  const [last = null] = db.all('SELECT max(number) FROM rollouts WHERE projectId = ?', projectId).map(readNumber)
  return (last ?? 0) + 1
}

/** Returns the projects whose last rollout goes on by itself, or waits for its next wave. */
export function goingProjects(db: Reader): string[] {
  const sql = `SELECT projectId FROM rollouts AS one WHERE state NOT IN ('halted', 'reverted', 'done')
    AND number = (SELECT max(number) FROM rollouts WHERE projectId = one.projectId)`
  return db.all(sql).map(readText)
}

/** Returns the projects that were rolled out. */
export function rolledProjects(db: Reader): string[] {
  return db.all('SELECT DISTINCT projectId FROM rollouts').map(readText)
}

/** Returns the number of rollouts in each state, of the last ones of all projects. */
export function countRollouts(db: Reader): Partial<Record<RolloutState, number>> {
  const sql = `SELECT state, count(*) AS rollouts FROM rollouts AS one
    WHERE number = (SELECT max(number) FROM rollouts WHERE projectId = one.projectId) GROUP BY state`
  return Object.fromEntries(
    db
      .all(sql)
      .map(readCount)
      .map(({ state, rollouts }) => [state, rollouts])
  )
}

export interface RolloutFilter {
  projectId?: string | undefined
  deployId?: string | undefined
  state?: RolloutState | undefined
  scope?: ProjectScope
  /** Only rollouts before this one. */
  before?: string | undefined
  limit: number
}

/** Returns rollouts with the names of their projects, the newest first. */
export function listRollouts(db: Reader, filter: RolloutFilter): Array<StoredRollout & { projectName: string }> {
  const { projectId, deployId, state, scope, before, limit } = filter
  const wanted = equalities({ 'rollouts.projectId': projectId, deployId, state })
  const { conditions, values } = among(wanted, 'rollouts.projectId', scope)
  if (before !== undefined) {
    const at = db.all('SELECT position FROM rollouts WHERE id = ?', before).map(readPosition)[0]
    conditions.push('rollouts.position < ?')
    values.push(at?.position ?? 0)
  }
  const sql = `SELECT rollouts.*, projects.name AS projectName FROM rollouts
    JOIN projects ON projects.id = rollouts.projectId ${where(conditions)} ORDER BY rollouts.position DESC LIMIT ?`
  return db.all(sql, ...values, limit).map(readNamed)
}

/** Removes the rollouts of a project but the last ones. */
export function removeOldRollouts(tx: Transaction, projectId: string, kept: number): void {
  const sql = `DELETE FROM rollouts WHERE projectId = ? AND number <=
    (SELECT max(number) FROM rollouts WHERE projectId = ?) - ?`
  tx.run(sql, projectId, projectId, kept)
}

/*
 * The nodes of rollouts. A rollout of 10,000 nodes changes all of them at once: one statement writes them all, with its
 * rows as JSON.
 */

/** What a node said about its deployment. */
interface NodeReport {
  failedStep: string | null
  output: string | null
  tookMs: number | null
}

export interface StoredRolloutNode extends RolloutNode, NodeReport {
  nodeName: string
}

/** Earlier versions stored commands of checks, which not everybody may read (fleet/hub/orders.ts). */
const withoutCommands: typeof text = {
  ...text,
  read: value => (typeof value === 'string' ? withoutCommand.without(value) : undefined)
}

const nodeColumns: Columns<RolloutNode> = {
  nodeId: text,
  wave: number,
  phase: choice(nodePhases),
  attempt: number,
  swapAttempt: number,
  hasBegun: flag,
  error: nullable(withoutCommands),
  updatedAt: text
}
const read = rowReader<RolloutNode>('rolloutNodes', nodeColumns)
const readStored = rowReader<StoredRolloutNode>('rolloutNodes', {
  ...nodeColumns,
  failedStep: nullable(text),
  output: nullable(text),
  tookMs: nullable(number),
  nodeName: text
})
const readNodePosition = valueReader('rolloutNodes', number)
const readNodeCount = rowReader<{ phase: NodePhase; nodes: number }>('rolloutNodes', {
  phase: choice(nodePhases),
  nodes: number
})

const fields = ['wave', 'phase', 'attempt', 'swapAttempt', 'hasBegun', 'error', 'updatedAt'] as const
const given = fields.map((_, index) => `json_extract(given.value, '$[${index + 1}]')`)
const insert = `INSERT INTO rolloutNodes (rolloutId, nodeId, position, ${fields.join(', ')})
  SELECT ?, json_extract(given.value, '$[0]'), ? + given.key, ${given.join(', ')} FROM json_each(?) AS given WHERE true
  ON CONFLICT (rolloutId, nodeId) DO UPDATE SET ${fields.map(field => `${field} = excluded.${field}`).join(', ')}`

/** Adds nodes to a rollout, from a position on, or writes their state. The position of a node never changes. */
export function putRolloutNodes(
  tx: Transaction,
  rolloutId: string,
  { nodes, position }: { nodes: readonly RolloutNode[]; position: number }
): void {
  if (nodes.length === 0) return
  const rows = nodes.map(node => [
    node.nodeId,
    ...fields.map(field => (field === 'hasBegun' ? Number(node.hasBegun) : node[field]))
  ])
  tx.run(insert, rolloutId, position, JSON.stringify(rows))
}

/** Returns the position after all nodes of a rollout. */
export function nextNodePosition(db: Reader, rolloutId: string): number {
  const sql = 'SELECT coalesce(max(position) + 1, 0) FROM rolloutNodes WHERE rolloutId = ?'
  return db.all(sql, rolloutId).map(readNodePosition)[0] as number
}

/** Writes what a node said about its deployment. */
export function noteReport(
  tx: Transaction,
  { rolloutId, nodeId }: { rolloutId: string; nodeId: string },
  { failedStep, output, tookMs }: NodeReport
): void {
  const sql = 'UPDATE rolloutNodes SET failedStep = ?, output = ?, tookMs = ? WHERE rolloutId = ? AND nodeId = ?'
  tx.run(sql, failedStep, output, tookMs, rolloutId, nodeId)
}

export function deleteRolloutNode(tx: Transaction, rolloutId: string, nodeId: string): void {
  tx.run('DELETE FROM rolloutNodes WHERE rolloutId = ? AND nodeId = ?', rolloutId, nodeId)
}

/** Returns the nodes of a rollout in the order of its waves. */
export function rolloutNodes(db: Reader, rolloutId: string): RolloutNode[] {
  return db.all('SELECT * FROM rolloutNodes WHERE rolloutId = ? ORDER BY wave, position, nodeId', rolloutId).map(read)
}

const stored = 'SELECT rolloutNodes.*, nodes.name AS nodeName FROM rolloutNodes JOIN nodes ON nodes.id = nodeId'

/** Returns the nodes of a rollout with their names and reports, by wave, then by name. */
export function storedRolloutNodes(db: Reader, rolloutId: string): StoredRolloutNode[] {
  return db.all(`${stored} WHERE rolloutId = ? ORDER BY wave, nodes.name`, rolloutId).map(readStored)
}

const readNamedPhase = rowReader<{ node: string; phase: NodePhase }>('rolloutNodes', {
  node: text,
  phase: choice(nodePhases)
})

/** Returns the names of the nodes of a rollout, and their phases. */
export function namedPhases(db: Reader, rolloutId: string): Array<{ node: string; phase: NodePhase }> {
  const sql = `SELECT nodes.name AS node, phase FROM rolloutNodes JOIN nodes ON nodes.id = nodeId
    WHERE rolloutId = ? ORDER BY wave, nodes.name`
  return db.all(sql, rolloutId).map(readNamedPhase)
}

export function storedRolloutNode(db: Reader, rolloutId: string, nodeId: string): StoredRolloutNode | undefined {
  return db.all(`${stored} WHERE rolloutId = ? AND nodeId = ?`, rolloutId, nodeId).map(readStored)[0]
}

/** Returns the number of nodes of a rollout in each phase that has any. */
export function countPhases(db: Reader, rolloutId: string): Partial<Record<NodePhase, number>> {
  const sql = 'SELECT phase, count(*) AS nodes FROM rolloutNodes WHERE rolloutId = ? GROUP BY phase'
  const rows = db.all(sql, rolloutId).map(readNodeCount)
  return Object.fromEntries(rows.map(({ phase, nodes }) => [phase, nodes]))
}

/** Removes the outputs of the nodes on which the earlier rollouts of a project did not fail. */
export function removeOldOutputs(tx: Transaction, projectId: string, number: number): void {
  const sql = `UPDATE rolloutNodes SET output = NULL WHERE output IS NOT NULL AND phase NOT IN ('failed', 'stuck')
    AND rolloutId IN (SELECT id FROM rollouts WHERE projectId = ? AND number < ?)`
  tx.run(sql, projectId, number)
}
