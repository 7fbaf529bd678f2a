/* What a server does by itself while it may change things: from its start or its election on, until it stops or another hub leads. */

import type { Services } from './services.js'
import type { Front } from './front.js'
import type { World } from './world.js'
import { noteRestore } from './restored.js'
import { callAll } from '../base/async.js'

/** The services that work, and what is in front of them. */
export interface Begun {
  front: Pick<Front, 'audit' | 'failures' | 'keeper' | 'named'>
  services: Services
}

/** Finishes what a stopped server or another leader left, and begins the work in the background. */
export async function beginWork(
  { front, services }: Begun,
  { store, home }: Pick<World, 'store' | 'home'>
): Promise<void> {
  await noteRestore({ store, home, audit: front.audit })
  await services.headers.sealStored()
  await services.deployer.recover()
  await services.pieces.load()
  await services.fleet.start()
  for (const each of [front.keeper, ...periodic(services), services.webhook]) each.start()
}

/** How the work ends. */
export interface Ending {
  /** Ends or leaves the deployments. */
  deployments(): Promise<unknown>
  /** Closes the connections, if the server itself stops. */
  replies?(): Promise<unknown>
  /** Maximum time for the notifications of what has just ended. */
  graceMs: number
}

/** Ends the work, whether or not it has begun. Each part ends even if one before it fails; the first error is thrown. */
export function endWork({ front, services }: Begun, { deployments, replies, graceMs }: Ending): Promise<void> {
  // Ended at once, so that the user of a shell sees the reason before the connections are closed.
  const shells = services.terminals.opened()?.stop() ?? services.terminals.asked()?.then(late => late.stop())
  shells?.catch(() => {}) // it is awaited below
  return callAll([
    deployments,
    () => services.fleet.stop(),
    () => services.pieces.close(),
    () => Promise.all(periodic(services).map(each => each.stop())),
    () => Promise.all([replies?.(), services.webhook.stop({ graceMs })]),
    () => shells,
    async () => (await services.logs.asked())?.viewer.close(),
    () => front.failures.flush(),
    () => front.named.close(),
    () => front.keeper.stop()
  ])
}

const periodic = ({ history, reminders, incidents, archiveCheck }: Services) => [
  history,
  reminders,
  incidents,
  archiveCheck
]
