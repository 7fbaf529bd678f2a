import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import type { Test } from 'tap'
import { openStore } from '../../lib/core/store/durable-store.js'
import { startCutProxy } from '../support/cut-proxy.js'
import { insertDeployments } from '../support/many-deployments.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { repetitions } from '../support/thorough.js'
import { startChromium } from './chromium.js'
import { desktop, holds, onPhone, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/*
 * Deployments in a real browser: one that runs, one that failed, one beside another, ten thousand of them; many lines
 * of output, and 5,000 a second. With PICTURES=1 in the environment pictures are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('deployment')

const open = (t: Test, stage: { url: string }, path: string, options = {}) =>
  openDuring(t, browser, stage.url, path, {
    viewport: desktop,
    permissions: ['clipboard-read', 'clipboard-write'],
    ...options
  })

/** Pushes files and waits for the end of the deployment. */
async function push(
  stage: Stage,
  projectId: string,
  files: Record<string, string>,
  fields: Record<string, string> = {}
): Promise<string> {
  const { headers } = await stage.client.upload(
    [
      ...Object.entries({ projectId, ...fields }).map(([name, value]): [string, string] => [name, value]),
      ['file', { filename: 'site.zip', bytes: await zipOf(files) }]
    ],
    { authorization: `Bearer ${await tokenOf(stage, projectId)}` }
  )
  return String(headers['x-svc-deploy-id'])
}

async function tokenOf(stage: Stage, projectId: string): Promise<string> {
  return (await stage.client.get(`/api/projects/${projectId}`)).body.token as string
}

async function copied(page: Page): Promise<string[]> {
  await page.locator('svc-log .scroll').focus()
  await page.keyboard.press('Control+a')
  await page.keyboard.press('Control+c')
  return String(await page.evaluate('navigator.clipboard.readText()')).split('\n')
}

t.test('a failure is understood: the step, its last lines, the difference, the way back', { skip }, async t => {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront', { postDeployScript: 'echo restarted' })
  const files = Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`assets/${index}.txt`, `one ${index}`]))
  const good = await push(
    stage,
    id,
    { ...files, 'index.html': '<h1>one</h1>', 'old.txt': 'old' },
    { message: 'The one that works' }
  )
  await stage.client.put(`/api/projects/${id}`, {
    postDeployScript: 'echo migrating; echo "\u001b[31mno such table: orders\u001b[0m"; exit 3'
  })
  const changed = Object.fromEntries(Object.keys(files).map(name => [name, 'two']))
  const bad = await push(
    stage,
    id,
    { ...changed, 'index.html': '<h1>two</h1>', 'new.txt': 'new' },
    { message: 'The one that does not' }
  )
  const { page, watch } = await open(t, stage, `deployments/${bad}`)

  const failure = page.locator('svc-failure')
  await failure.getByText('Post-deploy script: exit code 3').waitFor()
  await failure.getByText('no such table: orders').waitFor()
  await page.getByRole('heading', { name: 'Comparison with last successful deployment' }).waitFor()
  const compare = page.locator('svc-compare')
  await compare.getByRole('button', { name: /Changed\s*151/ }).waitFor()
  t.equal(await compare.locator('.files li').count(), 100, 'files come in pages')
  await compare.getByRole('button', { name: 'Next' }).click()
  await compare.getByText('101 to 151 of 151 files').waitFor()
  await compare.getByRole('button', { name: /Added\s*1/ }).click()
  await compare.getByText('new.txt').waitFor()
  await compare.getByRole('button', { name: /Removed\s*1/ }).click()
  await compare.getByText('old.txt').waitFor()
  t.match(
    await compare.locator('tr.other', { hasText: 'Message' }).textContent(),
    /The one that works.*The one that does not/
  )
  t.match(await compare.locator('tr.other', { hasText: 'Post-deploy script' }).textContent(), /exit 3/)
  await compare.getByText('Post-deploy script: changed').waitFor()
  t.match(await page.title(), /^✗ storefront/)
  await photograph(page, 'failed-desktop')
  await compare.scrollIntoViewIfNeeded()
  await page.evaluate('document.querySelector("svc-compare").scrollIntoView()')
  await photograph(page, 'compare-desktop')
  t.same(await survey(page), [])
  await failure.getByRole('button', { name: 'Show in output' }).click()
  await page.locator('svc-log .line.here', { hasText: 'no such table' }).waitFor()

  await page.getByRole('button', { name: 'Roll back to last successful…' }).click()
  await page.getByText('~ index.html').waitFor()
  await stage.client.put(`/api/projects/${id}`, { postDeployScript: '' })
  await page.getByRole('button', { name: 'Roll back', exact: true }).click()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.match(readFileSync(join(stage.sites, 'storefront', 'index.html'), 'utf8'), 'one')
  t.ok(existsSync(join(stage.sites, 'storefront', 'new.txt')))
  t.equal(await page.locator('svc-compare').count(), 0, 'a good one is compared when that is asked for')
  await page.getByRole('link', { name: 'Compare…' }).click()
  await page.getByLabel('Compare with').selectOption(bad)
  await page
    .getByText('new.txt')
    .or(page.getByRole('button', { name: /Changed\s*151/ }))
    .first()
    .waitFor()
  t.match(page.url(), new RegExp(`\\?against=${bad}$`))
  await page.reload()
  await page.getByRole('button', { name: /Changed\s*151/ }).waitFor()
  await page.getByLabel('Compare with').selectOption(good)
  await page.getByText('Both deployments wrote the same files.').waitFor()
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])

  const small = await open(t, stage, `deployments/${bad}`, onPhone)
  await small.page.getByRole('button', { name: /Changed\s*151/ }).waitFor()
  await photograph(small.page, 'failed-phone')
  t.same(await survey(small.page), [])
})

