/*
 * `svc cluster leave`. A hub among others goes: its files are put aside. The last hub becomes a server alone again: the
 * targets of its node are those of the server, with everything that undo and verify need.
 *
 * Records of deployments that the node made for the hub are merged: the deployment of the hub gets the place in the target, and
 * the files of the node's one. Deployments that were made on the node itself become records of the server.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sessionKeyName } from '../../auth/session-key.js'
import {
  buildingPrefix,
  commitRestore,
  finishRestore,
  makeAside,
  placesWithin,
  removeUnfinished
} from '../../backup/place.js'
import { instantOf, type Clock } from '../../base/clock.js'
import { linkOrCopy } from '../../base/link-or-copy.js'
import { Refusal } from '../../base/refusal.js'
import { syncTree } from '../../base/sync.js'
import { clusterKeyName, nodeName, readClusterFile } from '../../config/cluster-file.js'
import type { ClusterFile } from '../../config/cluster-file.js'
import { clusterFileName, locateHome, writeConfig, type Home } from '../../config/home.js'
import type { Reader, Row, Store, Transaction } from '../../store/database.js'
import { openStore } from '../../store/durable-store.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'
import { ownDirectory } from '../../store/owner.js'
import { clearSecrets, findSecret } from '../../store/tables/cluster-secrets.js'
import { unfinishedDeployments } from '../../store/tables/deployments.js'
import { findNodeByName, deleteNode } from '../../store/tables/nodes.js'
import { openHubStore, type JoinNeeds } from './join.js'
import type { ClusterOptions } from './options.js'
import { insertRow } from './node-database.js'

/** Dependencies of `leaveCluster`. */
export interface LeaveNeeds extends Omit<JoinNeeds, 'file' | 'options'> {
  optionsOf(file: ClusterFile): Promise<ClusterOptions>
  clock: Clock
  /** Whether the hub leaves although it has the only copy of some archives. */
  force: boolean
}

/** The result of `svc cluster leave`. */
export interface LeftCluster {
  /** `left`: other hubs go on. `alone`: this one is a server without a cluster again. */
  outcome: 'left' | 'alone'
  /** What it was; null if an earlier attempt had already left, up to the last names of files. */
  hub: ClusterFile | null
  /** The directory that contains the files as they were; null: as `hub`. */
  aside: string | null
}

/**
 * Takes a hub out of its cluster. Refuses `no_cluster`, `in_use`, `deployment_running`, `only_copy`, `placed_elsewhere`.
 *
 * The hub signs off before its files are replaced. After a crash in between it is still a hub, and signs on again when it starts.
 */
export async function leaveCluster(needs: LeaveNeeds): Promise<LeftCluster> {
  const { home } = needs
  if (!existsSync(home.directory)) throw noHub(home)
  const owner = await ownDirectory(home.directory)
  try {
    const wasLeaving = await finishRestore(home.directory)
    const file = await readClusterFile(home.directory)
    if (file !== null) return { ...(await leave(needs, await needs.optionsOf(file))), hub: file }
    if (!wasLeaving) throw noHub(home)
    return { outcome: existsSync(home.database) ? 'alone' : 'left', hub: null, aside: null }
  } finally {
    await owner.release()
  }
}

type Leaving = LeaveNeeds & { options: ClusterOptions }

async function leave(needs: LeaveNeeds, options: ClusterOptions): Promise<Omit<LeftCluster, 'hub'>> {
  const { home, clock } = needs
  const building = join(home.directory, buildingPrefix + randomBytes(4).toString('hex'))
  const { data } = placesWithin(building)
  const store = await openHubStore({ ...needs, options })
  try {
    const others = (await store.hubs()).filter(({ name }) => name !== options.hub.name)
    await mkdir(data, { recursive: true, mode: 0o700 })
    if (others.length === 0) await becomeAlone({ ...needs, options }, store, data)
    else refuseOnlyCopy(store, { ...needs, options })
    const at = instantOf(clock).slice(0, 19).replaceAll(':', '-')
    const aside = await makeAside(home.directory, building, at)
    await syncTree(building)
    await store.forgetHub(options.hub.name)
    await commitRestore(home.directory, building)
    await store.close()
    await finishRestore(home.directory)
    return { outcome: others.length === 0 ? 'alone' : 'left', aside }
  } catch (error) {
    await store.close().catch(() => {})
    if (existsSync(building)) await removeUnfinished(building)
    throw error
  }
}

function noHub({ directory }: Home): Refusal {
  const sentence = `"${directory}" is not a hub of a cluster. Use SVC_HOME to choose the data directory`
  return new Refusal('not_found', 'no_cluster', sentence)
}

function refuseOnlyCopy(store: Reader, { options, force }: Leaving): void {
  const sql = `SELECT count(*) AS count FROM blobCopies AS own WHERE hub = ?
    AND NOT EXISTS (SELECT 1 FROM blobCopies AS other WHERE other.deployId = own.deployId AND other.hub <> own.hub)`
  const count = Number(store.get(sql, options.hub.name)?.['count'])
  if (count === 0 || force) return
  const sentence = `${count} archives may be on this hub only. Start it and another one, and let them copy; or use --force`
  throw new Refusal('conflict', 'only_copy', sentence)
}

