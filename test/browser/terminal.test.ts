import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import t from 'tap'
import type { Test } from 'tap'
import { startCutProxy } from '../support/cut-proxy.js'
import { cellsOfCapture } from '../support/screen-cells.js'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { holds, onPhone, openDuring, photographer, type ContextOptions, type SignedIn } from './stage.js'

/*
 * The terminal as a person uses it: a real shell behind a real server. With PICTURES=1 in the environment pictures are
 * left in dist/screens.
 */

const fixtures = new URL('../../../test/fixtures/screens/', import.meta.url)
const { browser, skip } = await startChromium(t)
const photograph = photographer('terminal')

/** Signed in, with the page's address open. */
async function open(
  t: Test,
  url: string,
  options: ContextOptions = { viewport: { width: 1100, height: 700 } }
): Promise<SignedIn> {
  const desk = await openDuring(t, browser, url, 'terminal', {
    ...options,
    permissions: ['clipboard-read', 'clipboard-write']
  })
  await desk.page.getByRole('heading', { name: 'Terminal', exact: true }).waitFor()
  return desk
}

const rowsOf = (page: Page, text: RegExp): Locator =>
  page.locator('[role=tabpanel]:not([hidden]) svc-terminal .rows > div').filter({ hasText: text })

/** Waits until a row of the screen is this text and nothing else. */
async function see(page: Page, row: string): Promise<void> {
  const text = row.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  await rowsOf(page, new RegExp(`^${text}\\s*$`))
    .first()
    .waitFor({ state: 'attached' })
}

/** A shell that can be told from what is typed: its prompt is `>`. */
async function settle(page: Page): Promise<void> {
  await page.locator('.tab:has([aria-selected=true]) .dot.open').waitFor()
  await page.keyboard.type("PS1='>'; PS2=; clear\n")
  await see(page, '>')
}

/** Ends what runs. The shell throws away what is typed before it has its prompt again. */
async function interrupt(page: Page, press: () => Promise<void>): Promise<void> {
  await press()
  await rowsOf(page, /^[^ ]*>\s*$/)
    .first()
    .waitFor()
}

async function run(page: Page, command: string): Promise<void> {
  await page.keyboard.type(`${command}\n`)
}

/** Everything that the terminal has, through its own keys and the clipboard. */
async function everything(page: Page): Promise<string> {
  await page.keyboard.press('Control+Shift+A')
  await page.keyboard.press('Control+Shift+C')
  return String(await page.evaluate('navigator.clipboard.readText()'))
}

