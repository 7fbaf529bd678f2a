/* `svc cluster join`: makes an empty data directory a further hub of a cluster. */
import { isIdOf } from '../base/digests.js'
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { refuseContents } from '../carry/backup/restore.js'
import {
  buildingPrefix,
  commitRestore,
  finishRestore,
  makeAside,
  placesWithin,
  removeUnfinished
} from '../carry/backup/place.js'
import {
  type ClusterFile,
  clusterKeyName,
  hubKeyName,
  readClusterFile,
  writeClusterFile,
  writeClusterKeys
} from '../base/config/cluster-file.js'
import {
  clusterFileName,
  ensureHome,
  type Home,
  locateHome,
  nodeName,
  writeConfig,
  isOfRestore
} from '../base/config/home.js'
import { type Clock, instantOf, systemClock } from '../base/clock.js'
import { createHubClient } from './forwarded.js'
import { Refusal } from '../base/errors.js'
import type { HubRole, ReplicatedStore, ReplicatedStoreOptions } from './replicated-store.js'
import { ownDirectory } from '../core/store/owner.js'
import { sessionKeyName } from '../access/session-key.js'
import { linkOrCopy, makeDirectories, syncTree } from '../base/files.js'
import type { Reader, Row, Store, Transaction } from '../core/store/database.js'
import { openStore } from '../core/store/durable-store.js'
import { clearSecrets, deleteNode, findNodeByName, findSecret, listPlacements } from '../core/store/tables/fleet.js'
import { clusterKeysFor, type ClusterOptions, openHubIdentity } from './options.js'
import { insertRow, refuseUnfinished } from './own-node.js'
import { createElection } from './election.js'
import { createEtcdClient } from './etcd/client.js'
import { EtcdConnection } from './etcd/connection.js'
import { explainEtcd } from './refusals.js'
import { readHistory } from './history.js'
import { createHubList, type HubAddress } from './hub-list.js'
import { createSealing, keysOf } from './sealing.js'

export interface JoinNeeds {
  home: Home
  /** What cluster.json will contain. */
  file: ClusterFile
  options: ClusterOptions
  warn(sentence: string): void
  info(sentence: string): void
}

/** Opens the store of a hub that has no server: it gets its database from another hub. */
export async function openHubStore({ home, options, warn, info }: Omit<JoinNeeds, 'file'>): Promise<ReplicatedStore> {
  const { hub, signer } = await openHubIdentity(home.directory, options, systemClock)
  const client = createHubClient({ signer, allowsHttp: options.allowsHttp, ca: options.hubCa })
  return options.openStore({
    directory: home.directory,
    etcd: options.etcd,
    cluster: options.name,
    ...clusterKeysFor(home.directory, options),
    hub,
    isReturning: options.isLeaving,
    fetchImage: (from, signal) => client.ask(from, { method: 'GET', target: '/api/hub/image', signal }),
    warn,
    onWaiting: info
  })
}

/**
 * Joins a cluster: gets the database from another hub. The directory is that of a hub from the first moment, so that a crash
 * leaves nothing that looks like a server alone; then the start of the server continues. Refuses `in_use`, `not_empty`,
 * `hub_name_taken`, and what the store refuses.
 */
export async function joinCluster(needs: JoinNeeds): Promise<{ sequence: number; hubs: number }> {
  const { home, file, options } = needs
  await makeDirectories(home.directory, 0o700)
  const owner = await ownDirectory(home.directory)
  try {
    await finishRestore(home.directory)
    await refuseContents(home.directory)
    await ensureHome(home)
    await writeClusterKeys(home.directory, [options.key, ...(options.nextKeys ?? [])])
    await writeClusterFile(home.directory, file)
    try {
      const store = await openHubStore(needs)
      try {
        const hubs = await store.hubs()
        const other = hubs.find(({ name, url }) => name === options.hub.name && url !== options.hub.url)
        if (other !== undefined) throw nameTaken(options.hub.name, other.url)
        return { sequence: store.role().sequence, hubs: hubs.length }
      } finally {
        await store.close()
      }
    } catch (error) {
      for (const name of [clusterFileName, clusterKeyName, join('keys', hubKeyName), 'svc.db', 'svc.db.redo']) {
        await rm(join(home.directory, name), { force: true })
      }
      throw error
    }
  } finally {
    await owner.release()
  }
}

