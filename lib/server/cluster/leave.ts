/*
 * `svc cluster leave`. A hub among others goes: its files are put aside. The last hub becomes a server alone again: the
 * targets of its node are those of the server, with everything that undo and verify need.
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
import { linkOrCopy, syncTree } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import {
  type ClusterFile,
  clusterKeyName,
  hubKeyName,
  readClusterFile,
  writeClusterFile
} from '../../config/cluster-file.js'
import { clusterFileName, type Home, locateHome, nodeName, writeConfig } from '../../config/home.js'
import type { Reader } from '../../store/database.js'
import { openStore } from '../../store/durable-store.js'
import type { HubRole, ReplicatedStore } from '../../store/log/replicated-store.js'
import { ownDirectory } from '../../store/owner.js'
import { clearSecrets, findSecret } from '../../store/tables/cluster.js'
import { deleteNode, findNodeByName, listPlacements } from '../../store/tables/fleet.js'
import { openHubStore, type JoinNeeds } from './join.js'
import type { ClusterOptions } from './options.js'
import { takeBack } from './take-back.js'
import { refuseUnfinished } from './unfinished.js'

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
    if (skipped.has(name) || /^(svc\.|\.restore|\.cluster|before-restore)/.test(name)) continue
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
