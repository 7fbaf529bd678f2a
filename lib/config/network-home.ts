// As a whole: a name that this Node does not have would keep the module from being loaded.
import fs from 'node:fs/promises'
import { Refusal } from '../base/refusal.js'
import type { Environment, Home } from './home.js'

/**
 * File systems that several machines may have mounted, by the type that statfs(2) gives on Linux. Sockets and locks are of
 * one machine there: nothing would keep a second server, on another one, from the same data directory.
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

/** The operator's word that no other machine uses it. */
const variable = 'SVC_NETWORK_HOME'

/** The name of the network file system that has this type; null: it is of this machine, as far as the type tells. */
export function networkFileSystem(type: number): string | null {
  // Some versions of Node give what is above 31 bits as a negative number.
  return networkFileSystems.get(type >>> 0) ?? null
}

/**
 * Refuses (`home_on_network`) a data directory that another machine may use at the same time, unless SVC_NETWORK_HOME=1 says
 * that none does. Elsewhere than on Linux, and before Node 18.15, it is not known.
 */
export async function refuseNetworkHome(
  { directory }: Pick<Home, 'directory'>, env: Environment, typeOf: (path: string) => Promise<number> = typeOfFileSystem
): Promise<void> {
  if (process.platform !== 'linux' || env[variable] === '1') return
  const name = networkFileSystem(await typeOf(directory).catch(() => 0))
  if (name === null) return
  const sentence =
    `the data directory "${directory}" cannot be used: it is on a network file system (${name}), where nothing keeps a server on another ` +
    `machine from using it at the same time; choose one on a disk of this machine with SVC_HOME, or set ${variable}=1 where no other machine uses it`
  throw new Refusal('unavailable', 'home_on_network', sentence)
}

async function typeOfFileSystem(path: string): Promise<number> {
  return Number((await fs.statfs(path)).type)
}
