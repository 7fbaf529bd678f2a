import t from 'tap'
import type { ImportResult, PartResult } from '../../../../lib/model/transfer.js'
import { countRecords, partsOf, visible } from '../../../../www/elements/settings/import-result.js'

const none: PartResult = { created: [], replaced: [], skipped: [] }
const result: ImportResult = {
  strategy: 'overwrite',
  dryRun: true,
  settings: { created: ['a'], replaced: ['b', 'c'], skipped: [] },
  categories: none,
  tags: none,
  projects: { created: [], replaced: [], skipped: ['proj_a'] },
  logSources: none,
  notificationTargets: none,
  deployments: none,
  artifacts: { created: ['proj_b'], replaced: [], skipped: [], failed: [] },
  brings: { settings: [], projects: [], deploymentScripts: [], logSources: [], notificationTargets: [] },
  notes: []
}

t.test('omits parts without records', async t => {
  t.same(
    partsOf(result).map(({ words }) => words),
    ['Settings', 'Projects', 'Archives deployed']
  )
  t.match(partsOf(result)[0], { created: ['a'], replaced: ['b', 'c'], skipped: [] })
})

t.test('counts records but not files', async t => {
  t.same(countRecords(result), { created: 1, replaced: 2, skipped: 1 })
})

t.test('makes hidden characters of a script visible', async t => {
  t.equal(visible('a\n\tb'), 'a\n\tb')
  t.equal(visible('true\r# \u202ex\u2066\x1b[2K'), 'true\\u000d# \\u202ex\\u2066\\u001b[2K')
})
