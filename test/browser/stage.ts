import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import { adminToken } from '../support/server.js'
import { openWatched, patienceMs, type Watch } from './chromium.js'

export type ContextOptions = NonNullable<Parameters<Browser['newContext']>[0]>

export const desktop = { width: 1280, height: 860 }
export const phone = { width: 390, height: 844 }

/** Waits until no animation runs. */
export const stillDesktop: ContextOptions = { viewport: desktop, reducedMotion: 'reduce' }
export const onPhone: ContextOptions = { viewport: phone, hasTouch: true, isMobile: true }

const pictures = fileURLToPath(new URL('../../screens/', import.meta.url))

export type Photograph = (page: Page, name: string, options?: { isWhole?: boolean }) => Promise<void>

/**
 * Leaves pictures, light and dark, in dist/screens where PICTURES=1 is in the environment; their names begin with
 * `room`.
 */
export function photographer(room: string): Photograph {
  return async (page, name, { isWhole = false } = {}) => {
    for (const colorScheme of ['dark', 'light'] as const) {
      if (process.env['PICTURES'] === undefined) return
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      mkdirSync(pictures, { recursive: true })
      await page.screenshot({ path: join(pictures, `${room}-${name}-${colorScheme}.png`), fullPage: isWhole })
    }
  }
}

export interface SignedIn {
  page: Page
  watch: Watch
  context: BrowserContext
}

/** Opens a page of the panel at an address below the server's, signed in. */
export async function openSignedIn(
  browser: Browser,
  url: string,
  path: string,
  options: ContextOptions = { viewport: desktop }
): Promise<SignedIn> {
  const { page, watch, context } = await openWatched(browser, new URL(url).origin, options)
  await giveSession(context, url)
  await page.goto(`${url}/${path}`)
  return { page, watch, context }
}

/** Signs a browser in before its first page: sets the cookie and what the panel stores. Default: the admin token. */
export async function giveSession(context: BrowserContext, url: string, token = adminToken): Promise<void> {
  const reply = await context.request.post(`${url}/api/auth/login`, {
    data: { token, session: true, remember: true }
  })
  const { session } = (await reply.json()) as { session: { id: string } }
  const key = JSON.stringify(`svc.session ${url}/`)
  // Once: a page that signs out stays signed out.
  const first = `sessionStorage.getItem('given') ?? (localStorage.setItem(${key}, ${JSON.stringify(session.id)}), sessionStorage.setItem('given', ''))`
  await context.addInitScript(`if (location.origin === ${JSON.stringify(new URL(url).origin)}) ${first}`)
}

/** Opens a page like `openSignedIn` and closes it after the test. */
export async function openDuring(
  t: { teardown(work: () => unknown): void },
  ...where: Parameters<typeof openSignedIn>
): Promise<SignedIn> {
  const opened = await openSignedIn(...where)
  t.teardown(() => opened.context.close())
  return opened
}

/** Signs in through the form, in any language. */
export async function signIn(page: Page, token = adminToken): Promise<void> {
  await page.locator('input[name=token]').fill(token)
  await page.locator('button.primary').click()
  await page.locator('input[name=token]').waitFor({ state: 'detached' })
}

/** Returns a card of settings. */
export const cardOf = (page: Page, name: string): Locator => page.getByRole('form', { name, exact: true })

/** Sends a card of settings. Nothing is saved yet, and the server may refuse it. */
export async function submitCard(page: Page, name: string): Promise<void> {
  await cardOf(page, name).getByRole('button', { name: 'Save', exact: true }).click()
}

/**
 * Waits until the server has what a card shows. Its button is disabled during the request, too, and the word "Saved" may
 * be of an earlier one: only the bar says that nothing is unsaved.
 */
export async function cardSaved(page: Page, name: string): Promise<void> {
  await cardOf(page, name).locator('.save:not(.due)').waitFor()
}

/** Saves a card of settings and waits until it is saved. */
export async function saveCard(page: Page, name: string): Promise<void> {
  await submitCard(page, name)
  await cardSaved(page, name)
}

/** Whether the page is no wider than the window. */
export async function isWithin(page: Page): Promise<boolean> {
  return page.evaluate('document.documentElement.scrollWidth <= innerWidth')
}

/** Waits for a condition and activates the tab repeatedly, so that pages reload their data. */
export async function comeBack(page: Page, wanted: Locator): Promise<void> {
  while (!(await wanted.isVisible())) {
    await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
    await wanted.waitFor({ timeout: 1000 }).catch(() => {})
  }
}

/** Waits until a condition of the page holds. Polls from here, because its policy allows no long evaluation. */
export async function holds(page: Page, condition: string): Promise<void> {
  const from = performance.now()
  await until(async () => {
    if (performance.now() - from > patienceMs) throw new Error(`It never held: ${condition}`)
    return (await page.evaluate(`(async () => Boolean(await (${condition})))()`)) === true
  })
}

/** Polls until the condition is true. The time limit of the test ends it. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(30)
}
