import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { maySwitchUser } from '../../lib/core/proc/identity.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium } from './chromium.js'
import { desktop, onPhone, phone, photographer, saveCard, signIn } from './stage.js'

/*
 * The panel as a person uses it, in a real browser against a real server: at the root on a desktop, and below a prefix
 * on a phone. With PICTURES=1 in the environment pictures of each screen, light and dark, are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('panel')

const siteOne = zipOf({ 'index.html': '<h1>one</h1>', 'old.txt': 'old' })
const siteTwo = zipOf({ 'index.html': '<h1>two</h1>', 'new.txt': 'new' })

/** Drops a file on the page's upload zone, as a file manager does. */
async function drop(page: Page, name: string, bytes: Buffer): Promise<void> {
  const script = `(zone => {
    const bytes = Uint8Array.from(atob(${JSON.stringify(bytes.toString('base64'))}), each => each.charCodeAt(0))
    const dataTransfer = new DataTransfer()
    dataTransfer.items.add(new File([bytes], ${JSON.stringify(name)}, { type: 'application/zip' }))
    for (const type of ['dragover', 'drop']) {
      zone.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }))
    }
  })(document.querySelector('svc-upload .zone'))`
  await page.locator('svc-upload .zone').waitFor()
  await page.evaluate(script)
}

