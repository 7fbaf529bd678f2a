/* The server that owns the data directory of this machine. It answers the local operator on a socket in that directory. */
import { type Home, refuseLooseHome } from '../../base/config/home.js'
import { Refusal } from '../../base/errors.js'
import type { ClusterStatus } from '../../model/health.js'
import { findOwner } from '../../core/store/owner.js'
import { type Client, createClient } from './client.js'
import type { Context } from '../command.js'

/**
 * Returns the socket path of the process that owns this data directory, or null if there is no owner or no directory.
 * Refuses a directory that other users can change, and a socket that may be theirs (`unsafe_home`, `lock_untrusted`).
 */
export async function runningOwner(home: Home): Promise<string | null> {
  try {
    // The owner may receive the new admin token, so it must be trusted.
    await refuseLooseHome(home.directory)
    return await findOwner(home.directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Returns a client for the running hub of a data directory. Refuses `no_cluster`. */
export async function runningHub(home: Home, env: Context['env']): Promise<Client> {
  const running = await runningOwner(home)
  if (running !== null) return localClient(running, env)
  throw noHub(home)
}

/** Returns the state of the cluster from a hub. Refuses `no_cluster`. */
export async function clusterOf(client: Client, home: Home): Promise<ClusterStatus> {
  const { cluster } = await client.call('GET /api/cluster')
  if (cluster === null) throw noHub(home)
  return cluster
}

function noHub({ directory }: Home): Refusal {
  const sentence = `No hub of a cluster runs in "${directory}". Use SVC_HOME to choose the data directory`
  return new Refusal('not_found', 'no_cluster', sentence)
}

/** Returns a client for the socket of the owner. It needs no token, because only this user can open the socket. */
export function localClient(socketPath: string, env: Context['env']): Client {
  return createClient({ serverUrl: 'http://localhost', socketPath, token: null, env })
}
