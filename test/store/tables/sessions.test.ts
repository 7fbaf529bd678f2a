import t from 'tap'
import {
  deleteSession,
  findSessionByDigest,
  insertSession,
  listSessions,
  updateSession,
  type StoredSession
} from '../../../lib/store/tables/sessions.js'
import { aStore } from '../stage.js'

const session = (id: string, lastUsedAt: string): StoredSession => ({
  id,
  digest: `digest-${id}`,
  tokenMark: 'mark',
  createdAt: '2026-01-01T00:00:00.000Z',
  lastUsedAt,
  expiresAt: '2026-01-08T00:00:00.000Z',
  remember: id === 'ses_a',
  ip: null,
  tokenId: null,
  provenAt: null,
  userAgent: 'Browser'
})

t.test('finds sessions by digest, lists them by last use, and removes them', async t => {
  const store = await aStore(t)
  const [a, b] = [session('ses_a', '2026-01-01T01:00:00.000Z'), session('ses_b', '2026-01-01T02:00:00.000Z')]
  await store.write(tx => [a, b].forEach(each => insertSession(tx, each)))
  t.same(findSessionByDigest(store, 'digest-ses_a'), a)
  t.equal(findSessionByDigest(store, 'digest'), undefined)
  t.same(listSessions(store), [b, a])
  await store.write(tx => updateSession(tx, 'ses_a', { lastUsedAt: '2026-01-01T03:00:00.000Z' }))
  t.same(
    listSessions(store).map(({ id }) => id),
    ['ses_a', 'ses_b']
  )
  t.equal(await store.write(tx => deleteSession(tx, 'ses_a')), true)
  t.equal(await store.write(tx => deleteSession(tx, 'ses_a')), false)
  t.same(listSessions(store), [b])
})
