import t from 'tap'
import type { AuditEntry } from '../../../../lib/model/audit.js'
import {
  auditBlocks,
  auditLeaves,
  endAuditBaseline,
  findAudit,
  insertAudit,
  insertAuditBlock,
  insertAuditCheckpoint,
  insertAuditLeaf,
  lastAuditLeaf,
  listAudit,
  markAuditTree,
  nameAuditTree,
  newestAuditCheckpoint,
  newestAuditPosition,
  readAuditTree,
  removeAuditBefore,
  removeAuditLeaves,
  sealedAudit,
  trimFailures,
  unsealedAudit,
  updateAudit,
  writeAuditFrontier
} from '../../../../lib/core/store/tables/audit.js'
import { aStore } from '../stage.js'

function anEntry(n: number): AuditEntry {
  const projectId = n % 3 === 0 ? null : `proj_${n % 3}`
  const action = n % 2 === 0 ? 'project.create' : 'auth.login'
  // Later entries have earlier times: the order is that of arrival.
  return {
    id: `aud_${n}`,
    at: `2026-01-0${9 - n}`,
    action,
    actor: 'admin',
    tokenId: null,
    tokenName: null,
    role: null,
    sessionId: null,
    ip: null,
    claimedIp: null,
    projectId,
    target: 'x',
    detail: null,
    ok: n % 2 === 0,
    failures: null,
    seq: n
  }
}

const entries = [1, 2, 3, 4, 5, 6].map(anEntry)
const numbers = (list: AuditEntry[]) => list.map(({ id }) => Number(id.slice(4)))

t.test('lists entries newest first, by page, action and project', async t => {
  const store = await aStore(t)
  await store.write(tx => entries.forEach(entry => insertAudit(tx, entry)))
  t.strictSame(listAudit(store, { limit: 9 }), [...entries].reverse())
  t.same(numbers(listAudit(store, { limit: 2 })), [6, 5])
  t.same(numbers(listAudit(store, { limit: 2, before: 'aud_5' })), [4, 3])
  t.same(numbers(listAudit(store, { limit: 9, action: 'auth.login' })), [5, 3, 1])
  t.same(numbers(listAudit(store, { limit: 9, projectId: 'proj_1', before: 'aud_4' })), [1])
  t.same(numbers(listAudit(store, { limit: 9, projectId: 'proj_2', action: 'project.create' })), [2])
  t.throws(() => listAudit(store, { limit: 9, before: 'none' }), { code: 'invalid_field', message: /before/ })
})

t.test('a reader sees its own entries and those of its projects, also as the mark of a page', async t => {
  const store = await aStore(t)
  await store.write(tx =>
    entries.forEach(entry => insertAudit(tx, { ...entry, tokenId: entry.id === 'aud_2' ? 'tok_a' : 'tok_b' }))
  )
  const seenBy = { tokenId: 'tok_a', projects: ['proj_1'] }
  const visible = entries.filter(({ id, projectId }) => id === 'aud_2' || projectId === 'proj_1').reverse()
  t.same(numbers(listAudit(store, { limit: 9, seenBy })), numbers(visible))
  t.throws(() => listAudit(store, { limit: 9, seenBy: { tokenId: 'tok_a', projects: [] }, before: 'aud_3' }), {
    code: 'invalid_field'
  })
  t.same(numbers(listAudit(store, { limit: 9, seenBy: { tokenId: 'tok_a', projects: [] } })), [2])
})

t.test('removes the leaves from before an instant, up to the first younger one', async t => {
  const store = await aStore(t)
  const at = (n: number): string => `2026-01-0${n}`
  // The fourth is the summary of a minute that became a leaf later.
  const times = [1, 2, 3, 2, 5, 6].map(at)
  await store.write(tx => {
    entries.forEach((entry, n) => insertAudit(tx, { ...entry, at: times[n] as string }))
    insertAudit(tx, { ...anEntry(7), at: at(1), seq: null })
  })
  t.same(await store.write(tx => removeAuditBefore(tx, at(3))), { upTo: 2, removed: 2 })
  t.same(numbers(listAudit(store, { limit: 9 })), [7, 6, 5, 4, 3], 'an entry that is no leaf yet stays, too')
  t.same(await store.write(tx => removeAuditBefore(tx, at(5))), { upTo: 4, removed: 2 })
  t.same(await store.write(tx => removeAuditBefore(tx, at(9))), { upTo: 0, removed: 0 }, 'never all of them')
})

