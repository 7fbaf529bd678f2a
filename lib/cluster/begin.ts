/*
 * `svc cluster init`: makes a server the first hub of a new cluster. Everything is built beside the data directory's files, and
 * takes their place at once (carry/backup/place.ts). Until then the server is as before; the old files stay in a directory of their own.
 *
 *   .cluster-init/data/            the data directory of the hub
 *     svc.db                       the database, with the secrets, the node of this hub, and its placements
 *     cluster.json  cluster.key
 *     deployments/                 links to the files of the server
 *     node/                        the data directory of the agent: it takes over the targets
 *   .cluster-init/complete         everything above is on the disk; contains the number of the last write of the server
 *
 * After that the log is created in etcd, and then the directory is committed. If a crash comes in between, the next
 * `init` finds `.cluster-init` complete, with the id of the log in etcd, and only commits.
 */
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { strongToken } from '../access/admin-token.js'
import { sessionKeyBytes, sessionKeyName } from '../access/session-key.js'
import { commitRestore, finishRestore, makeAside, placesWithin, removeAside } from '../carry/backup/place.js'
import { type Clock, instantOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { linkOrCopy, syncPath, syncTree } from '../base/files.js'
import {
  type ClusterFile,
  clusterKeyName,
  type ClusterKeys,
  newClusterKey,
  readClusterKeys,
  writeClusterFile,
  writeClusterKeys
} from '../base/config/cluster-file.js'
import { type Home, isHub, locateHome, nodeName, readConfig, isOfRestore } from '../base/config/home.js'
import { openAgentKey, writeIdentity } from '../fleet/agent/identity.js'
import { writeWhole } from '../core/archive/pack-set.js'
import { openStore } from '../core/store/durable-store.js'
import type { Store, Transaction } from '../core/store/database.js'
import type { ReplicatedStoreOptions } from './replicated-store.js'
import { ownDirectory } from '../core/store/owner.js'
import { readAuditTree } from '../core/store/tables/audit.js'
import { insertNode, insertPlacement, isPlaced, putCopy, putSecret } from '../core/store/tables/fleet.js'
import { archivedDeployments, liveDeployment } from '../core/store/tables/deployments.js'
import { listProjects } from '../core/store/tables/projects.js'
import { randomBytes } from 'node:crypto'
import { clusterKeysFor, type ClusterOptions, openHubIdentity } from './options.js'
import { createNodeDatabase, refuseUnfinished } from './own-node.js'
import { createServerKey } from '../core/audit/signed-note.js'

export interface BeginNeeds {
  home: Home
  /** What cluster.json will contain. */
  file: ClusterFile
  /** Returns the options of the hub with the key of the cluster. */
  optionsOf(keys: ClusterKeys): Promise<ClusterOptions>
  clock: Clock
  ids: Ids
  warn(sentence: string): void
}

/** The result of `svc cluster init`. */
export interface BegunCluster {
  projects: number
  deployments: number
  /** The directory that contains the files of the server as they were; null: there were none. */
  aside: string | null
}

const buildingName = '.cluster-init'
const completeName = 'complete'
/** Entries of the data directory that the hub does not take over as they are. */
const notTaken = /^(svc\.db.*|svc\.sock.*|deployments|tmp|node|\.cluster-init|cluster\.json)$/

/**
 * Makes the server of a data directory the first hub of a cluster. Refuses `in_use`, `is_hub`, `deployment_running`,
 * `cluster_exists`, `cluster_changed`, and what etcd refuses.
 */
export async function beginCluster(needs: BeginNeeds): Promise<BegunCluster> {
  const { home } = needs
  const owner = await ownDirectory(home.directory)
  try {
    // After a crash beyond the commit, the directory is that of the hub.
    await finishRestore(home.directory)
    if (isHub(home.directory)) return await beginAgain(needs)
    const building = join(home.directory, buildingName)
    const counts = await build(needs, building)
    await openLog(needs, building)
    const at = instantOf(needs.clock).slice(0, 19).replaceAll(':', '-')
    await removeAside(building)
    const aside = await makeAside(home.directory, building, at)
    await syncTree(building)
    await commitRestore(home.directory, building)
    await finishRestore(home.directory)
    return { ...counts, aside }
  } finally {
    await owner.release()
  }
}

/**
 * Creates the log of a hub whose cluster was lost, for example from a backup: its database becomes the beginning. If the log
 * is that of this hub, an earlier attempt has created it.
 */
async function beginAgain({ home, optionsOf, clock }: BeginNeeds): Promise<BegunCluster> {
  const options = await optionsOf(await readClusterKeys(join(home.directory, clusterKeyName)))
  const store = await options.openStore({ ...(await storeOptions(options, home.directory, clock)), begin: true, clock })
  try {
    return { ...countsOf(store), aside: null }
  } finally {
    await store.close()
  }
}

async function storeOptions(options: ClusterOptions, directory: string, clock: Clock): Promise<ReplicatedStoreOptions> {
  const { hub } = await openHubIdentity(directory, options, clock)
  return { directory, etcd: options.etcd, cluster: options.name, ...clusterKeysFor(directory, options), hub }
}

/** Builds the directory of the hub, unless an earlier attempt has. */
async function build(needs: BeginNeeds, building: string): Promise<Omit<BegunCluster, 'aside'>> {
  const { home, clock, warn } = needs
  const store = await openStore({ directory: home.directory, clock, warn })
  try {
    refuseUnfinished(store, await readdir(home.deployments))
    const counts = countsOf(store)
    const sequence = String(store.sequence())
    const complete = await readFile(join(building, completeName), 'utf8').catch(() => null)
    if (complete === sequence) return counts
    if (complete !== null && existsSync(join(building, completeName))) {
      warn('An earlier "svc cluster init" did not finish, and the server has changed since: beginning again')
    }
    await rm(building, { recursive: true, force: true })
    await fill(needs, store, placesWithin(building).data)
    await syncTree(building)
    await writeFile(join(building, completeName), sequence, { mode: 0o600 })
    await syncPath(join(building, completeName))
    await syncPath(building)
    return counts
  } finally {
    await store.close()
  }
}

function countsOf(store: Pick<Store, 'all'>): { projects: number; deployments: number } {
  const count = (table: string): number => Number(store.all(`SELECT count(*) AS count FROM ${table}`)[0]?.['count'])
  return { projects: count('projects'), deployments: count('deployments') }
}

async function fill(needs: BeginNeeds, store: Store, data: string): Promise<void> {
  const { home, file } = needs
  const node = locateHome({ SVC_HOME: join(data, nodeName) })
  for (const path of [
    data,
    join(data, 'deployments'),
    join(data, 'tmp'),
    node.directory,
    node.deployments,
    node.tmp,
    node.keys
  ])
    await mkdir(path, { recursive: true, mode: 0o700 })
  for (const name of await readdir(home.directory)) {
    if (notTaken.test(name) || isOfRestore(name)) continue
    await cp(join(home.directory, name), join(data, name), { recursive: true, preserveTimestamps: true })
  }
  for (const name of await readdir(home.deployments))
    await take(name, { from: home.deployments, to: [join(data, 'deployments'), node.deployments] })
  if (existsSync(home.variablesKey)) await cp(home.variablesKey, node.variablesKey, { mode: 0 })
  await createNodeDatabase(node.directory, store)
  await writeImage(store, join(data, 'svc.db'))
  await writeClusterKeys(data, [newClusterKey()])
  await writeClusterFile(data, { ...file, hasNode: true })
  await transform(needs, data, node)
}

/** Links a file. Hubs keep whole archives, so one that shares contents is made whole, and its packs stay behind. */
async function take(name: string, { from, to }: { from: string; to: readonly string[] }): Promise<void> {
  if (name.endsWith('.pack')) return
  const kept = join(from, name)
  const whole = name.replace(/\.index$/, '.zip')
  const [first = '', ...others] = to.map(directory => join(directory, whole))
  if (whole === name) await linkOrCopy(kept, first)
  else if (!existsSync(join(from, whole))) await writeWhole(join(from, whole), first)
  else return
  for (const other of others) await linkOrCopy(first, other)
}

/** Adds the secrets, the node of this hub and the placements to the copy of the database. */
async function transform({ home, file, clock, ids }: BeginNeeds, data: string, node: Home): Promise<void> {
  const keys = locateHome({ SVC_HOME: data }).keys
  const store = await openStore({ directory: data, clock })
  try {
    const { signers } = await createServerKey(keys).signers(readAuditTree(store).origin)
    const nodeId = ids.id('node_')
    const { publicKey } = await openAgentKey(node.directory)
    const hubKey = (signers[0] as { publicKey: string }).publicKey
    await writeIdentity(node.directory, { hubs: [file.hub.url], nodeId, name: file.hub.name, hubKey })
    const { adminToken } = await readConfig(home)
    const secrets = {
      adminToken: adminToken ?? strongToken(ids),
      'server.ed25519': await readFile(join(keys, 'server.ed25519'), 'utf8'),
      'server.old.ed25519': await readFile(join(keys, 'server.old.ed25519'), 'utf8').catch(() => null),
      'session.key':
        (await readFile(join(data, sessionKeyName), 'utf8').catch(() => null))?.trim() ??
        randomBytes(sessionKeyBytes).toString('base64url'),
      'variables.key':
        (await readFile(join(data, 'variables.key'), 'utf8').catch(() => null))?.trim() ??
        randomBytes(32).toString('hex')
    }
    await store.write(tx => {
      for (const [name, value] of Object.entries(secrets)) {
        if (value !== null) putSecret(tx, name as keyof typeof secrets, value)
      }
      insertNode(tx, {
        id: nodeId,
        name: file.hub.name,
        labels: {},
        publicKey,
        isDrained: false,
        enrolledAt: instantOf(clock),
        lastSeenAt: null,
        version: null,
        freeBytes: null,
        sharedSince: null
      })
      place(tx, { nodeId, hub: file.hub.name, at: instantOf(clock) })
    })
  } finally {
    await store.close()
  }
}

/**
 * Places every project on the node of the hub: its target stays where it is. A project that is on nodes already has no
 * target here.
 */
function place(tx: Transaction, { nodeId, hub, at }: { nodeId: string; hub: string; at: string }): void {
  for (const { id: projectId, deployPath } of listProjects(tx)) {
    const live = liveDeployment(tx, projectId)
    if (!isPlaced(tx, projectId))
      insertPlacement(tx, {
        projectId,
        nodeId,
        deployPath,
        liveDeployId: live?.id ?? null,
        liveTree: live === undefined || live.exact ? null : live.treeSha256,
        seenAt: at,
        isDrifted: false
      })
    for (const { id } of archivedDeployments(tx, projectId)) putCopy(tx, { deployId: id, hub })
  }
}

/** Creates the log in etcd. A log that an earlier attempt with this very directory created is used. */
async function openLog({ optionsOf, clock }: BeginNeeds, building: string): Promise<void> {
  const { data } = placesWithin(building)
  const options = await optionsOf(await readClusterKeys(join(data, clusterKeyName)))
  const store = await options.openStore({ ...(await storeOptions(options, data, clock)), begin: true, clock })
  await store.close()
}

async function writeImage(store: Store, path: string): Promise<void> {
  const image = await store.image()
  try {
    await writeFile(path, image.pieces, { mode: 0o600 })
  } finally {
    image.release()
  }
}
