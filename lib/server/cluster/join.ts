/* `svc cluster join`: makes an empty data directory a further hub of a cluster. */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { refuseContents } from '../../backup/restore.js'
import { finishRestore } from '../../backup/place.js'
import {
  type ClusterFile,
  clusterKeyName,
  hubKeyName,
  writeClusterFile,
  writeClusterKeys
} from '../../config/cluster-file.js'
import { clusterFileName, ensureHome, type Home } from '../../config/home.js'
import { systemClock } from '../../base/clock.js'
import { createHubClient } from '../../http/outgoing/hub-request.js'
import { Refusal } from '../../base/errors.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'
import { ownDirectory } from '../../store/owner.js'
import { clusterKeysFor, openHubIdentity } from './hub-identity.js'
import type { ClusterOptions } from './options.js'

/** Dependencies of `joinCluster`. */
export interface JoinNeeds {
  home: Home
  /** What cluster.json will contain. */
  file: ClusterFile
  options: ClusterOptions
  warn(sentence: string): void
  info(sentence: string): void
  signal?: AbortSignal
}

/** Opens the store of a hub that has no server: it gets its database from another hub. */
export async function openHubStore({
  home,
  options,
  warn,
  info,
  signal
}: Omit<JoinNeeds, 'file'>): Promise<ReplicatedStore> {
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
    onWaiting: info,
    ...(signal && { signal })
  })
}

/**
 * Joins a cluster: gets the database from another hub. The directory is that of a hub from the first moment, so that a crash
 * leaves nothing that looks like a server alone; then the start of the server continues. Refuses `in_use`, `not_empty`,
 * `hub_name_taken`, and what the store refuses.
 */
export async function joinCluster(needs: JoinNeeds): Promise<{ sequence: number; hubs: number }> {
  const { home, file, options } = needs
  await mkdir(home.directory, { recursive: true, mode: 0o700 })
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
