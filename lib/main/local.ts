import { openAdminToken } from '../auth/admin-token.js'
import { finishRestore } from '../backup/place.js'
import { systemClock } from '../base/clock.js'
import { randomIds } from '../base/ids.js'
import { ensureHome, noSpaceFor } from '../config/home.js'
import { refuseNetworkHome } from '../config/network-home.js'
import type { Environment, Home } from '../config/home.js'
import { openStore } from '../store/database.js'
import { ownDirectory } from '../store/owner.js'
import { readVersion } from '../config/version.js'
import { createFront } from './front.js'
import type { World } from './front.js'
import { createListener } from './listener.js'
import { createServices } from './services.js'
import { createTable } from './table.js'

export interface LocalServer {
  /** The socket it answers at; nobody but this user can open it. */
  path: string
  stop(): Promise<void>
}

/**
 * Everything but the network: owns the data directory and answers at its socket, for a command that needs the services
 * while no server runs. Nothing that a server would do at its start is done: what it left in the middle is its to end.
 * Refuses as `ownDirectory` and `openStore`.
 */
export async function serveLocally(
  { home, environment, warn }: { home: Home; environment: Environment; warn(line: string): void }
): Promise<LocalServer> {
  await ensureHome(home)
  await refuseNetworkHome(home, environment)
  const owner = await ownDirectory(home.directory)
  const opened: Array<() => Promise<unknown>> = [() => owner.release()]
  const close = async (): Promise<void> => {
    for (const end of opened.reverse()) await end()
  }
  try {
    const clock = systemClock
    const ids = randomIds
    if (await finishRestore(home.directory)) await ensureHome(home)
    const store = await openStore({ directory: home.directory, clock, warn })
    opened.push(() => store.close())
    const log = (message: string, error?: unknown): void => warn(error instanceof Error ? `${message}: ${error.stack}` : message)
    // Callers at the socket need none, and nobody else can call.
    const admin = await openAdminToken({ home, ids, override: ids.token() })
    const world: World = { store, home, clock, ids, environment, terminal: false, allowSystemPaths: false, version: readVersion(), base: '', publicUrl: null, log }
    const front = createFront(world, admin)
    const services = createServices(world, front)
    opened.push(() => services.deployer.stop({ wait: true }))
    const http = createListener(front, { base: '', publicUrl: null, log })
    http.complete(createTable(services, { base: '', publicUrl: null }))
    opened.push(() => http.close({ graceMs: replyGraceMs }))
    http.serve(owner.server)
    return { path: owner.path, stop: close }
  } catch (error) {
    await close().catch(() => {})
    throw noSpaceFor(home.directory, error) ?? error
  }
}

/** The command that asked has its answer by then. */
const replyGraceMs = 1000
