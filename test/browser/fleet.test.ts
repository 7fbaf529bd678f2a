import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Page } from 'playwright-core'
import type { ListedNode } from '../../lib/model/node.js'
import { startNode } from '../support/fake-node.js'
import { startCutProxy } from '../support/cut-proxy.js'
import { enrolledAgent, FakeAgent } from '../support/fake-agent.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { nodeOf, placementOf, startFleetStandIn } from '../support/fleet-stand-in.js'
import { startNodes, type RealNode } from '../support/real-nodes.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium } from './chromium.js'
import {
  cardOf,
  comeBack,
  giveSession,
  isWithin,
  onPhone,
  openDuring,
  photographer,
  saveCard,
  submitCard,
  stillDesktop,
  until
} from './stage.js'
import { latinWords, survey } from './survey.js'

/*
 * The fleet in a real browser: nodes, one node, and its own pages through this server. Most tests share a hub with real
 * agents, and leave it as it was.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('fleet')

const longName = 'plant-with-a-name-that-is-longer-than-any-tile-is-wide.internal'
const fleet = skip ? (undefined as never) : await startFleet()

/** A hub, nodes, and a project whose second release is on all nodes but the drained one. A file was edited on another. */
async function startFleet() {
  const stage = await startServer(t)
  const nodes = await startNodes(
    t,
    stage,
    ['plant-a1', 'plant-a2', 'plant-a3', 'plant-a4', longName].map((name, index) => ({
      name,
      labels: { zone: index % 2 === 0 ? 'us' : 'eu' }
    })),
    { driftEveryMs: 500 }
  )
  const shop = await stage.createProject('shop')
  const add = nodes.map(({ id, sites }) => ({ node: id, deployPath: join(sites, 'shop') }))
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add })
  const push = async (text: string): Promise<string> => {
    const upload = await stage.as(shop.token).upload([
      ['projectId', shop.id],
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': text }) }]
    ])
    return upload.headers['x-svc-deploy-id'] as string
  }
  await push('<p>one</p>')
  await stage.client.put('/api/nodes/plant-a3/drain', { drained: true })
  const deployId = await push('<p>two</p>')
  const last = nodes[4] as RealNode
  writeFileSync(join(last.sites, 'shop/index.html'), 'edited')
  await until(async () => (await stage.client.get(`/api/nodes/${last.id}`)).body.node.placements[0].isDrifted)
  return { stage, nodes, shop, deployId }
}

/** Returns the names of the drained nodes. */
async function drained(stage: Stage): Promise<string[]> {
  const { nodes } = (await stage.client.get('/api/nodes')).body as { nodes: ListedNode[] }
  return nodes.filter(({ isDrained }) => isDrained).map(({ name }) => name)
}

t.test('a server without nodes explains how to begin, and gives a token that works once', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch } = await openDuring(t, browser, stage.url, 'nodes', stillDesktop)
  await page.getByText('No nodes yet').waitFor()
  const navigation = page.getByRole('navigation', { name: 'Main navigation' })
  t.equal(await navigation.getByText('Fleet').count(), 0, 'the navigation stays as it was')
  t.same(await survey(page), [])
  await photograph(page, 'empty')
  await page.getByRole('link', { name: 'Add node' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name of the node').fill('plant-a1')
  await dialog.getByLabel('Labels').fill('zone')
  await dialog.getByRole('button', { name: 'Create token' }).click()
  await dialog.getByText('“zone” is not a label').waitFor()
  await dialog.getByLabel('Labels').fill('zone=eu\nrack=7')
  t.same(await survey(page), [])
  await photograph(page, 'enroll')
  await dialog.getByRole('button', { name: 'Create token' }).click()
  t.equal(
    await dialog.locator('.command pre').first().textContent(),
    `curl -fsSL ${stage.url}/install.sh | sh -s agent`
  )
  const { archives } = (await stage.client.get('/api/settings/status')).body
  await dialog.getByText(archives.agent).waitFor()
  await dialog.getByText(`Only this machine reaches ${stage.url}.`).waitFor()
  const command = (await dialog.locator('.command[tabindex] pre').textContent()) as string
  const [, token] = /^SVC_ENROLL_TOKEN=(svcnode_\S+) svc agent --hub http:\S+$/.exec(command) as unknown as [
    string,
    string
  ]
  t.same(await survey(page), [])
  await photograph(page, 'token')
  await dialog.getByRole('button', { name: 'Done' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByText('Waiting for their machine').waitFor()
  t.notMatch(await page.content(), /svcnode_/, 'the token is gone')
  await navigation.getByText('Fleet').waitFor()
  await photograph(page, 'pending')

  t.equal((await new FakeAgent(stage.url).enroll(token)).status, 200)
  await comeBack(page, page.getByRole('link', { name: 'plant-a1' }))
  await page.getByText('Waiting for their machine').waitFor({ state: 'detached' })
  t.match((await stage.client.get('/api/nodes/plant-a1')).body.node.labels, { zone: 'eu', rack: '7' })

  await page.goto(`${stage.url}/nodes?enroll`)
  await dialog.getByRole('button', { name: 'Create token' }).click()
  await dialog.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: 'Revoke' }).click()
  await page.getByText('Waiting for their machine').waitFor({ state: 'detached' })
  t.same((await stage.client.get('/api/enrollments')).body.enrollments, [])
  t.same(watch.complaints, [])
})

