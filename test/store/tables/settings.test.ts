import t from 'tap'
import { readSettings, writeSetting } from '../../../lib/store/tables/settings.js'
import { aStore } from '../stage.js'

t.test('omits settings that were never written, and replaces a value on a second write', async t => {
  const store = await aStore(t)
  t.same(readSettings(store), {})
  await store.write(tx => {
    writeSetting(tx, 'webhook_url', 'a')
    writeSetting(tx, '__proto__', 'b')
    writeSetting(tx, 'webhook_url', '')
  })
  const settings = readSettings(store)
  t.equal(settings['webhook_url'], '')
  t.same(Object.keys(settings).sort(), ['__proto__', 'webhook_url'])
})
