import t from 'tap'
import { lockSentence } from '../../lib/model/lock.js'

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