t.test('nodes by tree, filtered, as a list', { skip }, async t => {
  const { page, watch } = await openDuring(t, browser, fleet.stage.url, 'nodes', stillDesktop)
  await page.locator('svc-node-grid section').nth(1).waitFor()
  t.same(
    await page.locator('svc-node-grid section').evaluateAll(all => all.map(each => each.querySelectorAll('li').length)),
    [4, 1]
  )
  await page.locator('.drifted', { hasText: longName }).waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'grid', { isWhole: true })
  await page.getByRole('button', { name: 'List' }).click()
  await page.locator('svc-node-list li').nth(4).waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'list')
  await page.getByLabel('Label', { exact: true }).selectOption('zone=eu')
  await shown(page, '2 of 5 nodes')
  await page.getByRole('searchbox').fill('nowhere')
  await page.getByText('No node matches the filter.').waitFor()
  await page.getByRole('link', { name: 'Show all' }).click()
  await page.setViewportSize({ width: 390, height: 844 })
  for (const view of ['grid', 'list']) {
    await page.goto(`${fleet.stage.url}/nodes?view=${view}`)
    await page.locator(`svc-node-${view} li`).first().waitFor()
    t.ok(await isWithin(page))
    await photograph(page, `${view}-phone`, { isWhole: true })
  }
  t.same(watch.complaints, [])
})

t.test('a halted rollout leads to its decision, and what failed comes first', { skip }, async t => {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const names = ['plant-a1', 'plant-a2', 'plant-a3']
  const agents = await Promise.all(names.map(name => enrolledAgent({ url: stage.url, hub }, name)))
  const shop = await stage.createProject('shop')
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add: names.map(node => ({ node })) })
  const rolloutId = await beginRollout({ hub }, {}, shop.id)
  const failed = agents[1] as FakeAgent
  const node = `/api/rollouts/${rolloutId}/nodes/${failed.nodeId}`
  const { attempt } = (await stage.client.get(node)).body.node
  const nothing = { failedStep: null, output: null, tookMs: null }
  const answer = {
    projectId: shop.id,
    rolloutId,
    attempt,
    answer: 'refused' as const,
    error: 'No space left on device'
  }
  await failed.report({ answers: [{ ...answer, ...nothing }] })
  for (const agent of [agents[0], failed]) await agent?.follow()
  await until(async () => (await stage.client.get(`/api/rollouts/${rolloutId}`)).body.rollout.state === 'halted')

  const { page, watch } = await openDuring(t, browser, stage.url, 'nodes', stillDesktop)
  await page.getByText('2 to look at').waitFor()
  await page.locator('svc-waiting').getByText('rollout halted').waitFor()
  const tiles = page.locator('svc-node-grid li')
  t.match(await tiles.first().textContent(), /plant-a2.*Failed/)
  t.match(await tiles.nth(1).textContent(), /Not connected.*plant-a3/)
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'halted')
  await page.getByRole('link', { name: '2 to look at' }).click()
  await tiles.nth(2).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'List' }).click()
  await page.locator('svc-node-list svc-mark', { hasText: 'Failed' }).waitFor()
  const { page: small } = await openDuring(t, browser, stage.url, 'nodes', onPhone)
  await small.locator('svc-waiting').getByText('rollout halted').waitFor()
  t.ok(await isWithin(small))
  t.same(await survey(small), [], 'readable and named')
  await photograph(small, 'halted-phone', { isWhole: true })

  await page.locator('svc-waiting').getByRole('link', { name: 'Decide…' }).click()
  await page.getByRole('heading', { level: 1, name: 'Rollout 1 of shop' }).waitFor()
  const took = page.locator('.lead svc-span')
  const words = await took.textContent()
  await sleep(2200)
  t.equal(await took.textContent(), words, 'the wait is no part of its duration')
  t.same(watch.complaints, [])
})

