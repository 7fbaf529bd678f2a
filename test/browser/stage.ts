import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { adminToken } from '../support/server.js'
import { openWatched } from './chromium.js'
import type { Watch } from './chromium.js'

export const desktop = { width: 1280, height: 860 }
export const phone = { width: 390, height: 844 }

const pictures = fileURLToPath(new URL('../../screens/', import.meta.url))

/** With PICTURES=1 in the environment: the screen as it is, light and dark, in dist/screens. */
export async function photograph(page: Page, name: string): Promise<void> {
  if (process.env['PICTURES'] === undefined) return
  await mkdir(pictures, { recursive: true })
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await page.screenshot({ path: join(pictures, `${name}-${colorScheme}.png`) })
  }
}

export interface SignedIn {
  page: Page
  watch: Watch
  context: BrowserContext
}

/** A page of the panel, signed in, at an address below the server's. */
export async function openSignedIn(
  browser: Browser, url: string, path: string, options: Parameters<Browser['newContext']>[0] = { viewport: desktop }
): Promise<SignedIn> {
  const { page, watch, context } = await openWatched(browser, new URL(url).origin, options)
  await context.addInitScript(`sessionStorage.setItem('svc.token ${url}/', ${JSON.stringify(adminToken)})`)
  await page.goto(`${url}/${path}`)
  return { page, watch, context }
}

/** Waits until a condition of the page holds. Asked from here: its policy lets nothing be evaluated there for long. */
export async function holds(page: Page, condition: string, withinMs = 20_000): Promise<void> {
  for (const from = performance.now(); (await page.evaluate(`Boolean(${condition})`)) !== true; ) {
    if (performance.now() - from > withinMs) throw new Error(`It never held: ${condition}`)
    await page.waitForTimeout(30)
  }
}