t.test('a shell: type, see, mark, copy, paste, find, resize, leave, come back, end', { skip }, async t => {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const target = join(stage.sites, 'storefront')
  mkdirSync(target, { recursive: true })
  const { page, watch } = await open(t, stage.url)
  await settle(page)

  await run(page, 'echo "hello 部署 $((40+2))"')
  await see(page, 'hello 部署 42')

  const sizeOf = async (name: string): Promise<number[]> => {
    await run(page, `echo ${name} $(stty size)`)
    const text = await rowsOf(page, new RegExp(`^${name} \\d+ \\d+\\s*$`))
      .last()
      .textContent()
    return (text as string).split(' ').slice(1).map(Number)
  }
  const [rows, columns] = (await sizeOf('before')) as [number, number]
  await page.setViewportSize({ width: 800, height: 500 })
  // Set in the same breath in which the server is told.
  await holds(page, 'Number.parseFloat(document.querySelector("svc-terminal .view").style.height) < 400')
  const smaller = await sizeOf('after')
  t.ok(
    (smaller[0] as number) < rows && (smaller[1] as number) < columns,
    `the shell knows of another size: ${rows} ${columns}, ${smaller}`
  )
  await page.setViewportSize({ width: 1100, height: 700 })

  await run(page, 'clear; echo first-word second-word')
  await see(page, 'first-word second-word')
  const row = page.locator('svc-terminal .rows > div', { hasText: /^first-word second-word/ })
  await row.dblclick({ position: { x: 120, y: 8 } })
  await page.locator('svc-terminal .marks .selected').waitFor()
  await page.keyboard.press('Control+Shift+C')
  t.equal(await page.evaluate('navigator.clipboard.readText()'), 'second-word', 'a double click marks a word')
  await page.evaluate(`navigator.clipboard.writeText('echo pas\\u001bted\\n')`)
  await page.keyboard.press('Control+Shift+V')
  await see(page, 'pasted')

  await page.keyboard.press('Control+Shift+F')
  await page.getByLabel('Find in the terminal').fill('-word')
  await page.getByText(/^\d of \d$/).waitFor()
  await photograph(page, 'find')
  await page.keyboard.press('Enter')
  t.ok((await page.locator('svc-terminal .marks .hit').count()) > 0, 'hits are shown')
  await page.keyboard.press('Escape')
  await run(page, 'echo back again')
  await see(page, 'back again')

  await page.keyboard.insertText('echo 粘贴')
  const wire = await page.context().newCDPSession(page)
  await wire.send('Input.imeSetComposition', { text: 'shuru', selectionStart: 5, selectionEnd: 5 })
  await page.locator('svc-terminal .keys.composing').waitFor()
  await wire.send('Input.insertText', { text: '输入' })
  await run(page, '')
  await see(page, '粘贴输入')
  await page.getByLabel('Read output aloud').check()
  await page.locator('svc-terminal .keys').focus()
  await run(page, 'echo said aloud')
  await page.locator('svc-terminal .spoken').getByText('said aloud', { exact: true }).waitFor()

  await run(page, `clear; seq 200; until [ -e '${target}/go' ]; do sleep 0.1; done; echo late; rm '${target}/go'`)
  await see(page, '200')
  await rowsOf(page, /^200\s*$/).hover()
  await page.mouse.wheel(0, -400)
  await see(page, '150')
  writeFileSync(join(target, 'go'), '')
  await page.getByRole('button', { name: /^\d+ new lines?$/ }).click()
  await see(page, 'late')

  await run(page, "clear; printf '\\033[?1000;1006hclick\\n'; cat -v")
  await rowsOf(page, /^click/)
    .first()
    .click({ position: { x: 2, y: 4 } })
  await page.keyboard.press('Control+D')
  await run(page, '')
  await page.keyboard.press('Control+D')
  await rowsOf(page, /\^\[\[<0;1;1M\^\[\[<0;1;1m/)
    .first()
    .waitFor()
  await run(page, "printf '\\033[?1000;1006l'; clear; echo back again")
  await see(page, 'back again')

  t.ok(await page.getByText('Ctrl-F6 leaves the terminal').isVisible(), 'everybody reads how the keyboard leaves')
  await page.keyboard.press('Control+F6')
  t.equal(await page.evaluate('document.activeElement.getAttribute("role")'), 'tab', 'the keyboard can leave')
  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('heading', { name: 'Ready for a first deployment' }).waitFor()
  await page.getByRole('navigation', { name: 'Main navigation' }).getByRole('link', { name: 'Terminal' }).click()
  await see(page, 'back again')

  await page.getByLabel('Directory of a new session').selectOption(id)
  await page.getByRole('button', { name: 'New session' }).click()
  await page.getByRole('tab', { name: 'storefront' }).waitFor()
  await settle(page)
  await run(page, `[ "$PWD" = '${target}' ] && echo in the target`)
  await see(page, 'in the target')
  await run(page, "printf '\\033]2;a title\\007'")
  await page.getByRole('tab', { name: 'a title' }).waitFor()
  t.match(await page.title(), /^a title · Terminal/)
  await run(page, 'exit 3')
  await page.getByText('The shell exited with code 3.').waitFor()
  await photograph(page, 'ended')
  await page.getByRole('button', { name: 'Start a new session' }).click()
  await settle(page)
  await run(page, 'echo a new one')
  await see(page, 'a new one')
  await page
    .getByRole('button', { name: /^End the session/ })
    .last()
    .click()
  t.equal(await page.getByRole('tab').count(), 1)
  await see(page, 'back again')

  await page.getByRole('button', { name: /^End the session/ }).click()
  await page.getByRole('heading', { name: 'No session is open' }).waitFor()
  t.same(watch.complaints, [], 'the console is quiet')
  t.same(watch.foreign, [])
})

t.test('programs look as they do in tmux, on the page too', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch } = await open(t, stage.url)
  await settle(page)
  for (const name of ['vim', 'mc', 'htop']) {
    const bytes = readFileSync(new URL(`${name}.in`, fixtures))
    const [, offset, , , text] = readFileSync(new URL(`${name}.text`, fixtures), 'utf8')
      .split(/^=== revealed\n[^]*?(?==== \d)/m)[2]!
      .match(/^=== (\d+) bytes, cursor (\d+) (\d+)\n([^]*)$/) as string[]
    const wanted = cellsOfCapture(text as string, { columns: 80, rows: 24 }).map(row =>
      row
        .map(cell => cell.text || ' ')
        .join('')
        .trimEnd()
    )
    const shown = await page.evaluate(`(async () => {
      const terminal = document.createElement('svc-terminal')
      terminal.style.cssText = 'position: fixed; inset: 0; z-index: 9; width: 900px; height: 600px'
      document.body.append(terminal)
      const frame = () => new Promise(resolve => requestAnimationFrame(resolve))
      while (terminal.querySelector('.ruler') === null) await frame()
      const cell = terminal.querySelector('.ruler').getBoundingClientRect()
      const view = terminal.querySelector('.view')
      terminal.style.width = terminal.clientWidth - view.clientWidth + Math.ceil(cell.width * 0.8) + 'px'
      terminal.style.height = Math.round(cell.height) * 24 + 16 + 'px'
      await new Promise(resolve => terminal.addEventListener('terminalsize', event => {
        if (event.columns === 80 && event.rows === 24) resolve()
      }))
      await new Promise(resolve => terminal.write(${JSON.stringify(bytes.subarray(0, Number(offset)).toString())}, resolve))
      await frame()
      await frame()
      return [...terminal.querySelectorAll('.rows > div')].slice(-24).map(row => row.textContent.trimEnd())
    })()`)
    t.same(shown, wanted, name)
    await photograph(page, name)
    await page.evaluate('document.querySelector("body > svc-terminal").remove()')
  }
  t.same(watch.complaints, [])
})

t.test('a flood leaves the page time to draw, and Ctrl-C ends it', { skip }, async t => {
  const stage = await startServer(t)
  const { page } = await open(t, stage.url)
  await settle(page)
  const file = join(stage.sites, 'large.txt')
  const line = 'a line of a large file, as long as lines of logs are, more or less, so that it fills its row\n'
  writeFileSync(file, line.repeat(Math.ceil((8 * 1024 * 1024) / line.length)))
  await page.evaluate(`(() => {
    window.frames_ = 0
    const count = () => (window.frames_++, requestAnimationFrame(count))
    count()
  })()`)
  const startedAt = Date.now()
  const before = Number(await page.evaluate('window.frames_'))
  await run(page, `cat '${file}'; echo the end of it`)
  await see(page, 'the end of it')
  const drawn = Number(await page.evaluate('window.frames_')) - before
  t.comment(`8 MiB in ${Date.now() - startedAt} ms, ${drawn} frames`)
  t.ok(drawn >= 20, 'frames are drawn all the while')

  await run(page, 'clear; yes flooding')
  await see(page, 'flooding')
  const pressedAt = Date.now()
  await interrupt(page, () => page.keyboard.press('Control+C'))
  await run(page, 'clear; echo and so it ended')
  await see(page, 'and so it ended')
  t.comment(`after ${Date.now() - pressedAt} ms`)
})

t.test('a cut connection loses and repeats no output, and the page says that it was cut', { skip }, async t => {
  const stage = await startServer(t)
  const way = await startCutProxy(t, stage.url, { resets: true })
  const { page } = await open(t, way.url)
  await settle(page)
  const go = join(stage.sites, 'go')
  const wait = `[ $i -ne 40 ] || until [ -e '${go}' ]; do sleep 0.1; done`
  await run(page, `clear; i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo "row $i"; ${wait}; done; echo finished`)
  await see(page, 'row 40')
  way.cut()
  writeFileSync(go, '')
  await page.getByText('Connection lost. Reconnecting… The shell').waitFor()
  await photograph(page, 'lost')
  way.mend()
  await see(page, 'finished')
  await page.getByText('Connection lost. Reconnecting… The shell').waitFor({ state: 'detached' })
  const rows = (await everything(page)).split('\n').filter(row => /^row \d+$/.test(row))
  t.same(
    rows,
    Array.from({ length: 300 }, (_, index) => `row ${index + 1}`)
  )
  await run(page, 'echo still here')
  await see(page, 'still here')
})

t.test('a server without a terminal says why; a phone has room for one', { skip }, async t => {
  const stage = await startServer(t, { base: '/tools/svc' })
  const { page, watch } = await open(t, stage.url, onPhone)
  await settle(page)
  await run(page, 'echo on a phone')
  await see(page, 'on a phone')
  await photograph(page, 'phone')
  await run(page, 'clear; echo ready; cat -v')
  // Before that, the key would go to the line editor of the shell.
  await rowsOf(page, /^ready\s*$/).waitFor()
  await page.getByRole('button', { name: 'Up' }).tap()
  await rowsOf(page, /^\^\[\[A\s*$/).waitFor()
  await interrupt(page, () => page.getByRole('button', { name: 'Ctrl C' }).tap())
  await run(page, 'clear; echo on it still')
  await see(page, 'on it still')
  t.equal(
    await page.evaluate('document.documentElement.scrollWidth'),
    onPhone.viewport?.width,
    'nothing sticks out at the side'
  )
  await stage.client.put('/api/settings', { terminal_enabled: 'false' })
  await page.reload()
  await page.getByRole('heading', { name: 'No terminal on this server' }).waitFor()
  await photograph(page, 'none')
  t.same(watch.complaints, [])
})

t.test('a reloaded page knows the modes that older output has set', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch } = await open(t, stage.url)
  await settle(page)
  await run(page, `printf '\\033[?1h'; head -c 600000 /dev/zero | tr '\\0' x | fold -w 70; clear; echo printed; cat -v`)
  await see(page, 'printed')
  await page.reload()
  await page.locator('.tab:has([aria-selected=true]) .dot.open').waitFor()
  await see(page, 'printed')
  await page.locator('svc-terminal textarea').focus()
  await page.keyboard.press('ArrowUp')
  await page.keyboard.press('Enter')
  await rowsOf(page, /\^\[OA\s*$/)
    .first()
    .waitFor()
  t.same(watch.complaints, [])
})

t.test('a reloaded page continues its shells, and closing a tab ends its shell', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch } = await open(t, stage.url)
  await settle(page)
  // What asks the screen for something must not be answered twice.
  await run(
    page,
    `x=kept; stty raw -echo min 0 time 3; printf '\\033[c\\033[6n'; cat >/dev/null; stty sane; clear; echo before`
  )
  await see(page, 'before')
  await page.getByRole('button', { name: 'New session' }).click()
  await settle(page)
  await run(page, 'y=second; echo there')
  await see(page, 'there')
  await page.reload()
  await page.getByRole('tab').nth(1).waitFor()
  await page.getByRole('tab').nth(1).click()
  await see(page, 'there')
  await run(page, 'echo "it is $y"')
  await see(page, 'it is second')
  await page.getByRole('tab').first().click()
  await see(page, 'before')
  await run(page, 'echo "it is $x"')
  await see(page, 'it is kept')
  for (const key of ['Shift+ArrowUp', 'Shift+ArrowLeft', 'Shift+ArrowRight', 'Shift+ArrowRight'])
    await page.keyboard.press(key)
  await page.keyboard.press('Control+Shift+C')
  await holds(page, `navigator.clipboard.readText().then(text => text === ' is kept\\n>')`)
  t.equal(await rowsOf(page, /\[\?|\dR/).count(), 0, 'no answer was typed into the shell')
  await page
    .getByRole('button', { name: /^End the session/ })
    .first()
    .click()
  await page.reload()
  await page.getByRole('tab').first().waitFor()
  await see(page, 'it is second')
  t.equal(await page.getByRole('tab').count(), 1)
  t.same(watch.complaints, [])
})
