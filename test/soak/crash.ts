/*
 * Servers are killed (SIGKILL) at random moments of a mixed load, and started again: `node crash.js [seconds] [seed]
 * [kills]`; it ends with whichever comes first. After each start everything that was acknowledged must be there, every
 * target must be one archive, every record true to its target, and nothing may be left. Prints TAP, and as comments how
 * often which moment was met and what was found. CRASH_KEEP=1 keeps the directories of a run that found something.
 */
import t from 'tap'
import { checkReport, soakCrash, type CrashReport } from '../support/crash-soak.js'

const seconds = Number(process.argv[2] ?? 1800)
const seed = Number(process.argv[3] ?? 1)
const kills = Number(process.argv[4] ?? Infinity)
const lanes = Number(process.env['CRASH_LANES'] ?? 2)
const skip = process.platform !== 'linux' && 'processes are found in /proc'
function tell({ kills, acknowledged, moments, complaints }: CrashReport): string[] {
  const rows = [...moments].sort((a, b) => (b[1]['kills'] ?? 0) - (a[1]['kills'] ?? 0))
  const columns = ['kills', 'begun', 'ready', 'done']
  return [
    `${kills} kills, seed ${seed}, ${acknowledged} answers that acknowledged something; kills with a journal that was begun, ready, done:`,
    `${'moment'.padEnd(34)}${columns.map(name => name.padStart(7)).join('')}`,
    ...rows.map(([name, counts]) => `${name.padEnd(34)}${columns.map(column => String(counts[column] ?? 0).padStart(7)).join('')}`),
    ...[...complaints].map(([line, count]) => `said ${count} times: ${line}`)
  ]
}

t.setTimeout(0)
t.test(`a crash run of ${Number.isFinite(kills) ? `${kills} kills` : `${seconds} seconds`}`, { skip, timeout: 0 }, async t => {
  const report = await soakCrash({ seconds, seed, kills, lanes, say: line => t.comment(line) })
  for (const line of tell(report)) t.comment(line)
  t.ok(report.kills > 0, `${report.kills} kills`)
  checkReport(t, report)
})
