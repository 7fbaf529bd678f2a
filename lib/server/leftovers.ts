import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Home } from '../config/home.js'
import { removeEndedLocks } from '../config/lock.js'
import { removeLeftovers } from '../base/files.js'

/**
 * Unfinished files beside the database (store/recovery.ts, redo.ts, durable-store.ts), and the file of the health
 * probe.
 */
const unfinishedPattern = /^(?:svc\.db(?:\.redo|\.schema-\d+)?\.tmp|health\.probe)$/

/** The key of the server, or of an agent. */
const keyNames = ['server.ed25519', 'server.pub', 'agent.ed25519']

/**
 * Removes files that killed processes left in the data directory itself. The caller owns the directory and has not
 * opened the store. Commands may change config.json at the same time, so of their files only those older than
 * `startedMs` are removed. Returns the removed paths.
 */
export async function removeHomeLeftovers(
  { directory, configFile, variablesKey, keys }: Pick<Home, 'directory' | 'configFile' | 'variablesKey' | 'keys'>,
  startedMs: number
): Promise<string[]> {
  const paths = (await readdir(directory))
    .filter(name => unfinishedPattern.test(name))
    .map(name => join(directory, name))
  for (const path of paths) await rm(path)
  for (const path of [configFile, variablesKey]) paths.push(...(await removeLeftovers(path, startedMs)))
  for (const name of keyNames) paths.push(...(await removeLeftovers(join(keys, name), startedMs).catch(() => [])))
  return [...paths, ...(await removeEndedLocks(configFile))]
}