const shown = (page: Page, count: string) => page.locator('svc-choice-head > p', { hasText: count }).waitFor()

t.test('several nodes are drained and undrained together', { skip }, async t => {
  const { stage } = fleet
  const { page, watch, context } = await openDuring(t, browser, stage.url, 'nodes?view=list', stillDesktop)
  const dialog = page.getByRole('dialog')
  const all = page.getByLabel('Choose all shown')

  // By a label. The node that is drained already is passed over.
  await page.getByLabel('Label', { exact: true }).selectOption('zone=us')
  await shown(page, '3 of 5 nodes')
  await all.check()
  await shown(page, '3 nodes chosen')
  t.same(await survey(page), [])
  await photograph(page, 'chosen')
  await page.getByRole('button', { name: 'Drain…', exact: true }).click()
  await dialog.getByRole('heading', { name: 'Drain 2 nodes?' }).waitFor()
  await dialog.getByText('Already drained: 1 node').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'drain-several')
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  t.same(await drained(stage), ['plant-a3'])
  await page.getByRole('button', { name: 'Drain…', exact: true }).click()
  await dialog.getByRole('button', { name: 'Drain 2 nodes', exact: true }).click()
  await page.getByText('Drained: 2 nodes').waitFor()
  await shown(page, '3 of 5 nodes')
  t.same(await drained(stage), ['plant-a1', 'plant-a3', longName])
  await page.locator('svc-node-list svc-mark', { hasText: 'Drained' }).nth(2).waitFor()
  await page.getByRole('link', { name: 'Show all' }).click()

  // With the keyboard alone: two rows of the list, the question, and the focus after it.
  await page.locator('svc-node-list a').first().focus()
  await page.keyboard.press(' ')
  await page.keyboard.press('Shift+ArrowDown')
  await page.keyboard.press('Shift+ArrowDown')
  await shown(page, '3 nodes chosen')
  await page.keyboard.press('Escape')
  await shown(page, '5 nodes')
  await page.keyboard.press('Control+a')
  await shown(page, '5 nodes chosen')
  for (let press = 0; press < 9; press++) {
    if (await page.evaluate(`document.activeElement.textContent === 'Undrain…'`)) break
    await page.keyboard.press('Shift+Tab')
  }
  await page.keyboard.press('Enter')
  await dialog.getByText('Not drained: 2 nodes').waitFor()
  for (let press = 0; press < 4; press++) {
    if (await page.evaluate(`document.activeElement.textContent === 'Undrain 3 nodes'`)) break
    await page.keyboard.press('Tab')
  }
  await page.keyboard.press('Enter')
  await page.getByText('Undrained: 3 nodes').waitFor()
  t.same(await drained(stage), [])
  await until(() => page.evaluate(`document.activeElement.getAttribute('aria-label') === 'Choose all shown'`))
  await shown(page, '5 nodes')

  // What was left out gets what is desired now.
  await until(async () => {
    const { nodes } = (await stage.client.get('/api/nodes')).body as { nodes: ListedNode[] }
    return new Set(nodes.map(({ placements }) => placements[0]?.liveTree)).size === 1
  })

  // In the grid, by mouse and with Space. A node that is forgotten meanwhile is named.
  const { nodeId } = await enrolledAgent({ url: stage.url, hub: await stage.server.services.fleet.hub() }, 'plant-gone')
  await page.getByRole('button', { name: 'Grid' }).click()
  await comeBack(page, page.getByLabel('Choose plant-gone'))
  await page.getByLabel('Choose plant-gone').click()
  await page.getByRole('link', { name: 'plant-a2', exact: true }).focus()
  await page.keyboard.press(' ')
  await shown(page, '2 nodes chosen')
  t.same(await survey(page), [])
  await photograph(page, 'chosen-grid')
  await page.getByRole('button', { name: 'Drain…', exact: true }).click()
  t.equal((await stage.client.delete(`/api/nodes/${nodeId}`)).status, 200)
  await dialog.getByRole('button', { name: 'Drain 2 nodes', exact: true }).click()
  await page.getByText('Drained: 1 node', { exact: true }).waitFor()
  await page.getByText('Could not change 1 node:').waitFor()
  await page.locator('.failures li', { hasText: 'plant-gone' }).filter({ hasText: 'not found' }).waitFor()
  t.same(await drained(stage), ['plant-a2'])
  t.same(await survey(page), [])
  await photograph(page, 'drain-failed')
  await page.getByRole('button', { name: 'Close list' }).click()
  await page.locator('.failures').waitFor({ state: 'detached' })
  await page.getByLabel('Choose plant-a1', { exact: true }).click()
  await page.getByLabel('Choose plant-a4', { exact: true }).click({ modifiers: ['Shift'] })
  await shown(page, '4 nodes chosen')
  await page.getByRole('button', { name: 'Choose none' }).click()

  // A few at a time, until it is stopped.
  const held: Array<() => void> = []
  await context.route(/\/drain$/, async route => {
    await new Promise<void>(resolve => held.push(resolve))
    await route.continue()
  })
  await stage.client.put('/api/nodes/plant-a2/drain', { drained: false })
  await all.check()
  await comeBack(page, page.locator('svc-node-bulk:not(:has-text("Undrain…"))'))
  await page.getByRole('button', { name: 'Drain…', exact: true }).click()
  await dialog.getByRole('button', { name: 'Drain 5 nodes', exact: true }).click()
  await dialog.getByText('0 of 5 nodes').waitFor()
  await until(async () => held.length === 4)
  t.same(await survey(page), [])
  await photograph(page, 'draining')
  await page.locator('button:focus', { hasText: 'Stop' }).waitFor()
  await page.keyboard.press('Enter')
  for (const release of held) release()
  await page.getByText('Stopped. Not changed and still chosen: 1 node').waitFor()
  await shown(page, '1 node chosen')
  t.equal((await drained(stage)).length, 4)
  await context.unroute(/\/drain$/)
  t.same(
    watch.complaints.filter(each => !/ 404 /.test(each)),
    []
  )

  const vera = (await stage.client.post('/api/tokens', { name: 'vera', role: 'viewer' })).body.token
  const viewer = await openWatched(browser, stage.url, stillDesktop)
  t.teardown(() => viewer.context.close())
  await giveSession(viewer.context, stage.url, vera)
  for (const view of ['grid', 'list']) {
    await viewer.page.goto(`${stage.url}/nodes?view=${view}`)
    await viewer.page.getByRole('link', { name: 'plant-a1' }).waitFor()
    t.equal(await viewer.page.getByRole('checkbox').count(), 0, `a viewer chooses nothing in the ${view}`)
    await viewer.page.keyboard.press('Control+a')
    t.equal(await viewer.page.getByText(/chosen/).count(), 0)
  }
})

