/*
 * Damaged, truncated, cancelled and oversize archives, uploaded to a real server while five other projects deploy and
 * read: `node archives.js [seconds] [seed]`; SOAK_ARCHIVES=<count> limits the number of archives instead of the time.
 * The other projects must see no error, and at the end the server must have the same open files as at the start. Prints
 * TAP.
 */
import t from 'tap'
import { soakArchives, violations } from '../support/archive-soak.js'

const seconds = Number(process.argv[2] ?? 1800)
const seed = Number(process.argv[3] ?? 1)
const archives = process.env['SOAK_ARCHIVES']
const share = archives === undefined ? { seconds } : { archives: Number(archives) }
const skip = process.platform !== 'linux' && 'descriptors are read from /proc'

t.setTimeout(0)
t.test(
  `a soak of ${archives === undefined ? `${seconds} seconds` : `${archives} archives`} harms nobody else`,
  { skip, timeout: 0 },
  async t => {
    const figures = await soakArchives(t, { ...share, seed, directory: t.testdir(), isThorough: true })
    t.comment(`archives sent: ${figures.sent} (seed ${seed})`)
    for (const [outcome, count] of Object.entries(figures.outcomes).sort()) t.comment(`  ${outcome}: ${count}`)
    t.comment(`descriptors: ${figures.filesBefore} before, ${figures.filesAfter} after`)
    t.ok(figures.sent > 0, 'archives were sent')
    t.ok(figures.honestRounds > 0, `honest rounds: ${figures.honestRounds}`)
    t.equal(violations(figures).length, 0, violations(figures).slice(0, 20).join('\n') || 'nothing is wrong')
  }
)
