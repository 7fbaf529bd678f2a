import { fstatSync } from 'node:fs'
import type { Host } from '../host.js'

const stdout = 1

/** Returns whether output goes to the systemd journal: JOURNAL_STREAM then names the same file. See systemd.exec(5). */
export function printsToJournal(env: Host['env'], descriptor: number = stdout): boolean {
  const journal = env['JOURNAL_STREAM']
  if (!journal) return false
  const { dev, ino } = fstatSync(descriptor)
  return journal === `${dev}:${ino}`
}
