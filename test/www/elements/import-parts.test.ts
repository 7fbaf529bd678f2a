import t from 'tap'
import type { ImportResult, PartResult } from '../../../lib/model/transfer.js'
import { countRecords, partsOf, visible } from '../../../www/elements/import-parts.js'

const none: PartResult = { created: [], replaced: [], skipped: [] }
const result: ImportResult = {
  strategy: 'overwrite', dryRun: true,
  settings: { created: ['a'], replaced: ['b', 'c'], skipped: [] }, categories: none, tags: none,
  projects: { created: [], replaced: [], skipped: ['proj_a'] }, logSources: none, notificationTargets: none, deployments: none,
  artifacts: { created: ['proj_b'], replaced: [], skipped: [], failed: [] }, brings: { settings: [], projects: [], logSources: [], notificationTargets: [] }, notes: []
}

t.test('parts without a record are passed over', async t => {
  t.same(partsOf(result).map(({ words }) => words), ['Settings', 'Projects', 'Archives put in place'])
  t.match(partsOf(result)[0], { created: ['a'], replaced: ['b', 'c'], skipped: [] })
})

t.test('records are counted, files are not', async t => {
  t.same(countRecords(result), { created: 1, replaced: 2, skipped: 1 })
})

t.test('a script is shown with what would hide a part of it', async t => {
  t.equal(visible('a\n\tb'), 'a\n\tb')
  t.equal(visible('true\r# \u202ex\u2066\x1b[2K'), 'true\\u000d# \\u202ex\\u2066\\u001b[2K')
})
