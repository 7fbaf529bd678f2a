import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AccessRole } from '../../lib/model/access.js'
import type { Project } from '../../lib/model/project.js'
import { eventsOf } from './client.js'
import { enrolledAgent } from './fake-agent.js'
import { beginRollout } from './fleet-rollout.js'
import type { Stage } from './server.js'
import { zipOf } from './zip.js'

/** Texts that nobody below admin may read, by name. */
export type Secrets = Record<string, string>

/** One of everything of a project. */
export interface Records {
  project: Project
  deployId: string
  sourceId: string
  rolloutId: string
  /** Texts that occur only in this project: its names, ids and messages. */
  marks: string[]
}

/** A server with two projects that have one of everything. */
export interface AccessFixture {
  shop: Records
  forum: Records
  secrets: Secrets
  /** Texts of the scripts of `shop`. */
  scripts: string[]
  /** Creates a named token; returns its secret. */
  mint(name: string, role: AccessRole, fields?: object): Promise<string>
  /** Uploads to `shop`; returns the id of the deployment. */
  deployWith(token: string): Promise<string>
  /** Registers another log file of `shop`; returns its id. */
  addSource(): Promise<string>
  /** Creates a project without anything; returns its id. */
  addProject(): Promise<string>
  /** Locks both projects. */
  lock(): Promise<void>
}

export const fixtureSettings = {
  global_deploy_token: 'the-global-deploy-token-1',
  metrics_token: 'the-metrics-token-12345',
  webhook_url: 'http://127.0.0.1:9/the-path-of-the-webhook',
  webhook_secret: 'whsec_dGhlLXNlY3JldC1vZi10aGUtd2ViaG9vaw==',
  webhook_events: ''
}

/** Fills a server. */
export async function fillForAccess(stage: Stage, adminToken: string): Promise<AccessFixture> {
  const { client, as } = stage
  const secrets: Secrets = { adminToken, ...fixtureSettings, webhook_url: 'the-path-of-the-webhook' }
  delete secrets['webhook_events']
  await done(client.put('/api/settings', fixtureSettings))
  await done(
    client.post('/api/notification-targets', {
      name: 'Team',
      kind: 'generic',
      url: 'https://chat.example.org/the-path-of-the-target',
      secret: 'whsec_dGhlLXNlY3JldC1vZi10aGUtdGFyZ2V0cw==',
      enabled: false
    })
  )
  Object.assign(secrets, {
    target: 'the-path-of-the-target',
    targetSecret: 'whsec_dGhlLXNlY3JldC1vZi10aGUtdGFyZ2V0cw=='
  })

  async function deployTo(project: Project, token: string, more: Array<[string, string]> = []): Promise<string> {
    const bytes = await zipOf({ 'index.html': `<h1>${project.name}</h1>` })
    const file: [string, { filename: string; bytes: Uint8Array }] = ['file', { filename: 'a.zip', bytes }]
    const reply = await as(token).upload([['projectId', project.id], ...more, file])
    return eventsOf(reply).at(-1).deployId as string
  }

  async function addSource(project: Project, label: string): Promise<string> {
    const filePath = join(stage.sites, `${label}.log`)
    writeFileSync(filePath, `a line of ${label}\n`)
    const { items } = await done(
      client.post(`/api/projects/${project.id}/log-sources`, { items: [{ label, filePath }] })
    )
    return items[0].id
  }

  /** Begins a rollout of a project to a node that never connects, and halts it. Returns its id. */
  async function rollOut(projectId: string): Promise<string> {
    const hub = await stage.server.services.fleet.hub()
    const agent = await enrolledAgent({ url: stage.url, hub }, `node-of-${projectId.slice('proj_'.length)}`)
    await done(client.patch(`/api/projects/${projectId}/placements`, { add: [{ node: agent.name }] }))
    const rolloutId = await beginRollout({ hub }, {}, projectId)
    await done(client.post(`/api/rollouts/${rolloutId}/halt`))
    await done(client.patch(`/api/projects/${projectId}/placements`, { remove: [agent.name] }))
    return rolloutId
  }

  async function fill(name: string): Promise<Records> {
    const { category } = await done(client.post('/api/categories', { name: `kind-${name}`, color: 'blue' }))
    const { tag } = await done(client.post('/api/tags', { name: `tag-${name}`, color: 'green' }))
    const project = await stage.createProject(name, {
      postDeployScript: `: the-project-script-of-${name}`
    })
    const { id } = project
    await done(client.put(`/api/projects/${id}`, { categoryId: category.id, tagIds: [tag.id] }))
    await done(client.put(`/api/projects/${id}/pin`, { pinned: true }))
    const variable = `the-secret-variable-of-${name}`
    await done(
      client.put(`/api/projects/${id}/variables`, {
        variables: [{ name: 'DB_PASSWORD', value: variable, secret: true }]
      })
    )
    const message = `message-of-${name}`
    const deployId = await deployTo(project, project.token, [
      ['message', message],
      ['preDeploy', `: the-client-script-of-${name}`]
    ])
    const sourceId = await addSource(project, `log-of-${name}`)
    const rolloutId = await rollOut(id)
    Object.assign(secrets, { [`token of ${name}`]: project.token, [`variable of ${name}`]: variable })
    return {
      project,
      deployId,
      sourceId,
      rolloutId,
      marks: [
        id,
        deployId,
        sourceId,
        rolloutId,
        message,
        `log-of-${name}`,
        `lock-of-${name}`,
        `kind-${name}`,
        `tag-${name}`
      ]
    }
  }

  const shop = await fill('shop-a7')
  const forum = await fill('forum-b8')
  let added = 0
  return {
    shop,
    forum,
    secrets,
    scripts: ['project-script', 'client-script'].map(script => `the-${script}-of-shop-a7`),
    async mint(name, role, fields = {}) {
      const { token } = await done(client.post('/api/tokens', { name, role, ...fields }))
      secrets[`secret of "${name}"`] = token
      return token
    },
    deployWith: token => deployTo(shop.project, token),
    addSource: () => addSource(shop.project, `another-${added++}`),
    addProject: async () => (await stage.createProject(`another-${added++}`)).id,
    async lock() {
      for (const { project } of [shop, forum])
        await done(client.put(`/api/projects/${project.id}/lock`, { reason: `lock-of-${project.name}` }))
    }
  }
}

async function done(reply: Promise<{ status: number; text: string; body: any }>): Promise<any> {
  const { status, text, body } = await reply
  if (status !== 200) throw new Error(`${status}: ${text}`)
  return body
}