/** Lines that are followed while they are written at full speed, and the least that the whole output has. */
const followed = { fast: repetitions(3_000, 10_000), all: repetitions(10_000, 30_000) }

t.test('5,000 lines a second are followed; a network that is cut; no line lost, none doubled', { skip }, async t => {
  const stage = await startServer(t)
  const proxy = await startCutProxy(t, stage.url)
  const go = join(stage.sites, 'go')
  const slower = join(stage.sites, 'slower')
  // 100 lines each fiftieth of a second, in colours, and one once it is told so; at the latest before the page would
  // give up old ones, which takes 40 seconds. It ends when it is told to.
  const script = join(stage.sites, 'lines.mjs')
  writeFileSync(
    script,
    `
    import { existsSync } from 'node:fs'
    let count = 0
    const timer = setInterval(() => {
      const isLast = existsSync(${JSON.stringify(go)})
      const isSlow = count > 150000 || (!isLast && existsSync(${JSON.stringify(slower)}))
      let text = ''
      for (let index = 0; index < (isSlow ? 1 : 100); index++) text += '\\x1b[' + (31 + count % 6) + 'mline ' + count++ + '\\x1b[0m of a build that says a lot: https://example.com/' + count + '\\n'
      process.stdout.write(text)
      if (count >= ${followed.all} && isLast) { clearInterval(timer); console.log('last ' + count) }
    }, 20)`
  )
  const { id } = await stage.createProject('storefront', {
    postDeployScript: `${JSON.stringify(process.execPath)} ${JSON.stringify(script)}`
  })
  const pushed = push(stage, id, { 'index.html': 'x' })
  let deployId = ''
  while (deployId === '') deployId = (await stage.client.get('/api/logs')).body[0]?.id ?? ''
  const { page, watch } = await open(t, proxy, `deployments/${deployId}`)
  await page
    .locator('svc-log')
    .getByText(/^line \d+ of a build/)
    .first()
    .waitFor()
  await page.evaluate(`(() => {
    window.longTasks = []
    window.frames = []
    new PerformanceObserver(list => longTasks.push(...list.getEntries().map(each => Math.round(each.duration)))).observe({ type: 'longtask' })
    let last = performance.now()
    const frame = now => { frames.push(now - last); last = now; requestAnimationFrame(frame) }
    requestAnimationFrame(frame)
  })()`)
  const seen =
    'Number(/(\\\\d+)/.exec([...document.querySelectorAll("svc-log .line .text")].at(-1)?.textContent ?? "")?.[1])'
  const from = Number(await page.evaluate(seen.replaceAll('\\\\', '\\')))
  await holds(page, `${seen.replaceAll('\\\\', '\\')} > ${from + followed.fast}`)
  const { longTasks, frames } = (await page.evaluate('({ longTasks, frames })')) as {
    longTasks: number[]
    frames: number[]
  }
  frames.sort((a, b) => a - b)
  const at = (share: number): string => (frames[Math.floor(frames.length * share)] as number).toFixed(1)
  t.comment(
    `${frames.length} frames: half within ${at(0.5)} ms, 95 % within ${at(0.95)} ms, 99 % within ${at(0.99)} ms; long tasks: ${longTasks.join(', ') || 'none'} ms`
  )

  writeFileSync(slower, '')
  await page.mouse.move(900, 560)
  await page.mouse.wheel(0, -3000)
  await page.getByRole('button', { name: /new lines/ }).waitFor()
  await photograph(page, 'paused-desktop')
  proxy.cut()
  await page.getByText('Connection lost. Reconnecting…').waitFor()
  proxy.mend()
  await page.getByText('Connection lost. Reconnecting…').waitFor({ state: 'hidden' })
  writeFileSync(go, '')
  await pushed
  await page.locator('.verdict svc-status[state=success]').waitFor()
  await page.locator('svc-log .scroll').press('End')
  await page
    .locator('svc-log')
    .getByText(/^last \d+/)
    .waitFor()
  const lines = (await copied(page)).filter(line => line.startsWith('line '))
  t.ok(lines.length >= followed.all / 3, `${lines.length} lines`)
  const first = Number(/\d+/.exec(lines[0] ?? ''))
  t.equal(
    lines.findIndex((line, index) => !line.startsWith(`line ${first + index} of`)),
    -1,
    'each once, in order'
  )
  t.ok((await page.locator('svc-log .line').count()) < 300)
  t.same(
    watch.complaints.filter(words => !/ERR_|Failed to load/.test(words)),
    []
  )
})

