import t from 'tap'
import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { DeploymentStep } from '../../lib/model/deployment.js'
import type { Overview, ProjectOverview } from '../../lib/model/health.js'
import type { Project } from '../../lib/model/project.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

t.test('GET /api/overview', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const read = async (query = '') => (await client.get(`/api/overview${query}`)).body

  t.test('an empty server has all fields, and zero counts', async t => {
    t.match(await read(), {
      status: { projectCount: 0, deploymentCount: 0 },
      health: { status: 'ok' },
      runningCount: 0,
      queuedCount: 0,
      broken: { total: 0, items: [] },
      deployments: [],
      pinned: [],
      newestProject: null,
      days: null
    })
  })

  t.test('contains the newest project before the first deployment', async t => {
    const project = await stage.createProject('shop')
    t.match(await read(), { newestProject: { id: project.id, token: project.token }, status: { projectCount: 1 } })
  })

  t.test('contains deployments, pinned projects and, on request, days', async t => {
    const [project] = (await client.get('/api/projects')).body
    await client.put(`/api/projects/${project.id}/pin`, { pinned: true })
    const bytes = await zipOf({ 'index.html': 'one' })
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const overview = await read('?days=7')
    t.match(overview, {
      deployments: [{ projectId: project.id, status: 'success' }],
      pinned: [{ id: project.id, name: 'shop', status: 'success', lastDeployAt: String }],
      newestProject: null,
      days: { today: /^\d{4}-\d\d-\d\d$/, items: [{ success: 1, failed: 0 }] }
    })
    t.notMatch(JSON.stringify(overview), project.token, 'contains no deploy token')
  })

  t.match(await client.get('/api/overview?days=x'), { status: 400, body: { field: 'days' } })
})