/** Builds the data directory of a server alone. */
async function becomeAlone(needs: Leaving, store: ReplicatedStore, data: string): Promise<void> {
  const { home, options } = needs
  refuseUnfinished(store, await readdir(home.deployments))
  refuseElsewhere(store, options.hub.name)
  const target = locateHome({ SVC_HOME: data })
  for (const path of [target.deployments, target.tmp]) await mkdir(path, { recursive: true, mode: 0o700 })
  const skipped = new Set([clusterFileName, clusterKeyName, nodeName, 'deployments', 'tmp', 'trees'])
  for (const name of await readdir(home.directory)) {
    if (skipped.has(name) || /^(svc\.|\.restore|\.cluster|before-restore)/.test(name)) continue
    await cp(join(home.directory, name), join(data, name), { recursive: true, preserveTimestamps: true })
  }
  for (const name of await readdir(home.deployments))
    await linkOrCopy(join(home.deployments, name), join(target.deployments, name))
  const image = await store.image()
  await writeFile(target.database, image.pieces, { mode: 0o600 })
  image.release()
  await writeSecrets(store, target)
  const database = await openStore({ directory: data })
  try {
    const nodeHome = locateHome({ SVC_HOME: join(home.directory, nodeName) })
    if (existsSync(nodeHome.database)) await takeBack({ database, nodeHome, target, hub: options.hub.name })
    await database.write(tx => {
      clearSecrets(tx)
      tx.run('DELETE FROM blobCopies')
      const node = findNodeByName(tx, options.hub.name)
      if (node !== undefined) deleteNode(tx, node.id)
    })
  } finally {
    await database.close()
  }
}

/** Refuses while a deployment of the hub, or of its node, has not finished: its files could be those of either release. */
function refuseUnfinished(store: Reader, names: readonly string[]): void {
  const [row] = unfinishedDeployments(store)
  const journal = names.find(name => name.endsWith('.undo'))
  if (row === undefined && journal === undefined) return
  const id = row?.id ?? (journal as string).slice(0, -'.undo'.length)
  const sentence = `Deployment ${id} has not finished. Start the hub, let it finish, stop the hub, and try again`
  throw new Refusal('conflict', 'deployment_running', sentence)
}

/** A project on several machines needs the fleet: its targets cannot all be those of this server. */
function refuseElsewhere(store: Reader, hub: string): void {
  const sql = `SELECT projects.name AS name FROM placements AS own JOIN nodes ON nodes.id = own.nodeId
    JOIN projects ON projects.id = own.projectId
    WHERE nodes.name = ? AND EXISTS (SELECT 1 FROM placements AS other WHERE other.projectId = own.projectId AND other.nodeId <> own.nodeId)`
  const name = store.get(sql, hub)?.['name']
  if (name === undefined) return
  const sentence = `The project "${String(name)}" is on "${hub}" and on other nodes. Remove it from one or the other first: svc fleet unplace`
  throw new Refusal('conflict', 'placed_elsewhere', sentence)
}

async function writeSecrets(store: Reader, target: Home): Promise<void> {
  const adminToken = findSecret(store, 'adminToken')
  if (adminToken !== null) await writeConfig(target, config => void (config.adminToken = adminToken))
  await mkdir(target.keys, { recursive: true, mode: 0o700 })
  const files: Array<[name: Parameters<typeof findSecret>[1], path: string]> = [
    ['server.ed25519', join(target.keys, 'server.ed25519')],
    ['server.old.ed25519', join(target.keys, 'server.old.ed25519')],
    ['session.key', join(target.directory, sessionKeyName)],
    ['variables.key', target.variablesKey]
  ]
  for (const [name, path] of files) {
    const text = findSecret(store, name)
    await rm(path, { force: true })
    if (text !== null) await writeFile(path, text, { mode: 0o600 })
  }
}

interface TakeBack {
  database: Store
  nodeHome: Home
  target: Home
  hub: string
}

/** Takes the deployments of the node over, so that the target and the records fit together. */
async function takeBack({ database, nodeHome, target, hub }: TakeBack): Promise<void> {
  const owner = await ownDirectory(nodeHome.directory)
  const node = await openStore({ directory: nodeHome.directory })
  try {
    refuseUnfinished(node, await readdir(nodeHome.deployments))
    const names = namesOf(node)
    const rows = node.all('SELECT * FROM deployments ORDER BY position')
    await database.write(tx => {
      const nodeId = findNodeByName(tx, hub)?.id ?? ''
      for (const { projectId } of tx.all('SELECT projectId FROM placements WHERE nodeId = ?', nodeId)) {
        tx.run('UPDATE deployments SET placed = NULL WHERE projectId = ?', projectId as string)
      }
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
const nodeFiles = /^dep_[a-z2-7]{16}\.(zip|before\.zip|log|manifest)$/

async function takeFiles(
  id: string,
  names: ReadonlyMap<string, string>,
  { from, to }: { from: Home; to: Home }
): Promise<void> {
  const wanted = names.get(id) as string
  for (const ending of ['zip', 'before.zip', 'log', 'manifest']) {
    const [source, target] = [join(from.deployments, `${id}.${ending}`), join(to.deployments, `${wanted}.${ending}`)]
    if (!nodeFiles.test(`${id}.${ending}`) || !existsSync(source)) continue
    if (existsSync(target) && (ending === 'zip' || ending === 'log')) continue
    await rm(target, { force: true })
    await linkOrCopy(source, target)
  }
}