t.test('what is stopped by a lost connection stays chosen', { skip }, async t => {
  const { stage, nodes } = fleet
  const cable = await startCutProxy(t, stage.url)
  const { page } = await openDuring(t, browser, cable.url, 'nodes?view=list', { ...stillDesktop, locale: 'zh-CN' })
  const before = await drained(stage)
  await page.getByLabel('选择显示的全部').check()
  await page.getByRole('button', { name: '恢复启用…' }).click()
  cable.cut()
  await page.getByRole('dialog').locator('button.primary').click()
  await page
    .locator('.failures li')
    .nth(before.length - 1)
    .waitFor()
  t.same(await latinWords(page, ['svc', longName, 'zone=', 'plant-a', 'dev']), [])
  await photograph(page, 'drain-lost-zh')
  cable.mend()
  await page.locator('svc-choice-head').getByText(`已选择${before.length} 个节点`).waitFor()
  t.same(await drained(stage), before)
  await page.getByRole('button', { name: '恢复启用…' }).click()
  await page.getByRole('dialog').locator('button.primary').click()
  await page.locator('svc-choice-head').getByText(`${nodes.length} 个节点`).waitFor()
  t.same(await drained(stage), [])
  t.equal(await page.locator('.failures').count(), 0)
})

t.test('a node and its own pages', { skip }, async t => {
  const { stage, shop, nodes } = fleet
  const { id } = nodes[4] as RealNode
  const { page, watch } = await openDuring(t, browser, stage.url, `nodes/${id}`, stillDesktop)
  await page.getByText('Projects on this node').waitFor()
  await page.getByText('Drifted').first().waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'node')
  for (const [path, wanted] of [
    ['projects', 'svc-project-list a'],
    [`projects/${shop.id}`, 'svc-deployments a'],
    [`projects/${shop.id}/files`, 'text=index.html'],
    [`projects/${shop.id}/logs`, 'text=No log files yet'],
    ['deployments', 'svc-deployments a'],
    ['logs', 'text=No log files yet'],
    ['system', 'text=The server is healthy'],
    ['terminal', 'svc-terminal']
  ] as const) {
    await page.goto(`${stage.url}/nodes/${id}/${path}`)
    await page.getByText('You are looking at the node').waitFor()
    await page.locator(`main >> ${wanted}`).first().waitFor()
    await photograph(page, `node-${path.replaceAll(/\W/g, '-').replace(shop.id, 'shop')}`)
  }
  t.same(watch.complaints, [])
})

