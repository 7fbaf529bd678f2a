/*
 * Servers are killed (SIGKILL) at random moments of a mixed load, and started again: `node crash.js [seconds] [seed]
 * [kills]`; it ends with whichever comes first. After each start everything that was acknowledged must be there, every
 * target must be one archive, every record true to its target, and nothing may be left. Prints TAP, and as comments how
 * often which moment was met and what was found. CRASH_KEEP=1 keeps the directories of a run that found something;
 * CRASH_DISK_MB=<n> (root) puts data and targets on a disk of that size, which fills up now and then.
 */
import t from 'tap'
import { checkReport, linesOf } from '../support/crash-report.js'
import { soakCrash } from '../support/crash-soak.js'

const seconds = Number(process.argv[2] ?? 1800)
const seed = Number(process.argv[3] ?? 1)
const kills = Number(process.argv[4] ?? Infinity)
const lanes = Number(process.env['CRASH_LANES'] ?? 2)
const diskMegabytes = Number(process.env['CRASH_DISK_MB'] ?? 0) || null
const skip = process.platform !== 'linux' && 'processes are found in /proc'
t.setTimeout(0)
t.test(
  `a crash run of ${Number.isFinite(kills) ? `${kills} kills` : `${seconds} seconds`}`,
  { skip, timeout: 0 },
  async t => {
    const report = await soakCrash({ seconds, seed, kills, lanes, diskMegabytes, say: line => t.comment(line) })
    for (const line of linesOf(report, seed)) t.comment(line)
    t.ok(report.kills > 0, `${report.kills} kills`)
    checkReport(t, report)
  }
)
