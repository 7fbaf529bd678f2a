import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'

t.test('confirm settles a deployment, and push reports what became of it', async t => {
  const cwd = t.testdir({ out: { 'index.html': 'one' } })
  const server = await startServeProcess(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token }
  const given = ['--project', project.id]
  const pushing = svc(['push', '--out', 'out', ...given, '--confirm', '60s'], { cwd, env })
  const confirmed = await until(async () => {
    const result = await svc(['confirm', ...given, '--json'], { cwd, env })
    return result.code === 0 && result
  })
  t.match(JSON.parse(confirmed.stdout), { success: true, deployment: { status: 'success' } })
  const pushed = await pushing
  t.equal(pushed.code, 0, pushed.stderr)
  t.match(pushed.stdout, /waiting for "svc confirm" until/)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
  t.match(await svc(['confirm', ...given], { cwd, env }), { code: 1, stdout: '', stderr: /No deployment of .* waits/ })
  t.match(await svc(['confirm', 'dep_unknown'], { cwd, env }), { code: 1, stdout: '' })
  t.match(await svc(['push', '--confirm', '5s', ...given], { cwd, env }), { code: 2, stderr: /--confirm cannot be/ })
})

t.test('push confirms by itself if the URL answers', async t => {
  const cwd = t.testdir({ out: { 'index.html': 'one' } })
  const server = await startServeProcess(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token }
  const checked = ['--confirm', '60s', '--check-from-here', `${server.url}/api/health`]
  const pushed = await svc(['push', '--out', 'out', '--project', project.id, ...checked], { cwd, env })
  t.equal(pushed.code, 0, pushed.stderr)
  t.match(pushed.stderr, '/api/health: 200')
  t.match(pushed.stdout, '→ confirmed')
})
