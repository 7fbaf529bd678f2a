import { join } from 'node:path'
import t from 'tap'
import { checkTree } from '../../lib/audit/check-tree.js'
import { trimLeaves } from '../../lib/audit/leaves.js'
import type { Transaction } from '../../lib/store/database.js'
import { openLog } from './stage.js'

const other = Buffer.alloc(32, 7)

t.test('finds no fault in a log whose old entries were removed', async t => {
  const log = await openLog(t.testdir(), { keepDays: 10 })
  t.teardown(log.close)
  await log.fill(800)
  await log.keeper.current()
  t.equal(await checkTree(log.store), null)
  log.clock.advance(20 * 24 * 60 * 60_000)
  await log.fill(300)
  t.equal(log.store.all('SELECT seq FROM audit').length, 301)
  t.equal(await checkTree(log.store), null)
  await log.store.write(tx => trimLeaves(tx, 300))
  t.equal(log.store.all('SELECT seq FROM auditLeaves').length, 1101 - 768)
  t.equal(await checkTree(log.store), null, 'also without the hashes of old leaves')
})

t.test('finds each kind of damage', async t => {
  const damages: Array<[what: string, damage: (tx: Transaction) => void, why: RegExp, isMendable: boolean]> = [
    ['an entry', tx => tx.run("UPDATE audit SET detail = 'x' WHERE seq = 300"), /entry 300 was changed/, false],
    ['the time of an entry', tx => tx.run("UPDATE audit SET at = '2031' WHERE seq = 1"), /entry 1 was/, false],
    ['a removed entry', tx => tx.run('DELETE FROM audit WHERE seq = 700'), /entry 700 is missing/, false],
    ['the last entry', tx => tx.run('DELETE FROM audit WHERE seq = 800'), /entry 800 is missing/, false],
    ['a removed hash', tx => tx.run('DELETE FROM auditLeaves WHERE seq = 9'), /1 to 256 are missing/, false],
    ['a changed hash', tx => tx.run('UPDATE auditLeaves SET hash = ? WHERE seq = 9', other), /entry 9 was/, false],
    [
      'the root of a block',
      tx => tx.run('UPDATE auditBlocks SET root = ? WHERE number = 1', other),
      /257 to 512/,
      true
    ],
    ['a missing block', tx => tx.run('DELETE FROM auditBlocks WHERE number = 1'), /257 to 512/, true],
    ['the frontier', tx => tx.run('UPDATE auditTree SET frontier = ?', Buffer.alloc(3 * 32)), /frontier/, true],
    [
      'a tree that was cut',
      tx => {
        tx.run('DELETE FROM audit WHERE seq > 512')
        tx.run('DELETE FROM auditLeaves WHERE seq > 512')
        const row = tx.get('SELECT root FROM auditBlocks WHERE number = 0')
        t.ok(row)
        tx.run('UPDATE auditTree SET size = 512')
      },
      /frontier/,
      true
    ]
  ]
  for (const [what, damage, why, isMendable] of damages) {
    const log = await openLog(t.testdir())
    await log.fill(800)
    await log.store.write(damage)
    t.match(await checkTree(log.store), { why, isMendable }, what)
    await log.store.close()
  }
})

t.test('finds a tree that was rewritten after its checkpoint', async t => {
  const log = await openLog(t.testdir())
  await log.fill(100)
  await log.keeper.current()
  const note = log.keeper.newest()?.note as string
  const second = await openLog(join(t.testdir({ other: {} }), 'other'))
  await second.fill(120)
  await second.store.write(tx =>
    tx.run('INSERT INTO auditCheckpoints (size, at, note) VALUES (100, ?, ?)', '2030', note)
  )
  t.match(await checkTree(second.store), { why: /checkpoint of 100 entries/, isMendable: false })
  await log.close()
  await second.store.close()
})
