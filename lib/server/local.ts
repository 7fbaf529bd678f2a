import { noteRestore } from './begin.js'
import { requiresSignatures, trustsClock, type World } from './world.js'
import { openAdminToken } from '../access/admin-token.js'
import { finishRestore } from '../carry/backup/place.js'
import { callAll } from '../base/async.js'
import { systemClock } from '../base/clock.js'
import { randomIds } from '../base/digests.js'
import {
  ensureHome,
  type Environment,
  type Home,
  noSpaceFor,
  refuseHub,
  refuseNetworkHome
} from '../base/config/home.js'
import { readVersion } from '../base/config/version.js'
import { ownedDisk } from '../core/store/disk.js'
import { openStore } from '../core/store/durable-store.js'
import { ownDirectory } from '../core/store/owner.js'
import { createFront } from './front.js'
import { createListener } from './listener.js'
import { createServices } from './services.js'
import { createTable } from './table.js'

/** A server that only its own user can reach, for the time of one command. */
export interface LocalServer {
  /** Path of its socket. Only this user can open it. */
  path: string
  stop(): Promise<void>
}

/**
 * Starts everything except the network: owns the data directory and answers at its socket. For a command that needs the
 * services while no server runs. It does none of the recovery that `serve` does, so unfinished work stays for the next
 * server. Refuses as `ownDirectory` and `openStore` do.
 */
export async function serveLocally({
  home,
  environment,
  warn
}: {
  home: Home
  environment: Environment
  warn(line: string): void
}): Promise<LocalServer> {
  await ensureHome(home)
  refuseHub(home.directory)
  await refuseNetworkHome(home, environment)
  const owner = await ownDirectory(home.directory)
  const opened: Array<() => Promise<unknown>> = [() => owner.release()]
  const close = (): Promise<void> => callAll(opened.reverse())
  try {
    const clock = { ...systemClock, isTrusted: trustsClock(environment) }
    const ids = randomIds
    if (await finishRestore(home.directory)) await ensureHome(home)
    const store = await openStore({ directory: home.directory, clock, disk: ownedDisk(owner.check), warn })
    opened.push(() => store.close())
    const log = (message: string, error?: unknown): void =>
      warn(error instanceof Error ? `${message}: ${error.stack}` : message)
    // Callers at the socket need no token, and there are no other callers.
    const admin = await openAdminToken({ home, ids, override: ids.token() })
    const world: World = {
      store,
      home,
      clock,
      ids,
      environment,
      terminal: false,
      allowSystemPaths: false,
      requireSignatures: requiresSignatures({ environment }),
      version: readVersion(),
      base: '',
      publicUrl: null,
      log
    }
    const front = createFront(world, admin)
    await noteRestore({ store, home, audit: front.audit })
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

/** Time for replies in progress, in milliseconds. The command has its answer before `stop` is called. */
const replyGraceMs = 1000
