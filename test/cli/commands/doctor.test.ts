import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noPty } from '../../support/web-terminal.js'

t.test('a machine where nothing is set up yet has warnings, not failures', async t => {
  const { code, stdout } = await svc(['doctor'], { cwd: t.testdir({}) })
  t.equal(code, 0, stdout)
  t.match(stdout, /✔ Node\.js: v/)
  t.match(stdout, /! Data directory: .* does not exist yet\n {4}→ Run "svc serve"/)
  t.match(stdout, /! Server: not checked: no server address is configured\n {4}→ .*--server/)
  t.match(stdout, /, 0 failures\n$/)
})

t.test('a server, with a token, without, and with a wrong one', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const doctor = async (...words: string[]) => {
    const { code, stdout } = await svc(['doctor', '--json', '--server', server.url, ...words], {
      cwd,
      env: { SVC_HOME: server.home }
    })
    const { ok, findings } = JSON.parse(stdout) as {
      ok: boolean
      findings: Array<{ check: string; result: string; advice: string | null }>
    }
    return { code, ok, findings, of: (check: string) => findings.find(finding => finding.check === check) }
  }
  const full = await doctor('--token', server.adminToken)
  t.match(full, { ok: full.code === 0 })
  for (const check of [
    'Node.js',
    'Data directory',
    'Global configuration',
    'Server',
    'Server runtime',
    'Database',
    ...(noPty ? [] : ['Terminal']),
    'Server data directory',
    'Deployments'
  ]) {
    t.match(full.of(check), { result: 'pass', advice: null }, check)
  }
  const probed = await doctor()
  t.match(probed.of('Server'), { result: 'pass' })
  t.match(probed.of('Server details'), { result: 'warning', advice: /--token/ })
  const wrong = await doctor('--token', 'wrong-token')
  t.equal(wrong.code, 1)
  t.match(wrong.of('Server details'), { result: 'failure', advice: /--token.*reset-password/ })
  for (const { result, advice } of wrong.findings)
    t.equal(advice === null, result === 'pass', 'what is not well says what to do next')
})

t.test('what fails: no server, a broken configuration, one that others can read', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': '{"serverUrl": 1' } })
  const file = join(cwd, '.svc/config.json')
  chmodSync(join(cwd, '.svc'), 0o700)
  const broken = await svc(['doctor'], { cwd })
  t.equal(broken.code, 1)
  t.match(broken.stdout, /✘ Global configuration: .*config\.json/)

  const key = join(cwd, '.svc/variables.key')
  writeFileSync(key, 'ab')
  chmodSync(key, 0o644)
  t.match(
    (await svc(['doctor'], { cwd })).stdout,
    /✘ Secrets key: other users can read .*variables\.key\n {4}→ Run: chmod 600/
  )
  chmodSync(key, 0o600)
  mkdirSync(join(cwd, '.svc/keys'))
  const auditKey = join(cwd, '.svc/keys/server.ed25519')
  writeFileSync(auditKey, 'ab')
  chmodSync(auditKey, 0o640)
  t.match((await svc(['doctor'], { cwd })).stdout, /✘ Audit key: other users can read .*server\.ed25519\n/)
  chmodSync(auditKey, 0o600)

  writeFileSync(file, '{"serverUrl": "http://127.0.0.1:1"}')
  chmodSync(file, 0o644)
  const open = await svc(['doctor'], { cwd })
  t.equal(open.code, 1)
  t.match(open.stdout, /✘ Global configuration: .*other users can read it\n {4}→ Run: chmod 600/)
  t.match(open.stdout, /✘ Server: .*connection refused by .*\n {4}→ Start the server/)
  t.match(await svc(['doctor', '--server', 'nonsense'], { cwd }), { code: 1 })
})

t.test('--site asks a site for names of svc, and reads gate_hosts with the admin token', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const doctor = (...words: string[]) => svc(['doctor', '--server', server.url, ...words], { cwd })
  const { code, stdout } = await doctor('--site', server.url)
  t.equal(code, 0, stdout)
  t.match(stdout, /! Names of svc: cannot tell .* 404 .*\n {4}→ .*docs\/maintenance\.md/)
  // An address that is not in the list of this machine's own, and leads to it.
  const foreign = server.url.replace('127.0.0.1', '0.0.0.0')
  t.match((await doctor('--site', foreign)).stdout, /! Names of svc: .* not checked: .*neither this machine/)
  for (const wrong of ['shop.example.org', 'ftp://127.0.0.1/', 'http://user:secret@127.0.0.1/']) {
    t.match(await doctor('--site', wrong), { code: 2, stderr: /--site must be(?!.*secret)/ }, wrong)
  }
  t.notMatch((await doctor()).stdout, /Names of svc/)
  await server.api('PUT', '/api/settings', { gate_hosts: '0.0.0.0' })
  t.match((await doctor('--site', foreign)).stdout, /neither this machine/, 'only the admin token can read the setting')
  const named = await doctor('--site', foreign, '--token', server.adminToken)
  t.match(named.stdout, /! Names of svc: cannot tell/)
})
