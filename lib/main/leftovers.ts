import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Home } from '../config/home.js'
import { removeEndedLocks } from '../config/lock.js'
import { removeLeftovers } from '../config/replace-file.js'

/** Files beside the database that are being written (store/checkpoint.ts, redo-file.ts, upgrade.ts), and the health probe's. */
const unfinishedPattern = /^(?:svc\.db(?:\.redo|\.schema-\d+)?\.tmp|health\.probe)$/

/**
 * Removes what killed processes left in the data directory itself. The caller owns it, and has not opened the store.
 * Commands may change config.json meanwhile: of what they write, only what is older than `startedMs` goes. Returns the paths.
 */
export async function removeHomeLeftovers({ directory, configFile, variablesKey }: Pick<Home, 'directory' | 'configFile' | 'variablesKey'>, startedMs: number): Promise<string[]> {
  const paths = (await readdir(directory)).filter(name => unfinishedPattern.test(name)).map(name => join(directory, name))
  for (const path of paths) await rm(path)
  const unreplaced = [...(await removeLeftovers(configFile, startedMs)), ...(await removeLeftovers(variablesKey, startedMs))]
  return [...paths, ...(await removeEndedLocks(configFile)), ...unreplaced]
}
