import t from 'tap'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { createClient } from '../support/client.js'
import { connectTerminal, noPty, openTerminal } from '../support/web-terminal.js'
import { findNginx, startNginx } from './nginx.js'

const program = findNginx()
const skip = program === null ? 'there is no nginx on this machine' : false

for (const base of ['', '/tools/svc']) {
  t.test(`behind nginx ${base === '' ? 'at the root' : `under ${base}`}`, { skip }, async t => {
    const directory = t.testdir({ site: { dist: { 'index.html': '<h1>hello</h1>' } } })
    const server = await startServeProcess(t, directory, base === '' ? [] : ['--base', base])
    const upstream = new URL(server.url).origin
    const proxy = await startNginx(t, program as string, { directory: join(directory, 'nginx'), upstream, location: `${base}/` })
    const url = `${proxy}${base}`
    const admin = { authorization: `Bearer ${server.adminToken}` }
    const target = join(directory, 'www')
    const project = await server.createProject({ name: 'Storefront', deployPath: target })

    await t.test('svc push deploys through it, and its lines come as they are said', async t => {
      const site = join(directory, 'site')
      const token = { SVC_DEPLOY_TOKEN: project.token }
      await svc(['init', '--project', project.id, '--server', url, '--out', 'dist'], { cwd: site, env: token })
      // The second line waits until the first one has come: held back for it, neither would.
      const pushed = await svc(['push', '--post', 'echo one; until [ -e go ]; do sleep 0.05; done; echo two'], {
        cwd: site,
        env: token,
        onOutput: text => { if (/^one$/m.test(text)) writeFileSync(join(target, 'go'), '') }
      })
      t.equal(pushed.code, 0, pushed.stderr)
      t.equal(readFileSync(join(target, 'index.html'), 'utf8'), '<h1>hello</h1>')
      t.match(pushed.stdout, /^one$.*^two$/ms)
    })

    await t.test('an archive of many megabytes passes, and so does the refusal of one that is too large', async t => {
      const site = join(directory, 'large')
      mkdirSync(join(site, 'dist'), { recursive: true })
      writeFileSync(join(site, 'dist/noise.png'), Buffer.alloc(12 * 1024 * 1024, Math.random().toString()))
      const words = ['push', '--project', project.id, '--server', url, '--out', 'dist']
      const push = () => svc(words, { cwd: site, env: { SVC_DEPLOY_TOKEN: project.token } })
      t.equal((await push()).code, 0)
      await server.api('PUT', '/api/settings', { max_upload_size: '5' })
      const refused = await push()
      t.equal(refused.code, 1)
      t.match(refused.stderr, /max_upload_size/)
    })

    await t.test('the audit log has the address of the client, not the one it claims', async t => {
      const claimed = { 'x-forwarded-for': '203.0.113.9', 'content-type': 'application/json' }
      const login = await fetch(`${url}/api/auth/login`, { method: 'POST', headers: claimed, body: '{"token":"wrong-one"}' })
      t.equal(login.status, 401)
      const { items } = (await (await fetch(`${url}/api/audit?limit=1`, { headers: admin })).json()) as { items: Array<{ ip: string }> }
      t.equal(items[0]?.ip, '127.0.0.1')
    })

    await t.test('the panel and what it loads come from below the prefix', async t => {
      const page = await (await fetch(`${url}/`)).text()
      t.match(page, `<base href="${base}/">`)
      const script = /<script[^>]* src="([^"]+)"/.exec(page)?.[1] as string
      t.equal((await fetch(new URL(script, `${url}/`))).status, 200)
    })

    await t.test('a terminal opens for pages of the address the browser uses, and for no others', { skip: noPty }, async t => {
      const client = createClient(() => url, server.adminToken)
      const terminal = await openTerminal({ url, client }, { headers: { origin: proxy } })
      terminal.type('echo thr""ough\n')
      await terminal.sees(/through\r\n/)
      terminal.raw.close()
      await terminal.closed()
      const foreign = await connectTerminal({ url, client }, { headers: { origin: 'http://127.0.0.1' } })
      t.equal(foreign.status, 403)
      foreign.socket.destroy()
    })

    if (base === '') return
    await t.test('outside the prefix there is nothing', async t => {
      t.equal((await fetch(`${upstream}/api/health`)).status, 404)
      t.equal((await fetch(`${upstream}/`)).status, 404)
    })
  })
}

t.test('the location block that is tested is the one the README recommends', async t => {
  const top = fileURLToPath(new URL('../../../', import.meta.url))
  const readme = readFileSync(join(top, 'README.md'), 'utf8')
  const tested = readFileSync(join(top, 'test/proxy/nginx.ts'), 'utf8')
  const directives = /```nginx\n([^]*?)```/.exec(readme)?.[1]?.match(/^\s+(?:proxy|client)_(?!pass).*;/gm) ?? []
  t.ok(directives.length > 5)
  for (const directive of directives) t.ok(tested.includes(directive.trim()), directive.trim())
})
