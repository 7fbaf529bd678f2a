/* What a restore of the data directory has left to do, on this machine and for the people who use the server. */
import { readdir, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { beforeRestorePrefix, type Home } from '../../base/config/home.js'
import { oneLine } from '../../base/text.js'
import type { HealthDetail } from '../../model/health.js'
import { failure, type Finding, pass, warning } from './findings.js'

const check = 'Restore'
/** A committed restore whose files are not all in place, and the earlier files (carry/backup/place.ts). */
const unfinished = ['.restored', '.restore-arriving']
/** The time in which a restore is a warning. */
const recentMs = 7 * 86_400_000

/** Returns what a restore into the data directory has left to do, and where the earlier files are. */
export async function localRestoreFindings({ directory, restored }: Home): Promise<Finding[]> {
  const names = await namesIn(directory)
  if (names.some(name => unfinished.includes(name))) {
    const detail = 'a backup was restored, but not all of its files are in place yet'
    return [warning(check, detail, 'Start the server, or run "svc restore" again: both finish it')]
  }
  return [...(await waitingFindings(restored)), ...(await keptFindings(directory, names))]
}

/** Finds the file that the next start applies: it is empty afterwards. */
async function waitingFindings(path: string): Promise<Finding[]> {
  const text = await readFile(path, 'utf8').catch(() => null)
  if (text === null || text === '') return []
  const backupAt = backupTimeOf(text)
  const cure = `Correct it, or remove it and revoke again what was revoked after the backup: svc keys revoke`
  if (backupAt === null) return [failure(check, `${path} is damaged, and the server does not start with it`, cure)]
  const detail = `a backup of ${oneLine(backupAt)} was restored, and the server was not started since`
  return [warning(check, detail, 'Start the server. It marks what was interrupted, and keeps revoked keys revoked')]
}

function backupTimeOf(text: string): string | null {
  try {
    const { backupAt } = JSON.parse(text) as { backupAt?: unknown }
    return typeof backupAt === 'string' ? backupAt : null
  } catch {
    return null
  }
}

async function keptFindings(directory: string, names: readonly string[]): Promise<Finding[]> {
  const beside = `${basename(directory)}.before-`
  const kept = [
    ...names.filter(name => name.startsWith(beforeRestorePrefix)).map(name => join(directory, name)),
    ...(await namesIn(dirname(directory)))
      .filter(name => name.startsWith(beside))
      .map(name => join(dirname(directory), name))
  ]
  if (kept.length === 0) return []
  const advice = 'They contain tokens and archives. Remove them once nothing of them is needed any more'
  return [warning(check, `the files before a restore are in ${kept.map(oneLine).join(', ')}`, advice)]
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => [])
}

/** Returns when the server was restored, and from which backup: a warning for a week. Pure. */
export function restoreFindings({ restored = null, serverTime }: HealthDetail): Finding[] {
  if (restored === null) return []
  const detail = `from a backup of ${oneLine(restored.backupAt)}, at the start of ${oneLine(restored.at)}`
  if (Date.parse(serverTime) - Date.parse(restored.at) > recentMs) return [pass(check, detail)]
  const advice = 'What was deployed in between has no record. "svc files <project>" compares a target with its record'
  return [warning(check, detail, advice)]
}
