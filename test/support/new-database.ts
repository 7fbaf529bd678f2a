import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../../lib/core/store/durable-store.js'
import { isThorough } from './thorough.js'

/*
 * To make the tables of a new database, one migration after the other, takes five times as long as to open one that
 * has them, and most tests begin with a new one. So they begin with a copy of one that this version made. With
 * THOROUGH=1 each makes its own, as users do; test/core/store does so always.
 */

/** suite.ts makes one for all its processes, in a file of this name. */
const given = process.env['NEW_DATABASE']
let made: Promise<Uint8Array> | undefined

/** Returns svc.db as a server writes it that was started and stopped. */
export async function newDatabase(): Promise<Uint8Array> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-new-'))
  try {
    await (await openStore({ directory })).close()
    return readFileSync(join(directory, 'svc.db'))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Puts a new database into a data directory without one. The directory is created if it is missing. */
export async function layDatabase(directory: string): Promise<void> {
  const path = join(directory, 'svc.db')
  if (isThorough || existsSync(path)) return
  made ??= given === undefined ? newDatabase() : Promise.resolve(readFileSync(given))
  const bytes = await made
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(path, bytes, { mode: 0o600 })
}
