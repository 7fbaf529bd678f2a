import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startNodes, type RealNode } from '../support/real-nodes.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { openDuring, photographer, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/* The pages of a real agent, which the panel shows through its hub. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('relayed')

t.test('deployments, files, logs and the terminal of a node are shown through the hub', { skip }, async t => {
  const stage = await startServer(t)
  const [node] = (await startNodes(t, stage, [{ name: 'plant-a1' }])) as [RealNode]
  const { id, sites, local } = node

  // What is on the node: a project with a deployment and a log file.
  const { project } = await local('POST', '/api/projects', { name: 'shop', deployPath: join(sites, 'shop') })
  const form = new FormData()
  form.set('projectId', project.id)
  form.set('file', new Blob([new Uint8Array(await zipOf({ 'index.html': '<p>hello</p>' }))]), 'a.zip')
  const upload = await fetch(`${node.agent.url}/api/deploy/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${project.token}` },
    body: form
  })
  await upload.text()
  const log = join(sites, 'access.log')
  writeFileSync(log, 'the first line\n')
  const { items } = await local('POST', `/api/projects/${project.id}/log-sources`, {
    items: [{ filePath: log, label: 'Access' }]
  })

  const { page, watch } = await openDuring(t, browser, stage.url, `nodes/${id}`, stillDesktop)
  const tabs = page.getByRole('navigation', { name: 'Pages of the node' })
  await tabs.getByRole('link', { name: 'Projects' }).click()
  await page.getByText('You are looking at the node').waitFor()
  await page.getByRole('link', { name: 'shop' }).click()
  await page.getByRole('heading', { name: 'shop' }).waitFor()
  t.match(page.url(), `/nodes/${id}/projects/${project.id}`)
  await page.locator('svc-live a').first().waitFor()
  t.equal(await page.getByRole('button', { name: /Deploy|Lock|Undo|Maintenance/ }).count(), 0, 'only what reads')
  t.same(await survey(page), [])
  await photograph(page, 'project')
  await page.locator('svc-deployments a').first().click()
  await page.locator('svc-log').getByText('extracted 1 file').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'deployment')

  await page.goto(`${stage.url}/nodes/${id}/projects/${project.id}/files?path=index.html`)
  await page.getByText('<p>hello</p>').waitFor()
  await photograph(page, 'file')
  await page.goto(`${stage.url}/nodes/${id}/projects/${project.id}/logs/${items[0].id}`)
  await page.locator('svc-log').getByText('the first line').waitFor()
  appendFileSync(log, 'a line that came later\n')
  await page.locator('svc-log').getByText('a line that came later').waitFor()
  await photograph(page, 'log')

  await tabs.getByRole('link', { name: 'System' }).click()
  await page.getByText('The server is healthy').waitFor()
  t.equal(await page.getByRole('navigation', { name: 'Pages', exact: true }).count(), 0)
  await tabs.getByRole('link', { name: 'Terminal' }).click()
  await page.locator('.tab:has([aria-selected=true]) .dot.open').waitFor()
  await page.keyboard.type(`echo $((6 * 7)) of the node\n`)
  await page
    .locator('svc-terminal .rows > div')
    .filter({ hasText: /^42 of the node/ })
    .first()
    .waitFor()
  await photograph(page, 'terminal')
  t.same(watch.complaints, [])
})
