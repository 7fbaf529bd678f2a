import type { Page } from 'playwright-core'
import t from 'tap'
import type { Test } from 'tap'
import { startServer, type Stage } from '../support/server.js'
import { openWatched, startChromium } from './chromium.js'
import { desktop, openDuring, photographer, type ContextOptions } from './stage.js'
import { layoutFaults, violations } from './survey.js'
import { change, furnish, lostAddress, paths, settle, type Furnished } from './tour.js'
import { isThorough } from '../support/thorough.js'

/*
 * axe-core finds nothing on any screen: every row of the page table, unknown ids and open dialogs, of a furnished
 * server and of an empty one, in both themes, on a desktop, at 200 % zoom, at 320 px, and in Chinese. Nothing sticks
 * out at the side either, and no two words stand together without a space.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('axe')

/**
 * One screen: where it is, and what is done there. Selectors instead of words, since it is looked at in two languages.
 */
interface Screen {
  what: string
  address: string
  /** Opens what lies over the page. */
  act?: (page: Page) => Promise<void>
}

const dialog = (page: Page) => page.locator('dialog[open]').waitFor()

/** Clicks the first button that the selector finds, and waits for its dialog. */
const press = (selector: string) => async (page: Page) => {
  await page.locator(selector).first().click()
  await dialog(page)
}

async function type(page: Page, keys: string): Promise<void> {
  await page.locator('main').focus()
  await page.keyboard.press(keys)
  await dialog(page)
}

const chosenFiles = [1, 2, 3].map(number => ({
  name: `${'a-long-name-'.repeat(8)}${number}.html`,
  mimeType: 'text/html',
  buffer: Buffer.from('x')
}))

const pageOf = (path: string, address: string): Screen => ({ what: path || 'overview', address })

const unknown: Screen[] = [
  { what: 'no page', address: lostAddress },
  { what: 'an unknown project', address: 'projects/proj_unknown' },
  { what: 'an unknown deployment', address: 'deployments/dep_unknown' }
]

function screensOf({ addresses, projectId, live, spread, going }: Furnished & { going: string }): Screen[] {
  const project = `projects/${projectId}`
  return [
    ...paths.map((path, index) => pageOf(path, addresses[index] as string)),
    ...unknown,
    { what: 'an unknown log file', address: `${project}/logs/log_unknown` },
    { what: 'a deployment that succeeded', address: `deployments/${live}` },
    { what: 'a deployment that runs', address: `deployments/${going}` },
    { what: 'the way to deploy', address: project, act: press('.page-head button.primary') },
    { what: 'a new project', address: 'projects?new', act: dialog },
    {
      what: 'the question of an upload',
      address: project,
      act: async page => {
        await press('.page-head button.primary')(page)
        await page.locator('input[type=file]:not([webkitdirectory])').setInputFiles(chosenFiles)
        await dialog(page)
      }
    },
    {
      what: 'the question of a rollback',
      address: `deployments/${live}`,
      act: press('svc-deployment-actions button.primary')
    },
    { what: 'the question of a mark', address: `deployments/${live}`, act: press('svc-deployment-actions button') },
    { what: 'a new variable', address: `${project}/settings`, act: press('svc-variables .heads button:last-child') },
    { what: 'a .env file', address: `${project}/settings`, act: press('svc-variables .heads button:first-child') },
    { what: 'a notification target', address: 'settings', act: press('svc-notification-targets .section-head button') },
    { what: 'more log files', address: `${project}/logs?add`, act: dialog },
    { what: 'a new token', address: 'access', act: press('svc-tokens .section-head button') },
    {
      what: 'the projects of a token',
      address: 'access',
      act: async page => {
        await press('svc-tokens .section-head button')(page)
        await page.locator('[name=scope][value=some]').check()
        await page.locator('svc-project-choice .list label').first().waitFor()
      }
    },
    { what: 'a rotation', address: 'access', act: press('svc-tokens .tools button:nth-of-type(2)') },
    { what: 'a revocation', address: 'access', act: press('svc-tokens .tools button:nth-of-type(3)') },
    { what: 'the nodes of a project', address: `projects/${spread}/nodes` },
    { what: 'where files are', address: `projects/${spread}/files` },
    { what: 'a placed project', address: `projects/${spread}` },
    {
      what: 'more nodes of a project',
      address: `projects/${spread}/nodes`,
      act: press('svc-project-nodes .section-head button')
    },
    { what: 'a new node', address: 'nodes?enroll', act: dialog },
    { what: 'nodes as a list', address: 'nodes?view=list' },
    {
      what: 'the question of a drain',
      address: 'nodes?view=grid',
      act: async page => {
        await page.locator('svc-choice-head > input').check()
        await press('svc-node-bulk button')(page)
      }
    },
    {
      what: 'the change of a node',
      address: addresses[paths.indexOf('nodes/:node')] as string,
      act: press('svc-node-actions button:nth-of-type(2)')
    },
    {
      what: 'the question of a resume',
      address: addresses[paths.indexOf('rollouts/:id')] as string,
      act: press('svc-rollout-actions button.primary')
    },
    { what: 'an unknown rollout', address: 'rollouts/ro_unknown' },
    { what: 'an unknown node', address: 'nodes/node_unknown' },
    { what: 'a new label', address: 'labels', act: press('svc-labels .section-head button') },
    {
      what: 'a search in logs',
      address: `${project}/logs?q=GET`,
      act: async page => await page.locator('.hits .of').first().waitFor()
    },
    {
      what: 'the palette',
      address: '',
      act: async page => {
        await type(page, 'Control+k')
        await page.locator('svc-palette input').fill('e')
        await page.locator('[id^=palette-deployments]').first().waitFor()
      }
    },
    { what: 'preferences', address: '', act: page => type(page, '?') }
  ]
}

