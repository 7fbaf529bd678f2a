import t from 'tap'
import { eventsOf, type FormFields } from '../../support/client.js'
import { startReceiver } from '../../support/receiver.js'
import { startServer } from '../../support/server.js'
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
