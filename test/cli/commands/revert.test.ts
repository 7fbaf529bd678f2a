import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'

t.test('revert puts the earlier files back, and push fails', async t => {
  const cwd = t.testdir({ out: { 'index.html': 'two' } })
  const server = await startServeProcess(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  await (await server.upload(project, { 'index.html': 'one' })).finished
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token }
  const given = ['--project', project.id]
  const pushing = svc(['push', '--out', 'out', ...given, '--confirm', '60s'], { cwd, env })
  const reverted = await until(async () => {
    const result = await svc(['revert', ...given], { cwd, env })
    return result.code === 0 && result
  })
  t.match(reverted.stdout, /^Reverted dep_\w+: Reverted by .*; the earlier files are back, dep_\w+ is live/)
  const pushed = await pushing
  t.equal(pushed.code, 1)
  t.match(pushed.stdout, /failed .*the earlier files are back, dep_\w+ is live/)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
  t.match(await svc(['revert', ...given], { cwd, env }), { code: 1, stdout: '' })
})