t.test('a node with an agent of before is named, on all pages and in Chinese', { skip }, async t => {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const old = await startNode({ url: stage.url, hub }, 'plant-old')
  t.teardown(() => old.close())
  await startNodes(t, stage, [{ name: 'plant-new' }])
  const { page, watch } = await openDuring(t, browser, stage.url, 'nodes?view=list', stillDesktop)
  await page.locator('svc-node-list .row', { hasText: 'plant-old' }).getByText('Update the agent').waitFor()
  t.equal(await page.getByText('Update the agent').count(), 1, 'the other node is not outdated')
  t.same(await survey(page), [])
  await photograph(page, 'outdated')
  await page.goto(`${stage.url}/nodes?view=grid`)
  await page.locator('svc-node-grid li', { hasText: 'plant-old' }).getByText('Update the agent').waitFor()
  await page.getByRole('link', { name: 'plant-old' }).click()
  await page.locator('.lead').getByText('Update the agent').waitFor()
  t.same(await survey(page), [])
  t.same(watch.complaints, [])
  const phone = await openDuring(t, browser, stage.url, 'nodes?view=list', { ...onPhone, locale: 'zh-CN' })
  await phone.page.getByText('请更新代理程序').waitFor()
  t.same(await survey(phone.page), [])
})

t.test('a node is drained, changed and forgotten', { skip }, async t => {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const { nodeId } = await enrolledAgent({ url: stage.url, hub }, 'plant-a1')
  await enrolledAgent({ url: stage.url, hub }, 'plant-a2')
  const { page, watch } = await openDuring(t, browser, stage.url, `nodes/${nodeId}`, stillDesktop)
  await page.getByText('No project is placed here').waitFor()
  await page.getByRole('button', { name: 'Drain…' }).click()
  const dialog = page.getByRole('dialog')
  t.same(await survey(page), [])
  await photograph(page, 'drain')
  await dialog.getByRole('button', { name: 'Drain', exact: true }).click()
  await page.getByRole('button', { name: 'Undrain' }).waitFor()
  await page.getByRole('button', { name: 'Undrain' }).click()
  await page.getByRole('button', { name: 'Drain…' }).waitFor()
  await page.getByRole('button', { name: 'Name and labels…' }).click()
  await dialog.getByLabel('Name', { exact: true }).fill('west-1')
  await dialog.getByLabel('Labels').fill('zone=west')
  await photograph(page, 'labels')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('heading', { name: 'west-1' }).waitFor()
  await page.locator('.labels').getByText('zone=west').waitFor()
  await page.getByRole('button', { name: 'Forget…' }).click()
  await dialog.getByLabel('Type “west-1” to confirm').fill('west')
  await dialog.getByRole('button', { name: 'Forget' }).click()
  await dialog.getByText('The name does not match.').waitFor()
  await photograph(page, 'forget')
  await dialog.getByLabel('Type “west-1” to confirm').fill('west-1')
  await dialog.getByRole('button', { name: 'Forget' }).click()
  await page.getByText('west-1 was removed from the fleet').waitFor()
  await page.getByText('plant-a2').waitFor()
  t.equal((await stage.client.get('/api/nodes')).body.nodes.length, 1)
  t.same(watch.complaints, [])
})

