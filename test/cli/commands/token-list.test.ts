import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('lists tokens with their rights, their end and their last use, never a secret', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  t.match(await svc(['token', 'list'], admin), { code: 0, stdout: '', stderr: /There are no named tokens/ })
  const made = await svc(['token', 'create', 'ci-shop', '--role', 'deployer', '--project', 'shop'], admin)
  const secret = made.stdout.trim()
  t.match((await svc(['token', 'list'], admin)).stdout, /^ci-shop +deployer +shop +expires in (89|90) days +never$/m)
  await svc(['list'], { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: secret } })
  const { stdout } = await svc(['token', 'list'], admin)
  t.match(stdout, /^ci-shop .* (now|\d+s ago) from 127\.0\.0\.1$/m)
  const json = await svc(['token', 'list', '--json'], admin)
  t.match(JSON.parse(json.stdout), { items: [{ name: 'ci-shop' }], builtIn: [{ kind: 'admin' }, { kind: 'project' }] })
  t.notMatch(stdout + json.stdout, secret.slice(13))
})
