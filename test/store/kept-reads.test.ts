import t from 'tap'
import { keepReads } from '../../lib/store/kept-reads.js'
import { readSettings, writeSetting } from '../../lib/store/tables/settings.js'
import { openStage } from '../support/store.js'

t.test('reads once between two writes', async t => {
  const { store } = await openStage(t)
  let reads = 0
  const setting = keepReads(store, key => {
    reads++
    return readSettings(store)[key]
  })

  t.equal(setting('a'), undefined)
  await store.write(tx => writeSetting(tx, 'a', 'one'))
  reads = 0
  t.equal(setting('a'), 'one')
  t.equal(setting('a'), 'one')
  t.equal(reads, 1)
  await store.write(tx => writeSetting(tx, 'a', 'two'))
  t.equal(setting('a'), 'two', 'a write makes it be read again')

  const failing = store.write(tx => {
    writeSetting(tx, 'a', 'three')
    throw new Error('rolled back')
  })
  t.equal(setting('a'), 'two')
  await t.rejects(failing, { message: 'rolled back' })
  t.equal(setting('a'), 'two')
  t.equal(setting('missing'), undefined)
  t.equal(setting('missing'), undefined, 'what is not there is looked for again')
})
