import { createReadStream } from 'node:fs'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { enrolledAgent } from '../support/fake-agent.js'
import { startFleet } from '../support/fleet-on-server.js'
import { startChromium } from './chromium.js'
import { desktop, openDuring } from './stage.js'

/* A node that was taken over answers with scripts, and an admin opens the hub's address of its answer. */

const { browser, skip } = await startChromium(t)

t.test('no script of a taken node runs in a browser that opens its answers', { skip }, async t => {
  const { stage, hub, shop } = await startFleet(t)
  const agent = await enrolledAgent({ url: stage.url, hub }, 'evil')
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: 'evil' }] })
  const work = `localStorage.setItem('evil', '1'); fetch('/api/tags', { method: 'POST', headers: { 'content-type': 'application/json', 'x-svc-csrf': '1' }, body: '{"name":"evil","color":"blue"}' })`
  const html = `<!doctype html><title>evil</title><script>${work}</script><img src="x" onerror="${work.replaceAll('"', '&quot;')}">`
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="localStorage.setItem('evil','1')"><script>${work.replaceAll('&', '&amp;')}</script></svg>`
  const answers: Array<{ status: number; type: string; body: string }> = [
    ...[200, 206, 404, 500].map(status => ({ status, type: 'text/html', body: html })),
    { status: 200, type: 'image/svg+xml', body: svg },
    { status: 200, type: 'application/xhtml+xml', body: svg },
    { status: 200, type: 'application/json', body: html },
    { status: 200, type: 'application/x-ndjson', body: html },
    { status: 200, type: 'text/event-stream', body: html },
    { status: 200, type: 'application/octet-stream', body: html },
    { status: 200, type: 'text/html\r\ncontent-disposition: inline', body: html },
    { status: 200, type: '', body: html }
  ]
  let current = answers[0] as (typeof answers)[number]
  let asked = 0
  const stream = await agent.follow()
  t.teardown(() => stream.close())
  const live = async (): Promise<void> => {
    for (let line = await stream.next(); line !== null; line = await stream.next()) {
      if (line.type !== 'relay') continue
      asked++
      const { status, type, body } = current
      const head = JSON.stringify({ status, headers: { 'content-type': type, 'content-disposition': 'inline' } })
      await agent.part(line.id, Buffer.from(`${head}\n${body}`))
    }
  }
  void live().catch(() => {})

  const { page } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
  const marks = async (): Promise<unknown> => {
    await page.goto(`${stage.url}/`)
    return page.evaluate("localStorage.getItem('evil')")
  }
  // The same page runs where nothing stops it, so a script that does nothing would be seen.
  const control = `${stage.url}/control`
  await page.route(control, route =>
    route.fulfill({ contentType: 'text/html', body: "<script>localStorage.setItem('evil', '1')</script>" })
  )
  await page.goto(control)
  t.equal(await marks(), '1')
  await page.evaluate("localStorage.removeItem('evil')")

  const paths = [
    `projects/${shop.id}/download?path=x.html`,
    `projects/${shop.id}/file?path=x.html`,
    'logs/dep_x/output'
  ]
  for (const answer of answers) {
    current = answer
    for (const path of paths) {
      const what = `${answer.status} ${JSON.stringify(answer.type)} ${path.split('?')[0]?.split('/').at(-1)}`
      const before = asked
      const download = page.waitForEvent('download', { timeout: 1500 }).catch(() => null)
      const shown = await page.goto(`${stage.url}/api/nodes/evil/at/${path}`).catch(() => null)
      t.ok(asked > before, `${what}: the node was asked`)
      if (shown === null) {
        const saved = await (await download)?.path()
        t.ok(saved !== undefined && (await text(createReadStream(saved))).length > 0, `${what} is a download`)
      } else {
        t.match(shown.headers()['content-security-policy'], /default-src 'none'; sandbox/, what)
        t.match(
          await page.evaluate('document.contentType'),
          /^(text\/(plain|event-stream)|application\/json)$/,
          `${what} is shown as text`
        )
        t.equal(await page.locator('script, img').count(), 0, what)
      }
    }
  }
  t.equal(await marks(), null)
  const tags = (await stage.client.get('/api/tags')).body as Array<{ name: string }>
  t.notMatch(JSON.stringify(tags), 'evil')
})
