import t from 'tap'
import { maintenanceSentence } from '../../lib/cli/maintenance-place.js'

t.test('a sentence says whether a project is in maintenance', async t => {
  t.equal(maintenanceSentence(null), 'Maintenance is off')
  const maintenance = { since: '2026-11-23T18:00:12.345Z', by: 'admin', reason: null }
  t.equal(maintenanceSentence(maintenance), 'Maintenance is on since 2026-11-23 18:00 UTC, by admin')
  const why = { ...maintenance, reason: 'new disk' }
  t.equal(maintenanceSentence(why), 'Maintenance is on since 2026-11-23 18:00 UTC, by admin: "new disk"')
})
