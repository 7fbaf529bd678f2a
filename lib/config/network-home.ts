// Imported as a whole: `statfs` does not exist in every supported version of Node, and a missing named export would
// keep this module from loading.
import fs from 'node:fs/promises'
import { Refusal } from '../base/errors.js'
import type { Environment, Home } from './home.js'

/**
 * Network file systems, by the type that statfs(2) returns on Linux. On them, sockets and locks work within one machine
 * only, so a second server on another machine could use the same data directory.
 */
const networkFileSystems = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x00c36400, 'Ceph'],
  [0x5346414f, 'AFS'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2']
])

/** Set to 1 by an operator who knows that no other machine uses the data directory. */
const variable = 'SVC_NETWORK_HOME'

/**
 * Returns the name of the network file system with this type; null if the type is not known to be a network file
 * system.
 */
export function networkFileSystem(type: number): string | null {
  // Some versions of Node return a value above 31 bits as a negative number.
  return networkFileSystems.get(type >>> 0) ?? null
}

/**
 * Refuses (`home_on_network`) a data directory on a network file system, unless SVC_NETWORK_HOME=1 is set: another
 * machine could use it at the same time. There is no check on systems other than Linux, nor before Node 18.15.
 */
export async function refuseNetworkHome(
  { directory }: Pick<Home, 'directory'>,
  env: Environment,
  typeOf: (path: string) => Promise<number> = typeOfFileSystem
): Promise<void> {
  if (process.platform !== 'linux' || env[variable] === '1') return
  const name = networkFileSystem(await typeOf(directory).catch(() => 0))
  if (name === null) return
  const sentence =
    `Cannot use the data directory "${directory}": it is on a network file system (${name}), where a server on another machine ` +
    `could use it at the same time. Choose a directory on a local disk with SVC_HOME, or set ${variable}=1 if no other machine uses it`
  throw new Refusal('unavailable', 'home_on_network', sentence)
}

async function typeOfFileSystem(path: string): Promise<number> {
  return Number((await fs.statfs(path)).type)
}
