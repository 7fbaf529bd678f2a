import { createHash } from 'node:crypto'
import t from 'tap'
import { createRecords, recordsIn } from '../../lib/install/record.js'

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

t.test('a new record is pending and has no existing entry', async t => {
  const records = createRecords(3)
  for (const index of [0, 1, 2]) {
    t.equal(records.outcome(index), 'pending')
    t.equal(records.existing(index), 'none')
    t.equal(records.before(index), null)
  }
})

t.test('another thread reads the record of an item, and its neighbours are unchanged', async t => {
  const records = createRecords(3)
  records.setExisting(1, 'symlink')
  records.setBefore(
    1,
    { size: 2 ** 40 + 1, mode: 0o120777, gid: 7, sha256: sha256('old') },
    { mtimeMs: 1234567890123.5, uid: 2 ** 32 - 2, gid: 7 }
  )
  const owner = { uid: 2 ** 32 - 2, gid: 8 }
  const placed = {
    mode: 0o100640,
    gid: 2 ** 32 - 2,
    sha256: sha256('new'),
    mtimeMs: 1700000000000.25,
    ino: 2 ** 45 + 1,
    owner
  }
  records.settle(1, 'other_time', placed)
  const other = recordsIn(records.memory)
  t.equal(other.existing(1), 'symlink')
  t.equal(other.outcome(1), 'other_time')
  t.equal(other.mode(1), 0o100640)
  t.ok(other.sha256(1).equals(sha256('new')))
  t.equal(other.timeBeforeMs(1), 1234567890123.5)
  t.equal(other.mtimeMs(1), 1700000000000.25)
  t.equal(other.ino(1), 2 ** 45 + 1)
  t.equal(other.gid(1), 2 ** 32 - 2)
  const before = other.before(1)
  t.match(before, { size: 2 ** 40 + 1, mode: 0o120777, gid: 7 })
  t.ok(sha256('old').equals(before?.sha256 ?? Buffer.alloc(0)))
  t.strictSame(other.ownerBefore(1), { ...owner, gid: 7 })
  for (const index of [0, 2]) t.equal(other.outcome(index), 'pending')
  records.settle(1, 'staged', { ...placed, owner: { ...owner, gid: 7 } })
  t.equal(other.ownerBefore(1), null, 'the new entry has the same')
  records.settle(2, 'staged', placed)
  t.equal(other.ownerBefore(2), null, 'there was none')
})
