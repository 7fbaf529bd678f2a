import type { FleetNode } from '../../model/node.js'
import type { Reader, Transaction } from '../database.js'
import { flag, isObject, json, nullable, number, text, valueReader, type Column } from './columns.js'
import { tableOf } from './table.js'

/** The column of labels. */
export const labels: Column<Record<string, string>> = json(
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
const readCount = valueReader('count of nodes', number)

/** Adds a node. */
export const insertNode = nodes.insert

/** Writes the fields that are present; returns false if there is no such node. */
export const updateNode = nodes.update

/** Removes a node with its placements and its part in rollouts; returns false if there is none. */
export const deleteNode = nodes.delete

/** Returns one node by its id. */
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

/** Returns the number of nodes. */
export function countNodes(db: Reader): number {
  return db.all('SELECT count(*) FROM nodes').map(readCount)[0] ?? 0
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
