import { join } from 'node:path'
import { restoredName } from '../base/config/home.js'
import { replaceFile } from '../base/files.js'
import { readRestored } from '../carry/backup/revoked.js'
import type { Store, Transaction } from '../core/store/database.js'
import { restoreDetail } from '../core/store/tables/audit.js'
import { listSigningKeys, raiseSequence, updateSigningKey } from '../core/store/tables/signing-keys.js'
import { type AuditEvent, systemActor } from '../model/audit.js'

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
