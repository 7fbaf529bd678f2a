import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('replaces a secret, with an overlap if one is given', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const at = { SVC_SERVER_URL: server.url }
  const admin = { cwd, env: { ...at, SVC_TOKEN: server.adminToken } }
  const works = async (token: string) => (await svc(['list'], { cwd, env: { ...at, SVC_TOKEN: token } })).code === 0
  const first = (await svc(['token', 'create', 'ci', '--role', 'viewer'], admin)).stdout.trim()
  const overlapping = await svc(['token', 'rotate', 'ci', '--overlap', '1h', '--days', '7'], admin)
  t.match(overlapping, {
    code: 0,
    stderr: /Token "ci" expires in [67] days\. The earlier secret is valid until 20.* UTC/
  })
  const second = overlapping.stdout.trim()
  t.same([await works(first), await works(second)], [true, true])
  const last = await svc(['token', 'rotate', 'ci'], admin)
  t.match(last, { code: 0, stderr: /The earlier secret has ended/ })
  t.same([await works(first), await works(second), await works(last.stdout.trim())], [false, false, true])
  t.match(await svc(['token', 'rotate', 'ci', '--overlap', '2d'], admin), { code: 2, stderr: /at most 1d/ })
})
