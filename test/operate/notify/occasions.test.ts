import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { eventsOf, type FormFields } from '../../support/client.js'
import { startReceiver } from '../../support/receiver.js'
import { makeSigned } from '../../support/certificates.js'
import { startSmtp } from '../../support/smtp-server.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { startServer } from '../../support/server.js'
import { until } from '../../support/until.js'
import { zipOf } from '../../support/zip.js'

t.test('sends the six events (§6.5) of real deployments to a real receiver', async t => {
  const receiver = await startReceiver(t)
  const stage = await startServer(t, { settings: { webhook_url: `${receiver.url}/hook` } })
  const project = await stage.createProject('shop')
  const bytes = await zipOf({ 'index.html': 'hello' })
  const push = async (...more: FormFields): Promise<string> => {
    const fields: FormFields = [
      ['projectId', project.id],
      ['message', 'New prices'],
      ...more,
      ['file', { filename: 'a.zip', bytes }]
    ]
    return eventsOf(await stage.as(project.token).upload(fields)).at(-1).deployId
  }
  const { client } = stage
  const rollback = async (deployId: string) =>
    (await client.post(`/api/deployments/${deployId}/rollback`)).body.deployId as string
  const ids: Record<string, string> = {}

  const occasions: Array<{ what: string; act(): Promise<string>; expected: object }> = [
    {
      what: 'a push succeeds',
      act: async () => (ids['good'] = await push()),
      expected: {
        trigger: 'cli',
        event: 'deploy_success',
        errorMessage: null,
        message: 'New prices',
        deployment: { status: 'success', rollbackOf: null }
      }
    },
    {
      what: 'a push fails in its post-deploy script',
      act: () => push(['postDeploy', 'exit 3']),
      expected: {
        trigger: 'cli',
        event: 'deploy_failure',
        errorMessage: /exit code 3/,
        deployment: { status: 'failed' }
      }
    },
    {
      what: 'a post-deploy script in the background fails',
      async act() {
        const id = await push(['postDeploy', 'exit 4'], ['postDeployAsync', 'true'])
        // The success is sent first.
        await receiver.received(1)
        receiver.requests.shift()
        return id
      },
      expected: {
        trigger: 'async_post_deploy',
        event: 'deploy_failure',
        errorMessage: /exit code 4/,
        deployment: { status: 'success' }
      }
    },
    {
      what: 'a rollback succeeds',
      act: () => rollback(ids['good'] as string),
      expected: { trigger: 'rollback', event: 'deploy_success', errorMessage: null, deployment: { rollbackOf: String } }
    },
    {
      what: 'a rollback fails',
      async act() {
        await client.put(`/api/projects/${project.id}`, { preDeployScript: 'exit 5' })
        return (ids['bad'] = await rollback(ids['good'] as string))
      },
      expected: {
        trigger: 'rollback',
        event: 'deploy_failure',
        errorMessage: /exit code 5/,
        deployment: { status: 'failed' }
      }
    },
    {
      what: 'a status is corrected by hand',
      act: async () =>
        (await client.patch(`/api/deployments/${ids['bad']}/status`, { status: 'success' })).body.deployment.id,
      expected: { trigger: 'manual', event: 'deploy_success', deployment: { status: 'success' } }
    }
  ]

  for (const { what, act, expected } of occasions) {
    await t.test(what, async t => {
      receiver.requests.length = 0
      const deployId = await act()
      const [request] = await receiver.received(1)
      const payload = JSON.parse(request?.text as string)
      t.match(payload, {
        ...expected,
        timestamp: /Z$/,
        project: { id: project.id, name: 'shop', deployPath: project.deployPath }
      })
      t.equal(payload.deployment.id, deployId)
      t.equal(request?.headers['x-svc-event'], payload.event)
      t.equal(request?.path, '/hook')
      t.notMatch(request?.text, project.token)
    })
  }

  await t.test('sends only the events of webhook_events', async t => {
    await client.put('/api/settings', { webhook_events: 'deploy_failure' })
    receiver.requests.length = 0
    await client.patch(`/api/deployments/${ids['bad']}/status`, { status: 'success' })
    await client.patch(`/api/deployments/${ids['bad']}/status`, { status: 'failed' })
    t.match(JSON.parse((await receiver.received(1))[0]?.text as string), { event: 'deploy_failure', trigger: 'manual' })
    t.equal(receiver.requests.length, 1)
  })

  await t.test('a failing receiver delays nothing and is audited without its address', async t => {
    await client.put(`/api/projects/${project.id}`, { preDeployScript: '' })
    await client.put('/api/settings', {
      webhook_url: `${receiver.url}/a-secret-path?key=secret`,
      webhook_events: 'deploy_success'
    })
    receiver.behave('hang')
    receiver.requests.length = 0
    await push()
    const [held] = await receiver.received(1)
    t.equal(
      await Promise.race([
        held?.closed.then(() => 'was given up'),
        Promise.resolve('the message is still in progress')
      ]),
      'the message is still in progress'
    )
    receiver.requests.length = 0

    receiver.behave(404)
    await push()
    await receiver.received(1)
    let items: unknown[] = []
    for (let i = 0; i < 100 && items.length === 0; i++)
      items = (await client.get('/api/audit?action=webhook.send')).body.items
    t.match(items, [
      {
        action: 'webhook.send',
        actor: 'system',
        projectId: project.id,
        target: `127.0.0.1:${receiver.port}`,
        ok: false,
        detail: 'deploy_success (cli): answered 404, 1 attempt'
      }
    ])
    t.notMatch(JSON.stringify(items), 'secret')
  })

  await t.test('a stopping server waits a moment for notifications', async t => {
    receiver.behave('hang')
    receiver.requests.length = 0
    await push()
    await receiver.received(1)
    await stage.server.stop({ wait: true })
    t.equal(receiver.requests.length, 1, 'there is no second attempt')
    await Promise.all(receiver.requests.map(({ closed }) => closed))
  })
})

