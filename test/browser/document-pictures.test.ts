import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'
import { failsToSwap, obedientAgent } from '../support/obedient-agent.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { openDuring, until } from './stage.js'

/*
 * The pictures of README.md and docs/panel.md: a server with a few projects, and each page that a picture shows. With
 * UPDATE_PICTURES=1 in the environment the pictures in docs/pictures are written.
 */

const { browser, skip } = await startChromium(t)
const pictures = fileURLToPath(new URL('../../../docs/pictures/', import.meta.url))

async function photograph(page: Page, name: string, colorScheme: 'light' | 'dark' = 'light'): Promise<void> {
  if (process.env['UPDATE_PICTURES'] === undefined) return
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
  await page.screenshot({ path: join(pictures, `${name}.png`), scale: 'css' })
}

/** Deploys a site of one page; answers the deployment's id. */
async function deploy(
  stage: Stage,
  { id, token }: Project,
  message: string,
  fields: Record<string, string> = {}
): Promise<string> {
  const bytes = await zipOf({
    'index.html': `<h1>${message}</h1>\n`,
    'assets/app.js': `console.log(${JSON.stringify(message)})`,
    'robots.txt': ''
  })
  const answer = await stage
    .as(token)
    .upload([
      ['projectId', id],
      ['message', message],
      ...Object.entries(fields),
      ['file', { filename: 'a.zip', bytes }]
    ])
  return /dep_[a-z0-9]{16}/.exec(answer.text)?.[0] as string
}

async function label(stage: Stage, kind: 'categories' | 'tags', name: string, color: string): Promise<string> {
  const { body } = await stage.client.post(`/api/${kind}`, { name, color })
  return (body.category ?? body.tag).id as string
}

async function fill(stage: Stage, sites: string) {
  const [shops, internal] = [
    await label(stage, 'categories', 'Shops', 'blue'),
    await label(stage, 'categories', 'Internal', 'purple')
  ]
  const [open, nightly] = [
    await label(stage, 'tags', 'public', 'green'),
    await label(stage, 'tags', 'nightly', 'yellow')
  ]
  const create = (name: string, fields: object): Promise<Project> =>
    stage.createProject(name, { deployPath: join(sites, name), ...fields })
  const storefront = await create('storefront', {
    description: 'Harbour Books, the shop',
    categoryId: shops,
    tagIds: [open]
  })
  const checkout = await create('checkout', {
    description: 'Basket and payment',
    categoryId: shops,
    tagIds: [open, nightly],
    env: 'staging'
  })
  const handbook = await create('handbook', { description: 'For people who work here', categoryId: internal })
  await create('reports', { description: 'Not deployed yet', categoryId: internal, tagIds: [nightly] })
  await stage.client.put(`/api/projects/${storefront.id}/pin`, { pinned: true })
  for (const message of ['Opening hours', 'Search by author', 'New header']) await deploy(stage, storefront, message)
  await deploy(stage, handbook, 'Holidays of next year')
  await deploy(stage, checkout, 'Gift cards')
  const failed = await deploy(stage, checkout, 'Pay by invoice', {
    postDeploy:
      'echo "Restarting checkout"; echo "Error: listen EADDRINUSE: address already in use :::8080" >&2; exit 1'
  })
  return { storefront, failed }
}

/** Places a project on nodes, and rolls two releases out, of which the second one is halted. Returns its id. */
async function fillFleet(t: { teardown(work: () => unknown): void }, stage: Stage, project: Project): Promise<string> {
  const hub = await stage.server.services.fleet.hub()
  const names = ['a', 'b', 'c'].flatMap(letter =>
    Array.from({ length: 6 }, (_, index) => `plant-${letter}${index + 1}`)
  )
  const agents = []
  for (const name of names) agents.push(await obedientAgent(t, { url: stage.url, hub }, { name }))
  await stage.client.put('/api/nodes/plant-c5/drain', { drained: true })
  await stage.client.patch(`/api/projects/${project.id}/placements`, { add: names.map(node => ({ node })) })
  const deployments = (await stage.client.get(`/api/logs?projectId=${project.id}`)).body
  const begin = (index: number): Promise<string> => {
    const { id: deployId, treeSha256, archiveSha256, archiveBytes } = deployments[index]
    const release = { deployId, treeSha256, archiveSha256, archiveBytes, sealed: null }
    return hub.begin({ projectId: project.id, policy: { ...defaultRolloutPolicy, then: '30%' }, ...release })
  }
  const ended = (id: string, state: string): Promise<void> =>
    until(async () => (await stage.client.get(`/api/rollouts/${id}`)).body.rollout.state === state)
  await ended(await begin(1), 'done')
  agents[3]?.behave(failsToSwap)
  const id = await begin(0)
  await ended(id, 'halted')
  return id
}

