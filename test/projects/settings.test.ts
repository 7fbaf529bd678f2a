import t from 'tap'
import { systemActor as actor } from '../../lib/model/audit.js'
import { listAudit } from '../../lib/core/store/tables/audit.js'
import { writeSetting } from '../../lib/core/store/tables/server.js'
import { createSettings, settingRows } from '../../lib/projects/settings.js'
import { openStage } from '../support/store.js'

t.test('every row has a description, and its default passes its check', async t => {
  for (const { key, default: fallback, check, help } of settingRows) {
    t.equal(check(fallback, key), fallback, key)
    t.ok(help.endsWith('.'), `${key}: a sentence`)
  }
})

t.test('settings', async t => {
  const { store, audit } = await openStage(t)
  const settings = createSettings({ store, audit })

  t.test('returns typed values', async t => {
    t.equal(settings.number('max_upload_size'), 500)
    t.equal(settings.flag('allow_client_scripts'), true)
    t.equal(settings.text('webhook_url'), '')
    t.same(settings.list('trusted_proxies'), ['127.0.0.0/8', '::1'])
    t.equal(settings.list('trusted_proxies'), settings.list('trusted_proxies'), 'the same list until it changes')
  })

  t.test('checking stores nothing, updating stores everything', async t => {
    const checked = settings.check({
      max_upload_size: '7',
      allowed_ips: '10.0.0.1',
      webhook_url: undefined
    })
    t.same(
      [...checked],
      [
        ['max_upload_size', '7'],
        ['allowed_ips', '10.0.0.1']
      ]
    )
    t.equal(settings.number('max_upload_size'), 500)
    await settings.update(checked, actor)
    t.equal(settings.number('max_upload_size'), 7)
    t.same(settings.list('allowed_ips'), ['10.0.0.1'])
    t.equal(createSettings({ store, audit }).number('max_upload_size'), 7)
    t.same(
      listAudit(store, { limit: 5 })
        .map(({ target }) => target)
        .sort(),
      ['allowed_ips', 'max_upload_size']
    )
  })

  t.test('returns the values of other writers after a reload', async t => {
    await store.write(tx => writeSetting(tx, 'allowed_ips', '10.0.0.2'))
    settings.reload()
    t.same(settings.list('allowed_ips'), ['10.0.0.2'])
  })

  t.test('refuses keys of the object prototype', async t => {
    for (const text of ['{"__proto__": {"max_upload_size": "1"}}', '{"constructor": "x"}']) {
      t.throws(() => settings.check(JSON.parse(text)), { code: 'unknown_setting' }, text)
    }
  })
})
