import { appendFileSync, createWriteStream, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import type { Test } from 'tap'
import { startCutProxy } from '../support/cut-proxy.js'
import { startServer, type Stage } from '../support/server.js'
import { startChromium } from './chromium.js'
import { desktop, holds, onPhone, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/*
 * Log files in a real browser: real files that grow and are rotated, 250,000 lines, a network that is cut, text that
 * would like to be markup. With PICTURES=1 in the environment pictures are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('log')

const startMs = Date.parse('2026-11-20T00:00:00Z')
const manyLines = 250_000

/** A line of an access log, one a tenth of a second. */
function accessLine(index: number): string {
  const at = new Date(startMs + index * 100).toISOString()
  const status = index % 1000 === 0 ? 500 : 200
  return `${at} 10.0.${index % 256}.7 "GET /items/${index}?page=${index % 40}" ${status} ${(index * 37) % 9000}`
}

async function writeAccessLog(path: string): Promise<void> {
  const file = createWriteStream(path)
  for (let from = 0; from < manyLines; from += 10_000) {
    const lines = Array.from({ length: 10_000 }, (_, index) => accessLine(from + index))
    if (!file.write(`${lines.join('\n')}\n`)) await once(file, 'drain')
  }
  file.end()
  await once(file, 'finish')
}

async function addSource(stage: Stage, projectId: string, filePath: string, more: object = {}): Promise<string> {
  const { body } = await stage.client.post(`/api/projects/${projectId}/log-sources`, { items: [{ filePath, ...more }] })
  return body.items[0].id as string
}

/** What Ctrl-A and Ctrl-C put on the clipboard. */
async function copied(page: Page, log = 'svc-log'): Promise<string> {
  await page.locator(`${log} .scroll`).focus()
  await page.keyboard.press('Control+a')
  await page.keyboard.press('Control+c')
  return page.evaluate('navigator.clipboard.readText()')
}

const open = (t: Test, stage: { url: string }, path: string, options = {}) =>
  openDuring(t, browser, stage.url, path, {
    viewport: desktop,
    permissions: ['clipboard-read', 'clipboard-write'],
    ...options
  })

t.test('log files are added, named, ordered and removed', { skip }, async t => {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const logs = join(stage.sites, '..', 'logs')
  mkdirSync(logs)
  writeFileSync(join(logs, 'access.log'), `${accessLine(1)}\n`.repeat(500))
  writeFileSync(join(logs, 'app.jsonl'), '{"level":30,"time":1795262651123,"msg":"listening","port":8080}\n')
  writeFileSync(join(logs, 'error.log'), '')
  const { page, watch } = await open(t, stage, `projects/${id}/logs`)

  await page.getByRole('heading', { name: 'No log files yet' }).waitFor()
  await photograph(page, 'sources-empty-desktop')
  await page.getByRole('link', { name: 'Add log files' }).first().click()
  const paths = page.getByLabel('Files on the server')
  await paths.fill(`${join(logs, 'access.log')}\nrelative.log`)
  await page.getByRole('button', { name: 'Add 2 files' }).click()
  await page.getByText('Line 2: ').waitFor()
  t.match(watch.complaints.splice(0), [/400.*log-sources/])
  t.equal(await paths.inputValue(), `${join(logs, 'access.log')}\nrelative.log`, 'nothing that was typed is lost')
  await photograph(page, 'add-desktop')
  await paths.fill(`${join(logs, 'access.log')}\n${join(logs, 'later.log')}`)
  await page.getByRole('button', { name: 'Browse server…' }).click()
  await page.locator('svc-places .steps').waitFor()
  await page.getByLabel('Filter, or type a path').fill(logs)
  await page.getByLabel('Filter, or type a path').press('Enter')
  await page.getByLabel('app.jsonl').check()
  await page.getByLabel('error.log').check()
  await photograph(page, 'choose-desktop')
  await page.getByRole('button', { name: 'Choose', exact: true }).click()
  await page.getByRole('button', { name: 'Add 4 files' }).click()
  await page.getByText('4 log files added').waitFor()
  const names = () => page.locator('svc-log-sources .row b').allTextContents()
  await page.locator('svc-log-sources .row').nth(3).waitFor()
  t.same(await names(), ['access.log', 'later.log', 'app.jsonl', 'error.log'])
  await page.getByText('Missing').waitFor()
  await photograph(page, 'sources-desktop')
  t.same(await survey(page), [])

  await page.getByRole('button', { name: 'Move down: access.log' }).click()
  await holds(page, 'document.querySelector("svc-log-sources .row b").textContent === "later.log"')
  await page.getByRole('button', { name: 'Change: app.jsonl' }).click()
  await page.getByLabel('Name', { exact: true }).fill('Application')
  await page.getByLabel('Kind').selectOption('plain')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('link', { name: 'Application' }).waitFor()
  await page.reload()
  await page.getByRole('link', { name: 'Application' }).waitFor()
  t.same(await names(), ['later.log', 'access.log', 'Application', 'error.log'], 'names and order are the server’s')
  await page.getByLabel('Choose later.log').check()
  await page.getByLabel('Choose error.log').check()
  await page.getByRole('button', { name: 'Remove…' }).click()
  await photograph(page, 'remove-desktop')
  await page.getByRole('button', { name: 'Remove', exact: true }).click()
  await page.getByText('2 log files removed').waitFor()
  await page.locator('svc-log-sources .row').nth(1).waitFor()
  t.same(await names(), ['access.log', 'Application'])
  t.same(
    watch.complaints.filter(words => !/404.*meta/.test(words)),
    [],
    'that a file is missing is all the console has to say'
  )
  t.same(watch.foreign, [])
})

t.test('a large file: its end at once, any place of it, a search of all of it', { skip }, async t => {
  const stage = await startServer(t)
  const path = join(stage.sites, 'access.log')
  await writeAccessLog(path)
  const { id } = await stage.createProject('storefront')
  const source = await addSource(stage, id, path)
  const { page, watch } = await open(t, stage, `projects/${id}/logs/${source}`)
  const log = page.locator('svc-log')
  const line = (index: number) => log.getByText(`/items/${index}?`)

  await line(manyLines - 1).waitFor()
  await photograph(page, 'file-desktop')
  t.same(await survey(page), [])
  t.ok((await page.locator('svc-log .line').count()) < 300, 'only the lines near those seen are on the page')

  await page.locator('svc-log .scroll').focus()
  await page.keyboard.press('Home')
  await line(0).waitFor()
  await page.evaluate('document.querySelector("svc-log .scroll").scrollTop = 1e9')
  await holds(page, '/items.(3[1-9]\\d\\d)\\?/.test(document.querySelector("svc-log .lines").textContent)')
  // The two places have no line in common.
  const drawn = (await page.evaluate(`(async () => {
    const scroll = document.querySelector('svc-log .scroll')
    const frame = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)))
    scroll.scrollTop = 0
    for (let at = 0; at < 4; at++) await frame()
    const counts = []
    const observer = new MutationObserver(() => counts.push(scroll.querySelectorAll('.line').length))
    observer.observe(scroll.querySelector('.lines'), { childList: true })
    scroll.scrollTop = 400 * scroll.querySelector('.line').getBoundingClientRect().height
    for (let at = 0; at < 6; at++) await frame()
    observer.disconnect()
    return { counts, seen: Math.ceil(scroll.clientHeight / scroll.querySelector('.line').getBoundingClientRect().height) }
  })()`)) as { counts: number[]; seen: number }
  t.ok((drawn.counts[0] as number) <= drawn.seen + 4, `a frame after a jump draws what is seen: ${drawn.counts}`)
  t.ok((drawn.counts.at(-1) as number) > drawn.seen + 60, `the next one draws the lines around it: ${drawn.counts}`)

  const rail = page.getByRole('scrollbar', { name: 'Position in the file' })
  const box = (await rail.boundingBox()) as { x: number; y: number; width: number; height: number }
  await page.mouse.click(box.x + 8, box.y + box.height / 2)
  await holds(page, `/items.(12\\d{4})\\?/.test(document.querySelector('svc-log .lines').textContent)`)
  t.match(page.url(), /\?at=\d+$/)

  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('/')
  await page.getByLabel('Search the whole file').fill('" 500 ')
  await page.keyboard.press('Enter')
  await page.getByText('The newest 200 hits; there are older hits.').waitFor()
  t.match(await page.locator('svc-log-search .hits b').first().textContent(), /items\/249000\?/, 'the newest first')
  await photograph(page, 'search-desktop')
  const older = page.getByRole('button', { name: 'Older hits' })
  await older.click()
  await older.click()
  await page.getByText('250 hits', { exact: true }).waitFor()
  await page.getByRole('button', { name: /items\/77000\?/ }).click()
  await page.locator('svc-log .line.here', { hasText: '/items/77000?' }).waitFor()
  t.ok(await page.locator('svc-log .line.here mark').count(), 'what was found is marked')
  await line(76_995).waitFor()
  await line(77_005).waitFor()
  await photograph(page, 'hit-desktop')
  t.same(await survey(page), [])
  // Each look scrolls to the edge of what is held, until more of the file has been paged in than was there.
  for (const [edge, isReached] of [
    ['0', '< 70000'],
    ['1e9', '> 84000']
  ] as const) {
    await holds(
      page,
      `((scroll, line) => {
      scroll.scrollTop = ${edge}
      return Number(/items.(\\d+)/.exec(line?.textContent)?.[1]) ${isReached}
    })(document.querySelector('svc-log .scroll'), document.querySelector('svc-log .line'))`
    )
  }
  t.match(page.url(), /q=%22\+500\+/)
  await page.reload()
  await page.locator('svc-log .line', { hasText: '/items/77000?' }).waitFor()
  await page.getByText('The newest 200 hits; there are older hits.').waitFor()
  await page.getByLabel('Search the whole file').fill('(a+)+$')
  await page.getByLabel('Regular expression').check()
  await page.getByRole('button', { name: 'Search', exact: true }).last().click()
  await page.getByText('Not found in this file.').waitFor()

  await page.locator('svc-log-menu > button').click()
  await page.getByRole('menuitem', { name: 'Go to a time…' }).click()
  const wanted = (await page.evaluate(
    `(date => new Date(date - new Date(date).getTimezoneOffset() * 60000).toISOString().slice(0, 19))(${startMs + 3_600_000})`
  )) as string
  await page.getByLabel('First line at or after').fill(wanted)
  await page.getByRole('button', { name: 'Go', exact: true }).click()
  await page.locator('svc-log .line.here', { hasText: '/items/36000?' }).waitFor()
  await photograph(page, 'time-desktop')

  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download' }).click()
  t.equal((await download).suggestedFilename(), 'access.log')
  await page.locator('svc-log .scroll').press('End')
  await line(manyLines - 1).waitFor()
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test(
  'following: pauses, counts, goes on; rotated; a network that is cut; nothing lost, nothing doubled',
  { skip },
  async t => {
    const stage = await startServer(t)
    const proxy = await startCutProxy(t, stage.url)
    const path = join(stage.sites, 'app.log')
    const lines = Array.from({ length: 400 }, (_, index) => `line ${index}`)
    writeFileSync(path, `${lines.join('\n')}\n`)
    const { id } = await stage.createProject('storefront')
    const source = await addSource(stage, id, path)
    const { page, watch } = await open(t, proxy, `projects/${id}/logs/${source}`)
    const write = (count: number): void => {
      const more = Array.from({ length: count }, (_, index) => `line ${lines.length + index}`)
      lines.push(...more)
      appendFileSync(path, `${more.join('\n')}\n`)
    }
    const last = () =>
      page
        .locator('svc-log')
        .getByText(`line ${lines.length - 1}`, { exact: true })
        .waitFor()
    await last()
    write(50)
    await last()
    await page.mouse.move(700, 500)
    await page.mouse.wheel(0, -6000)
    await holds(page, 'document.querySelector("svc-log .scroll").scrollTop < 3000')
    write(1234)
    await page.getByRole('button', { name: '1,234 new lines' }).waitFor()
    await photograph(page, 'paused-desktop')
    await page.getByRole('button', { name: '1,234 new lines' }).click()
    await last()

    proxy.cut()
    await page.getByText('Connection lost. Reconnecting…').waitFor()
    write(777)
    await photograph(page, 'lost-desktop')
    proxy.mend()
    await last()
    await page.getByText('Connection lost. Reconnecting…').waitFor({ state: 'hidden' })
    watch.complaints.splice(0)
    renameSync(path, `${path}.1`)
    write(20)
    await page.getByText(/The file was rotated at/).waitFor()
    await last()
    const text = await copied(page)
    t.equal(text, lines.join('\n'), 'every line once')
    t.same(watch.complaints, [])
  }
)

t.test('shows log lines as text: colours, links, hostile markup, very long lines', { skip }, async t => {
  const stage = await startServer(t)
  const path = join(stage.sites, 'hostile.log')
  const hostile = [
    '<img src=x onerror=alert(1)><script>alert(2)</script>',
    '\x1b[31mred \x1b[1mbold\x1b[0m \x1b]8;;javascript:alert(3)\x07click\x1b]8;;\x07',
    'see https://example.com/a?b=1&c=<b>x</b> and javascript:alert(4)',
    '"><svg onload=alert(5)>',
    '&lt;b&gt;',
    'x'.repeat(50_000),
    '\u202eright to left\u202c 日本語 🚀'
  ]
  writeFileSync(path, `${hostile.join('\n')}\n`)
  const { id } = await stage.createProject('storefront')
  const source = await addSource(stage, id, path)
  const { page, watch } = await open(t, stage, `projects/${id}/logs/${source}`)
  await page.locator('svc-log').getByText('right to left').waitFor()
  t.equal(await page.locator('svc-log .lines :is(img, script, b, svg)').count(), 0)
  t.equal(await page.locator('svc-log .lines .bold').textContent(), 'bold')
  const link = page.locator('svc-log .lines a')
  t.equal(await link.count(), 1, 'one link of http, none of anything else')
  t.equal(await link.getAttribute('href'), 'https://example.com/a?b=1&c=')
  t.match(await link.getAttribute('rel'), /noopener/)
  await photograph(page, 'hostile-desktop')
  t.match(await copied(page), /^<img src=x onerror=alert\(1\)><script>alert\(2\)<\/script>\nred bold click\nsee/)
  await page.locator('svc-log-menu > button').click()
  await page.getByRole('menuitem', { name: 'Copy with colours' }).click()
  await page.getByText('Copied').waitFor()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), `${hostile.join('\n')}\n`, 'the log as it is')

  const first = (await page.locator('svc-log .line').first().boundingBox()) as { x: number; y: number; height: number }
  const cell = 7.2
  await page.mouse.move(first.x + 16 + cell * 0.5, first.y + first.height / 2)
  await page.mouse.down()
  await page.mouse.move(first.x + 300, first.y + first.height * 4.5, { steps: 4 })
  await page.mouse.up()
  await page.keyboard.press('Control+c')
  const selected = String(await page.evaluate('navigator.clipboard.readText()'))
  t.equal(selected.split('\n').length, 5, 'five lines are selected')
  t.equal(selected.split('\n')[1], 'red bold click')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('a selection is kept while its lines leave the page', { skip }, async t => {
  const stage = await startServer(t)
  const path = join(stage.sites, 'many.log')
  writeFileSync(path, Array.from({ length: 4000 }, (_, index) => `line ${index}\n`).join(''))
  const { id } = await stage.createProject('storefront')
  const { page } = await open(t, stage, `projects/${id}/logs/${await addSource(stage, id, path)}`)
  await page.locator('svc-log').getByText('line 3999', { exact: true }).waitFor()
  const last = page.locator('svc-log .line', { hasText: /^line 3999$/ })
  const box = (await last.boundingBox()) as { x: number; y: number; width: number; height: number }
  await page.mouse.move(box.x + 200, box.y + box.height / 2)
  await page.mouse.down()
  const scroll = (await page.locator('svc-log .scroll').boundingBox()) as { x: number; y: number }
  await page.mouse.move(scroll.x + 17, scroll.y + 4, { steps: 3 })
  await holds(page, '!document.querySelector("svc-log .lines").textContent.includes("line 3999")')
  await page.mouse.up()
  await page.keyboard.press('Control+c')
  const lines = String(await page.evaluate('navigator.clipboard.readText()')).split('\n')
  t.equal(lines.at(-1), 'line 3999', 'its anchor is no longer on the page')
  t.same(
    lines,
    Array.from({ length: lines.length }, (_, index) => `line ${4000 - lines.length + index}`)
  )
  t.ok(lines.length > 60, `${lines.length} lines`)
})

t.test('JSON lines are columns, and unfold', { skip }, async t => {
  const stage = await startServer(t)
  const path = join(stage.sites, 'app.jsonl')
  const levels = [20, 30, 30, 40, 50]
  const line = (index: number): string =>
    JSON.stringify({
      level: levels[index % 5],
      time: startMs + index * 1000,
      pid: 7,
      req: { method: 'GET', url: `/items/${index}` },
      msg: `request ${index} done`
    })
  writeFileSync(path, `${Array.from({ length: 30 }, (_, index) => line(index)).join('\n')}\nno json at all\n`)
  const { id } = await stage.createProject('storefront')
  const source = await addSource(stage, id, path, { kind: 'json' })
  const { page, watch } = await open(t, stage, `projects/${id}/logs/${source}`)
  await page.locator('svc-log').getByText('no json at all').waitFor()
  t.match(
    await page.locator('svc-log .line', { hasText: 'request 4 done' }).textContent(),
    /^2026-11-20T00:00:04.000Z {2}ERROR {2}request 4 done {2}pid=7/
  )
  await page.locator('svc-log .line', { hasText: 'request 4 done' }).click()
  await page.locator('svc-log .unfolded', { hasText: '"method": "GET"' }).waitFor()
  await photograph(page, 'json-desktop')
  t.same(await survey(page), [])
  await page.locator('svc-log .line', { hasText: 'request 4 done' }).click({ position: { x: 100, y: 5 } })
  await page.locator('svc-log .unfolded').waitFor({ state: 'detached' })
  t.same(watch.complaints, [])
})

t.test('all log files: found, side by side, merged by time; on a phone, too', { skip }, async t => {
  const stage = await startServer(t)
  const paths = ['access.log', 'error.log', 'worker.log'].map(name => join(stage.sites, name))
  const at = (index: number): string => new Date(startMs + index * 1000).toISOString()
  for (const [place, path] of paths.entries()) {
    writeFileSync(
      path,
      Array.from({ length: 200 }, (_, index) => `${at(index * 3 + place)} ${['a', 'e', 'w'][place]}${index}\n`).join('')
    )
  }
  const shop = await stage.createProject('storefront')
  const other = await stage.createProject('billing')
  const ids = [
    await addSource(stage, shop.id, paths[0] as string),
    await addSource(stage, shop.id, paths[1] as string),
    await addSource(stage, other.id, paths[2] as string)
  ]
  const { page, watch } = await open(t, stage, 'logs')
  await page.getByRole('heading', { name: 'billing' }).waitFor()
  await page.getByLabel('Find log files').fill('error')
  await page.getByRole('heading', { name: 'billing' }).waitFor({ state: 'detached' })
  t.match(page.url(), /\?q=error$/)
  await page.getByLabel('Find log files').fill('')
  for (const name of ['access.log', 'error.log', 'worker.log']) await page.getByRole('checkbox', { name }).check()
  await photograph(page, 'all-desktop')
  t.same(await survey(page), [])
  await page.getByRole('button', { name: 'Merged by time' }).click()
  await page.locator('svc-merged-log .line').first().waitFor()
  t.match(page.url(), new RegExp(`/logs\\?source=${ids[0]}&source=${ids[1]}&source=${ids[2]}&merged=1$`))
  await page
    .locator('svc-log')
    .getByText(/ w199$/)
    .waitFor()
  const merged = (await copied(page)).split('\n')
  t.same(
    merged.map(line => line.split(' ')[1]),
    Array.from({ length: 600 }, (_, index) => `${['a', 'e', 'w'][index % 3]}${Math.floor(index / 3)}`)
  )
  appendFileSync(paths[1] as string, `${at(700)} e200\n`)
  appendFileSync(paths[0] as string, `${at(699)} a200\n`)
  await page
    .locator('svc-log')
    .getByText(/ e200$/)
    .waitFor()
  t.match((await copied(page)).split('\n').slice(-2), [/a200$/, /e200$/], 'what is new stands in its order, too')
  await photograph(page, 'all-merged-desktop')
  t.same(await survey(page), [])
  await page.getByRole('button', { name: 'Side by side' }).click()
  await page.locator('svc-log-file').nth(2).locator('.line').first().waitFor()
  await photograph(page, 'all-side-desktop')
  t.same(await survey(page), [])
  await page.getByRole('button', { name: 'Remove from view error.log' }).click()
  await page.locator('svc-log-file').nth(2).waitFor({ state: 'detached' })
  t.equal(await page.locator('svc-log-file').count(), 2)
  t.same(watch.complaints, [])

  const small = await open(t, stage, `logs?source=${ids[0]}&source=${ids[2]}&merged=1`, onPhone)
  await small.page
    .locator('svc-log')
    .getByText(/ w199$/)
    .waitFor()
  await photograph(small.page, 'all-merged-phone')
  t.same(await survey(small.page), [])
  await small.page.goto(`${stage.url}/logs`)
  await small.page.getByRole('heading', { name: 'billing' }).waitFor()
  await photograph(small.page, 'all-phone')
  t.same(await survey(small.page), [])
  await small.page.goto(`${stage.url}/projects/${shop.id}/logs`)
  await small.page.locator('svc-log-sources .row').first().waitFor()
  await photograph(small.page, 'sources-phone')
  t.same(await survey(small.page), [])
  await small.page.goto(`${stage.url}/projects/${shop.id}/logs/${ids[0]}?q=a1`)
  await small.page.locator('svc-log-search').getByText(/hits/).first().waitFor()
  await photograph(small.page, 'file-phone')
  t.same(await survey(small.page), [])
  t.same(small.watch.complaints, [])
})