t.test('the pages that the documents show are there', { skip }, async t => {
  const sites = mkdtempSync(join(tmpdir(), 'sites-'))
  t.teardown(() => rmSync(sites, { recursive: true, force: true }))
  const stage = await startServer(t)
  const { storefront, failed } = await fill(stage, sites)
  const { page } = await openDuring(t, browser, stage.url, '', {
    viewport: { width: 1120, height: 760 },
    reducedMotion: 'reduce'
  })

  await t.test('overview', async () => {
    await page.getByText('Pay by invoice').first().waitFor()
    await photograph(page, 'overview')
  })
  await t.test('a failed deployment', async () => {
    await page.goto(`${stage.url}/deployments/${failed}`)
    await page.getByText('address already in use').first().waitFor()
    await photograph(page, 'failed')
  })
  await t.test('projects', async () => {
    await page.goto(`${stage.url}/projects`)
    await page.getByText('Basket and payment').first().waitFor()
    await photograph(page, 'projects')
  })
  await t.test('a project', async () => {
    await page.goto(`${stage.url}/projects/${storefront.id}`)
    await page.getByText('New header').first().waitFor()
    await photograph(page, 'project')
  })
  await t.test('the fleet and a rollout', async t => {
    const rolloutId = await fillFleet(t, stage, storefront)
    await page.goto(`${stage.url}/nodes`)
    await page.getByText('plant-c6').first().waitFor()
    await photograph(page, 'fleet')
    await page.goto(`${stage.url}/rollouts/${rolloutId}`)
    await page.getByText('1 failed (allowed: 0)').waitFor()
    await page.locator('svc-rollout-failures pre').waitFor()
    await photograph(page, 'rollout')
    await page.goto(`${stage.url}/projects/${storefront.id}/nodes`)
    await page.getByText('Nodes of this project').waitFor()
  })
  await t.test('a log file', async () => {
    mkdirSync(join(sites, 'logs'))
    const path = join(sites, 'logs/access.log')
    writeFileSync(path, '')
    for (let index = 0; index < 400; index++) {
      const at = new Date(Date.parse('2026-01-31T12:00:00Z') + index * 1700).toISOString()
      appendFileSync(
        path,
        `${at} 10.0.0.${index % 90} "GET /books/${1000 + index * 7}" ${index % 61 === 0 ? 500 : 200} ${(index * 37) % 900} ms\n`
      )
    }
    const { body } = await stage.client.post(`/api/projects/${storefront.id}/log-sources`, {
      items: [{ label: 'Access log', filePath: path }]
    })
    await page.goto(`${stage.url}/projects/${storefront.id}/logs/${body.items[0].id}`)
    await page.getByText('GET /books/3793').first().waitFor()
    // Text takes most of the size of a picture.
    await page.setViewportSize({ width: 1120, height: 520 })
    await photograph(page, 'log', 'dark')
    await page.emulateMedia({ colorScheme: 'light' })
  })
  await t.test('a terminal', async () => {
    await page.goto(`${stage.url}/terminal?project=${storefront.id}`)
    await page.locator('.tab:has([aria-selected=true]) .dot.open').waitFor()
    await page.keyboard.type(`PS1='svc@harbour:~$ '; clear\n`)
    // The shell throws away what is typed before its prompt.
    await page
      .locator('svc-terminal .rows > div')
      .filter({ hasText: /^svc@harbour:~\$ *$/ })
      .first()
      .waitFor()
    await page.keyboard.type(`cd ${sites} && ls -1 storefront && cat storefront/index.html\n`)
    await page
      .locator('svc-terminal .rows > div')
      .filter({ hasText: /<h1>New header/ })
      .first()
      .waitFor()
    await photograph(page, 'terminal')
  })
})
