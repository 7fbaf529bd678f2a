import { aKey } from '../support/signed-releases.js'
import t from 'tap'
import { defaultApproval } from '../../lib/model/policy.js'
import { eventsOf } from '../support/client.js'
import { startReceiver } from '../support/receiver.js'
import { adminToken, startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

/** Secrets that no entry may contain. */
const secrets = {
  adminToken,
  newAdminToken: 'another-admin-token-987654321',
  wrongToken: 'a-guess-at-the-admin-token',
  globalToken: 'the-global-deploy-token',
  webhookSecret: 'the-webhook-secret',
  webhookPath: 'the-webhook-path',
  targetSecret: 'the-secret-of-a-target',
  variable: 'the-value-of-a-variable',
  script: 'the-text-of-a-script'
}

t.test('every change of state is in the audit log, and no secret is', async t => {
  const stage = await startServer(t)
  const receiver = await startReceiver(t)
  receiver.behave(400)
  const { client } = stage
  const ids: Record<string, string> = {}
  const tokens: string[] = Object.values(secrets)
  const path = (name: string): string => `${stage.sites}/${name}`
  const bytes = await zipOf({ 'index.html': 'hello' })
  const push = async (...scripts: Array<[string, string]>): Promise<void> => {
    const env = JSON.stringify({ SECRET: secrets.variable })
    const reply = await stage
      .as(ids['token'] as string)
      .upload([['projectId', ids['shop'] as string], ['env', env], ...scripts, ['file', { filename: 'a.zip', bytes }]])
    ids['deployment'] = eventsOf(reply).at(-1).deployId
  }
  /** Pushes to a project that needs an approval, and decides. */
  const pushHeld = async (path: 'approve' | 'reject', comment: string | null): Promise<void> => {
    const before = ids['deployment'] as string
    const pushing = push()
    let held: { id: string; treeSha256: string } | undefined
    await until(async () => (held = (await client.get('/api/logs?status=queued')).body[0]) !== undefined)
    const tree = path === 'approve' ? { treeSha256: held?.treeSha256 } : {}
    await client.post(`/api/deployments/${held?.id}/${path}`, { ...tree, comment })
    await pushing
    ids['deployment'] = before
  }
  const setApproval = (approval: typeof defaultApproval | null) => async () => {
    await client.put(`/api/projects/${ids['shop']}`, { policy: { approval } })
  }
  const createLabel = (kind: 'category' | 'tag', path: string) => async () => {
    const { body } = await client.post(path, { name: 'One' })
    ids[kind] = body[kind].id
  }

  const changes: Array<{ what: string; act(): Promise<unknown>; entries: object[] }> = [
    {
      what: 'login',
      act: () => stage.as(null).post('/api/auth/login', { token: adminToken }),
      entries: [{ action: 'auth.login', actor: 'admin', ok: true }]
    },
    {
      what: 'failed login',
      act: () => stage.as(null).post('/api/auth/login', { token: secrets.wrongToken }),
      entries: [{ action: 'auth.login_failed', actor: 'anonymous', ok: false, ip: '127.0.0.1' }]
    },
    {
      what: 'failed change of the admin token',
      act: () => client.post('/api/settings/token', { oldToken: secrets.wrongToken, newToken: secrets.newAdminToken }),
      entries: [{ action: 'auth.change_token', ok: false }]
    },
    {
      what: 'settings',
      act: () =>
        client.put('/api/settings', {
          global_deploy_token: secrets.globalToken,
          webhook_secret: secrets.webhookSecret,
          webhook_url: `${receiver.url}/${secrets.webhookPath}`,
          webhook_events: ''
        }),
      entries: [
        { target: 'webhook_url', detail: /^\nwebhook_url: none → http:\/\/127\.0\.0\.1:\d+\/…$/ },
        { target: 'webhook_events', detail: /^\nwebhook_events: deploy_success, .* → none$/ },
        { target: 'webhook_secret', detail: /^\nwebhook_secret: none → \*\*\*$/ },
        { target: 'global_deploy_token', detail: /^\nglobal_deploy_token: none → \*\*\*$/ }
      ].map(entry => ({ action: 'settings.update', ...entry }))
    },
    {
      what: 'settings, of which one changes',
      act: () => client.put('/api/settings', { global_deploy_token: secrets.globalToken, keep_archives: '7' }),
      entries: [{ target: 'keep_archives', detail: /^\nkeep_archives: \d+ → 7$/ }]
    },
    {
      what: 'category',
      act: createLabel('category', '/api/categories'),
      entries: [{ action: 'category.create', detail: 'One' }]
    },
    {
      what: 'category changed',
      act: () => client.put(`/api/categories/${ids['category']}`, { name: 'Two' }),
      entries: [{ action: 'category.update', detail: 'One\nname: One → Two' }]
    },
    {
      what: 'category deleted',
      act: () => client.delete(`/api/categories/${ids['category']}`),
      entries: [{ action: 'category.delete' }]
    },
    { what: 'tag', act: createLabel('tag', '/api/tags'), entries: [{ action: 'tag.create' }] },
    {
      what: 'tag changed',
      act: () => client.put(`/api/tags/${ids['tag']}`, { color: 'pink' }),
      entries: [{ action: 'tag.update', detail: /^One\ncolor: \w+ → pink$/ }]
    },
    {
      what: 'project',
      async act() {
        const { id, token } = await stage.createProject('shop')
        Object.assign(ids, { shop: id, token })
        tokens.push(token)
      },
      entries: [{ action: 'project.create', projectId: String, detail: /^shop\ndeployPath: \/.*\/shop$/ }]
    },
    {
      what: 'project changed',
      act: () =>
        client.put(`/api/projects/${ids['shop']}`, { postDeployScript: `: ${secrets.script}`, tagIds: [ids['tag']] }),
      entries: [
        {
          action: 'project.update',
          detail: /^shop\npostDeployScript: none → SHA-256 [0-9a-f]{64}\ntagIds: none → One$/
        }
      ]
    },
    {
      what: 'project pinned',
      act: () => client.put(`/api/projects/${ids['shop']}/pin`, { pinned: true }),
      entries: [{ action: 'project.update', detail: 'shop\npinned: false → true' }]
    },
    {
      what: 'save of a project that changes nothing',
      act: () => client.put(`/api/projects/${ids['shop']}`, { name: 'shop', pinned: true, tagIds: [ids['tag']] }),
      entries: []
    },
    {
      what: 'policy',
      act: () =>
        client.put(`/api/projects/${ids['shop']}`, {
          policy: { prune: 'managed', onFailureScript: secrets.script, protect: ['data/**'] }
        }),
      entries: [
        {
          detail: new RegExp(
            '^shop\npolicy.onFailureScript: none → SHA-256 \\w+\n' +
              'policy.prune: off → managed\npolicy.protect: none → data/\\*\\*$'
          )
        }
      ]
    },
    {
      what: 'variables',
      act: () =>
        client.put(`/api/projects/${ids['shop']}/variables`, {
          variables: [
            { name: 'PLAIN', value: secrets.variable },
            { name: 'HIDDEN', value: secrets.variable, secret: true }
          ]
        }),
      entries: [{ action: 'project.variables', detail: /\nvariables.HIDDEN: none → \*\*\*\nvariables.PLAIN: none → / }]
    },
    {
      what: 'named token',
      async act() {
        const given = { name: 'ana', role: 'viewer', projectIds: [ids['shop']] }
        const { body } = await client.post('/api/tokens', given)
        Object.assign(ids, { ana: body.record.id })
        tokens.push(body.token)
      },
      entries: [
        {
          action: 'token.create',
          detail: /^ana\nname: ana\nrole: viewer\nprojectIds: shop\nallowedIps: all\nshowScripts: false\nexpiresAt: 2/
        }
      ]
    },
    {
      what: 'named token changed',
      act: () => client.patch(`/api/tokens/${ids['ana']}`, { role: 'operator', projectIds: null }),
      entries: [{ action: 'token.update', detail: 'ana\nrole: viewer → operator\nprojectIds: shop → all' }]
    },
    {
      what: 'save of a named token that changes nothing',
      act: () => client.patch(`/api/tokens/${ids['ana']}`, { role: 'operator' }),
      entries: []
    },
    {
      what: 'key that signs releases',
      async act() {
        const { row } = aKey('ana')
        const { body } = await client.post('/api/signing-keys', { public: row.public, name: 'ana' })
        Object.assign(ids, { key: body.key.id })
      },
      entries: [{ action: 'signing_key.trust', detail: /^ana SHA256:/ }]
    },
    {
      what: 'revoked key',
      act: () => client.post(`/api/signing-keys/${ids['key']}/revoke`),
      entries: [{ action: 'signing_key.revoke', detail: /^ana SHA256:.*, as of 2/ }]
    },
    {
      what: "project's token",
      async act() {
        ids['token'] = (await client.post(`/api/projects/${ids['shop']}/token`)).body.token
        tokens.push(ids['token'] as string)
      },
      entries: [{ action: 'project.regenerate_token', detail: 'shop\ntoken: changed' }]
    },
    {
      what: 'lock of the project',
      act: () => client.put(`/api/projects/${ids['shop']}/lock`, { reason: 'audit' }),
      entries: [{ action: 'project.lock', detail: /: audit$/ }]
    },
    {
      what: 'end of the lock',
      act: () => client.delete(`/api/projects/${ids['shop']}/lock`),
      entries: [{ action: 'project.unlock' }]
    },
    {
      what: 'begin of a maintenance',
      act: () => client.put(`/api/projects/${ids['shop']}/maintenance`, { on: true, reason: 'new disk' }),
      entries: [{ action: 'project.maintenance_on', detail: 'new disk' }]
    },
    {
      what: 'end of the maintenance',
      act: () => client.put(`/api/projects/${ids['shop']}/maintenance`, { on: false }),
      entries: [{ action: 'project.maintenance_off' }]
    },
    {
      what: 'lock of the server',
      act: () => client.put('/api/lock', { reason: 'move' }),
      entries: [{ action: 'server.lock', projectId: null }]
    },
    { what: 'its end', act: () => client.delete('/api/lock'), entries: [{ action: 'server.unlock' }] },
    { what: 'tag deleted', act: () => client.delete(`/api/tags/${ids['tag']}`), entries: [{ action: 'tag.delete' }] },
    {
      what: 'upload',
      act: () => push(['preDeploy', `: ${secrets.script}`]),
      entries: [
        { action: 'deployment.upload', actor: /^project:/ },
        { action: 'deployment.end', actor: 'system', target: /^dep_/, detail: '\nstatus: success' }
      ]
    },
    {
      what: 'rollback',
      act: () => client.post(`/api/deployments/${ids['deployment']}/rollback`),
      entries: [{ action: 'deployment.rollback', detail: /^to dep_/ }, { action: 'deployment.end' }]
    },
    {
      what: 'policy of approvals',
      act: setApproval(defaultApproval),
      entries: [{ action: 'project.update', detail: /\npolicy\.approval\.count: none → 1\n/ }]
    },
    {
      what: 'approval',
      act: () => pushHeld('approve', 'tested'),
      entries: [
        { action: 'deployment.upload', actor: /^project:/ },
        { action: 'deployment.approve', actor: 'admin', target: /^dep_/, detail: /^tree [0-9a-f]{64}: tested$/ },
        { action: 'deployment.end', actor: 'system', ok: true }
      ]
    },
    {
      what: 'rejection',
      act: () => pushHeld('reject', null),
      entries: [
        { action: 'deployment.upload' },
        { action: 'deployment.reject', actor: 'admin', target: /^dep_/, detail: null },
        { action: 'deployment.end', ok: false }
      ]
    },
    { what: 'end of approvals', act: setApproval(null), entries: [{ action: 'project.update' }] },
    {
      what: 'correction',
      act: () => client.patch(`/api/deployments/${ids['deployment']}/status`, { status: 'failed' }),
      entries: [{ action: 'deployment.mark_status', detail: 'success → failed' }]
    },
    {
      what: 'deletion of an archive',
      act: () => client.delete(`/api/deployments/${ids['deployment']}/archive?force=true`),
      entries: [{ action: 'deployment.delete_archive', target: /^dep_/, detail: 'forced' }]
    },
    {
      what: 'cancellation',
      async act() {
        await client.put(`/api/projects/${ids['shop']}`, { preDeployScript: 'sleep 20' })
        const pushing = push()
        let running: Array<{ id: string }> = []
        while (running.length === 0) running = (await client.get('/api/logs?status=running')).body
        await client.post(`/api/deployments/${running[0]?.id}/cancel`)
        await pushing
        await client.put(`/api/projects/${ids['shop']}`, { preDeployScript: '', postDeployScript: '' })
      },
      entries: [
        { action: 'project.update' },
        { action: 'deployment.upload' },
        { action: 'deployment.cancel', actor: 'admin' },
        { action: 'deployment.end', detail: /^\nstatus: failed/, ok: false },
        { action: 'project.update' }
      ]
    },
    {
      what: 'background script that fails',
      async act() {
        await push(['postDeploy', `exit 7 # ${secrets.script}`], ['postDeployAsync', '1'])
        await settled('deploy.post_deploy_failed')
      },
      entries: [
        { action: 'deployment.upload' },
        { action: 'deployment.end' },
        { action: 'deploy.post_deploy_failed', actor: 'system', ok: false }
      ]
    },
    {
      what: 'webhook that fails',
      act: () => client.post('/api/settings/webhook-test'),
      entries: [{ action: 'webhook.send', target: `127.0.0.1:${receiver.port}`, ok: false }]
    },
    {
      what: 'notification target',
      async act() {
        const given = { name: 'Team', url: `${receiver.url}/${secrets.webhookPath}`, secret: secrets.targetSecret }
        ids['target'] = (await client.post('/api/notification-targets', given)).body.target.id
      },
      entries: [
        {
          action: 'notification_target.create',
          detail: /^Team \(generic, 127.*\nname: Team\nkind: generic\nurl: .*\/…\nsecret: \*\*\*\nevents: /
        }
      ]
    },
    {
      what: 'notification target changed',
      act: () => client.put(`/api/notification-targets/${ids['target']}`, { events: [], secret: secrets.targetSecret }),
      entries: [{ action: 'notification_target.update', detail: /^Team \(.*\)\nevents: deploy_success, .* → none$/ }]
    },
    {
      what: 'notification target that fails',
      act: () => client.post(`/api/notification-targets/${ids['target']}/test`),
      entries: [{ action: 'webhook.send', detail: /^Team: /, ok: false }]
    },
    {
      what: 'notification target deleted',
      act: () => client.delete(`/api/notification-targets/${ids['target']}`),
      entries: [{ action: 'notification_target.delete' }]
    },
    {
      what: 'storage cleaned',
      act: () => client.post('/api/storage/clean', {}),
      entries: [{ action: 'storage.clean', detail: String }]
    },
    {
      what: 'projects in bulk',
      async act() {
        const one = await client.post('/api/projects', { name: 'b', deployPath: path('b') })
        const change = { action: 'setClientScripts', allowClientScripts: true }
        await client.post('/api/projects/bulk', { ids: [one.body.project.id], ...change })
        await client.post('/api/projects/bulk', { ids: [one.body.project.id], action: 'delete' })
      },
      entries: [{ action: 'project.create' }, { action: 'project.update' }, { action: 'project.delete' }]
    },
    {
      what: 'project deleted',
      act: () => client.delete(`/api/projects/${ids['shop']}`),
      entries: [{ action: 'project.delete', detail: 'shop' }]
    },
    {
      what: 'change of the admin token',
      act: () => client.post('/api/settings/token', { oldToken: adminToken, newToken: secrets.newAdminToken }),
      entries: [{ action: 'auth.change_token', ok: true }]
    }
  ]

  /** Uses the current admin token. */
  const reader = () => stage.as(stage.server.adminToken.current())
  const log = async (): Promise<Array<{ id: string; action: string }>> =>
    (await reader().get('/api/audit?limit=500')).body.items
  async function settled(action: string): Promise<void> {
    for (let i = 0; i < 500 && !(await log()).some(item => item.action === action); i++);
  }

  for (const { what, act, entries } of changes) {
    await t.test(what, async t => {
      const before = new Set((await log()).map(({ id }) => id))
      await act()
      let added: object[] = []
      for (let i = 0; i < 200 && added.length < entries.length; i++) {
        added = (await log()).filter(({ id }) => !before.has(id)).reverse()
      }
      t.match(
        added,
        entries.map(entry => ({ at: /Z$/, ...entry }))
      )
      t.equal(added.length, entries.length, JSON.stringify(added))
    })
  }

  await t.test('no secret is in any entry', async t => {
    const { text } = await reader().get('/api/audit?limit=500')
    for (const secret of tokens) t.notMatch(text, secret)
  })

  await t.test('a refused request changes nothing and has no entry', async t => {
    // A wrong token has one entry a minute, and the minute may be a new one.
    const actions = async (): Promise<unknown[]> =>
      (await log()).flatMap(({ action }) => (action === 'auth.login_failed' ? [] : [action]))
    const before = await actions()
    await reader().put('/api/settings', { max_upload_size: 'x' })
    await reader().post('/api/projects', { name: '' })
    await reader().delete('/api/tags/tag_unknown')
    await stage.as(secrets.wrongToken).get('/api/projects')
    await reader().post('/api/storage/clean', { dryRun: true })
    t.same(await actions(), before)
  })
})