t.test('trims summaries of failures separately and keeps the newest', async t => {
  const store = await aStore(t)
  await store.write(tx =>
    entries.forEach(entry =>
      insertAudit(tx, { ...entry, failures: [2, 4, 5].includes(Number(entry.id.slice(4))) ? 1 : null })
    )
  )
  t.same(await store.write(tx => trimFailures(tx, 2)), [2], 'the leaf that was removed')
  t.same(numbers(listAudit(store, { limit: 9 })), [6, 5, 4, 3, 1])
  t.same(await store.write(tx => trimFailures(tx, 2)), [])
  t.same(await store.write(tx => trimFailures(tx, 0)), [4, 5])
  t.same(numbers(listAudit(store, { limit: 9 })), [6, 3, 1])
})

t.test('lists the entries that are not leaves yet, and leaves by number', async t => {
  const store = await aStore(t)
  await store.write(tx => entries.forEach((entry, at) => insertAudit(tx, { ...entry, seq: at < 3 ? 3 - at : null })))
  t.same(numbers(unsealedAudit(store, newestAuditPosition(store), 2)), [4, 5])
  t.same(numbers(unsealedAudit(store, 4, 9)), [4])
  t.same(numbers(sealedAudit(store, 2, 3)), [2, 1], 'in the order of the tree')
  t.equal(findAudit(store, 'aud_5')?.seq, null)
})

t.test('changes an entry in place if it still exists', async t => {
  const store = await aStore(t)
  await store.write(tx => insertAudit(tx, anEntry(1)))
  t.equal(await store.write(tx => updateAudit(tx, 'aud_1', { failures: 3, detail: 'three' })), true)
  t.strictSame(listAudit(store, { limit: 9 }), [{ ...anEntry(1), failures: 3, detail: 'three' }])
  t.equal(await store.write(tx => updateAudit(tx, 'aud_2', { failures: 3 })), false)
})

const hash = (n: number): Buffer => Buffer.alloc(32, n)

t.test('a new database has an empty tree', async t => {
  const store = await aStore(t)
  t.match(readAuditTree(store), { size: 0, baseline: 0, isPending: false, origin: null, brokenSince: null })
  t.equal(readAuditTree(store).frontier.length, 0)
  t.equal(lastAuditLeaf(store), 0)
  t.equal(newestAuditCheckpoint(store), null)
})

t.test('writes the fields of the tree', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    writeAuditFrontier(tx, { size: 2, frontier: hash(7) })
    nameAuditTree(tx, 'svc/a/audit')
    markAuditTree(tx, { since: '2026-01-01', why: 'a test' })
    endAuditBaseline(tx)
  })
  const fields = { origin: 'svc/a/audit', brokenSince: '2026-01-01', brokenWhy: 'a test', isPending: false }
  t.match(readAuditTree(store), { size: 2, ...fields })
  t.same(Buffer.from(readAuditTree(store).frontier), hash(7))
  await store.write(tx => markAuditTree(tx, null))
  t.match(readAuditTree(store), { brokenSince: null, brokenWhy: null })
})

t.test('stores hashes of leaves and roots of blocks', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (let seq = 1; seq <= 6; seq++) insertAuditLeaf(tx, seq, hash(seq))
    insertAuditBlock(tx, 0, hash(1))
    insertAuditBlock(tx, 1, hash(2))
    insertAuditBlock(tx, 1, hash(3))
  })
  t.same(auditLeaves(store, 2, 3), [
    { seq: 2, hash: hash(2) },
    { seq: 3, hash: hash(3) }
  ])
  t.equal(lastAuditLeaf(store), 6)
  t.same(
    [...auditBlocks(store, 0, 9)],
    [
      [0, hash(1)],
      [1, hash(3)]
    ]
  )
  t.equal(await store.write(tx => removeAuditLeaves(tx, 4, 2)), 4)
  t.equal(auditLeaves(store, 1, 6).length, 2)
})

t.test('keeps the newest checkpoints', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (let size = 1; size <= 5; size++) insertAuditCheckpoint(tx, { size, at: 'now', note: `n${size}` }, 2)
    insertAuditCheckpoint(tx, { size: 5, at: 'later', note: 'again' }, 2)
  })
  t.same(newestAuditCheckpoint(store), { size: 5, at: 'later', note: 'again' })
  t.equal(store.all('SELECT 1 FROM auditCheckpoints').length, 2)
})