function nameTaken(name: string, url: string): Refusal {
  const sentence = `The cluster already has a hub "${name}" at ${url}. Choose another --hub-name`
  return new Refusal('conflict', 'hub_name_taken', sentence)
}

/*
 * `svc cluster leave`. A hub among others goes: its files are put aside. The last hub becomes a server alone again: the
 * targets of its node are those of the server, with everything that undo and verify need.
 */

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
 * Takes a hub out of its cluster. Refuses `no_cluster`, `in_use`, `deployment_running`, `no_other_hub`, `only_copy`,
 * `placed_elsewhere`.
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
    if (file !== null) return { ...(await leave(needs, await needs.optionsOf(file), file)), hub: file }
    if (!wasLeaving) throw noHub(home)
    return { outcome: existsSync(home.database) ? 'alone' : 'left', hub: null, aside: null }
  } finally {
    await owner.release()
  }
}

/** Maximum time until one of the other hubs leads, if any runs. */
const electionMs = 10_000

type Leaving = LeaveNeeds & { options: ClusterOptions }

async function leave(needs: LeaveNeeds, options: ClusterOptions, file: ClusterFile): Promise<Omit<LeftCluster, 'hub'>> {
  const { home, clock } = needs
  const building = join(home.directory, buildingPrefix + randomBytes(4).toString('hex'))
  const { data } = placesWithin(building)
  const store = await openHubStore({ ...needs, options })
  try {
    const others = (await store.hubs()).filter(({ name }) => name !== options.hub.name)
    await mkdir(data, { recursive: true, mode: 0o700 })
    if (others.length === 0) await becomeAlone({ ...needs, options }, store, data)
    else {
      await refuseLast(store, others)
      refuseOnlyCopy(store, { ...needs, options })
    }
    const at = instantOf(clock).slice(0, 19).replaceAll(':', '-')
    const aside = await makeAside(home.directory, building, at)
    await syncTree(building)
    // After a crash in between, the hub may enter the list again.
    await writeClusterFile(home.directory, { ...file, isLeaving: true })
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

/** Refuses to put the database aside if no other hub runs: the others may be gone. */
async function refuseLast(store: ReplicatedStore, others: ReadonlyArray<{ name: string }>): Promise<void> {
  const isKnown = ({ kind }: HubRole): boolean => kind !== 'alone'
  await new Promise<void>(resolve => {
    const late = setTimeout(resolve, electionMs)
    const end = (): void => {
      clearTimeout(late)
      resolve()
    }
    const stop = store.onRole(role => isKnown(role) && (stop(), end()))
    if (isKnown(store.role())) end()
  })
  // The server of this hub is stopped. If another one ran, it would lead.
  if (store.role().kind === 'follower') return
  const names = others.map(({ name }) => `"${name}"`).join(', ')
  const sentence = `No other hub of the cluster runs (${names}). Start one of them; or, if they are gone for good, remove them first: svc cluster forget`
  throw new Refusal('unavailable', 'no_other_hub', sentence)
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
    if (skipped.has(name) || isOfRestore(name) || /^(svc\.|\.cluster)/.test(name)) continue
    await cp(join(home.directory, name), join(data, name), { recursive: true, preserveTimestamps: true })
  }
  await rm(join(target.keys, hubKeyName), { force: true })
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
      if (node === undefined) return
      // The server deploys to the targets that its node had.
      for (const { projectId, deployPath } of listPlacements(tx, { nodeId: node.id }))
        tx.run('UPDATE projects SET deployPath = ? WHERE id = ?', deployPath, projectId)
      deleteNode(tx, node.id)
    })
  } finally {
    await database.close()
  }
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

