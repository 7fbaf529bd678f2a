import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('ends a token after a confirmation', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const at = { SVC_SERVER_URL: server.url }
  const admin = { cwd, env: { ...at, SVC_TOKEN: server.adminToken } }
  const token = (await svc(['token', 'create', 'ci', '--role', 'viewer'], admin)).stdout.trim()
  t.match(await svc(['token', 'revoke', 'ci'], admin), { code: 1, stderr: /use --yes/ })
  t.match(await svc(['token', 'revoke', 'ci', '--yes'], admin), { code: 0, stdout: 'The token "ci" was revoked\n' })
  const refused = await svc(['list'], { cwd, env: { ...at, SVC_TOKEN: token } })
  t.match(refused, { code: 1, stderr: /The token "ci" was revoked/ })
  t.match(await svc(['token', 'revoke', 'ci', '--yes'], admin), { code: 1, stderr: /was revoked\. Create another one/ })
  t.match((await svc(['token', 'list'], admin)).stdout, /^ci .* revoked /m)
})
