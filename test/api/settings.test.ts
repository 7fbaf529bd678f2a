import t from 'tap'
import { settingRows } from '../../lib/settings/settings.js'
import { startServer } from '../support/server.js'

t.test('settings', async t => {
  const { client, restart } = await startServer(t)
  const read = async () => (await client.get('/api/settings')).body as Record<string, string>

  t.test('returns every key, including defaults', async t => {
    const all = await read()
    t.same(Object.keys(all).sort(), settingRows.map(({ key }) => key).sort())
    t.match(all, {
      webhook_events: 'deploy_success,deploy_failure',
      max_upload_size: '500',
      script_timeout: '1800',
      webhook_url: ''
    })
    for (const value of Object.values(all)) t.type(value, 'string')
  })

  t.test('the schema describes every key without its value', async t => {
    await client.put('/api/settings', { webhook_secret: 'a-secret-of-mine' })
    const { settings } = (await client.get('/api/settings/schema')).body
    t.same(
      settings.map(({ key }: { key: string }) => key),
      settingRows.map(({ key }) => key)
    )
    t.match(settings, [{ key: 'webhook_url', type: 'text', unit: null, default: '', help: /\w/ }])
    t.notMatch(JSON.stringify(settings), 'a-secret-of-mine')
    await client.put('/api/settings', { webhook_secret: '' })
  })

  t.test('changes survive a restart', async t => {
    const patch = {
      webhook_url: 'https://hooks.example/a',
      max_upload_size: ' 20 ',
      allow_client_scripts: '0'
    }
    const { status, body } = await client.put('/api/settings', patch)
    t.equal(status, 200)
    t.match(body, { success: true, message: String })
    const kept = { webhook_url: 'https://hooks.example/a', max_upload_size: '20', allow_client_scripts: 'false' }
    t.match(await read(), kept)
    await restart()
    t.match(await read(), kept)
  })

  t.test('0 or an empty value removes the limit of the data directory', async t => {
    await client.put('/api/settings', { max_home_size: '5000' })
    t.match(await read(), { max_home_size: '5000' })
    await client.put('/api/settings', { max_home_size: '' })
    t.match(await read(), { max_home_size: '0' })
  })

  t.test('one invalid value is refused with 400 and its name, and nothing is changed', async t => {
    const before = await read()
    const cases: Array<[Record<string, unknown>, string]> = [
      [{ max_upload_size: 'big' }, 'max_upload_size'],
      [{ max_upload_size: 20 }, 'max_upload_size'],
      [{ max_upload_size: '0' }, 'max_upload_size'],
      [{ terminal_enabled: 'perhaps' }, 'terminal_enabled'],
      [{ webhook_events: 'deploy_sucess' }, 'webhook_events'],
      [{ webhook_url: 'not an address' }, 'webhook_url'],
      [{ global_deploy_token: 'short' }, 'global_deploy_token'],
      [{ trusted_proxies: '10.0.0.0/99' }, 'trusted_proxies'],
      [{ default_deploy_path: 'relative' }, 'default_deploy_path'],
      [{ keep_archives: null }, 'keep_archives'],
      [{ max_home_size: '-1' }, 'max_home_size'],
      [{ max_output_size: '0' }, 'max_output_size'],
      [{ webhook_secret: 'x'.repeat(20_000) }, 'webhook_secret']
    ]
    for (const [patch, field] of cases) {
      const reply = await client.put('/api/settings', { script_timeout: '60', ...patch })
      t.match(reply, { status: 400, body: { success: false, message: String, field } }, field)
    }
    for (const [key, sentence] of [
      ['webhookUrl', 'Unknown setting "webhookUrl". Did you mean "webhook_url"?'],
      ['keep_archive', 'Unknown setting "keep_archive". Did you mean "keep_archives"?'],
      ['colour', 'Unknown setting "colour". GET /api/settings lists all settings']
    ] as const) {
      const reply = await client.put('/api/settings', { script_timeout: '60', [key]: '5' })
      t.match(reply, { status: 400, body: { error: sentence, code: 'unknown_setting', field: key } })
      t.same(await read(), before, 'nothing of the request is applied')
    }
    for (const body of [[], null, 'x']) t.equal((await client.put('/api/settings', body)).status, 400)
    t.same(await read(), before)
  })

  t.test('refuses allowed_ips without the address of the client', async t => {
    const refused = await client.put('/api/settings', { allowed_ips: '192.0.2.0/24' })
    t.match(refused, { status: 400, body: { code: 'shuts_out_yourself', field: 'allowed_ips' } })
    t.equal((await client.put('/api/settings', { allowed_ips: '192.0.2.0/24, 127.0.0.0/8' })).status, 200)
    t.equal((await read())['allowed_ips'], '192.0.2.0/24,127.0.0.0/8')
    t.equal((await client.put('/api/settings', { allowed_ips: '' })).status, 200)
  })

  t.test('trusted_proxies apply immediately', async t => {
    const asked = () =>
      client.post(
        '/api/settings/token',
        { oldToken: 'wrong', newToken: '12345678' },
        { 'x-forwarded-for': '192.0.2.77' }
      )
    const ip = async () => {
      await asked()
      return (await client.get('/api/audit?action=auth.change_token&limit=1')).body.items[0].ip
    }
    t.equal(await ip(), '192.0.2.77', 'loopback is trusted')
    await client.put('/api/settings', { trusted_proxies: '198.51.100.1' })
    t.equal(await ip(), '127.0.0.1')
  })

  t.test('the audit log contains changed keys, never values', async t => {
    await client.put('/api/settings', { global_deploy_token: 'a-deploy-token', webhook_secret: 'a-webhook-secret' })
    const { body, text } = await client.get('/api/audit?action=settings.update&limit=500')
    const keys = body.items.map((item: { target: string }) => item.target)
    for (const key of ['global_deploy_token', 'webhook_secret', 'max_upload_size']) t.ok(keys.includes(key), key)
    t.notMatch(text, 'a-deploy-token')
    t.notMatch(text, 'a-webhook-secret')
  })

  t.test('status', async t => {
    t.match((await client.get('/api/settings/status')).body, {
      version: String,
      uptime: /^\d+[dhms]/,
      projectCount: 0,
      deploymentCount: 0,
      successCount: 0,
      failedCount: 0,
      successRate: 0
    })
  })
})
