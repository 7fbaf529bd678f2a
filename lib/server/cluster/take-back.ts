/*
 * Takes the deployments of the node of a hub over when the last hub becomes a server alone, so that the targets and the records
 * fit together.
 *
 * Records of deployments that the node made for the hub are merged: the deployment of the hub gets the place in the target, and
 * the files of the node's one. Deployments that were made on the node itself become records of the server.
 */
import { existsSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { linkOrCopy } from '../../base/files.js'
import type { Home } from '../../config/home.js'
import type { Reader, Row, Store, Transaction } from '../../store/database.js'
import { openStore } from '../../store/durable-store.js'
import { ownDirectory } from '../../store/owner.js'
import { findNodeByName, listPlacements } from '../../store/tables/fleet.js'
import { insertRow } from './node-database.js'
import { refuseUnfinished } from './unfinished.js'

/** Dependencies of `takeBack`. */
export interface TakeBack {
  /** The database of the server. */
  database: Store
  nodeHome: Home
  target: Home
  hub: string
}

/** Merges the records and files of the node into those of the server. Refuses `deployment_running`, `in_use`. */
export async function takeBack({ database, nodeHome, target, hub }: TakeBack): Promise<void> {
  const owner = await ownDirectory(nodeHome.directory)
  const node = await openStore({ directory: nodeHome.directory })
  try {
    refuseUnfinished(node, await readdir(nodeHome.deployments))
    const names = namesOf(node)
    const nodeId = findNodeByName(database, hub)?.id ?? ''
    // Of other projects, which were on the node once, the hub has its own records.
    const projects = new Set(listPlacements(database, { nodeId }).map(({ projectId }) => projectId))
    const rows = node
      .all('SELECT * FROM deployments ORDER BY position')
      .filter(({ projectId }) => projects.has(String(projectId)))
    await database.write(tx => {
      for (const id of projects) tx.run('UPDATE deployments SET placed = NULL WHERE projectId = ?', id)
      for (const row of rows) merge(tx, row, names)
    })
    for (const row of rows) await takeFiles(String(row['id']), names, { from: nodeHome, to: target })
  } finally {
    await node.close()
    await owner.release()
  }
}

/** Returns the id in the records of the hub of each deployment of the node. Of several for one, the last gets its id. */
function namesOf(node: Reader): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  const taken = new Map<string, string>()
  const sql = `SELECT deployments.id AS id, hubDeployments.deployId AS deployId FROM deployments
    LEFT JOIN hubDeployments ON hubDeployments.id = deployments.id ORDER BY deployments.position`
  for (const row of node.all(sql)) {
    const id = String(row['id'])
    const deployId = row['deployId'] === null ? null : String(row['deployId'])
    const before = deployId === null ? undefined : taken.get(deployId)
    if (before !== undefined) names.set(before, before)
    names.set(id, deployId ?? id)
    if (deployId !== null) taken.set(deployId, id)
  }
  return names
}

/** Columns that say where the files of a deployment are and what they replaced. */
const placeColumns = [
  'placed',
  'target',
  'fileCount',
  'treeSha256',
  'exact',
  'undoOf',
  'revertedAt',
  'revertReason'
] as const

function merge(tx: Transaction, row: Row, names: ReadonlyMap<string, string>): void {
  const id = names.get(String(row['id'])) as string
  const named = (text: unknown): string | null => (text === null ? null : (names.get(String(text)) ?? String(text)))
  const beforeFrom =
    row['beforeFrom'] === null
      ? null
      : JSON.stringify((JSON.parse(String(row['beforeFrom'])) as string[]).map(each => named(each)))
  const known = tx.get('SELECT 1 FROM deployments WHERE id = ?', id)
  if (known === undefined) {
    const { position: _, ...others } = row
    insertRow(tx, 'deployments', {
      ...others,
      id,
      beforeFrom,
      rollbackOf: named(row['rollbackOf']),
      undoOf: named(row['undoOf'])
    })
    return
  }
  const set = placeColumns.map(name => `${name} = ?`).join(', ')
  const values = placeColumns.map(name => (name === 'undoOf' ? named(row[name]) : (row[name] ?? null)))
  tx.run(`UPDATE deployments SET ${set}, beforeFrom = ? WHERE id = ?`, ...values, beforeFrom, id)
}

/** Files of a deployment that only the node has. Its output stays that of the hub, if there is one. */
const nodeFiles = /^dep_[a-z2-7]{16}\.(zip|(?:before|scripted)\.zip|log|manifest|scripted)$/

async function takeFiles(
  id: string,
  names: ReadonlyMap<string, string>,
  { from, to }: { from: Home; to: Home }
): Promise<void> {
  const wanted = names.get(id) as string
  for (const ending of ['zip', 'before.zip', 'scripted.zip', 'log', 'manifest', 'scripted']) {
    const [source, target] = [join(from.deployments, `${id}.${ending}`), join(to.deployments, `${wanted}.${ending}`)]
    if (!nodeFiles.test(`${id}.${ending}`) || !existsSync(source)) continue
    if (existsSync(target) && (ending === 'zip' || ending === 'log')) continue
    await rm(target, { force: true })
    if (ending === 'manifest' || ending === 'scripted')
      await writeFile(target, await renamed(source, names), { mode: 0o600 })
    else await linkOrCopy(source, target)
  }
}

/** Returns a manifest whose lines name the archives (`EarlierFile.kept`) by the ids of the server. */
async function renamed(path: string, names: ReadonlyMap<string, string>): Promise<string> {
  const text = await readFile(path, 'utf8')
  return text.replace(/(?<="kept":"archive:)dep_[a-z2-7]{16}(?=")/g, id => names.get(id) ?? id)
}
