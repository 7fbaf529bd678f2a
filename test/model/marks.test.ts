import t from 'tap'
import { lockSentence, shownMaintenance } from '../../lib/model/marks.js'

t.test('The sentence of a lock names its owner, its end and its reason', async t => {
  const lock = {
    projectId: 'proj_a',
    kind: 'lock',
    owner: 'admin',
    reason: 'audit until Friday',
    createdAt: '2026-11-23T08:00:00.000Z',
    expiresAt: '2026-11-23T18:00:59.999Z'
  } as const
  const end = 'is locked by admin until 2026-11-23 18:00 UTC: "audit until Friday"'
  t.equal(lockSentence(lock, 'shop'), `Project shop ${end}`)
  t.equal(lockSentence({ ...lock, projectId: null }, null), `The server ${end}`)
})

t.test('the API shows when, who and why', async t => {
  const row = { projectId: 'proj_a', since: '2026', by: 'admin', reason: null, path: '.maintenance', sha256: '00' }
  t.strictSame(shownMaintenance(row), { since: '2026', by: 'admin', reason: null })
})
