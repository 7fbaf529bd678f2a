import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import type { Test } from 'tap'
import { askForOwnNames } from '../../lib/cli/doctor/findings.js'
import { createClient } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { startServer } from '../support/server.js'
import { findCaddy, runCaddy } from './caddy.js'
import { findNginx, runServer } from './nginx.js'
import { filled, phrase, recipe } from './recipes.js'
import { listen } from '../support/on-loopback.js'

/* The configurations of docs/maintenance.md, with a real nginx and a real Caddy. */
const document = 'docs/maintenance.md'
const documented = '127.0.0.1:3000'

interface Site {
  directory: string
  port: number
  /** The target of the project. */
  target: string
  /** Address of the application, `127.0.0.1:<port>`; null for a static site. */
  app: string | null
  /** Whether only `/shop/` belongs to the project. */
  isBelow: boolean
}

async function startNginx(t: Test, program: string, { directory, port, target, app, isBelow }: Site): Promise<void> {
  const [atRoot, below] = [`proxy_pass http://${documented};`, `proxy_pass http://${documented}/;`]
  const location = filled(recipe('nginx', 'location /shop/', document), [
    [below, app === null ? phrase('alias /srv/shop', document) : below.replace(documented, app)]
  ])
  const pass = app === null ? phrase('root /srv/shop;', document) : atRoot.replace(documented, app)
  const server = filled(recipe('nginx', 'server {', document), [
    ['listen 80;', `listen 127.0.0.1:${port};`],
    [atRoot, isBelow ? `return 200 other;\n  }\n  ${location.replace(/\}\s*$/, '')}` : pass]
  ]).replaceAll('/srv/shop', target)
  const lines = server.split('\n').filter(line => !isBelow || !line.includes('$closed'))
  await runServer(t, program, { directory, port, server: lines.join('\n') })
}

async function startCaddy(t: Test, program: string, { directory, port, target, app, isBelow }: Site): Promise<void> {
  const pass = `reverse_proxy ${documented}`
  const serving = `${phrase('root * /srv/shop', document)}\n    ${phrase('file_server', document)}`
  const opening = '  handle {\n'
  const site = filled(recipe('caddy', 'shop.example.org', document), [
    ['shop.example.org {', `http://127.0.0.1:${port} {\n  bind 127.0.0.1`],
    [pass, app === null ? serving : pass.replace(documented, app)],
    ['  @maintenance {\n', `  @maintenance {\n${isBelow ? `    ${phrase('path /shop /shop/*', document)}\n` : ''}`],
    [opening, isBelow ? `  handle /other {\n    respond other\n  }\n  ${phrase('handle_path', document)}\n` : opening]
  ]).replaceAll('/srv/shop', target)
  await runCaddy(t, program, { directory, port, site })
}

/** An application that answers everything, and shows the path. Its own 503 is not a maintenance. */
async function startApp(t: Test): Promise<string> {
  const server = createServer((request, response) => {
    const { url = '' } = request
    response.writeHead(url.endsWith('/busy') ? 503 : 200, { 'content-type': 'text/plain' })
    response.end(`app ${request.method} ${url}`)
  })
  return `127.0.0.1:${await listen(t, server)}`
}

interface Got {
  status: number
  text: string
  header: Headers
}

async function get(url: string, options: RequestInit = {}): Promise<Got> {
  const answer = await fetch(url, { redirect: 'manual', ...options })
  return { status: answer.status, text: await answer.text(), header: answer.headers }
}

type Start = (t: Test, program: string, site: Site) => Promise<void>
const servers: Array<{ name: string; program: string | null; start: Start }> = [
  { name: 'nginx', program: findNginx(), start: startNginx },
  { name: 'Caddy', program: findCaddy(), start: startCaddy }
]

for (const { name, program, start } of servers) {
  for (const isApp of [true, false]) {
    for (const isBelow of [false, true]) {
      const what = `${name} in front of ${isApp ? 'an application' : 'a static site'}${isBelow ? ' under a prefix' : ''}`
      const skip = program === null && `there is no ${name} on this machine`
      t.test(what, { skip }, t => check(t, { start: (t, site) => start(t, program as string, site), isApp, isBelow }))
    }
  }
}

async function check(
  t: Test,
  { start, isApp, isBelow }: { start(t: Test, site: Site): Promise<void>; isApp: boolean; isBelow: boolean }
): Promise<void> {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const target = shop.deployPath
  for (const directory of ['.svc-staging-dep_a/aside', '.svc-displaced-dep_a']) {
    mkdirSync(join(target, directory), { recursive: true })
    writeFileSync(join(target, directory, 'secret.txt'), 'secret')
  }
  writeFileSync(join(target, 'index.html'), 'home')
  writeFileSync(join(target, 'a.txt'), 'static a')
  const port = await freePort()
  const app = isApp ? await startApp(t) : null
  await start(t, { directory: join(stage.sites, 'web'), port, target, app, isBelow })
  const origin = `http://127.0.0.1:${port}`
  const site = `${origin}${isBelow ? '/shop' : ''}`
  const maintain = (on: boolean) =>
    createClient(() => stage.url, stage.server.adminToken.current()).put(`/api/projects/${shop.id}/maintenance`, {
      on,
      reason: on ? 'Back at 18:00' : null
    })

  async function isServed(when: string): Promise<void> {
    t.match(await get(`${site}/a.txt`), { status: 200, text: isApp ? 'app GET /a.txt' : 'static a' }, when)
    t.match(await get(`${site}/`), { status: 200, text: isApp ? 'app GET /' : 'home' }, when)
    if (isApp) t.match(await get(`${site}/busy`), { status: 503, text: 'app GET /busy' }, 'its own 503 stays')
    for (const path of ['.svc-staging-dep_a/aside/secret.txt', '.svc-displaced-dep_a/secret.txt', '%2Esvc-staging-x']) {
      t.match(await get(`${site}/${path}`), { status: 403 }, `${path} ${when}`)
    }
    const found = await askForOwnNames(`${site}/`, { hosts: [], signal: new AbortController().signal })
    t.match(found, { result: 'pass' }, `svc doctor ${when}`)
  }

  await isServed('before')
  t.match(await maintain(true), { status: 200 })
  for (const path of ['/', '/a.txt', '/none', '/deep/path?query=1']) {
    const { status, text, header } = await get(`${site}${path}`)
    t.equal(status, 503, path)
    t.match(text, 'Back at 18:00', path)
    t.equal(header.get('retry-after'), '300', path)
    t.equal(header.get('cache-control'), 'no-store', path)
    t.match(header.get('content-type'), /^text\/html/, path)
  }
  t.match(await get(`${site}/form`, { method: 'POST', body: 'a=1' }), { status: 503, text: /Back at 18:00/ }, 'POST')
  t.match(await get(`${site}/`, { method: 'HEAD' }), { status: 503, text: '' }, 'HEAD')
  const later = { 'if-modified-since': new Date(Date.now() + 1000).toUTCString(), 'if-none-match': '*' }
  t.match(await get(`${site}/`, { headers: later }), { status: 503, text: /Back at 18:00/ }, 'a cached page')
  t.not((await get(`${site}/.maintenance`)).status, 200, 'the page is no success')
  t.not((await get(`${site}/.svc-staging-dep_a/aside/secret.txt`)).text, 'secret')
  if (isBelow) t.match(await get(`${origin}/other`), { status: 200, text: 'other' }, 'other paths stay open')

  t.match(await maintain(false), { status: 200 })
  await isServed('afterwards')
}
