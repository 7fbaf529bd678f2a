/* What a server does by itself while it may change things: from its start or its election on, until it stops or another hub leads. */
import type { Services } from './services.js'
import type { Front } from './front.js'
import type { World } from './world.js'
import { callAll } from '../base/async.js'
import { join } from 'node:path'
import { restoredName } from '../base/config/home.js'
import { replaceFile } from '../base/files.js'
import { readRestored } from '../carry/backup/revoked.js'
import type { Store, Transaction } from '../core/store/database.js'
import { restoreDetail } from '../core/store/tables/audit.js'
import { listSigningKeys, raiseSequence, updateSigningKey } from '../core/store/tables/signing-keys.js'
import { type AuditEvent, systemActor } from '../model/audit.js'

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

/**
 * Records that the data directory was restored, and revokes the keys again that were revoked after the backup was made. Does
 * nothing if there was no restore.
 */
export async function noteRestore({
  store,
  home,
  audit
}: {
  store: Store
  home: { directory: string }
  audit: { within(tx: Transaction, event: AuditEvent): void }
}): Promise<void> {
  const restored = await readRestored(home.directory)
  if (restored === null) return
  const { backupAt, revoked, sequences } = restored
  await store.write(tx => {
    const again: string[] = []
    for (const { id, kind, fingerprint, name, revokedAt } of listSigningKeys(tx)) {
      const since = revoked.filter(each => each.kind === kind && each.fingerprint === fingerprint)
      const earliest = [revokedAt, ...since.map(each => each.revokedAt)].flatMap(at => at ?? []).sort()[0] ?? null
      if (earliest === revokedAt) continue
      updateSigningKey(tx, id, { revokedAt: earliest })
      again.push(`${name} ${fingerprint}`)
    }
    for (const [projectId, sequence] of Object.entries(sequences)) raiseSequence(tx, projectId, sequence)
    const keys = again.length === 0 ? '' : `keys revoked again: ${again.join(', ')}`
    audit.within(tx, { action: 'backup.restore', actor: systemActor, detail: restoreDetail(backupAt, keys) })
  })
  // What nodes remember is told to them later (server/fleet.ts).
  await replaceFile(join(home.directory, restoredName), '', 0o600)
}
