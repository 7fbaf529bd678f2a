import t from 'tap'
import { inForce, isOwnLock, ownerWords } from '../../../../www/elements/projects/lock-words.js'
import type { ListedLock } from '../../../../lib/model/lock.js'
import { setHolder } from '../../../../www/state/rights.js'

const lock = (owner: string, expiresAt = '2026-01-01T12:00:00.000Z'): ListedLock => ({
  projectId: 'proj_a',
  projectName: 'shop',
  kind: 'lock',
  owner,
  reason: 'audit',
  createdAt: '2026-01-01T00:00:00.000Z',
  expiresAt
})

t.test('the owner of a lock is named, and only the lock of the admin is the own one', async t => {
  t.equal(ownerWords(lock('admin')), 'Admin')
  t.equal(ownerWords(lock('project:proj_a')), 'Deploy token of the project')
  t.equal(ownerWords(lock('ana')), 'ana')
  t.equal(ownerWords(lock('token:ci-shop')), 'ci-shop')
  t.same([isOwnLock(lock('admin')), isOwnLock(lock('project:proj_a'))], [true, false])
  setHolder({ role: 'operator', name: 'token:ci', token: { id: 'tok_a', name: 'ci' }, projects: null })
  t.same([isOwnLock(lock('admin')), isOwnLock(lock('token:ci'))], [false, true])
  setHolder(null)
})

t.test('a lock is in force until the instant of its end', async t => {
  const [early, late] = [lock('admin'), lock('admin', '2026-01-01T12:00:00.001Z')]
  t.same(inForce([early, late], Date.parse(early.expiresAt)), [late])
})

t.test('a maintenance is in force until it is ended', async t => {
  const maintenance = { ...lock('admin'), projectId: 'proj_a', kind: 'maintenance' as const, expiresAt: null }
  t.same(inForce([maintenance], Number.MAX_SAFE_INTEGER), [maintenance])
})