t.test('a node that is not connected says so in place of its pages, until it is back', { skip }, async t => {
  const { stage, nodes } = fleet
  const node = nodes[3] as RealNode
  await node.stop()
  const { page, watch } = await openDuring(t, browser, stage.url, `nodes/${node.id}`, stillDesktop)
  await page.getByText('What is shown here is what it said last').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'away')
  await page.getByRole('link', { name: 'Logs', exact: true }).last().click()
  await page.getByRole('heading', { name: 'This node is not connected' }).waitFor()
  await page.getByText('You are looking at the node').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'away-page')
  await node.start()
  await page.getByText('No log files yet').waitFor()
  t.match(page.url(), `nodes/${node.id}/logs`)
  // The links of the frame lead to this server, those of the page to the node.
  t.equal(
    await page.getByRole('link', { name: 'Go to projects' }).evaluate(a => String(a)),
    `${stage.url}/nodes/${node.id}/projects`
  )
  await page.getByRole('navigation', { name: 'Main navigation' }).getByRole('link', { name: 'Projects' }).click()
  await page.getByRole('link', { name: 'New project' }).waitFor()
  t.equal(page.url(), `${stage.url}/projects`)
  t.equal(await page.getByText('You are looking at the node').count(), 0)
  await page.goBack()
  await page.getByText('You are looking at the node').waitFor()
  t.same(watch.complaints, [])
})

