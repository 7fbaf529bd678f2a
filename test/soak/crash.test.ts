import t from 'tap'
import { checkReport } from '../support/crash-report.js'
import { soakCrash } from '../support/crash-soak.js'

const skip = process.platform !== 'linux' && 'processes are found in /proc'

t.setTimeout(240_000)
t.test('a server that is killed again and again loses nothing, and leaves nothing behind', { skip }, async t => {
  const report = await soakCrash({ seconds: 60, seed: 7, kills: 6, lanes: 1, diskMegabytes: null, say: line => t.comment(line) })
  t.ok(report.kills >= 6)
  checkReport(t, report)
})
