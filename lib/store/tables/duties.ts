/*
 * What an agent was told and has done (`duties`), and which of its deployments it made for its hub
 * (`hubDeployments`: null stands for files that no deployment of the hub put there).
 */
import type { Duty } from '../../model/duty.js'
import type { Reader, Transaction } from '../database.js'
import { isObject, json, nullable, rowReader, text, valueReader } from './table.js'

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

/** Returns the duty for a project. */
export function findDuty(db: Reader, projectId: string): Duty | undefined {
  return db.all('SELECT duty FROM duties WHERE projectId = ?', projectId).map(readDuty)[0]
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
