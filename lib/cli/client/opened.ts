/*
 * Access to the API for commands that work on the data directory of this machine. A running server answers the local
 * operator on a socket in that directory (local.ts). If no server is running, this process takes ownership of the directory
 * and answers itself. Commands therefore always use the API, and a server that starts meanwhile gets a clear refusal. The
 * client package does not have this file: it needs all of the server.
 */
import { existsSync } from 'node:fs'
import type { Home } from '../../base/config/home.js'
import { Refusal } from '../../base/errors.js'
import type { Context } from '../command.js'
import type { Client } from './client.js'
import { localClient, runningOwner } from './local.js'

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
