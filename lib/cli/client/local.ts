/* The server that owns the data directory of this machine. It answers the local operator on a socket in that directory. */
import { type Home, refuseLooseHome } from '../../base/config/home.js'
import { Refusal } from '../../base/errors.js'
import type { ClusterStatus } from '../../model/health.js'
import { findOwner } from '../../core/store/owner.js'
import { type Client, createClient } from './client.js'
import type { Context } from '../command.js'
import { existsSync } from 'node:fs'

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

/*
 * Access to the API for commands that work on the data directory of this machine. A running server answers the local
 * operator on a socket in that directory (local.ts). If no server is running, this process takes ownership of the directory
 * and answers itself. Commands therefore always use the API, and a server that starts meanwhile gets a clear refusal. The
 * client package does not have this file: it needs all of the server.
 */

/** The API of the owner of the data directory. */
export interface LocalAccess {
  client: Client
  /** Whether a running server answers. If not, this process has opened the data directory. */
  isServerRunning: boolean
}

/** Runs `use` with the API of the owner of the data directory: a running server, or this process. */
export async function withLocalApi<T>(
  { env, output }: Pick<Context, 'env' | 'output'>,
  home: Home,
  use: (access: LocalAccess) => Promise<T>
): Promise<T> {
  const running = await runningOwner(home)
  if (running !== null) return use({ client: localClient(running, env), isServerRunning: true })
  const { serveLocally } = await import('../../server/local.js')
  let local
  try {
    local = await serveLocally({ home, environment: env, warn: output.warn })
  } catch (error) {
    // A server may have started a moment ago.
    const path = error instanceof Refusal && error.code === 'in_use' ? await runningOwner(home) : null
    if (path === null) throw error
    return use({ client: localClient(path, env), isServerRunning: true })
  }
  try {
    return await use({ client: localClient(local.path, env), isServerRunning: false })
  } finally {
    await local.stop()
  }
}

/**
 * Refuses (`not_found`) no_database if the data directory has no database. `what` names the task: "export", "back up".
 */
export async function requireDatabase(home: Home, what: string): Promise<void> {
  if (existsSync(home.database) || (await runningOwner(home)) !== null) return
  const sentence = `There is nothing to ${what}: no database found in "${home.directory}". Use SVC_HOME to choose the data directory`
  throw new Refusal('not_found', 'no_database', sentence)
}
