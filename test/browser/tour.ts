import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { beginRollout } from '../support/fleet-rollout.js'
import { enrolledAgent } from '../support/fake-agent.js'
import type { Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { pageTable } from '../../www/router.js'

/*
 * A walk through every screen of the panel: the addresses come from the page table, and the server has something of
 * everything, with names that are longer than any screen is wide.
 */

/** The paths of the page table with their parameters. A new page is included automatically. */
export const paths = pageTable.map(({ path }) => path).filter(path => path !== 'login')

/** A text without any place to break it. */
const unbroken = (start: string, length: number): string =>
  start + 'abcdefghij'.repeat(20).slice(0, length - start.length)

const name = '店面-a-name-that-goes-on-for-rather-long-so-that-it-has-to-be-cut-somewhere'

/** The names of everything on the furnished server. */
export const names = {
  project: name,
  plain: '其他',
  category: unbroken('前端', 50),
  tag: unbroken('重要', 50),
  branch: `feature/${unbroken('branch', 120)}`,
  subject: `Lower ${unbroken('the', 90)} prices`,
  author: unbroken('Ada', 60),
  actor: 'grace',
  label: unbroken('访问', 60),
  target: unbroken('Team', 60),
  variable: unbroken('NAME_', 60),
  token: unbroken('令牌', 180),
  secret: 'SECRET_OF_THE_SHOP',
  spread: unbroken('机群', 70),
  node: unbroken('node-', 90),
  zone: unbroken('zone', 60)
} as const

export interface Furnished {
  stage: Stage
  projectId: string
  /** The deployment that is live. */
  live: string
  /** The deployment that failed last. */
  failed: string
  /** A project that is placed on nodes. */
  spread: string
  /** The address of a screen with contents, for each of `paths`. */
  addresses: string[]
  /** Starts a deployment of the second project whose script runs until the server stops. Returns its id. */
  startWaiting(): Promise<string>
}

const commit = (digit: string): string => digit.repeat(40)

const provenance = {
  commit: commit('a'),
  branch: names.branch,
  tag: null,
  author: names.author,
  subject: names.subject,
  dirty: true,
  repository: `https://git.example/${'team/'.repeat(20)}shop.git`,
  ci: {
    system: 'GitHub Actions',
    run: '42',
    url: 'https://git.example/team/shop/actions/runs/9000',
    actor: names.actor
  }
}

/**
 * Creates one of everything on a server: projects, labels, deployments of every kind, log files, variables, targets.
 */
export async function furnish(stage: Stage): Promise<Furnished> {
  const { client } = stage
  const category = (await client.post('/api/categories', { name: names.category, color: 'pink' })).body.category
  const tag = (await client.post('/api/tags', { name: names.tag, color: 'green' })).body.tag
  const second = (await client.post('/api/tags', { name: '二', color: 'blue' })).body.tag
  const project = await stage.createProject('storefront', {
    name: names.project,
    categoryId: category.id,
    tagIds: [tag.id, second.id],
    description: '给客户的店面'
  })
  const other = await stage.createProject('other', { name: names.plain })
  const logs = ['access.log', 'error.log'].map(file => join(stage.sites, file))
  const line = (number: number): string =>
    `{"time":"2026-01-01T00:00:${String(number % 60).padStart(2, '0')}Z","level":"${number % 7 === 0 ? 'error' : 'info'}","msg":"GET /${number}"}\n`
  for (const log of logs) writeFileSync(log, Array.from({ length: 500 }, (_, number) => line(number)).join(''))
  const items = logs.map((filePath, index) => ({ filePath, label: index === 0 ? names.label : '错误' }))
  const sources = await client.post(`/api/projects/${project.id}/log-sources`, { items })
  const variables = [
    { name: names.variable, value: 'x'.repeat(200) },
    { name: names.secret, value: 'correct-horse', secret: true }
  ]
  await client.put(`/api/projects/${project.id}/variables`, { variables })
  await client.post('/api/notification-targets', {
    name: names.target,
    url: 'https://hooks.slack.com/services/T0/B0/x',
    enabled: false
  })

  const soon = new Date(Date.now() + 3 * 24 * 60 * 60 * 1000).toISOString()
  await client.post('/api/tokens', { name: names.token, role: 'operator', projectIds: [project.id], expiresAt: soon })
  const rotated = (await client.post('/api/tokens', { name: '流水线', role: 'viewer', showScripts: true })).body
  await client.post(`/api/tokens/${rotated.record.id}/rotate`, { overlapSeconds: 3600 })
  const revoked = (await client.post('/api/tokens', { name: 'grace', role: 'admin' })).body
  await client.delete(`/api/tokens/${revoked.record.id}`)

  const deploy = async (
    to: { id: string; token: string },
    version: number,
    fields: Array<[string, string]> = []
  ): Promise<string> => {
    const bytes = await zipOf({
      'index.html': `<h1>${version}</h1>`,
      'assets/site.css': 'h1 { color: red }',
      [`only-${version}.txt`]: 'x'
    })
    const { headers } = await stage
      .as(to.token)
      .upload([['projectId', to.id], ...fields, ['file', { filename: 'site.zip', bytes }]])
    return String(headers['x-svc-deploy-id'])
  }
  const live = await deploy(project, 1, [['provenance', JSON.stringify(provenance)]])
  await deploy(other, 1, [['message', '第一次']])
  await client.put(`/api/projects/${project.id}`, { postDeployScript: 'echo "one line"; exit 3' })
  const failed = await deploy(project, 2, [['provenance', JSON.stringify({ ...provenance, commit: commit('b') })]])
  const { spread, nodeId, rolloutId } = await furnishFleet(stage)
  const addresses = paths.map(path =>
    path
      .replace(':node', nodeId)
      .replace('rollouts/:id', `rollouts/${rolloutId}`)
      .replace('projects/:id', `projects/${project.id}`)
      .replace('deployments/:id', `deployments/${failed}`)
      .replace(':sourceId', sources.body.items?.[0]?.id ?? '')
  )
  return {
    stage,
    projectId: project.id,
    live,
    failed,
    spread,
    addresses,
    async startWaiting() {
      await client.put(`/api/projects/${other.id}`, { preDeployScript: 'echo waiting; exec sleep 600' })
      const form = new FormData()
      form.set('projectId', other.id)
      form.set('file', new Blob([new Uint8Array(await zipOf({ 'index.html': 'two' }))]), 'site.zip')
      const headers = { authorization: `Bearer ${other.token}` }
      const answer = await fetch(`${stage.url}/api/deploy/upload`, { method: 'POST', headers, body: form })
      // Its output goes on until the server stops: nobody reads it.
      await answer.body?.cancel()
      return answer.headers.get('x-svc-deploy-id') as string
    }
  }
}

/** Adds nodes that are not connected, and a project that is placed there with a rollout. */
async function furnishFleet(stage: Stage): Promise<{ spread: string; nodeId: string; rolloutId: string }> {
  const { client } = stage
  const hub = await stage.server.services.fleet.hub()
  const nodes = [
    await enrolledAgent({ url: stage.url, hub }, names.node),
    await enrolledAgent({ url: stage.url, hub }, 'b')
  ]
  const nodeId = nodes[0]?.nodeId as string
  await client.patch(`/api/nodes/${nodeId}`, { labels: { zone: names.zone, rack: '7' } })
  await client.post('/api/enrollments', { name: '第三' })
  const { id } = await stage.createProject('spread', { name: names.spread })
  await client.patch(`/api/projects/${id}/placements`, { add: nodes.map(node => ({ node: node.nodeId })) })
  const rolloutId = await beginRollout({ hub }, {}, id)
  await client.post(`/api/rollouts/${rolloutId}/halt`, { reason: '不对' })
  return { spread: id, nodeId, rolloutId }
}

export type Open = (page: Page, url: string, address: string) => Promise<void>

/** Opens a screen by its address. */
export const load: Open = async (page, url, address) => void (await page.goto(`${url}/${address}`))

/** An address without a page. */
export const lostAddress = 'nothing/is/here'

/** Opens a screen from within the panel, starting at an unrelated page. */
export const change: Open = async (page, url, address) => {
  const go = (to: string) =>
    page.evaluate(`history.pushState(null, '', ${JSON.stringify(to)}), dispatchEvent(new PopStateEvent('popstate'))`)
  await go(`${url}/${lostAddress}`)
  await page.locator('svc-page-lost').waitFor()
  if (address === lostAddress) return
  await go(`${url}/${address}`)
  await page.locator('svc-page-lost').waitFor({ state: 'detached' })
}

/** Waits until the screen has loaded its data. */
export async function settle(page: Page): Promise<void> {
  await page.locator('main h1').first().waitFor()
  const waiting = page.locator('[aria-busy=true]')
  while ((await waiting.count()) > 0) await waiting.first().waitFor({ state: 'detached' })
}