const themes = ['light', 'dark'] as const
type Theme = (typeof themes)[number]

interface Walk {
  what: string
  options: ContextOptions
}

/** At 200 % a window of 1280 px is 640 px wide, and twice as fine. */
const walks: Walk[] = [
  { what: 'on a desktop', options: { viewport: desktop } },
  { what: 'at 200 %', options: { viewport: { width: 640, height: 430 }, deviceScaleFactor: 2 } },
  { what: 'at 320 px', options: { viewport: { width: 320, height: 640 } } },
  { what: 'in Chinese', options: { viewport: desktop, locale: 'zh-CN' } }
]

/**
 * Every screen in every walk and both themes takes minutes. `make test` looks at every screen once; the walks and the
 * themes take turns, so that each walk meets both themes.
 */
function chosen(screens: readonly Screen[], walk: number): Array<Screen & { looks: readonly Theme[] }> {
  return screens
    .map((screen, index) => ({ ...screen, index }))
    .filter(({ index }) => isThorough || index % walks.length === walk)
    .map(screen => ({
      ...screen,
      looks: isThorough ? themes : [themes[Math.floor(screen.index / walks.length) % 2] as Theme]
    }))
}

async function lookAtAll(t: Test, stage: Stage, screens: readonly Screen[], walk: number): Promise<void> {
  const { what, options } = walks[walk] as Walk
  const { page, watch } = await openDuring(t, browser, stage.url, '', {
    reducedMotion: 'reduce',
    locale: 'en-GB',
    ...options
  })
  await settle(page)
  for (const screen of chosen(screens, walk)) {
    await t.test(screen.what, async t => {
      await change(page, stage.url, screen.address)
      await settle(page)
      await screen.act?.(page)
      await settle(page)
      await look(t, page, screen.what, screen.looks)
      await photograph(page, `${screen.what} ${what}`.replaceAll(/[^a-z0-9]+/gi, '-'), { isWhole: true })
      await page.keyboard.press('Escape')
    })
  }
  t.same(watch.foreign, [], 'nobody else is asked for anything')
}

async function look(t: Test, page: Page, screen: string, looks: readonly Theme[]): Promise<void> {
  for (const colorScheme of looks) {
    await page.emulateMedia({ colorScheme })
    t.same(await violations(page), [], `${screen}, ${colorScheme}`)
  }
  t.same(await layoutFaults(page), [], `${screen}: nothing sticks out, no words stuck together`)
}

t.test('a furnished server', { skip }, async t => {
  const stage = await startServer(t)
  const furnished = await furnish(stage)
  const going = await furnished.startWaiting()
  const screens = screensOf({ ...furnished, going })
  for (const [index, { what }] of walks.entries()) await t.test(what, t => lookAtAll(t, stage, screens, index))
})

t.test('an empty server', { skip }, async t => {
  const stage = await startServer(t)
  const pages = [...paths.filter(path => !path.includes(':')).map(path => pageOf(path, path)), ...unknown]
  // The furnished server shows every one of them, too.
  const screens = isThorough ? pages : pages.filter((_, index) => index % 2 === 0)
  for (const [index, { what }] of walks.entries()) await t.test(what, t => lookAtAll(t, stage, screens, index))
})

t.test('the login', { skip }, async t => {
  const { url } = await startServer(t)
  for (const [index, { options }] of walks.entries()) {
    const { page, context } = await openWatched(browser, new URL(url).origin, { reducedMotion: 'reduce', ...options })
    await page.goto(url)
    await page.locator('input[name=token]').waitFor()
    await look(t, page, 'the login', isThorough ? themes : [themes[index % themes.length] as Theme])
    await context.close()
  }
})