t.test('from an empty server to a deployment, a failure, and the way back', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())

  await page.goto(`${stage.url}/deployments?status=failed`)
  await page.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
  await page.waitForLoadState('networkidle')
  await page.getByLabel('Token').fill('wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').waitFor()
  await photograph(page, 'login-desktop')
  t.match(watch.complaints.splice(0), [/401.*\/api\/auth\/login/], 'the refused token is all the console has to say')

  await signIn(page)
  await page.getByRole('heading', { level: 1, name: 'Deployments' }).waitFor()
  t.match(page.url(), /\/deployments\?status=failed$/, 'signing in leads to where one was going')
  t.notMatch(
    await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])'),
    adminToken,
    'no page has the token'
  )

  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('heading', { name: 'Ready for a first project' }).waitFor()
  await photograph(page, 'first-steps-desktop')
  const offCentre = `[...document.querySelectorAll('svc-first-steps .sign')].map(sign => {
    const number = document.createRange()
    number.selectNodeContents(sign)
    const [inner, outer] = [number.getBoundingClientRect(), sign.getBoundingClientRect()]
    return Math.round(inner.left + inner.right - outer.left - outer.right)
  })`
  t.same(await page.evaluate(offCentre), [0, 0, 0], 'the numbers are in the middle of their circles')
  watch.reset()
  await page.reload()
  await page.getByRole('link', { name: 'Create a project' }).waitFor()
  await page.waitForLoadState('networkidle')

  await page.getByRole('link', { name: 'Create a project' }).click()
  const hostile = '<img src=x onerror=alert(1)>'
  await page.getByLabel('Name').fill('storefront')
  // As root, a user that does not exist is proposed.
  if (maySwitchUser()) await page.getByLabel('Run as user').fill('')
  await page.getByLabel('Description').fill(hostile)
  await page.getByLabel('Directory on the server').fill('/etc')
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.locator('#new-deployPath-error').waitFor()
  t.match(watch.complaints.splice(0), [/400.*\/api\/projects/])
  await photograph(page, 'new-project-desktop')
  const target = join(stage.sites, 'storefront')
  await page.getByLabel('Directory on the server').fill(target)
  await page.getByRole('button', { name: 'Create project' }).click()
  await page.getByRole('heading', { level: 1, name: 'storefront' }).waitFor()
  t.equal(await page.getByText(hostile).count(), 1, 'text of a user is text')
  t.equal(await page.locator('svc-page-project img').count(), 0, '… and never markup')
  await photograph(page, 'project-desktop')

  await drop(page, 'one.zip', await siteOne)
  await page.getByRole('button', { name: 'Deploy', exact: true }).click()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.match(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
  await page.goBack()
  await photograph(page, 'deployed-desktop')

  await page.getByRole('navigation', { name: 'Project' }).getByRole('link', { name: 'Settings' }).click()
  await page.getByLabel('Pre-deploy script').fill('printf "\\033[33mchecking\\033[0m\\n"')
  await page.getByRole('textbox', { name: 'Post-deploy script' }).fill('echo restarting; exit 3')
  await saveCard(page, 'Scripts')
  await photograph(page, 'settings-desktop')
  t.not(await regenerateToken(page), 'the same', 'the token is another one')
  await page.goBack()
  await page.getByRole('heading', { name: 'History' }).waitFor()

  await page.getByRole('button', { name: 'Deploy…' }).click()
  await drop(page, 'two.zip', await siteTwo)
  await page.getByRole('button', { name: 'Deploy', exact: true }).click()
  await page.getByRole('button', { name: 'Roll back to last successful…' }).waitFor()
  await page.locator('svc-steps [data-state=failed]', { hasText: 'exit 3' }).waitFor()
  await page.locator('svc-log').getByText('restarting').first().waitFor()
  t.match(await page.title(), /^✗ storefront/)
  t.match(readFileSync(join(target, 'index.html'), 'utf8'), 'two')
  await page.getByRole('button', { name: 'Times' }).click()
  await page.locator('svc-log time').first().waitFor()
  await photograph(page, 'failed-desktop')

  await stage.client.put(`/api/projects/${await projectId(stage)}`, { postDeployScript: '' })
  await page.getByRole('button', { name: 'Roll back to last successful…' }).click()
  await page.getByRole('list', { name: 'Changed files' }).getByText('~ index.html').waitFor()
  await photograph(page, 'roll-back-desktop')
  await page.getByRole('button', { name: 'Roll back', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Rollback' }).waitFor()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.match(readFileSync(join(target, 'index.html'), 'utf8'), 'one', 'the file is the earlier one again')
  t.ok(existsSync(join(target, 'new.txt')), 'nothing was deleted')

  await page.getByRole('button', { name: 'Mark as failed…' }).click()
  await page.getByRole('button', { name: 'Mark as failed', exact: true }).click()
  await page.locator('.verdict svc-status[state=failed]').waitFor()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download', exact: true }).click()
  t.match((await download).suggestedFilename(), /^dep_\w+\.log$/)

  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('heading', { name: 'Last deployments' }).waitFor()
  await photograph(page, 'overview-desktop')
  await page.getByRole('navigation', { name: 'Main navigation' }).getByRole('link', { name: 'Deployments' }).click()
  await page.getByText('3 deployments').waitFor()
  await page.getByLabel('Filter by status').selectOption('success')
  await page.getByText('1 deployment', { exact: true }).waitFor()
  t.match(page.url(), /\?status=success$/)
  await page.getByLabel('Filter by status').selectOption('')
  await photograph(page, 'deployments-desktop')

  await page.getByRole('button', { name: 'Preferences' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
  const kept = (await page.evaluate('[...Object.keys(localStorage), ...Object.keys(sessionStorage)]')) as string[]
  // What the browser saw of the audit log stays, so that it finds a log that was rewritten.
  t.same(
    kept.filter(key => !key.startsWith('svc.audit ')),
    []
  )
  t.same(watch.complaints, [], 'the console is quiet')
  t.same(watch.foreign, [], 'nobody else is asked for anything')
})

async function projectId(stage: Stage): Promise<string> {
  return (await stage.client.get('/api/projects')).body[0].id as string
}

/** The new token, or `the same`. */
async function regenerateToken(page: Page): Promise<string> {
  const token = page.getByLabel('Deploy token', { exact: true })
  await page.getByRole('button', { name: 'Show' }).click()
  const before = await token.textContent()
  await page.getByRole('button', { name: 'Regenerate…' }).click()
  await page.getByRole('button', { name: 'Regenerate token' }).click()
  await page.getByText('Deploy token regenerated').waitFor()
  const now = await token.textContent()
  return now === null || now === before ? 'the same' : now
}

t.test('below a prefix, on a phone: watch, cancel, follow a long run, delete the project', { skip }, async t => {
  const stage = await startServer(t, { base: '/tools/svc' })
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, onPhone)
  t.teardown(() => context.close())
  const { id } = await stage.createProject('storefront', { postDeployScript: 'echo waiting; sleep 20' })

  await page.goto(`${stage.url}/projects/${id}`)
  await photograph(page, 'login-phone')
  await page.getByLabel('Remember me').check()
  await signIn(page)
  await page.getByRole('heading', { level: 1, name: 'storefront' }).waitFor()
  t.ok(page.url().endsWith(`/tools/svc/projects/${id}`))
  t.equal(await page.evaluate('localStorage.length'), 2, 'the session, and the rights of its token')
  await photograph(page, 'project-phone')
  await stage.client.put('/api/settings', { max_upload_size: '1' })
  const large = { name: 'large.zip', mimeType: 'application/zip', buffer: Buffer.alloc(12 * 1024 * 1024) }
  await page.locator('input[type=file]:not([webkitdirectory])').setInputFiles(large)
  await page.getByText('Archive size 12 MB exceeds the limit of 1.0 MB (setting max_upload_size).').waitFor()
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  await page
    .locator('input[type=file]:not([webkitdirectory])')
    .setInputFiles({ ...large, name: 'broken.zip', buffer: Buffer.from('no zip') })
  await page.getByText('“broken.zip” is not a zip archive').waitFor()
  await page.keyboard.press('Escape')
  watch.complaints.splice(0)
  await page
    .locator('input[type=file]:not([webkitdirectory])')
    .setInputFiles({ ...large, name: 'one.zip', buffer: await siteOne })
  await page.getByRole('button', { name: 'Deploy', exact: true }).click()
  await page.locator('svc-steps [data-state=running]', { hasText: 'Post-deploy script' }).waitFor()
  await page.locator('svc-log').getByText('waiting', { exact: true }).waitFor()
  t.match(await page.title(), /^Running storefront/)
  await photograph(page, 'running-phone')
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('button', { name: 'Cancel deployment' }).click()
  await page.locator('.verdict svc-status[state=failed]').waitFor()
  await photograph(page, 'cancelled-phone')

  const script = 'i=0; while [ $i -lt 5000 ]; do echo "line $i of many"; i=$((i+1)); done'
  await stage.client.put(`/api/projects/${id}`, { postDeployScript: script })
  await page.getByRole('button', { name: 'Deploy again…' }).click()
  await page.getByRole('button', { name: 'Deploy again', exact: true }).click()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  await page.locator('svc-log').getByText('line 4999 of many').waitFor()
  t.ok((await page.locator('svc-log .line').count()) < 400, 'only the lines near those seen are on the page')
  await page.evaluate('document.querySelector("svc-log .scroll").scrollTop = 0')
  await page.locator('svc-log').getByText('line 0 of many').waitFor()
  await page.locator('svc-log .scroll').press('End')
  await page.locator('svc-log').getByText('line 4999 of many').waitFor()

  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('heading', { name: 'Last deployments' }).waitFor()
  await photograph(page, 'overview-phone')
  const width = await page.evaluate('document.documentElement.scrollWidth')
  t.equal(width, phone.width, 'nothing sticks out at the side')

  await page.goto(`${stage.url}/projects/${id}/settings`)
  await photograph(page, 'settings-phone')
  await page.getByRole('button', { name: 'Delete project…' }).click()
  await page.getByLabel('Type “storefront” to confirm').fill('other')
  await page.getByRole('button', { name: 'Delete project', exact: true }).click()
  await page.getByText('The name does not match').waitFor()
  await photograph(page, 'delete-phone')
  await page.getByLabel('Type “storefront” to confirm').fill('storefront')
  await page.getByRole('button', { name: 'Delete project', exact: true }).click()
  await page.getByRole('heading', { name: 'No projects yet' }).waitFor()
  t.ok(existsSync(join(stage.sites, 'storefront', 'index.html')), 'its files stay')

  await page.goto(`${stage.url}/projects/proj_gone`)
  await page.getByRole('heading', { name: 'Project not found' }).waitFor()
  await page.goto(`${stage.url}/no/such/page`)
  await page.getByRole('heading', { name: 'Page not found' }).waitFor()
  const others = watch.complaints.filter(words => !/404.*\/api\//.test(words))
  t.same(others, [], 'what is gone is all the console has to say')
  t.same(watch.foreign, [])
})

t.test('templates write what differs, keep keyed nodes, and know no way from a value to markup', { skip }, async t => {
  const stage = await startServer(t)
  const { page, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  await page.goto(stage.url)
  t.same(
    await page.evaluate(`(async () => {
    const { html, keyed, render } = await import('./dom/html.js')
    const into = document.createElement('div')
    const row = name => keyed(name, html\`<li>\${name}</li>\`)
    const list = names => html\`<ul title="\${names.join()}">\${names.map(row)}</ul>!\`
    const show = value => (render(value, into), into.textContent)
    const seen = [show(list(['a', 'b', 'c']))]
    const before = [...into.querySelectorAll('li')]
    seen.push(show(list(['c', 'x', 'a'])))
    const after = [...into.querySelectorAll('li')]
    seen.push(after[0] === before[2] && after[2] === before[0], into.firstElementChild.title)
    const hole = value => html\`<p>\${value}</p>\`
    const values = ['<b>&amp;</b>', null, 0, false, ['x', null, 1], html\`<i>t</i>\${'u'}\`, 'end', []]
    for (const value of values) seen.push(show(hole(value)))
    seen.push(into.querySelectorAll('b, i').length)
    const box = html => (render(html, into), into.querySelector('input'))
    const input = on => html\`<input hidden="\${on}" .value="\${on ? 'on' : 'off'}" class="a \${on} b">\`
    const first = box(input(true))
    seen.push(first.hidden, first.value, first.className)
    const second = box(input(false))
    seen.push(second === first, second.hidden, second.value)
    return seen
  })()`),
    [
      'abc!',
      'cxa!',
      true,
      'c,x,a',
      '<b>&amp;</b>',
      '',
      '0',
      '',
      'x1',
      'tu',
      'end',
      '',
      0,
      true,
      'on',
      'a true b',
      true,
      false,
      'off'
    ]
  )
})

t.test('a session that ended leads to the login and back to the same place', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  await page.goto(`${stage.url}/projects?q=store`)
  await signIn(page)
  await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor()
  const { sessions } = (await stage.client.get('/api/sessions')).body
  await stage.client.delete(`/api/sessions/${sessions[0].id}`)
  await page.reload()
  await page.getByText('Your session has ended').waitFor()
  watch.complaints.splice(0)
  await signIn(page)
  await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor()
  t.match(page.url(), /\/projects\?q=store$/)

  await context.setOffline(true)
  await page.getByText('Connection lost. Reconnecting…').waitFor()
  await page.getByRole('link', { name: 'Deployments' }).click()
  await page.getByRole('heading', { name: 'This page could not be loaded' }).waitFor()
  await context.setOffline(false)
  await page.getByText('Connection lost. Reconnecting…').waitFor({ state: 'hidden' })
})
