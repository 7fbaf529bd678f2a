/*
 * The files of a hub: `cluster.json` names its cluster, and `cluster.key` is the key that only the hubs of the cluster
 * have (64 hexadecimal digits). Further lines are keys that the cluster may have got meanwhile. Both have mode 0600.
 */

import { randomBytes } from 'node:crypto'
import { chmod, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../errors.js'
import { replaceFile } from '../files.js'
import { openSigningKey, type SigningKey } from '../digests.js'
import { clusterFileName } from './home.js'

/** The contents of cluster.json. */
export interface ClusterFile {
  /** The name of the cluster. */
  cluster: string
  hub: { name: string; url: string }
  etcd: {
    endpoints: string[]
    /** Paths of files in PEM. */
    caFile: string | null
    certFile: string | null
    keyFile: string | null
    user: string | null
    passwordFile: string | null
  }
  /** Path of certificates that the other hubs are checked with. */
  hubCaFile: string | null
  /** Whether hubs may talk to each other unencrypted over the network; absent in files of an older svc: they may not. */
  allowsHttp?: boolean
  /** Whether the hub has an agent in `node/`. */
  hasNode: boolean
  /** Whether "svc cluster leave" has begun: after a crash, the hub may enter the list of hubs again. */
  isLeaving?: boolean
}

export const clusterKeyName = 'cluster.key'

const keyBytes = 32
const secretMode = 0o600

/** Reads cluster.json; null if there is none. Refuses `broken_config`. */
export async function readClusterFile(directory: string): Promise<ClusterFile | null> {
  const path = join(directory, clusterFileName)
  try {
    return JSON.parse(await readFile(path, 'utf8')) as ClusterFile
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": ${reasonOf(error)}`, { cause: error })
  }
}

/** Replaces cluster.json. */
export async function writeClusterFile(directory: string, file: ClusterFile): Promise<void> {
  await replaceFile(join(directory, clusterFileName), `${JSON.stringify(file, null, 2)}\n`, secretMode)
}

/** The key of a cluster, and keys that it may have got meanwhile. */
export type ClusterKeys = readonly [Buffer, ...Buffer[]]

/** Reads the keys of the cluster from a file, and removes the access of other users. Refuses `cluster_key`. */
export async function readClusterKeys(path: string): Promise<ClusterKeys> {
  try {
    const keys = (await readFile(path, 'utf8')).trim().split(/\s+/).map(parseClusterKey)
    if (keys.includes(null)) throw badKey(path, 'it does not contain 64 hexadecimal digits')
    if (((await stat(path)).mode & 0o077) !== 0) await chmod(path, secretMode)
    return keys as unknown as ClusterKeys
  } catch (error) {
    throw error instanceof Refusal ? error : badKey(path, reasonOf(error), error)
  }
}

/** Returns the key that a text contains; null if it is not one. */
export function parseClusterKey(text: string): Buffer | null {
  const digits = text.trim()
  return /^[0-9a-f]{64}$/i.test(digits) ? Buffer.from(digits, 'hex') : null
}

export async function writeClusterKeys(directory: string, keys: readonly Buffer[]): Promise<void> {
  const text = keys.map(key => `${key.toString('hex')}\n`).join('')
  await replaceFile(join(directory, clusterKeyName), text, secretMode)
}

export function newClusterKey(): Buffer {
  return randomBytes(keyBytes)
}

function badKey(path: string, why: string, cause?: unknown): Refusal {
  const sentence = `Cannot use the key of the cluster "${path}": ${why}. Copy cluster.key from another hub`
  return new Refusal('unavailable', 'cluster_key', sentence, { cause })
}

/** The file with the private key of a hub, below its data directory. The public half is in etcd (cluster/hub-list.ts). */
export const hubKeyName = 'hub.ed25519'

/** Returns the key of the hub of a data directory. The first call creates it. Refuses `hub_key`. */
export function openHubKey(directory: string): Promise<SigningKey> {
  const path = join(directory, 'keys', hubKeyName)
  return openSigningKey(path, (why, cause) => {
    const sentence = `Cannot use the key of this hub "${path}": ${why}. Restore it from a backup, or let the hub join again with an empty data directory`
    return new Refusal('unavailable', 'hub_key', sentence, { cause })
  })
}