t.test('tells who must decide, and of the first success after a failure', async t => {
  const receiver = await startReceiver(t)
  const events = 'deploy_waiting,recovered'
  const stage = await startServer(t, {
    settings: { webhook_url: `${receiver.url}/hook`, webhook_events: events },
    environment: { SVC_PUBLIC_URL: 'https://deploy.example/svc' },
    base: '/svc'
  })
  const project = await stage.createProject('shop')
  const bytes = await zipOf({ 'index.html': 'hello' })
  const push = (...more: FormFields) =>
    stage.as(project.token).upload([['projectId', project.id], ...more, ['file', { filename: 'a.zip', bytes }]])
  const bodies = (): Array<Record<string, unknown>> => receiver.requests.map(({ text }) => JSON.parse(text))

  const pushed = push(['confirmSeconds', '3600'])
  await receiver.received(1)
  const [waiting] = bodies() as Array<{ timestamp: string; deployment: { id: string } }>
  const id = waiting?.deployment.id as string
  t.match(waiting, {
    event: 'deploy_waiting',
    trigger: 'confirmation',
    project: { id: project.id },
    deployment: { status: 'running', endTime: null },
    waitsUntil: /^\d{4}-/,
    url: `https://deploy.example/svc/deployments/${id}`
  })
  const row = (await stage.client.get(`/api/logs/${id}`)).body
  const began = row.steps.find(({ name }: { name: string }) => name === 'confirm').startedAt
  t.ok((receiver.requests[0]?.atMs as number) - Date.parse(began) < 2000, 'less than 2 s after it began to wait')

  await stage.server.stop({ wait: false })
  await stage.restart()
  await until(async () => (await stage.client.get('/api/marks')).body.waiting.length === 1)
  t.equal(receiver.requests.length, 1, 'a restart does not repeat it')
  t.equal((await stage.client.post(`/api/deployments/${id}/confirm`, {})).status, 200)
  await pushed.catch(() => {})
  await until(async () => (await stage.client.get(`/api/logs/${id}`)).body.status === 'success')

  await push(['postDeploy', 'exit 3'])
  await push()
  await push()
  await receiver.received(2)
  await stage.client.post('/api/settings/webhook-test')
  t.match(
    bodies().map(({ event, trigger }) => `${event} ${trigger}`),
    ['deploy_waiting confirmation', 'recovered cli', 'webhook_test test'],
    'once'
  )
})

