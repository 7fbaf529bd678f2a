import t from 'tap'
import type { Page } from 'playwright-core'
import { codeOf } from '../../lib/access/second-factor.js'
import { setClock } from '../support/clock.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { openWatched, startChromium } from './chromium.js'
import { giveSession, isWithin, onPhone, photographer, signIn, stillDesktop, type ContextOptions } from './stage.js'
import { survey } from './survey.js'

/* The second factor in a real browser: added, asked for, removed; and the token that is asked for again. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('second-factor')
const minuteMs = 60_000

async function open(
  t: { teardown(work: () => unknown): void },
  stage: Stage,
  { token, path, ...options }: ContextOptions & { token?: string; path: string }
): Promise<{ page: Page; complaints(): string[] }> {
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, {
    ...stillDesktop,
    ...options
  })
  t.teardown(() => context.close())
  if (token !== undefined) await giveSession(context, stage.url, token)
  await page.goto(`${stage.url}/${path}`)
  // The browser itself reports refused requests.
  return { page, complaints: () => watch.complaints.filter(each => !/status of 40[13]/.test(each)) }
}

t.test('a token gets a second factor, signs in with it, and loses it', { skip }, async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const { token, record } = (await stage.client.post('/api/tokens', { name: 'ana', role: 'admin' })).body
  const { page, complaints } = await open(t, stage, { token, path: 'access' })
  const own = page.locator('svc-second-factor')
  await own.getByText('A sign-in needs only the token.').waitFor()
  await photograph(page, 'off')
  await own.getByRole('button', { name: 'Add second factor…' }).press('Enter')
  const shown = own.locator('.secret code')
  await shown.waitFor()
  const secret = ((await shown.textContent()) as string).replaceAll(' ', '')
  const code = () => codeOf(secret, Math.floor(clock.now() / 30_000))
  t.match(await own.getByRole('link').getAttribute('href'), `secret=${secret}`)
  t.same(await survey(page), [])
  await photograph(page, 'enrol')
  t.equal(await page.evaluate('document.activeElement.name'), 'code', 'the field has the focus')
  await page.keyboard.type('000000')
  await page.keyboard.press('Enter')
  await own.locator('#factor-code-error').waitFor()
  await own.getByLabel('Code').fill(code())
  await page.keyboard.press('Enter')
  await own.getByRole('button', { name: 'I stored them' }).waitFor()
  const codes = await own.locator('.codes code').allTextContents()
  t.equal(codes.length, 10)
  t.same(await survey(page), [])
  await photograph(page, 'codes')
  for (let again = 0; again < 3; again++) await page.keyboard.press('Escape')
  await page.mouse.click(3, 3)
  t.ok(await own.getByRole('button', { name: 'I stored them' }).isVisible(), 'only the button closes the codes')
  await own.getByRole('button', { name: 'I stored them' }).click()
  await own.getByText('A sign-in needs a code of your authenticator.').waitFor()
  await page.locator('svc-tokens li', { hasText: 'ana' }).getByText('second factor').waitFor()
  t.equal(await page.getByRole('button', { name: 'Remove second factor…' }).count(), 0, 'not of the own token')
  t.equal((await stage.as(token).get('/api/projects')).body.code, 'second_factor_required')
  t.notMatch(await page.content(), codes[0] as string)

  clock.advance(minuteMs)
  const phone = await open(t, stage, { path: 'login?to=access', ...onPhone, locale: 'zh-CN' })
  const field = phone.page.locator('input[name=code]')
  await phone.page.locator('input[name=token]').fill(token)
  await phone.page.keyboard.press('Enter')
  await field.waitFor()
  t.ok(await isWithin(phone.page))
  t.same(await survey(phone.page), [])
  await photograph(phone.page, 'login-phone-zh')
  await phone.page.getByRole('button', { name: '使用其他令牌' }).click()
  await signInTo(phone.page, token)
  await field.fill('000000')
  await phone.page.keyboard.press('Enter')
  await phone.page.getByText('验证码错误').waitFor()
  await photograph(phone.page, 'login-wrong-phone-zh')
  await field.fill(codes[3] as string)
  await phone.page.keyboard.press('Enter')
  await phone.page.locator('svc-second-factor').getByRole('button', { name: '移除…' }).click()
  await photograph(phone.page, 'remove-phone-zh')
  t.ok(await isWithin(phone.page))
  t.same(await survey(phone.page), [])
  await phone.page.getByLabel('验证码').fill(code())
  await phone.page.getByRole('button', { name: '移除', exact: true }).click()
  await phone.page.getByText('登录时只需要令牌').waitFor()
  t.equal((await stage.as(token).get('/api/tokens/self')).body.secondFactor, false)
  t.equal(record.secondFactor, false)
  t.same([...complaints(), ...phone.complaints()], [])
})

async function signInTo(page: Page, token: string): Promise<void> {
  await page.locator('input[name=token]').fill(token)
  await page.keyboard.press('Enter')
  await page.locator('input[name=code]').waitFor()
}

t.test('an admin removes the second factor of a user who lost it', { skip }, async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const { token } = (await stage.client.post('/api/tokens', { name: 'vera', role: 'viewer' })).body
  const viewer = await open(t, stage, { token, path: '' })
  await viewer.page.getByRole('button', { name: 'Preferences' }).click()
  const own = viewer.page.locator('svc-second-factor')
  await own.getByRole('button', { name: 'Add second factor…' }).click()
  await own.locator('.secret code').waitFor()
  await photograph(viewer.page, 'preferences')
  t.same(await survey(viewer.page), [])
  const secret = ((await own.locator('.secret code').textContent()) as string).replaceAll(' ', '')
  await own.getByLabel('Code').fill(codeOf(secret, Math.floor(clock.now() / 30_000)))
  await own.getByRole('button', { name: 'Confirm' }).click()
  await own.getByRole('button', { name: 'I stored them' }).waitFor()
  for (let again = 0; again < 3; again++) await viewer.page.keyboard.press('Escape')
  await own.getByRole('button', { name: 'I stored them' }).click()
  t.equal((await stage.as(token).get('/api/projects')).status, 403)

  const admin = await open(t, stage, { token: adminToken, path: 'access' })
  t.equal(await admin.page.locator('svc-second-factor').count(), 0, 'the admin token cannot have one')
  clock.advance(16 * minuteMs)
  await admin.page.getByRole('button', { name: 'Remove second factor… vera' }).click()
  await photograph(admin.page, 'reset')
  await admin.page.getByRole('button', { name: 'Remove second factor', exact: true }).click()
  const proof = admin.page.getByRole('dialog', { name: 'Enter your token again' })
  await proof.getByLabel('Admin token').fill(adminToken)
  await photograph(admin.page, 'proof-over-dialog')
  await admin.page.keyboard.press('Enter')
  await proof.waitFor({ state: 'detached' })
  await admin.page.getByRole('button', { name: 'Remove second factor… vera' }).waitFor({ state: 'detached' })
  t.equal((await stage.as(token).get('/api/projects')).status, 200)
  t.same([...viewer.complaints(), ...admin.complaints()], [])
})

t.test('an old session enters the token again, and what was asked for goes on', { skip }, async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const { token } = (await stage.client.post('/api/tokens', { name: 'ana', role: 'admin' })).body
  const { page, complaints } = await open(t, stage, { path: 'login?to=access' })
  await signIn(page, token)
  const own = page.locator('svc-second-factor')
  await own.getByRole('button', { name: 'Add second factor…' }).click()
  await own.locator('.secret code').waitFor()
  const secret = ((await own.locator('.secret code').textContent()) as string).replaceAll(' ', '')
  const code = () => codeOf(secret, Math.floor(clock.now() / 30_000))
  await own.getByLabel('Code').fill(code())
  await own.getByRole('button', { name: 'Confirm' }).click()
  await own.getByRole('button', { name: 'I stored them' }).click()

  clock.advance(16 * minuteMs)
  const create = async (name: string): Promise<void> => {
    await page.getByRole('button', { name: 'Create token' }).first().click()
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.keyboard.press('Enter')
  }
  await create('robot')
  const proof = page.getByRole('dialog', { name: 'Enter your token again' })
  await proof.waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'proof')
  await page.keyboard.press('Escape')
  await proof.waitFor({ state: 'detached' })
  await page.getByRole('dialog').getByText('Enter your token again:').waitFor()
  t.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'robot', 'nothing that was typed is lost')
  t.equal((await stage.client.get('/api/tokens')).body.items.length, 1)
  await page.getByLabel('Name', { exact: true }).press('Enter')
  await proof.getByLabel('Token “ana”').fill(adminToken)
  await page.keyboard.press('Enter')
  await proof.getByText('This is not the token that you signed in with.').waitFor()
  await proof.getByLabel('Token “ana”').fill(token)
  await page.keyboard.press('Enter')
  await proof.getByLabel('Code').waitFor()
  await photograph(page, 'proof-code')
  t.same(await survey(page), [])
  await proof.getByLabel('Code').fill(code())
  await page.keyboard.press('Enter')
  await proof.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Done' }).click()
  await page.locator('svc-tokens li', { hasText: 'robot' }).waitFor()
  t.equal((await stage.client.get('/api/tokens')).body.items.length, 2)

  clock.advance(16 * minuteMs)
  await page.goto(`${stage.url}/migration`)
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download package' }).click()
  await proof.getByLabel('Token “ana”').fill(token)
  await page.keyboard.press('Enter')
  await proof.getByLabel('Code').fill(code())
  await page.keyboard.press('Enter')
  t.match((await download).suggestedFilename(), /svc/)
  t.same(complaints(), [])
})

t.test('the terminal asks an old session for the token, and opens', { skip }, async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const { page } = await open(t, stage, { token: adminToken, path: 'settings', ...onPhone, locale: 'zh-CN' })
  await page.locator('svc-sessions li').first().waitFor()
  clock.advance(16 * minuteMs)
  await page.goto(`${stage.url}/terminal`)
  const proof = page.getByRole('dialog', { name: '请再次输入令牌' })
  await proof.waitFor()
  t.ok(await isWithin(page))
  t.same(await survey(page), [])
  await photograph(page, 'terminal-phone-zh')
  await proof.locator('input[name=token]').fill(adminToken)
  await page.keyboard.press('Enter')
  await proof.waitFor({ state: 'detached' })
  await page.getByRole('tab').first().waitFor()
  await page.getByText('连接已断开').first().waitFor({ state: 'detached' })
})
