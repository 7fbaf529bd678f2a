import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('a secret is written to a new file that only its owner can read', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const made = await svc(['token', 'create', 'one', '--role', 'viewer', '--out', 'one.token'], admin)
  t.match(made, { code: 0, stdout: '', stderr: /The secret is in one\.token/ })
  const file = join(cwd, 'one.token')
  t.match(readFileSync(file, 'utf8'), /^svc_[a-z2-7]{8}_[\w-]{43}_[\w-]{6}\n$/)
  t.equal(statSync(file).mode & 0o777, 0o600)

  const shown = await svc(['token', 'create', 'two', '--role', 'viewer', '--out', 'one.token'], admin)
  t.match(shown, { code: 0, stdout: /^svc_/, stderr: /could not be written to one\.token: .*EEXIST.* shown instead/ })
  mkdirSync(join(cwd, 'directory'))
  t.match(await svc(['token', 'rotate', 'two', '--out', 'directory'], admin), { code: 0, stdout: /^svc_/ })
})

t.test('a token is found by its name, whatever the case, and by its id', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const { stdout } = await svc(['token', 'create', 'Ana', '--role', 'admin', '--json'], admin)
  const { id } = JSON.parse(stdout).record
  t.match(await svc(['token', 'rotate', 'ANA'], admin), { code: 0 })
  t.match(await svc(['token', 'rotate', id], admin), { code: 0 })
  t.match(await svc(['token', 'rotate', 'bob'], admin), {
    code: 1,
    stderr: /Token not found: "bob"\. "svc token list"/
  })
})
