import t from 'tap'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomIds } from '../../../lib/base/digests.js'
import { openScratch } from '../../../lib/carry/transfer/needs.js'

t.test('creates new names in a private directory and removes all files together', async t => {
  const tmp = join(t.testdir(), 'tmp')
  const scratch = await openScratch(tmp, randomIds)
  t.equal(statSync(tmp).mode & 0o777, 0o700)
  const [one, two, never] = [scratch.file(), scratch.file(), scratch.file()]
  t.notOk(existsSync(one), 'it does not exist yet')
  t.not(one, two)
  writeFileSync(one, 'one')
  writeFileSync(two, 'two')
  await scratch.discard()
  t.same(
    [one, two, never].map(path => existsSync(path)),
    [false, false, false]
  )
})
