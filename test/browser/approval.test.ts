import t from 'tap'
import type { Marks, Waiting } from '../../lib/model/marks.js'
import { defaultApproval } from '../../lib/model/policy.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium } from './chromium.js'
import { type ContextOptions, desktop, giveSession, holds, isWithin, onPhone, photographer, until } from './stage.js'
import { survey, violations } from './survey.js'

/*
 * The page of a deployment that waits for an approval, for those who decide and for those who do not. With PICTURES=1 in the
 * environment pictures are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('approval')

t.test('a deployment is approved or rejected on its page, by others than its pusher', { skip }, async t => {
  const stage = await startServer(t)
  const { client } = stage
  const shop = await stage.createProject('storefront', { policy: { approval: defaultApproval } as never })
  const tokenOf = async (name: string, role: string): Promise<string> =>
    (await client.post('/api/tokens', { name, role })).body.token
  const [ana, ben, eve] = [
    await tokenOf('ana', 'operator'),
    await tokenOf('ben', 'operator'),
    await tokenOf('eve', 'viewer')
  ]
  const waiting = async () => ((await client.get('/api/marks')).body as Marks).waiting
  const push = async (files: Record<string, string>): Promise<Waiting> => {
    const file = { filename: 'site.zip', bytes: await zipOf(files) }
    const fields: Array<[string, string | typeof file]> = [
      ['projectId', shop.id],
      ['message', 'New prices']
    ]
    stage
      .as(ana)
      .upload([...fields, ['file', file]])
      .catch(() => {})
    await until(async () => (await waiting()).length === 1)
    return (await waiting())[0] as Waiting
  }
  const open = async (token: string, address: string, options: ContextOptions) => {
    const opened = await openWatched(browser, stage.url, options)
    t.teardown(() => opened.context.close())
    await giveSession(opened.context, stage.url, token)
    await opened.page.goto(`${stage.url}/${address}`)
    return opened
  }

  const first = await push({ 'index.html': 'one', 'prices.html': '1' })
  const address = `deployments/${first.deployId}`
  const { page, watch } = await open(ben, '', { viewport: desktop })
  const card = page.locator('svc-waiting .mine')
  await card.getByText(/^waits for approval until/).waitFor()
  t.equal(await page.title(), '● 1 waiting – Overview · svc')
  await photograph(page, 'overview-desktop')
  await card.getByRole('link', { name: 'Decide…' }).click()
  const approval = page.locator('svc-approval')
  await approval.getByText('index.html').waitFor()
  t.match(page.url(), new RegExp(`/${address}$`), 'the card leads to the decision')
  await approval.getByText('Still needed: 1 approval. Nothing is in place yet.').waitFor()
  t.same([...(await survey(page)), ...(await violations(page))], [])
  await photograph(page, 'waiting-desktop')

  const viewer = await open(eve, address, { ...onPhone, locale: 'zh-CN' })
  await viewer.page.getByText('仅由以下角色决定：运维者。').waitFor()
  const pusher = await open(ana, address, { ...onPhone, colorScheme: 'dark' })
  await pusher.page.getByText('You have started it: somebody else must approve it.').waitFor()
  for (const [name, small] of [
    ['viewer-phone-zh', viewer.page],
    ['pusher-phone-dark', pusher.page]
  ] as const) {
    t.equal(await small.locator('svc-approval').getByRole('button').count(), 0, `${name} has no buttons`)
    t.ok(await isWithin(small), name)
    t.same([...(await survey(small)), ...(await violations(small))], [], name)
    await photograph(small, name, { isWhole: true })
  }

  await approval.getByRole('button', { name: 'Approve…' }).click()
  const dialog = page.locator('dialog[open]')
  await dialog.getByLabel('Comment (optional)').fill('tested on staging')
  t.same([...(await survey(page)), ...(await violations(page))], [], 'the dialog')
  await photograph(page, 'approve-desktop')
  await dialog.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  const decisions = approval.locator('.decisions li')
  await decisions.getByText('“tested on staging”').waitFor()
  t.match(await decisions.textContent(), /approved by .*ben/)
  t.equal(await approval.getByRole('button').count(), 0)
  await holds(page, `!document.title.startsWith('●')`)
  t.same([...(await survey(page)), ...(await violations(page))], [], 'the record')
  await photograph(page, 'approved-desktop', { isWhole: true })

  const second = await push({ 'index.html': 'two' })
  const reviewer = await open(ben, `deployments/${second.deployId}?decide=reject`, {
    ...onPhone,
    locale: 'zh-CN',
    colorScheme: 'dark'
  })
  const asked = reviewer.page.locator('dialog[open]')
  await asked.getByLabel('备注（可选）').fill('周五不发布')
  t.match(await waiting(), [{ deployId: second.deployId }], 'the link of a message changes nothing')
  t.same([...(await survey(reviewer.page)), ...(await violations(reviewer.page))], [], 'the dialog on a phone')
  await photograph(reviewer.page, 'reject-phone-dark-zh')
  await asked.getByRole('button', { name: '拒绝', exact: true }).click()
  await reviewer.page.locator('.verdict svc-status[state=failed]').waitFor()
  await reviewer.page.locator('.decisions').getByText('“周五不发布”').waitFor()
  t.ok(await isWithin(reviewer.page))
  t.same([...(await survey(reviewer.page)), ...(await violations(reviewer.page))], [], 'the record on a phone')
  await photograph(reviewer.page, 'rejected-phone-dark-zh', { isWhole: true })
  t.match((await client.get(`/api/logs/${second.deployId}`)).body, {
    status: 'failed',
    approvals: [{ decision: 'rejected', name: 'token:ben', comment: '周五不发布' }]
  })
  const complaints = [watch, viewer.watch, pusher.watch, reviewer.watch].flatMap(each => each.complaints)
  t.same(complaints, [])
})