/*
 * Takes the deployments of the node of a hub over when the last hub becomes a server alone, so that the targets and the records
 * fit together.
 *
 * Records of deployments that the node made for the hub are merged: the deployment of the hub gets the place in the target, and
 * the files of the node's one. Deployments that were made on the node itself become records of the server.
 */

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
      undoOf: named(row['undoOf']),
      promotedFrom: named(row['promotedFrom'] ?? null),
      reusedFrom: named(row['reusedFrom'] ?? null)
    })
    return
  }
  const set = placeColumns.map(name => `${name} = ?`).join(', ')
  const values = placeColumns.map(name => (name === 'undoOf' ? named(row[name]) : (row[name] ?? null)))
  tx.run(`UPDATE deployments SET ${set}, beforeFrom = ? WHERE id = ?`, ...values, beforeFrom, id)
}

/** Takes the files of a deployment that only the node has. Its output stays that of the hub, if there is one. */
async function takeFiles(
  id: string,
  names: ReadonlyMap<string, string>,
  { from, to }: { from: Home; to: Home }
): Promise<void> {
  if (!isIdOf('dep_', id)) return
  const wanted = names.get(id) as string
  for (const ending of ['zip', 'before.zip', 'scripted.zip', 'log', 'manifest', 'scripted']) {
    const [source, target] = [join(from.deployments, `${id}.${ending}`), join(to.deployments, `${wanted}.${ending}`)]
    if (!existsSync(source)) continue
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
  return text.replace(/(?<="kept":"archive:)[^"]+(?=")/g, id => names.get(id) ?? id)
}

/* Removes a hub from the list of its cluster, when its machine is gone: `svc cluster forget`. */

/** A hub that announced itself in this time is running. If the clocks differ, it announces itself again. */
const presentMs = 60_000

/** Removes a hub from the list. Refuses `hub_unknown`, `hub_running`, `cluster_missing`, `cluster_sealed`. */
export async function forgetHub(
  options: Pick<ReplicatedStoreOptions, 'etcd' | 'cluster' | 'clusterKey'> & { hub: HubAddress },
  name: string
): Promise<void> {
  const { cluster, hub } = options
  const connection = new EtcdConnection(options.etcd)
  try {
    const client = createEtcdClient(connection)
    const outside = { client, keys: keysOf(cluster), sealing: createSealing(options.clusterKey) }
    const found = await readHistory(outside)
    if (found === null) {
      const sentence = `Cannot remove the hub "${name}": etcd does not have the log of the cluster "${cluster}"`
      throw new Refusal('unavailable', 'cluster_missing', sentence)
    }
    const parts = { ...outside, history: found.id }
    const list = createHubList(parts)
    const hubs = await list.list()
    const listed = hubs.find(each => each.name === name)
    if (listed === undefined) {
      const names = hubs.map(each => `"${each.name}"`).join(', ')
      throw new Refusal('not_found', 'hub_unknown', `The cluster "${cluster}" has no hub "${name}". It has ${names}`)
    }
    const { keys } = await client.range({ key: outside.keys.leader })
    const { readLeader } = createElection({ ...parts, hub, leaseSeconds: 1, clock: { now: Date.now } })
    const isLeader = keys[0] !== undefined && readLeader(keys[0]).name === name
    const isSeen = listed.seenAt !== null && Date.now() - Date.parse(listed.seenAt) < presentMs
    if (isLeader || isSeen) {
      const sentence = `The hub "${name}" was seen ${isLeader ? 'as the leader' : 'in the last minute'}. Take it out of the cluster on its machine: svc cluster leave`
      throw new Refusal('conflict', 'hub_running', sentence)
    }
    await list.forget(name)
  } catch (error) {
    throw explainEtcd(error, `Cannot remove the hub "${name}"`)
  } finally {
    connection.close()
  }
}
