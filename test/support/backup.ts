import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { backupFormat, sealFile } from '../../lib/carry/backup/format.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { schemaVersion } from '../../lib/core/store/schema.js'
import { zipOf } from './zip.js'

/** The files of a small data directory: an empty database, a configuration, an output. */
export async function smallHome(directory: string): Promise<Record<string, Uint8Array>> {
  mkdirSync(directory, { recursive: true })
  const store = await openStore({ directory })
  const image = await store.image()
  await store.close()
  return {
    // Not a Buffer, whose slice() sql.js would take for a copy.
    'svc.db': new Uint8Array(Buffer.concat(image.pieces)),
    'config.json': Buffer.from('{"adminToken": "kept-token-123456789012"}\n'),
    'deployments/dep_aaaaaaaaaaaaaaaa.log': Buffer.from('2026-01-01T00:00:00.000Z hello\n')
  }
}

/** The list of these files, with false values. */
export function manifestOf(files: Record<string, Uint8Array>, lies: object = {}): Buffer {
  const listed = Object.entries(files).map(([path, bytes]) => {
    return {
      path,
      bytes: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
      mtimeMs: 1_750_000_000_000
    }
  })
  const manifest = {
    format: backupFormat,
    createdAt: '2026-01-01T00:00:00.000Z',
    version: '1.0.0',
    schemaVersion,
    host: 'there',
    directory: '/srv/svc',
    files: listed,
    notes: [],
    ...lies
  }
  return Buffer.from(JSON.stringify(manifest))
}

/**
 * A sealed backup of these files at `path`; `lies` are false values of its list, `extra` are entries that the list
 * lacks.
 */
export async function forgeBackup(
  path: string,
  files: Record<string, Uint8Array>,
  { lies = {}, extra = {} }: { lies?: object; extra?: Record<string, Uint8Array> } = {}
): Promise<void> {
  const entries = { ...files, ...extra, 'manifest.json': manifestOf(files, lies) }
  writeFileSync(
    path,
    await zipOf(Object.fromEntries(Object.entries(entries).map(([name, bytes]) => [join('svc-backup', name), bytes])))
  )
  await sealFile(path)
}
