/*
 * The way to the services for commands that work on this machine's data directory: the socket there, at which the
 * running server answers the local operator. Where none runs, this process owns the directory for as long as it needs,
 * and answers itself, so that there is one way through, and a server that starts meanwhile is told why it may not.
 */
import type { Home } from '../config/home.js'
import { Refusal } from '../base/refusal.js'
import { refuseLooseHome } from '../config/trusted-home.js'
import { findOwner } from '../store/owner.js'
import { createClient, type Client } from './client.js'
import type { Context } from './command.js'

export interface LocalAccess {
  client: Client
  /** Whether a server runs, which is asked; else this process has opened the data directory. */
  isServerRunning: boolean
}

/** Runs `use` with the API of the data directory's owner, whoever that is. */
export async function withLocalApi<T>(
  { env, output }: Pick<Context, 'env' | 'output'>, home: Home, use: (access: LocalAccess) => Promise<T>
): Promise<T> {
  const running = await runningOwner(home)
  if (running !== null) return use({ client: localClient(running, env), isServerRunning: true })
  const { serveLocally } = await import('../main/local.js')
  let local
  try {
    local = await serveLocally({ home, environment: env, warn: output.warn })
  } catch (error) {
    // One that started a moment ago.
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
 * Where the process listens that has this data directory; null: none has, or there is no such directory. Refuses a
 * directory that other users could change, and a socket that may be theirs (`unsafe_home`, `lock_untrusted`).
 */
export async function runningOwner(home: Home): Promise<string | null> {
  try {
    // What is there may be told the new admin token.
    await refuseLooseHome(home.directory)
    return await findOwner(home.directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Needs no token: only this user can open the socket. */
export function localClient(socketPath: string, env: Context['env']): Client {
  return createClient({ serverUrl: 'http://localhost', socketPath, token: null, env })
}
