import t from 'tap'
import { shownMaintenance, targetFileFault } from '../../lib/model/maintenance.js'

t.test('a path of a file in the target is relative, plain, and not reserved for svc', async t => {
  for (const path of ['.maintenance', 'public/down.html', 'a b/c', '..a', '.svc', 'Wartung.html', 'ü']) {
    t.equal(targetFileFault(path), null, path)
  }
  const wrong = [
    '',
    'a'.repeat(1025),
    'a\nb',
    'a\0',
    '\u202ea',
    'a\\b',
    '/a',
    'C:a',
    '..',
    'a/../b',
    './a',
    'a//b',
    'a/',
    '.svc-staging-dep_a',
    'a/.SVC-x'
  ]
  for (const path of wrong) t.type(targetFileFault(path), 'string', JSON.stringify(path))
})

t.test('the API shows when, who and why', async t => {
  const row = { projectId: 'proj_a', since: '2026', by: 'admin', reason: null, path: '.maintenance', sha256: '00' }
  t.strictSame(shownMaintenance(row), { since: '2026', by: 'admin', reason: null })
})
