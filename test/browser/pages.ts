import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Locator, Page } from 'playwright-core'

const pictures = fileURLToPath(new URL('../../screens/', import.meta.url))

export const desktop = { width: 1280, height: 860 }
export const phone = { width: 390, height: 844 }

export type Photograph = (page: Page, name: string, options?: { isWhole?: boolean }) => Promise<void>

/** Leaves pictures, light and dark, in dist/screens where PICTURES=1 is in the environment; their names begin with `room`. */
export async function photographer(room: string): Promise<Photograph> {
  if (process.env['PICTURES'] === undefined) return async () => {}
  await mkdir(pictures, { recursive: true })
  return async (page, name, { isWhole = false } = {}) => {
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.screenshot({ path: join(pictures, `${room}-${name}-${colorScheme}.png`), fullPage: isWhole })
    }
  }
}

export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Admin token').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** Whether the page is no wider than the window. */
export async function isWithin(page: Page): Promise<boolean> {
  return page.evaluate('document.documentElement.scrollWidth <= innerWidth')
}

/** Waits for something, coming back to the tab again and again: pages ask anew each time. */
export async function comeBack(page: Page, wanted: Locator): Promise<void> {
  while (!(await wanted.isVisible())) {
    await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
    await wanted.waitFor({ timeout: 1000 }).catch(() => {})
  }
}

/** Waits until an expression is true in the page. Its policy has no `unsafe-eval`, so nothing there may wait for it. */
export async function untilTrue(page: Page, expression: string): Promise<void> {
  while ((await page.evaluate(expression)) !== true) await new Promise(resolve => setTimeout(resolve, 50))
}