t.test(
  '210,000 lines: the end comes at once, also while more is written; the start is a key away',
  { skip },
  async t => {
    const stage = await startServer(t)
    const script = join(stage.sites, 'many.mjs')
    writeFileSync(
      script,
      `
    for (let from = 0; from < 210000; from += 1000) process.stdout.write(Array.from({ length: 1000 }, (_, index) => 'line ' + (from + index)).join('\\n') + '\\n')`
    )
    const { id } = await stage.createProject('storefront', {
      postDeployScript: `${JSON.stringify(process.execPath)} ${JSON.stringify(script)}; touch done; while [ ! -f go ]; do sleep 0.1; done`
    })
    const pushed = push(stage, id, { 'index.html': 'x' })
    let deployId = ''
    while (deployId === '') deployId = (await stage.client.get('/api/logs')).body[0]?.id ?? ''
    while (!existsSync(join(stage.sites, 'storefront', 'done'))) await new Promise(resolve => setTimeout(resolve, 50))
    const { page, watch } = await open(t, stage, `deployments/${deployId}`)
    await page.locator('svc-log').getByText('line 209999', { exact: true }).waitFor()
    t.ok(
      watch.fetched.reduce((sum, { bytes }) => sum + bytes, 0) < 4 * 1024 * 1024,
      'the whole was not needed for that'
    )
    await page.getByText('Scroll up to load earlier lines.').waitFor({ state: 'attached' })
    await page.locator('svc-log .scroll').press('Home')
    await page.locator('svc-log').getByText('line 0', { exact: true }).waitFor()
    await page.locator('svc-log .scroll').press('End')
    await page.locator('svc-log').getByText('line 209999', { exact: true }).waitFor()
    writeFileSync(join(stage.sites, 'storefront', 'go'), '')
    await pushed
    await page.locator('.verdict svc-status[state=success]').waitFor()
    await page.reload()
    await page.locator('svc-log').getByText('line 209999', { exact: true }).waitFor()
    await page.locator('svc-log .scroll').press('Home')
    await page.locator('svc-log').getByText('line 0', { exact: true }).waitFor()
    await page.locator('svc-log-menu > button').click()
    await page.getByRole('menuitem', { name: 'Go to a time…' }).click()
    await page.getByLabel('First line at or after').fill('2001-01-01T00:00:00')
    await page.getByRole('button', { name: 'Go', exact: true }).click()
    await page.locator('svc-log .line.here').waitFor()
  }
)

