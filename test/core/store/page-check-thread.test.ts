import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { faultOfPagesInThread } from '../../../lib/core/store/page-check-thread.js'
import { readSettings, writeSetting } from '../../../lib/core/store/tables/server.js'

/** Creates a svc.db of 12 MB; with `isDamaged`, one of its pages is invalid. */
async function aLargeDatabase(t: Test, isDamaged: boolean): Promise<string> {
  const directory = t.testdir()
  const store = await openStore({ directory })
  await store.write(tx => {
    for (let n = 0; n < 12_000; n++) writeSetting(tx, `k${String(n).padStart(6, '0')}`, 'x'.repeat(900))
  })
  await store.close()
  if (!isDamaged) return directory
  const path = join(directory, 'svc.db')
  const file = readFileSync(path)
  const page = Math.floor(file.length / 4096 / 2)
  file.fill(0xa5, page * 4096, (page + 1) * 4096)
  writeFileSync(path, file)
  return directory
}

t.test('finds no fault in an undamaged file', async t => {
  const directory = await aLargeDatabase(t, false)
  t.equal(await faultOfPagesInThread(join(directory, 'svc.db')), null)
  const store = await openStore({ directory })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  await store.checkpoint()
  t.equal(store.state().ok, true)
  await store.close()
})

t.test('refuses writes and never overwrites a large svc.db after a damaged page was found', async t => {
  const directory = await aLargeDatabase(t, true)
  const path = join(directory, 'svc.db')
  const before = readFileSync(path)
  t.match(await faultOfPagesInThread(path), /page|malformed/i)
  const warnings: string[] = []
  const store = await openStore({ directory, warn: sentence => warnings.push(sentence) })
  await store.write(tx => writeSetting(tx, 'a', '1'))
  await t.rejects(store.checkpoint(), { code: 'database_damaged' })
  await t.rejects(
    store.write(tx => writeSetting(tx, 'b', '1')),
    { code: 'database_damaged' }
  )
  t.match(store.state(), { ok: false, error: /is damaged/ })
  t.match(warnings[0], /is damaged/)
  await store.close()
  t.ok(before.equals(readFileSync(path)), 'untouched')
  const again = await openStore({ directory })
  t.equal(again.get('SELECT value FROM settings WHERE key = ?', 'a')?.['value'], '1', 'what was acknowledged is kept')
  await again.close()
})

t.test('checks a small svc.db before it is opened', async t => {
  const directory = t.testdir()
  const store = await openStore({ directory })
  await store.write(tx => writeSetting(tx, 'a', 'x'.repeat(100_000)))
  await store.close()
  t.equal(Object.keys(readSettings(await openStore({ directory }))).length, 1)
})
