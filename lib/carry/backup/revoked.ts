/*
 * What a data directory knows about signatures that an older backup does not: keys that were revoked since, and the newest
 * release of each project. A restore keeps it (`svc.restored`), and the next start applies it, so that a restore trusts nothing
 * again that was refused before.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { restoredName } from '../../base/config/home.js'
import { nullIfMissing, reasonOf, Refusal } from '../../base/errors.js'
import { integer, instant, line, list, object, oneOf, readFields, record } from '../../base/fields.js'
import { realDisk } from '../../core/store/disk.js'
import { loadSqlite } from '../../core/store/memory.js'
import { recover } from '../../core/store/recovery.js'
import { migrate } from '../../core/store/schema.js'
import { highestSequences, listSigningKeys } from '../../core/store/tables/signing-keys.js'
import { keyKinds, type SigningKey } from '../../model/statement.js'

export type RevokedKey = Pick<SigningKey, 'kind' | 'fingerprint' | 'name'> & { revokedAt: string }

/** What a restore keeps of the data directory that it replaces. */
export interface Kept {
  revoked: RevokedKey[]
  /** The highest sequence of each project. */
  sequences: Record<string, number>
}

/** The file that a restore leaves for the next start. */
export interface RestoredFile extends Kept {
  /** When the backup was made. */
  backupAt: string
}

/** Reads what a data directory knows, and changes nothing in it. Returns null if there is no database that can be read. */
export async function readKept(directory: string): Promise<Kept | null> {
  const databasePath = join(directory, 'svc.db')
  if (!existsSync(databasePath)) return null
  try {
    const files = { databasePath, redoPath: join(directory, 'svc.db.redo') }
    const { memory } = recover({ sqlite: await loadSqlite(), disk: realDisk, ...files })
    try {
      migrate(memory)
      const revoked = listSigningKeys(memory).flatMap(({ kind, fingerprint, name, revokedAt }) =>
        revokedAt === null ? [] : [{ kind, fingerprint, name, revokedAt }]
      )
      return merged({ revoked, sequences: highestSequences(memory) }, await readRestored(directory))
    } finally {
      memory.close()
    }
  } catch {
    // A restore must be possible from any state. The command says that nothing was kept.
    return null
  }
}

const revokedKey = object({
  kind: oneOf(keyKinds),
  fingerprint: line({ min: 1 }),
  name: line({}),
  revokedAt: instant
})
const restoredFile = {
  backupAt: instant,
  revoked: list(revokedKey, { max: Number.MAX_SAFE_INTEGER }),
  sequences: record(integer(0, Number.MAX_SAFE_INTEGER), () => null)
}

/**
 * Reads the file of a restore that no start has applied yet; null if there is none. Refuses (`broken_config`) a file that it
 * cannot read: without it, keys would be trusted again that were revoked.
 */
export async function readRestored(directory: string): Promise<RestoredFile | null> {
  const path = join(directory, restoredName)
  try {
    const text = await readFile(path, 'utf8').catch(nullIfMissing)
    return text === null || text === '' ? null : readFields(JSON.parse(text), restoredFile)
  } catch (error) {
    throw damaged(path, error)
  }
}

function damaged(path: string, cause: unknown): Refusal {
  const sentence = `Cannot read "${path}", which says what was revoked before the restore: ${reasonOf(cause)}. Correct it, or remove it and revoke these keys again (svc keys revoke)`
  return new Refusal('invalid', 'broken_config', sentence, { cause })
}

function merged(kept: Kept, waiting: Kept | null): Kept {
  if (waiting === null) return kept
  const sequences = { ...waiting.sequences }
  for (const [id, sequence] of Object.entries(kept.sequences)) sequences[id] = Math.max(sequence, sequences[id] ?? 0)
  return { revoked: [...kept.revoked, ...waiting.revoked], sequences }
}
