import { fstatSync } from 'node:fs'
import type { Host } from './command.js'

const stdout = 1

/** Whether what is printed goes to the journal of systemd: JOURNAL_STREAM is that very file. systemd.exec(5) */
export function printsToJournal(env: Host['env'], descriptor: number = stdout): boolean {
  const journal = env['JOURNAL_STREAM']
  if (!journal) return false
  const { dev, ino } = fstatSync(descriptor)
  return journal === `${dev}:${ino}`
}
