import t from 'tap'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'
import { enrolledAgent, FakeAgent } from '../support/fake-agent.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { nodeOf, placementOf, startFleetStandIn } from '../support/fleet-stand-in.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { comeBack, isWithin, onPhone, openDuring, photographer, stillDesktop } from './stage.js'
import { latinWords, survey } from './survey.js'

/* The fleet in a real browser: nodes, one node, and its own pages through this server. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('fleet')

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
  const command = (await dialog.locator('.command pre').textContent()) as string
  const [, token] = /^SVC_ENROLL_TOKEN=(svcnode_\S+) svc agent --hub http:\S+$/.exec(command) as unknown as [
    string,
    string
  ]
  t.same(await survey(page), [])
  await photograph(page, 'token')
  await dialog.getByRole('button', { name: 'Done' }).click()
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
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const api = await stage.createProject('api')
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  const trees = ['4f1a9c0d', '77c0be12', 'a0b1c2d3'].map(start => start.repeat(8))
  fleet.records.nodes = Array.from({ length: 24 }, (_, index) => {
    const node = nodeOf(index + 1, { isConnected: index !== 5, isDrained: index === 9 })
    if (index === 11) node.name = 'a-node-with-a-name-that-is-longer-than-any-tile-is-wide-example.internal'
    if (index < 20)
      node.placements.push(
        placementOf(node, shop, {
          liveTree: trees[index < 14 ? 0 : 1] as string,
          liveDeployId: 'dep_1',
          isDrifted: index === 3
        })
      )
    if (index > 16 && index < 22)
      node.placements.push(placementOf(node, api, { liveTree: index === 18 ? null : (trees[2] as string) }))
    return node
  })
  const { page, watch } = await openDuring(t, browser, fleet.url, 'nodes', stillDesktop)
  await page.getByText('4f1a9c0d').first().waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'grid', { isWhole: true })
  await page.getByRole('button', { name: 'List' }).click()
  await page.locator('svc-node-list li').first().waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'list')
  await page.setViewportSize({ width: 390, height: 844 })
  t.ok(await isWithin(page))
  await photograph(page, 'list-phone')
  await page.goto(`${fleet.url}/nodes`)
  await page.getByText('4f1a9c0d').first().waitFor()
  t.ok(await isWithin(page))
  await photograph(page, 'grid-phone', { isWhole: true })
  t.same(watch.complaints, [])
})

t.test('a node and its own pages', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  const node = nodeOf(1)
  node.placements.push(
    placementOf(node, shop, { liveTree: '4f1a9c0d'.repeat(8), liveDeployId: 'dep_1', isDrifted: true })
  )
  fleet.records.nodes = [node]
  const { page, watch } = await openDuring(t, browser, fleet.url, 'nodes/node_1', stillDesktop)
  await page.getByText('Projects on this node').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'node')
  for (const path of [
    'projects',
    `projects/${shop.id}`,
    `projects/${shop.id}/files`,
    `projects/${shop.id}/logs`,
    'deployments',
    'logs',
    'system',
    'terminal'
  ]) {
    await page.goto(`${fleet.url}/nodes/node_1/${path}`)
    await page.getByText('You are looking at the node').waitFor()
    await page.locator('main h1').first().waitFor()
    await page.waitForTimeout(500)
    await photograph(page, `node-${path.replaceAll(/\W/g, '-').replace(shop.id, 'shop')}`)
  }
  t.same(watch.complaints, [])
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
  const stage = await startServer(t)
  await stage.createProject('shop')
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  fleet.records.nodes = [nodeOf(1, { isConnected: false, lastSeenAt: '2026-11-20T10:00:00.000Z' })]
  const { page, watch } = await openDuring(t, browser, fleet.url, 'nodes/node_1', stillDesktop)
  await page.getByText('What is shown here is what it said last').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'away')
  await page.getByRole('link', { name: 'Deployments' }).last().click()
  await page.getByRole('heading', { name: 'This node is not connected' }).waitFor()
  await page.getByText('You are looking at the node').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'away-page')
  ;(fleet.records.nodes[0] as { isConnected: boolean }).isConnected = true
  await page.getByText('No deployments yet').waitFor()
  t.match(page.url(), 'nodes/node_1/deployments')
  // The links of the frame lead to this server, those of the page to the node.
  t.equal(
    await page.getByRole('link', { name: 'Go to projects' }).evaluate(a => String(a)),
    `${fleet.url}/nodes/node_1/projects`
  )
  await page.getByRole('navigation', { name: 'Main navigation' }).getByRole('link', { name: 'Projects' }).click()
  await page.getByRole('link', { name: 'New project' }).waitFor()
  t.equal(page.url(), `${fleet.url}/projects`)
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
  await dialog
    .getByLabel('plant-a1', { exact: true })
    .waitFor()
    .catch(() => {})
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
  const form = page.locator('svc-project-policy')
  await form.getByLabel('Nodes of the first wave').fill('2')
  await form.getByLabel('Between two waves').selectOption('A time')
  await form.getByLabel('Seconds between two waves').fill('90')
  await form.getByLabel('Nodes that may be unreachable').fill('much')
  await form.getByRole('button', { name: 'Save policy' }).click()
  await form.locator('#rollout-maxUnreachable-error').waitFor()
  await form.getByLabel('Nodes that may be unreachable').fill('10%')
  await form.getByLabel('If more nodes fail').selectOption('Revert the nodes of the wave')
  t.same(await survey(page), [])
  await form.getByRole('heading', { name: 'Rollout to nodes' }).scrollIntoViewIfNeeded()
  await photograph(page, 'policy')
  await form.getByRole('button', { name: 'Save policy' }).click()
  await page.getByText('Saved', { exact: true }).waitFor()
  t.match((await stage.client.get(`/api/projects/${shop.id}`)).body.policy.rollout, {
    canary: 2,
    pause: 90,
    maxUnreachable: '10%',
    onFailure: 'revert_wave'
  })

  await page.goto(`${stage.url}/projects/${shop.id}/nodes`)
  await page.getByRole('button', { name: 'Remove from plant-a17' }).click()
  await photograph(page, 'remove')
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove from plant-a17' }).waitFor({ state: 'detached' })
  await page.setViewportSize({ width: 390, height: 844 })
  t.ok(await isWithin(page))
  await photograph(page, 'placed-phone')
  t.same(
    watch.complaints.filter(each => !each.includes('400')),
    []
  )
})

t.test('a deployment that was rolled out leads to its rollout, and goes back in waves', { skip }, async t => {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const { nodeId } = await enrolledAgent({ url: stage.url, hub }, 'plant-a1')
  const shop = await stage.createProject('shop')
  const bytes = await zipOf({ 'index.html': 'one' })
  const upload = await stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes }]
  ])
  const deployId = upload.headers['x-svc-deploy-id'] as string
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: nodeId }] })
  const release = { deployId, treeSha256: '4f1a9c0d'.repeat(8), archiveSha256: 'a'.repeat(64), archiveBytes: 100 }
  await hub.begin({ projectId: shop.id, policy: defaultRolloutPolicy, ...release, sealed: null })
  const { page, watch, context } = await openDuring(t, browser, stage.url, 'projects', stillDesktop)
  await context.route(/\/api\/logs\/dep_\w+(\?|$)/, async route => {
    const response = await route.fetch()
    const json = (await response.json()) as { steps: Array<{ name: string }> }
    json.steps.splice(1, 0, { ...(json.steps[0] as { name: string }), name: 'rollout' })
    await route.fulfill({ response, json })
  })
  await page.goto(`${stage.url}/deployments/${deployId}`)
  await page.getByRole('link', { name: /Preparing.*0 of 1 good/ }).waitFor()
  await page.locator('svc-steps').getByText('Rollout').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'deployment')
  await page.getByRole('button', { name: 'Roll back to this…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('rolled out to the nodes of the project again').waitFor()
  t.equal(await dialog.getByRole('radio').count(), 0, 'the nodes keep what is needed to go back exactly')
  t.same(await survey(page), [])
  await photograph(page, 'deployment-back')
  t.same(watch.complaints, [])
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
  t.same(watch.complaints, [])
})

t.test('the fleet in Chinese, on a phone, with a broken network', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  const node = nodeOf(1, { name: '华东-节点-with-a-name-that-goes-on-for-rather-long-so-that-it-must-be-cut' })
  node.placements.push(
    placementOf(node, shop, {
      liveTree: '4f1a9c0d'.repeat(8),
      isDrifted: true,
      deployPath: `/srv/${'very-long-directory-'.repeat(8)}`
    })
  )
  fleet.records.nodes = [node, nodeOf(2)]
  const { page, watch } = await openDuring(t, browser, fleet.url, 'nodes', {
    ...onPhone,
    locale: 'zh-CN',
    reducedMotion: 'reduce'
  })
  for (const path of [
    'nodes',
    'nodes/node_1',
    'nodes/node_1/projects',
    `projects/${shop.id}/nodes`,
    'rollouts',
    'nodes?enroll'
  ]) {
    await page.goto(`${fleet.url}/${path}`)
    await page.locator('main h1').first().waitFor()
    await page.waitForLoadState('networkidle')
    t.same(await survey(page), [], path)
    t.ok(await isWithin(page), path)
    t.same(
      await latinWords(page, ['svc', 'plant-a1', 'plant-a2', 'shop', 'zone=', node.name, 'production', 'node']),
      [],
      path
    )
    await photograph(page, `zh-${path.replace(shop.id, 'shop').replaceAll(/\W+/g, '-')}`)
  }
  t.same(watch.complaints, [])
})
