import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, openDuring } from './stage.js'

/* What others write, in a real browser: no text of theirs becomes a link to this server. */

const { browser, skip } = await startChromium(t)

t.test('text of logs and claims leads to other servers only', { skip }, async t => {
  const publicUrl = 'https://deploy.example.org'
  const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: publicUrl } })
  const { port } = new URL(stage.url)
  const project = await stage.createProject('storefront')
  const good = 'https://github.com/team/shop/actions/runs/1'
  const hostile = [
    `${stage.url}/api/nodes/evil/at/projects/p/download?path=x`,
    `${stage.url.toUpperCase()}/api/health`,
    `http://127.1:${port}/api/health`,
    `http://2130706433:${port}/api/health`,
    `http://localhost.:${port}/api/health`,
    `http://user@localhost:${port}/api/health`,
    `${publicUrl}/api/health`,
    'http://deploy.example.org./api/health'
  ]
  const log = join(stage.sites, 'access.log')
  writeFileSync(log, [good, ...hostile].map(text => `GET ${text} \x1b]8;;${text}\x1b\\here\x1b]8;;\x1b\\\n`).join(''))
  const { body } = await stage.client.post(`/api/projects/${project.id}/log-sources`, {
    items: [{ label: 'access', filePath: log }]
  })
  const { page } = await openDuring(t, browser, stage.url, `projects/${project.id}/logs/${body.items[0].id}`, {
    viewport: desktop
  })
  await page.locator('.line', { hasText: 'deploy.example.org.' }).waitFor()
  const hrefs = await page
    .locator('.line a')
    .evaluateAll(anchors => anchors.map(anchor => String(Reflect.get(anchor, 'href'))))
  t.strictSame(hrefs, [good, good])

  for (const [index, url] of [good, ...hostile].entries()) {
    const ci = { system: 'GitHub Actions', run: String(index), url, actor: 'grace' }
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['provenance', JSON.stringify({ ci })],
      ['file', { filename: 'site.zip', bytes: await zipOf({ a: String(index) }) }]
    ])
  }
  const items = (await stage.client.get('/api/logs?limit=50')).body
  const seen: string[] = []
  for (const { id } of items) {
    await page.goto(`${stage.url}/deployments/${id}`)
    await page.getByText('GitHub Actions').first().waitFor()
    seen.push(
      ...(await page
        .locator('a[target=_blank]')
        .evaluateAll(found => found.map(anchor => String(Reflect.get(anchor, 'href')))))
    )
  }
  t.strictSame([...new Set(seen)], [good])
})

t.test('no value of a template becomes an address of the API or of another server', { skip }, async t => {
  const stage = await startServer(t)
  const { page } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
  t.strictSame(
    await page.evaluate(`(async () => {
    const { html, render } = await import('./dom/html.js')
    const into = document.createElement('div')
    const shown = template => (render(template, into), into.firstElementChild.getAttribute('href'))
    const whole = value => shown(html\`<a href="\${value}">x</a>\`)
    const inside = value => shown(html\`<a href="projects/\${value}">x</a>\`)
    const refused = template => { try { render(template, into); return false } catch { return true } }
    return [
      ...['projects/p', 'api/x', '/api/x', 'https://evil.test/', 'javascript:alert(1)', null].map(whole),
      ...['p', 'a/b', 'p/../../api/x', '..', 'p?q#r'].map(inside),
      refused(html\`<form action="\${'api/x'}"></form>\`),
      refused(html\`<div .innerHTML="\${'<b>x</b>'}"></div>\`),
      refused(html\`<iframe title="x"></iframe>\`)
    ]
  })()`),
    [
      ...['projects/p', null, null, null, null, null],
      ...['projects/p', 'projects/a%2Fb', null, null, 'projects/p%3Fq%23r'],
      ...[true, true, true]
    ]
  )
})
