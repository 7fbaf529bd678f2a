import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { findNginx, startNginx } from '../proxy/nginx.js'
import { startServer } from '../support/server.js'
import { openWatched, startChromium } from './chromium.js'
import { onPhone, photographer, signIn, stillDesktop, type ContextOptions } from './stage.js'
import { latinWords, survey, surveyFocus } from './survey.js'
import { change, furnish, load, names, paths, settle, type Open } from './tour.js'
import { isThorough } from '../support/thorough.js'

/*
 * Every screen that the page table has a row for, as it comes, behind nginx where there is one: at the root and below a
 * prefix, light and dark, desk and phone, English and Chinese. Nothing may stick out, be nameless, unreadable,
 * untranslated, or complain.
 */

const { browser, skip } = await startChromium(t)
const nginx = findNginx()
const photograph = photographer('screen')

/** Words that stay as they are in Chinese. */
const sameEverywhere = [
  'svc',
  'production',
  'zip',
  'Standard Webhooks',
  'webhook',
  'dev',
  'root',
  'node',
  'linux',
  'X-Forwarded-For',
  'admin',
  'deployPath',
  'SVC_PUBLIC_URL',
  '{commit}',
  '{repository}',
  'team/shop',
  'Slack',
  'Microsoft Teams',
  'GitHub Actions',
  'umask',
  'Shell',
  'bash',
  '--prune',
  '--force'
]

const themes = ['light', 'dark'] as const
type Theme = (typeof themes)[number]

/** That each address loads by itself is seen in the first walk; the others are for how screens look, and take less. */
interface Walk {
  what: string
  options: ContextOptions
  open: Open
  themes: readonly Theme[]
  isChinese?: boolean
  isByKeyboard?: boolean
}

const servers: Array<{ what: string; base: string; walks: Walk[] }> = [
  {
    what: 'at the root',
    base: '',
    walks: [
      { what: 'on a desk, light and dark', options: stillDesktop, open: load, themes, isByKeyboard: true },
      // The other walk on a phone and axe.test.ts at 320 px look at the same screens.
      ...(isThorough
        ? [{ what: 'on a phone, light', options: onPhone, open: change, themes: ['light'] } satisfies Walk]
        : [])
    ]
  },
  {
    what: 'below a prefix',
    base: '/tools/svc',
    walks: [
      {
        what: 'on a phone, dark, in Chinese',
        options: { ...onPhone, locale: 'zh-CN' },
        open: change,
        themes: ['dark'],
        isChinese: true
      }
    ]
  }
]

for (const { what, base, walks } of servers) {
  t.test(what, { skip }, async t => {
    const { stage, addresses } = await furnish(await startServer(t, { base }))
    let url = stage.url
    if (nginx === null) t.comment('there is no nginx on this machine: without it')
    else {
      const directory = join(t.testdirName, 'nginx')
      url = `${await startNginx(t, nginx, { directory, upstream: new URL(stage.url).origin, location: `${base}/` })}${base}`
    }
    for (const walk of walks) await t.test(walk.what, t => walkAll(t, url, addresses, walk))
  })
}

async function walkAll(
  t: Test,
  url: string,
  addresses: string[],
  { what, options, open, themes, isChinese, isByKeyboard }: Walk
): Promise<void> {
  const locale = isChinese ? 'zh-CN' : 'en-GB'
  const { page, watch, context } = await openWatched(browser, new URL(url).origin, {
    reducedMotion: 'reduce',
    locale,
    ...options
  })
  t.teardown(() => context.close())
  const look = async (screen: string, index: number): Promise<void> => {
    // The themes take turns, unless there is time for all.
    for (const theme of isThorough ? themes : [themes[index % themes.length] as Theme]) {
      await page.emulateMedia({ colorScheme: theme })
      t.same(await survey(page), [], `${screen} can be read and named, ${theme}`)
    }
  }
  await page.goto(url)
  await page.locator('input[name=token]').waitFor()
  await look('the login', 0)
  await signIn(page)
  for (const [index, address] of addresses.entries()) {
    const screen = paths[index] || 'the overview'
    await open(page, url, address)
    await settle(page)
    await look(screen, index)
    if (isByKeyboard) t.same(await surveyFocus(page, 120), [], `${screen} shows where the focus is`)
    if (isChinese)
      t.same(await latinWords(page, [...Object.values(names), ...sameEverywhere]), [], `${screen} speaks Chinese`)
    await photograph(page, `${screen} ${what}`.replaceAll(/[^a-z]+/gi, '-'))
  }
  t.same(watch.complaints, [], 'the console is quiet')
  t.same(watch.foreign, [], 'nobody else is asked for anything')
}