t.test('reports rollouts that wait or were halted, with links to the decision', async t => {
  const receiver = await startReceiver(t)
  const { stage, shop } = await startFleet(t, ['web-1', 'web-2'])
  const events = ['rollout_waiting', 'rollout_halted', 'drift_found']
  await stage.client.post('/api/notification-targets', { name: 'us', url: `${receiver.url}/hook`, events })
  await stage.client.put(`/api/projects/${shop.id}`, {
    policy: { rollout: { canary: 1, then: '1', pause: 'approve' } }
  })
  const bytes = await zipOf({ 'index.html': 'hello' })
  const pushed = stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes }]
  ])
  const [first] = await receiver.received(1)
  const waiting = JSON.parse(first?.text as string)
  t.match(waiting, {
    event: 'rollout_waiting',
    trigger: 'rollout',
    project: { id: shop.id, name: 'shop' },
    deployment: null,
    message: 'shop: rollout 1 waits for an approval of wave 2 of 2',
    rollout: { state: 'approval', wave: 1, waves: 2, deployId: /^dep_/ }
  })
  await stage.client.post(`/api/rollouts/${waiting.rollout.id}/halt`, { reason: 'not today' })
  const halted = JSON.parse((await receiver.received(2))[1]?.text as string)
  t.match(halted, {
    event: 'rollout_halted',
    message: /^shop: rollout 1 was halted: .*not today/,
    rollout: { state: 'halted' }
  })
  await pushed
  await stage.client.post(`/api/rollouts/${waiting.rollout.id}/resume`, {})
  await receiver.received(3)
  const again = stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'other' }) }]
  ])
  await stage.client.post(`/api/rollouts/${waiting.rollout.id}/halt`, {})
  const texts = (await receiver.received(5)).map(({ text }) => JSON.parse(text).message as string)
  t.match(texts.at(-1), 'shop: rollout 2 waits', 'one that another rollout replaced waits for nobody')
  const { rollouts } = (await stage.client.get('/api/rollouts')).body
  await stage.client.post(`/api/rollouts/${rollouts[0].id}/approve`, {})
  await again
})

t.test('tells once of files that were edited, and again after they were put back', async t => {
  const receiver = await startReceiver(t)
  const stage = await startServer(t, {
    settings: { webhook_url: `${receiver.url}/hook`, webhook_events: 'drift_found' }
  })
  const project = await stage.createProject('shop')
  const bytes = await zipOf({ 'index.html': 'hello' })
  await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes }]
  ])
  const page = join(project.deployPath, 'index.html')
  const verify = () => stage.client.get(`/api/projects/${project.id}/verify`)
  writeFileSync(page, 'edited')
  await verify()
  await verify()
  t.match(JSON.parse((await receiver.received(1))[0]?.text as string), {
    event: 'drift_found',
    trigger: 'verification',
    project: { id: project.id },
    message: 'shop: 1 file edited on the server',
    drift: { files: 1, node: null }
  })
  await stage.restart()
  await verify()
  writeFileSync(page, 'hello')
  await verify()
  t.equal(receiver.requests.length, 1)
  writeFileSync(page, 'edited again')
  await verify()
  await receiver.received(2)
})

t.test('reports a backup that failed', async t => {
  const receiver = await startReceiver(t)
  const stage = await startServer(t, {
    settings: { webhook_url: `${receiver.url}/hook`, webhook_events: 'backup_failed' }
  })
  const full = new Writable({ write: (_, __, done) => done(Object.assign(new Error('no space'), { code: 'ENOSPC' })) })
  full.on('error', () => {})
  const actor = { name: 'local', ip: null }
  await t.rejects((await stage.server.services.api.backups()).write(full, { actor }))
  const [message] = await receiver.received(1)
  t.match(JSON.parse(message?.text as string), {
    event: 'backup_failed',
    trigger: 'backup',
    project: null,
    backup: { reason: String }
  })
  const ended = new AbortController()
  ended.abort(new Error('cancelled'))
  await t.rejects((await stage.server.services.api.backups()).write(full, { actor, signal: ended.signal }))
  await stage.client.post('/api/settings/webhook-test')
  t.equal(receiver.requests.length, 2, 'one that somebody cancelled has not failed')
})

