import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ListedRolloutNode, NodePhase } from '../../lib/model/rollout.js'
import { startCutProxy } from '../support/cut-proxy.js'
import { nodeOf, rolloutOf, startFleetStandIn } from '../support/fleet-stand-in.js'
import { startNodes, type RealNode } from '../support/real-nodes.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { comeBack, isWithin, onPhone, openDuring, photographer, stillDesktop, until } from './stage.js'
import { latinWords, survey, surveyFocus } from './survey.js'

/* Rollouts in a real browser: followed live, halted, resumed, reverted, with ten thousand nodes. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('rollout')

/** Whether an element is in the window, whatever the page shows. */
const isInWindow = `(() => {
  const box = document.querySelector('button.halt')?.getBoundingClientRect()
  return box !== undefined && box.top >= 0 && box.bottom <= innerHeight && box.width > 40
})()`

t.test('a rollout is followed, approved, halted, resumed and reverted', { skip }, async t => {
  const stage = await startServer(t)
  const nodes = await startNodes(
    t,
    stage,
    [1, 2, 3, 4, 5].map(number => ({ name: `plant-a${number}` }))
  )
  const shop = await stage.createProject('shop')
  const add = nodes.map(({ id, sites }) => ({ node: id, deployPath: join(sites, 'shop') }))
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add })
  const gate = { after: [{ command: 'test ! -e ../out-of-order' }], interval: 0.1, deadline: 3, successes: 1 }
  const setPause = async (pause: 0 | 'approve'): Promise<void> => {
    const policy = { gate, rollout: { canary: 1, then: '2', pause } }
    t.equal((await stage.client.put(`/api/projects/${shop.id}`, { policy })).status, 200)
  }
  const push = async (text: string): Promise<unknown> =>
    stage.as(shop.token).upload([
      ['projectId', shop.id],
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': text }) }]
    ])
  const pages = (): string[] => nodes.map(({ sites }) => readFileSync(join(sites, 'shop/index.html'), 'utf8'))
  await setPause(0)
  await push('one')
  t.same(pages(), ['one', 'one', 'one', 'one', 'one'])
  await setPause('approve')
  const pushed = push('two')
  const cable = await startCutProxy(t, stage.url)

  const { page, watch } = await openDuring(t, browser, cable.url, 'rollouts', stillDesktop)
  await comeBack(page, page.getByText('1 of 5 good · wave 1 of 3'))
  t.same(await survey(page), [])
  await photograph(page, 'list')
  await page.getByRole('link', { name: /shop · 2/ }).click()
  await page.getByRole('heading', { name: 'Rollout 2 of shop' }).waitFor()
  await page.getByText('Wave 2 of 3 is next').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'approval')
  const id = page.url().split('/').at(-1) as string

  // The connection breaks. Meanwhile somebody else approves, and a node fails: both are there after it.
  const disorder = join((nodes[1] as RealNode).sites, 'out-of-order')
  writeFileSync(disorder, '')
  cable.cut()
  await stage.client.post(`/api/rollouts/${id}/approve`)
  await page.getByText('Connection lost').first().waitFor()
  await photograph(page, 'lost')
  cable.mend()
  await page.getByText('Nodes that need attention').waitFor()
  await page.locator('.reason').getByText('1 failed (allowed: 0)').waitFor()
  await page.locator('svc-rollout-failures .why').getByText('command').waitFor()
  await page.locator('svc-rollout-failures pre').getByText('command').first().waitFor()
  await page.getByText('Failed step: Checks').waitFor()
  await pushed
  t.same(await survey(page), [])
  await photograph(page, 'halted', { isWhole: true })

  rmSync(disorder)
  await page.getByRole('button', { name: 'Resume…' }).click()
  const dialog = page.getByRole('dialog')
  t.same(await survey(page), [])
  await photograph(page, 'resume')
  await dialog.getByRole('button', { name: 'Resume' }).click()
  await page.getByRole('button', { name: 'Approve wave 3' }).waitFor()
  t.same(pages(), ['two', 'two', 'two', 'one', 'one'])
  await page.getByRole('button', { name: 'Halt' }).click()
  await page.locator('.reason').getByText('admin stopped it').waitFor()
  await page.getByRole('button', { name: 'Revert wave 2…' }).click()
  await photograph(page, 'revert-wave')
  await dialog.getByRole('button', { name: 'Revert wave 2' }).click()
  await page.locator('svc-rollout-actions').getByText('Reverted').waitFor()
  t.match((await stage.client.get(`/api/rollouts/${id}`)).body.rollout, {
    state: 'reverted',
    counts: { good: 1, reverted: 2 }
  })
  t.same(pages(), ['two', 'one', 'one', 'one', 'one'])
  await photograph(page, 'reverted')

  // Only the last rollout of a project gives orders.
  await setPause(0)
  const last = push('three')
  await page.getByText('A later rollout took its place:').waitFor()
  t.equal(await page.getByRole('button', { name: 'Resume…' }).count(), 0)
  await page.getByRole('link', { name: 'Rollout 3' }).click()
  await page.locator('svc-rollout-actions').getByText('Done').waitFor()
  await last
  t.same(pages(), ['three', 'three', 'three', 'three', 'three'])
  t.same(await survey(page), [])
  await photograph(page, 'done')

  // Halt is pressed with the keyboard.
  await setPause('approve')
  const late = push('four')
  await page.goto(`${cable.url}/rollouts`)
  await comeBack(page, page.getByRole('link', { name: /shop · 4/ }))
  await page.getByRole('link', { name: /shop · 4/ }).click()
  await page.getByRole('button', { name: 'Approve wave 2' }).waitFor()
  await page.locator('main').focus()
  for (let press = 0; press < 12; press++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(`document.activeElement.matches('button.halt')`)) break
  }
  await page.keyboard.press('Enter')
  await page.locator('.reason').getByText('admin stopped it').waitFor()
  await late
  t.same(pages(), ['four', 'three', 'three', 'three', 'three'])
  t.same(
    watch.complaints.filter(each => !/ERR_/.test(each)),
    []
  )
})

