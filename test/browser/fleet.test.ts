import t from 'tap'
import { nodeOf, placementOf, rolloutOf, startFleetStandIn } from '../support/fleet-stand-in.js'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { isWithin, openDuring, photographer, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/* The fleet in a real browser: nodes, one node, and its own pages through this server. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('fleet')

t.test('a server without nodes explains how to begin', { skip }, async t => {
  const stage = await startServer(t)
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  const { page, watch } = await openDuring(t, browser, fleet.url, 'nodes', stillDesktop)
  await page.getByText('No nodes yet').waitFor()
  t.equal(await page.locator('nav.side').getByText('Fleet').count(), 0, 'the navigation stays as it was')
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
  await dialog.getByText('svc agent --hub').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'token')
  await dialog.getByRole('button', { name: 'Done' }).click()
  await page.getByText('Waiting for their machine').waitFor()
  t.notMatch(await page.content(), /svcnode_/, 'the token is gone')
  await page.locator('nav.side').getByText('Fleet').waitFor()
  t.same(JSON.parse((fleet.records.asked[0] as string).split('/enrollments ')[1] as string), {
    name: 'plant-a1',
    labels: { zone: 'eu', rack: '7' },
    seconds: 3600
  })
  await photograph(page, 'pending')
  await page.getByRole('button', { name: 'Revoke' }).click()
  await page.getByText('Waiting for their machine').waitFor({ state: 'detached' })
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

t.test('a rollout', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  fleet.records.nodes = [nodeOf(1)]
  fleet.records.rollouts = [
    rolloutOf(shop, [['good'], ['good', 'failed', 'swapping'], ['prepared', 'prepared', 'unreachable'], ['prepared']], {
      wave: 2,
      state: 'halted',
      haltedReason: '1 failed (allowed: 0)'
    })
  ]
  const { page, watch } = await openDuring(t, browser, fleet.url, 'rollouts', stillDesktop)
  await page.getByText('wave 2 of 4').waitFor()
  await photograph(page, 'rollouts')
  await page.goto(`${fleet.url}/rollouts/ro_1`)
  await page.getByText('502 Bad Gateway').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'rollout', { isWhole: true })
  await page.setViewportSize({ width: 390, height: 844 })
  await photograph(page, 'rollout-phone', { isWhole: true })
  t.same(watch.complaints, [])
})
