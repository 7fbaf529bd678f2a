import { readdirSync } from 'node:fs'
import t from 'tap'
import { realDisk } from '../../../lib/store/disk.js'
import { createBelongingFile } from '../../../lib/store/log/belonging.js'

t.test('a data directory says to which log its database belongs', async t => {
  const directory = t.testdir()
  const file = createBelongingFile(directory, realDisk)
  t.equal(file.read(), null)
  const belonging = { cluster: 'c', history: 'h', seen: { sequence: 3, tag: 'abc' } }
  await file.write(belonging)
  t.same(createBelongingFile(directory, realDisk).read(), belonging)
  t.same(readdirSync(directory), ['svc.db.cluster'])
  await file.remove()
  t.same(readdirSync(directory), [])
})