t.test('Halt is in reach with ten thousand nodes, on a desk, on a phone, and with the keyboard', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const fleet = await startFleetStandIn(t, { hub: stage.url, node: stage.url })
  fleet.records.nodes = [nodeOf(1)]
  const wave = (size: number, phase: NodePhase): NodePhase[] => Array.from({ length: size }, () => phase)
  const rollout = rolloutOf(
    shop,
    [
      wave(1, 'good'),
      wave(2500, 'good'),
      [...wave(2480, 'swapping'), ...wave(20, 'failed')],
      wave(2500, 'prepared'),
      wave(2499, 'prepared')
    ],
    {
      wave: 3,
      policy: {
        canary: 1,
        then: '25%',
        pause: 0,
        maxFailures: 100,
        maxUnreachable: '0',
        onFailure: 'halt',
        order: null
      }
    }
  )
  fleet.records.rollouts = [rollout]
  const { page, watch } = await openDuring(t, browser, fleet.url, 'rollouts/ro_1', stillDesktop)
  await page.getByText('Wave 3 of 5').waitFor()
  t.ok((await page.locator('svc-rollout-waves li').count()) < 60, 'only the visible rows are on the page')
  await photograph(page, 'many')
  // Two thousand nodes change within a moment; the page stays usable.
  const fromMs = performance.now()
  for (let index = 2501; index < 4501; index++)
    fleet.tell('ro_1', {
      type: 'node',
      node: { ...(rollout.nodes[index] as ListedRolloutNode), phase: 'good', tookMs: 900 }
    })
  await page.getByText('4,501').first().waitFor()
  t.comment(`2,000 events until drawn: ${Math.round(performance.now() - fromMs)} ms`)
  await page.evaluate('scrollTo(0, document.body.scrollHeight / 2)')
  await until(() => page.evaluate(isInWindow))
  await photograph(page, 'many-scrolled')
  t.same(await surveyFocus(page, 60), [], 'every stop of the keyboard can be seen')
  await page.evaluate('document.activeElement.blur(), scrollTo(0, 0)')
  await page.locator('main').focus()
  for (let press = 0; press < 12; press++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(`document.activeElement.matches('button.halt')`)) break
  }
  t.ok(await page.evaluate(`document.activeElement.matches('button.halt')`), 'a few presses from the start')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Resume…' }).waitFor()
  t.match(fleet.records.asked.at(-1), '/halt')
  t.same(watch.complaints, [])

  Object.assign(rollout, { state: 'swapping', haltedReason: null })
  const phone = await openDuring(t, browser, fleet.url, 'rollouts/ro_1', {
    ...onPhone,
    locale: 'zh-CN',
    reducedMotion: 'reduce'
  })
  await phone.page.locator('button.halt').waitFor()
  await photograph(phone.page, 'many-phone-zh')
  await phone.page.evaluate('scrollTo(0, document.body.scrollHeight / 2)')
  await until(() => phone.page.evaluate(isInWindow))
  await photograph(phone.page, 'many-phone-zh-scrolled')
  t.ok(await isWithin(phone.page))
  t.same(await survey(phone.page), [])
  t.same(await latinWords(phone.page, ['svc', 'plant-a', 'shop']), [])
  t.same(phone.watch.complaints, [])
})

t.test('a rollout that does not exist, and a server without rollouts', { skip }, async t => {
  const stage = await startServer(t)
  const { page } = await openDuring(t, browser, stage.url, 'rollouts', stillDesktop)
  await page.getByText('No rollouts yet').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'none')
  await page.goto(`${stage.url}/rollouts/ro_unknown`)
  await page.getByText('Rollout not found').waitFor()
  t.same(await survey(page), [])
})