t.test('Discord, ntfy, Telegram and mail get the messages that their services document', async t => {
  const receiver = await startReceiver(t)
  const { authority, server } = makeSigned()
  const smtp = await startSmtp(t, { identity: server, tls: 'starttls', auth: 'PLAIN' })
  const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: 'https://deploy.example' } })
  const ca = join(stage.sites, 'ca.pem')
  writeFileSync(ca, authority.cert)
  t.equal((await stage.client.put('/api/settings', { outgoing_ca: ca })).status, 200)
  const add = async (given: object) => {
    const made = await stage.client.post('/api/notification-targets', { events: ['deploy_waiting'], ...given })
    t.equal(made.status, 200, made.text)
    t.notMatch(made.text, /s3cret|123456:ABC|alerts|hooks\/1/, 'no secret is answered')
    return made.body.target.id as string
  }
  await add({ name: 'Discord', kind: 'discord', url: `${receiver.url}/hooks/1` })
  await add({ name: 'ntfy', kind: 'ntfy', url: `${receiver.url}/alerts`, secret: 'tk_s3cret' })
  await add({ name: 'Telegram', kind: 'telegram', url: `${receiver.url}/?chat_id=-100`, secret: '123456:ABC-def' })
  const mail = `smtp://ada@localhost:${smtp.port}?from=svc@example.org&to=ops@example.org`
  const mailId = await add({ name: 'Mail', url: mail, secret: 's3cret' })

  const project = await stage.createProject('shöp')
  const bytes = await zipOf({ 'index.html': 'hello' })
  const pushed = stage.as(project.token).upload([
    ['projectId', project.id],
    ['confirmSeconds', '600'],
    ['file', { filename: 'a.zip', bytes }]
  ])
  await receiver.received(3)
  await until(() => smtp.mails.length === 1)
  const sent = new Map(receiver.requests.map(({ path, headers, text }) => [path, { headers, body: JSON.parse(text) }]))
  const { deployId } = (await stage.client.get('/api/marks')).body.waiting[0]
  const page = `https://deploy.example/deployments/${deployId}`
  t.match(sent.get('/hooks/1'), {
    body: {
      allowed_mentions: { parse: [] },
      embeds: [{ description: `[Confirm](${page}?decide=confirm) · [Revert](${page}?decide=revert)`, color: Number }]
    }
  })
  t.match(sent.get('/'), {
    headers: { authorization: 'Bearer tk_s3cret' },
    body: {
      topic: 'alerts',
      title: /shöp: deployment waits/,
      priority: 4,
      click: page,
      actions: [{ action: 'view', label: 'Confirm', url: `${page}?decide=confirm` }, { label: 'Revert' }]
    }
  })
  t.match(sent.get('/bot123456:ABC-def/sendMessage'), {
    body: { chat_id: '-100', text: /Confirm: https:.*decide=confirm/, link_preview_options: { is_disabled: true } }
  })
  t.match(smtp.mails[0], {
    from: 'svc@example.org',
    to: ['ops@example.org'],
    isSecure: true,
    user: 'ada',
    password: 's3cret'
  })
  t.match(
    Buffer.from((smtp.mails[0]?.lines ?? []).join('').split('base64')[1] ?? '', 'base64').toString('utf8'),
    'shöp'
  )

  t.match((await stage.client.post(`/api/notification-targets/${mailId}/test`)).body, { success: true })
  t.equal(smtp.mails.length, 2)
  receiver.behave({ status: 400, body: '{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}' })
  const { items } = (await stage.client.get('/api/notification-targets')).body
  const telegram = items.find(({ kind }: { kind: string }) => kind === 'telegram')
  t.match((await stage.client.post(`/api/notification-targets/${telegram.id}/test`)).body, {
    success: false,
    error: /answered 400: Bad Request: chat not found$/
  })
  for (const wrong of [
    { kind: 'telegram', url: receiver.url, secret: '123456:ABC' },
    { kind: 'telegram', url: `${receiver.url}/?chat_id=1` },
    { kind: 'ntfy', url: receiver.url },
    { kind: 'email', url: receiver.url },
    { url: 'smtp://localhost?from=a@b.c' }
  ])
    t.match(await stage.client.post('/api/notification-targets', { name: 'x', ...wrong }), { status: 400 })
  await stage.client.post(`/api/deployments/${deployId}/confirm`, {})
  await pushed
})
