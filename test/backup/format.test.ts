import t from 'tap'
import { backupFormat, summaryOf } from '../../lib/backup/format.js'

t.test('counts files and bytes in the summary of a manifest', async t => {
  const file = { sha256: '', mtimeMs: 0 }
  const facts = { createdAt: 'then', version: '1.0.0', schemaVersion: 3, host: 'here', directory: '/d', notes: ['a'] }
  const files = [
    { ...file, path: 'svc.db', bytes: 7 },
    { ...file, path: 'config.json', bytes: 5 }
  ]
  t.strictSame(summaryOf({ ...facts, format: backupFormat, files }), { ...facts, files: 2, bytes: 12 })
  t.match(summaryOf({ ...facts, format: backupFormat, files: [] }), { files: 0, bytes: 0 })
})