t.test('a project is placed on nodes, and offers only what its server can do', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const hub = await stage.server.services.fleet.hub()
  for (let number = 1; number <= 20; number++) {
    const { nodeId } = await enrolledAgent({ url: stage.url, hub }, `plant-a${number}`)
    await stage.client.patch(`/api/nodes/${nodeId}`, { labels: { zone: number % 2 === 0 ? 'eu' : 'us' } })
  }
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${shop.id}/nodes`, stillDesktop)
  await page.getByText('This project is deployed on this server only').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'unplaced')
  await page.getByRole('button', { name: 'Place on nodes…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('searchbox').fill('zone=eu')
  await dialog.getByRole('button', { name: 'Choose all 10' }).click()
  await dialog.getByText('10 of 20 chosen').waitFor()
  await dialog.getByRole('searchbox').fill('a17')
  await dialog.getByRole('checkbox').check()
  await dialog.getByLabel('Directory on these nodes').fill('/srv/shop')
  t.same(await survey(page), [])
  await photograph(page, 'place')
  await dialog.getByRole('button', { name: 'Place on 11 nodes' }).click()
  await page.getByText('A push is rolled out to these nodes.').waitFor()
  const placed = (await stage.client.get(`/api/projects/${shop.id}/placements`)).body.placements
  t.equal(placed.length, 11)
  t.match(placed[0], { deployPath: '/srv/shop' })
  t.same(await survey(page), [])
  await photograph(page, 'placed')
  t.equal(await page.getByRole('navigation', { name: 'Project' }).getByText('Files').count(), 0)

  await beginRollout({ hub }, {}, shop.id)
  await page.goto(`${stage.url}/projects/${shop.id}/files`)
  await page.getByText('The files of this project are on its nodes').waitFor()
  t.match(
    await page.getByRole('link', { name: 'plant-a2', exact: true }).getAttribute('href'),
    new RegExp(`^nodes/node_\\w+/projects/${shop.id}/files$`)
  )
  await photograph(page, 'files-elsewhere')

  // Logs and PM2 are those of the nodes, too. What this server has is named as such.
  t.equal((await stage.client.put(`/api/projects/${shop.id}`, { pm2AppName: 'shop' })).status, 200)
  await page.goto(`${stage.url}/projects/${shop.id}/logs`)
  await page.getByText('The log files of this project are on its nodes').waitFor()
  t.equal(await page.getByRole('link', { name: 'Add log files' }).count(), 0)
  t.equal(await page.getByRole('navigation', { name: 'Project' }).getByText('Files').count(), 0)
  t.same(await survey(page), [])
  await photograph(page, 'logs-elsewhere')
  const items = [{ label: 'Old log', filePath: '/var/log/shop.log' }]
  t.equal((await stage.client.post(`/api/projects/${shop.id}/log-sources`, { items })).status, 200)
  await page.reload()
  await page.getByRole('heading', { name: 'Log files on this server' }).waitFor()
  t.match(
    await page.getByRole('link', { name: 'plant-a2', exact: true }).getAttribute('href'),
    new RegExp(`^nodes/node_\\w+/projects/${shop.id}/logs$`)
  )
  await page.getByRole('link', { name: 'Old log' }).waitFor()
  await photograph(page, 'logs-here-and-elsewhere')
  await page.getByRole('navigation', { name: 'Project' }).getByRole('link', { name: 'Deployments' }).click()
  await page.getByText('0 of 11 good').waitFor()
  t.equal(await page.getByRole('button', { name: 'Maintenance…' }).count(), 0)
  t.equal(await page.locator('svc-pm2').count(), 0, 'its application runs on the nodes')
  t.same(await survey(page), [])
  await photograph(page, 'placed-deployments')

  await page.goto(`${stage.url}/projects/${shop.id}/settings`)
  const form = cardOf(page, 'Fleet')
  await form.getByLabel('Nodes of the first wave').fill('2')
  await form.getByRole('radio', { name: 'The next wave begins after a time.' }).check()
  await form.getByLabel('Seconds between two waves').fill('90')
  await form.getByLabel('Nodes that may be unreachable').fill('much')
  await submitCard(page, 'Fleet')
  await form.locator('#policy-rollout-maxUnreachable-error').waitFor()
  await form.getByLabel('Nodes that may be unreachable').fill('10%')
  await form.getByRole('radio', { name: 'The nodes of the wave are reverted.' }).check()
  t.same(await survey(page), [])
  await form.scrollIntoViewIfNeeded()
  await photograph(page, 'policy')
  await saveCard(page, 'Fleet')
  t.match((await stage.client.get(`/api/projects/${shop.id}`)).body.policy.rollout, {
    canary: 2,
    pause: 90,
    maxUnreachable: '10%',
    onFailure: 'revert_wave'
  })

  // While a rollout is going on, no node of it is removed.
  const [{ id: rolloutId }] = (await stage.client.get(`/api/rollouts?projectId=${shop.id}`)).body.rollouts
  t.equal((await stage.client.post(`/api/rollouts/${rolloutId}/halt`)).status, 200)
  await page.goto(`${stage.url}/projects/${shop.id}/nodes`)
  await page.getByRole('button', { name: 'Remove from plant-a17' }).click()
  await photograph(page, 'remove')
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove from plant-a17' }).waitFor({ state: 'detached' })
  await page.setViewportSize({ width: 390, height: 844 })
  t.ok(await isWithin(page))
  await photograph(page, 'placed-phone')
  // The policy that is refused, and the log file that does not exist yet.
  t.same(
    watch.complaints.filter(each => !/ 400 | 404 .*log-sources/.test(each)),
    []
  )
})

t.test('a deployment that was rolled out leads to its rollout, and goes back in waves', { skip }, async t => {
  const { stage, deployId } = fleet
  const { page, watch } = await openDuring(t, browser, stage.url, `deployments/${deployId}`, stillDesktop)
  await page.getByRole('link', { name: /Done.*5 of 5 good/ }).waitFor()
  await page.locator('svc-steps').getByText('Rollout').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'deployment')
  await page.getByRole('button', { name: /Roll back/ }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('rolled out to the nodes of the project again').waitFor()
  t.equal(await dialog.getByRole('radio').count(), 0, 'the nodes keep what is needed to go back exactly')
  t.same(await survey(page), [])
  await photograph(page, 'deployment-back')
  await page.goto(`${stage.url}/deployments/${deployId}?against`)
  await page.getByText('The files differ. The pages of the nodes list them.').waitFor()
  t.same(watch.complaints, [], 'no list of files is asked for that this server does not have')
})

t.test('ten thousand nodes are found, and scroll', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  fleet.records.nodes = Array.from({ length: 10_000 }, (_, index) => {
    const node = nodeOf(index + 1, { isConnected: index % 1000 !== 0 })
    node.placements = [placementOf(node, shop, { liveTree: (index < 2500 ? '4f1a9c0d' : '77c0be12').repeat(8) })]
    return node
  })
  const { page, watch } = await openDuring(t, browser, fleet.url, 'nodes', stillDesktop)
  await page.getByText('10,000 nodes').first().waitFor()
  t.ok((await page.locator('svc-node-list li').count()) < 60, 'only the visible rows are on the page')
  await page.getByRole('searchbox').fill('plant-a9999')
  await page.getByText('1 of 10,000 nodes').waitFor()
  await page.getByRole('searchbox').fill('')
  await page.getByRole('button', { name: 'Grid' }).click()
  await page.getByRole('link', { name: 'Show all 7,500 as a list' }).waitFor()
  t.ok((await page.locator('svc-node-grid li').count()) <= 120)
  await photograph(page, 'many-grid')
  await page.getByRole('link', { name: 'Show all 7,500 as a list' }).click()
  await page.getByText('7,500 of 10,000 nodes').waitFor()
  await page.locator('svc-node-list a').first().focus()
  await page.keyboard.press('End')
  await page.getByRole('link', { name: 'plant-a10000' }).waitFor()
  await photograph(page, 'many-list')

  // All are chosen, some drained, until it is stopped.
  await page.locator('svc-choice-head').getByRole('link', { name: 'Show all' }).click()
  await page.getByLabel('Choose all shown').check()
  await page.getByText('10,000 nodes chosen').waitFor()
  await page.getByRole('button', { name: 'Drain…', exact: true }).click()
  await page.getByRole('button', { name: 'Drain 10,000 nodes' }).click()
  await until(() => page.evaluate(`document.querySelector('progress')?.value > 50`))
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByText(/^Stopped\. Not changed and still chosen: 9,\d+ nodes$/).waitFor()
  t.ok(fleet.records.asked.length < 1000)
  t.same(watch.complaints, [])
})

t.test('the fleet in Chinese, on a phone', { skip }, async t => {
  const { stage, nodes, shop } = fleet
  const { id } = nodes[4] as RealNode
  const { page, watch } = await openDuring(t, browser, stage.url, 'nodes', {
    ...onPhone,
    locale: 'zh-CN',
    reducedMotion: 'reduce'
  })
  for (const path of [
    'nodes',
    `nodes/${id}`,
    `nodes/${id}/projects`,
    `projects/${shop.id}/nodes`,
    'rollouts',
    'nodes?enroll'
  ]) {
    await page.goto(`${stage.url}/${path}`)
    await page.locator('main h1').first().waitFor()
    await page.waitForLoadState('networkidle')
    t.same(await survey(page), [], path)
    t.ok(await isWithin(page), path)
    t.same(await latinWords(page, ['svc', 'plant-a', 'shop', 'zone=', longName, 'production', 'node', 'dev']), [], path)
    await photograph(page, `zh-${path.replace(shop.id, 'shop').replace(id, 'node').replaceAll(/\W+/g, '-')}`)
  }
  t.same(watch.complaints, [])
})