t.test(
  'ten thousand deployments scroll, filtered by their address; one that ends elsewhere is told',
  { skip },
  async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('storefront')
    const other = await stage.createProject('billing', { postDeployScript: 'exit 1' })
    await stage.server.stop({ wait: true })
    const store = await openStore(stage.home)
    await insertDeployments(store, { count: 10_000, projectId: project.id, projectName: 'storefront' })
    await store.close()
    await stage.restart()
    const { page, watch } = await open(t, stage, 'deployments')
    await page.getByText('change 9999').waitFor()
    t.ok((await page.locator('svc-deployments li').count()) < 80, 'only the rows near those seen are on the page')
    await photograph(page, 'all-many-desktop')
    t.same(await survey(page), [])
    // Each look scrolls to the end of what is loaded, until the last page has come.
    await holds(
      page,
      '(scrollTo(0, 1e9), document.body.textContent.includes("change 0") && !document.body.textContent.includes("Load more"))'
    )
    t.ok((await page.locator('svc-deployments li').count()) < 80)
    await page.getByLabel('Filter by status').selectOption('failed')
    await page.getByText('1,112 deployments').waitFor()
    t.match(page.url(), /\?status=failed$/)
    await page.getByLabel('Filter by project').selectOption('billing')
    await page.getByRole('heading', { name: 'No matches' }).waitFor()
    t.match(page.url(), new RegExp(`\\?status=failed&project=${other.id}$`))
    await page.clock.install()
    await page.goto(`${stage.url}/projects`)
    await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor()
    const looked = page.waitForResponse(response => response.url().endsWith('/api/logs?output=none&limit=5'))
    await page.clock.fastForward(16_000)
    await looked
    await push(stage, other.id, { 'index.html': 'x' })
    await page.clock.fastForward(16_000)
    await page.getByRole('link', { name: 'billing: “Pushed” failed' }).waitFor()
    await photograph(page, 'ended-desktop')
    await page.getByRole('link', { name: 'billing: “Pushed” failed' }).click()
    await page.locator('svc-failure').waitFor()
    t.same(watch.complaints, [])
  }
)

t.test('the archive of one deployment is deleted', { skip }, async t => {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const [first] = [
    await push(stage, id, { a: '1' }),
    await push(stage, id, { a: '2' }),
    await push(stage, id, { a: '3' })
  ]
  const { page, watch } = await open(t, stage, `deployments/${first}`)
  await page.getByRole('button', { name: 'Roll back to this…' }).waitFor()
  await page.getByRole('button', { name: 'Delete the archive…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the archive' }).click()
  await page.getByText('an exact undo of deployment').waitFor()
  await page.getByLabel('Also if an exact undo needs it').check()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the archive' }).click()
  await page.getByText('Archive deleted').waitFor()
  t.equal(await page.getByRole('button', { name: 'Roll back to this…' }).count(), 0)
  await page.getByText(/, deleted$/).waitFor()
  t.match(watch.foreign, [])
})

t.test('a release is promoted to the project that takes its releases from here', { skip }, async t => {
  const stage = await startServer(t)
  const staging = (await stage.createProject('staging')).id
  await stage.createProject('another')
  const policy = { promoteFrom: { projectId: staging, soakMinutes: 0 } }
  const production = (await stage.createProject('production', { policy } as never)).id
  const release = await push(stage, staging, { 'index.html': 'one' }, { message: 'New prices' })
  const { page, watch } = await open(t, stage, `deployments/${release}`)
  await page.getByRole('button', { name: 'Promote…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('+ index.html').waitFor()
  t.equal(await dialog.getByLabel('To').inputValue(), production, 'it is chosen, and compared')
  await photograph(page, 'promote')
  t.same(await survey(page), [])
  await page.setViewportSize({ width: 390, height: 844 })
  await photograph(page, 'promote-phone')
  t.same(await survey(page), [])
  await page.setViewportSize(desktop)
  await dialog.getByRole('button', { name: 'Promote', exact: true }).click()
  await page.getByRole('link', { name: 'the release of another project' }).waitFor()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.match(readFileSync(join(stage.sites, 'production', 'index.html'), 'utf8'), 'one')
  t.match(watch.foreign, [])
})