t.test('a project is broken or not, depending on its history', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const bytes = await zipOf({ 'index.html': 'one' })
  const good = {}
  const bad = { postDeployScript: 'exit 3' }
  const early = { preDeployScript: 'exit 3' }
  const inBackground = { postDeployScript: 'exit 3', postDeployAsync: true }
  const none = { preDeployScript: '', postDeployScript: '', postDeployAsync: false }

  const deploy = async (project: Project, fields: Partial<Project>): Promise<string> => {
    await client.put(`/api/projects/${project.id}`, { ...none, ...fields })
    const { headers } = await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const id = String(headers['x-svc-deploy-id'])
    const ended = async (): Promise<boolean> => {
      const { steps } = (await client.get(`/api/logs/${id}`)).body as { steps: DeploymentStep[] }
      return steps.every(step => step.endedAt !== null)
    }
    await until(ended)
    return id
  }

  interface Expected {
    /** Positions of deployments in the history, or null if the project is not broken. */
    failed: number | null
    since?: number
    lastGood?: number | null
    isLastGoodLive?: boolean
    live?: number | null
  }
  const histories: Array<[name: string, history: Array<Partial<Project>>, expected: Expected]> = [
    ['only good', [good, good], { failed: null, live: 1 }],
    ['never good', [bad], { failed: 0, since: 0, lastGood: null, isLastGoodLive: false, live: 0 }],
    ['nothing in place', [early], { failed: 0, since: 0, lastGood: null, isLastGoodLive: false, live: null }],
    ['before the files', [good, early], { failed: 1, since: 1, lastGood: 0, isLastGoodLive: true, live: 0 }],
    ['after the files', [good, bad, bad], { failed: 2, since: 1, lastGood: 0, isLastGoodLive: false, live: 2 }],
    ['in the background', [good, inBackground], { failed: 1, since: 1, lastGood: 0, isLastGoodLive: false, live: 1 }],
    ['mended', [bad, inBackground, good], { failed: null, live: 2 }]
  ]
  const expectedOrder: string[] = []
  for (const [name, history, { failed, since, lastGood, isLastGoodLive, live }] of histories) {
    const project = await stage.createProject(name.replaceAll(' ', '-'))
    const ids: string[] = []
    for (const fields of history) ids.push(await deploy(project, fields))
    const read = (await client.get(`/api/projects/${project.id}/overview`)).body as ProjectOverview
    const idOf = (n: number | null | undefined): string | null =>
      n === null || n === undefined ? null : (ids[n] as string)
    t.equal(read.live?.id ?? null, idOf(live), `${name}: what is live`)
    t.equal(read.deploymentCount, history.length)
    t.same(
      read.deployments.map(({ id }) => id),
      [...ids].reverse()
    )
    const overview = (await client.get('/api/overview')).body as Overview
    const listed = overview.broken.items.find(({ projectId }) => projectId === project.id) ?? null
    t.same(listed, read.broken, `${name}: both say the same`)
    if (failed === null) t.equal(read.broken, null, name)
    else {
      expectedOrder.push(project.id)
      t.match(
        read.broken,
        {
          projectName: project.name,
          projectEnv: 'production',
          goingId: null,
          isLastGoodLive,
          failed: { id: idOf(failed), status: history[failed] === inBackground ? 'success' : 'failed' }
        },
        name
      )
      t.equal(read.broken?.lastGood?.id ?? null, idOf(lastGood))
      t.equal(read.broken?.since, read.deployments.find(({ id }) => id === idOf(since))?.startTime)
      t.equal(read.broken?.failed.backgroundFailed, history[failed] === inBackground ? true : undefined)
    }
  }
  const { broken } = (await client.get('/api/overview')).body as Overview
  t.equal(broken.total, expectedOrder.length)
  t.same(
    broken.items.map(({ projectId }) => projectId),
    expectedOrder,
    'oldest first'
  )

  await t.test('a rollback repairs the project, and liveSource is the upload', async t => {
    const [project] = (await client.get('/api/projects')).body.filter(
      ({ name }: Project) => name === 'after-the-files'
    ) as [Project]
    await client.put(`/api/projects/${project.id}`, none)
    const path = `/api/projects/${project.id}/overview`
    const before = (await client.get(path)).body as ProjectOverview
    const source = before.broken?.lastGood?.id as string
    await client.post(`/api/deployments/${source}/rollback`)
    const once = (await client.get(path)).body as ProjectOverview
    t.match(once, { broken: null, live: { triggerSource: 'rollback', status: 'success' }, liveSource: { id: source } })
    await client.post(`/api/deployments/${once.live?.id}/rollback`)
    t.match(
      (await client.get(path)).body,
      { live: { rollbackOf: once.live?.id }, liveSource: { id: source } },
      'through another roll-back'
    )
    t.equal(before.liveSource, null)
  })

  await t.test('a corrected status repairs or breaks the project', async t => {
    const [project] = (await client.get('/api/projects')).body.filter(({ name }: Project) => name === 'never-good') as [
      Project
    ]
    const read = async (): Promise<ProjectOverview> => (await client.get(`/api/projects/${project.id}/overview`)).body
    const id = (await read()).deployments[0]?.id
    await client.patch(`/api/deployments/${id}/status`, { status: 'success' })
    t.equal((await read()).broken, null)
    await client.patch(`/api/deployments/${id}/status`, { status: 'failed' })
    t.equal((await read()).broken?.failed.id, id)
  })

  await t.test('the project stays broken during the next deployment, which is named', async t => {
    const [project] = (await client.get('/api/projects')).body.filter(
      ({ name }: Project) => name === 'before-the-files'
    ) as [Project]
    await client.put(`/api/projects/${project.id}`, { ...none, preDeployScript: 'mkfifo ../go; cat ../go' })
    const going = stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const read = async (): Promise<ProjectOverview> => (await client.get(`/api/projects/${project.id}/overview`)).body
    await until(async () => (await read()).broken?.goingId != null && existsSync(join(stage.sites, 'go')))
    t.match((await read()).broken, { goingId: (await read()).deployments[0]?.id, failed: { status: 'failed' } })
    await (await open(join(stage.sites, 'go'), 'w')).close()
    await going
    t.equal((await read()).broken, null)
  })

  t.match(await client.get('/api/projects/none/overview'), { status: 404 })
})

t.test('search over the API', async t => {
  const { client, createProject } = await startServer(t)
  const { id } = await createProject('shop')
  const { status, body } = await client.get('/api/search?q=%20shop%20')
  t.equal(status, 200)
  t.equal(body.q, 'shop')
  t.same(
    body.groups.map(({ type }: { type: string }) => type),
    ['projects', 'deployments', 'log-sources', 'audit', 'settings']
  )
  t.match(body.groups[0], { type: 'projects', total: 1, items: [{ id, title: 'shop', href: `projects/${id}` }] })
  t.equal((await client.get('/api/search?q=shop&types=projects,audit')).body.groups.length, 2)
  t.equal((await client.get('/api/search')).body.groups[0].total, 0)
  t.match(await client.get('/api/search?q=x&types=users'), { status: 400, body: { field: 'types' } })
  t.match(await client.get('/api/search?q=x&limit=0'), { status: 400, body: { field: 'limit' } })
  t.equal((await client.get(`/api/search?q=${'x'.repeat(201)}`)).status, 400)
})
