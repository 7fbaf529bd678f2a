import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noPty } from '../../support/web-terminal.js'
import type { HealthDetail } from '../../../lib/model/health.js'
import {
  archiveFindings,
  auditFindings,
  certificateFindings,
  checkRuntime,
  detailFindings,
  nameFindings,
  revertFindings,
  notificationFindings,
  secretFindings,
  terminalFinding
} from '../../../lib/cli/commands/doctor.js'

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

const well: HealthDetail = {
  version: '1',
  runtime: { name: 'node', version: 'v20' },
  uptimeSec: 1,
  serverTime: '',
  memoryMB: { rss: 1, heapUsed: 1 },
  db: { ok: true, latencyMs: 0.1, path: '/d' },
  disk: { freeBytes: 1, totalBytes: 2, percentUsed: 50 },
  kiteHome: { path: '/h', writable: true, tmpWritable: true },
  deploy: { last5: [], successRate: null }
}
const failedRun = {
  id: 'dep_x',
  projectId: 'p',
  projectName: 'shop',
  status: 'failed',
  startTime: '',
  duration: '1s'
} as const

t.test('reports the runtime', async t => {
  for (const [version, result] of [
    ['17.9.0', 'failure'],
    ['18.0.0', 'pass'],
    ['24.1.0', 'pass']
  ] as const)
    t.equal(checkRuntime(version).result, result, version)
  t.match(checkRuntime('24.3.0', '1.4.5'), { check: 'Bun', result: 'pass', detail: /^v1\.4\.5, .*Node\.js v24\.3\.0$/ })
})

t.test('a terminal that cannot work is a warning; one that is turned off is not', async t => {
  t.match(terminalFinding({ available: true }), { result: 'pass', advice: null })
  const off = {
    available: false,
    reason: 'Terminal unavailable: svc was started with --no-terminal',
    code: 'terminal_disabled'
  }
  t.match(terminalFinding(off), { result: 'pass', detail: off.reason, advice: null })
  const missing = { available: false, reason: 'The terminal needs node-pty', code: 'terminal_unavailable' }
  t.match(terminalFinding(missing), { result: 'warning', detail: missing.reason, advice: /everything else works/ })
})

t.test('a revert that is pending is a failure', async t => {
  t.same(revertFindings(well), [])
  t.same(revertFindings({ ...well, revertsPending: [] }), [])
  t.match(revertFindings({ ...well, revertsPending: ['dep_a', 'dep_b'] }), [
    { result: 'failure', detail: /dep_a, dep_b/, advice: /svc logs dep_a/ }
  ])
})

t.test('damaged archives are a failure that names the releases', async t => {
  t.same(archiveFindings(well), [], 'an older server')
  t.match(archiveFindings({ ...well, archives: { checkedAt: null, damaged: [] } }), [{ result: 'pass', detail: /not/ }])
  const checkedAt = '2030-01-02T00:00:00.000Z'
  t.match(archiveFindings({ ...well, archives: { checkedAt, damaged: [] } }), [
    { result: 'pass', detail: /2030-01-02/ }
  ])
  t.match(archiveFindings({ ...well, archives: { checkedAt, damaged: ['dep_a', 'dep_b'] } }), [
    { result: 'failure', detail: /2030-01-02.*dep_a, dep_b/, advice: /backup/ }
  ])
})

t.test('a damaged tree of the audit log is a failure', async t => {
  t.same(auditFindings(well), [], 'an older server')
  t.match(auditFindings({ ...well, audit: { ok: true, brokenSince: null, why: null } }), [{ result: 'pass' }])
  const brokenSince = '2030-01-01T00:00:00.000Z'
  t.match(auditFindings({ ...well, audit: { ok: false, brokenSince, why: 'entry 7 was changed' } }), [
    { result: 'failure', detail: /broken since 2030-01-01.*entry 7/, advice: /svc audit verify/ }
  ])
  const keyProblem = 'Cannot use the key'
  t.match(auditFindings({ ...well, audit: { ok: true, brokenSince: null, why: null, keyProblem } }), [
    { result: 'pass' },
    { check: 'Server key', result: 'failure', detail: keyProblem, advice: /nothing is signed/ }
  ])
})

t.test('a certificate that expires soon is a warning, an expired one a failure', async t => {
  t.same(certificateFindings(well), [], 'an older server')
  const of = (expiresAt: string) => ({ name: 'The certificate "a"', expiresAt, cure: 'Renew it' })
  const certificates = [of('2030-01-02T00:00:00.000Z'), of('2029-12-31T00:00:00.000Z')]
  t.match(certificateFindings({ ...well, serverTime: '2030-01-01T00:00:00.000Z', certificates }), [
    { result: 'warning', detail: 'The certificate "a" expires on 2030-01-02', advice: 'Renew it' },
    { result: 'failure', detail: 'The certificate "a" expired on 2029-12-31', advice: 'Renew it' }
  ])
})

t.test('warns of notifications that wait for long', async t => {
  const after = (minutes: number) => ({
    ...well,
    serverTime: `2030-01-01T00:${minutes}:00.000Z`,
    notifications: { waiting: 3, oldestAt: '2030-01-01T00:10:00.000Z' }
  })
  t.same(notificationFindings(well), [], 'an older server')
  t.same(notificationFindings(after(15)), [])
  t.match(notificationFindings(after(21)), [{ result: 'warning', detail: /^3 not accepted yet, the oldest of 20/ }])
  const refusing = { ...well, notifications: { waiting: 0, oldestAt: null, refusing: ['team', 'a\nb'] } }
  t.match(notificationFindings(refusing), [{ result: 'warning', detail: /refused by team, a\\nb$/ }])
})

t.test('warns if a server with a host name does not check host names', async t => {
  const found = (hostNamesChecked: boolean, address: string) =>
    nameFindings({ ...well, hostNamesChecked }, address).map(({ result }) => result)
  t.same(found(false, 'https://deploy.example.org/tools'), ['warning'])
  t.same(found(true, 'https://deploy.example.org'), ['pass'])
  for (const address of ['http://127.0.0.1:5431', 'http://localhost', 'http://[::1]:5431'])
    t.same(found(false, address), [], address)
  t.same(nameFindings(well, 'https://deploy.example.org'), [], 'an older server')
})

t.test('reports the details of a server', async t => {
  const cases: Array<[what: string, change: Partial<HealthDetail>, check: string, result: string]> = [
    ['database', { db: { ...well.db, ok: false } }, 'Database', 'failure'],
    ['data directory', { kiteHome: { ...well.kiteHome, writable: false } }, 'Server data directory', 'failure'],
    ['disk at 95', { disk: { ...well.disk, percentUsed: 95 } }, 'Server disk', 'failure'],
    ['disk at 85', { disk: { ...well.disk, percentUsed: 85 } }, 'Server disk', 'warning'],
    ['disk unknown', { disk: { freeBytes: null, totalBytes: null, percentUsed: null } }, 'Server disk', 'pass'],
    ['last deployment', { deploy: { last5: [failedRun], successRate: 0 } }, 'Deployments', 'warning']
  ]
  t.ok(detailFindings(well).every(({ result, advice }) => result === 'pass' && advice === null))
  for (const [what, change, check, result] of cases) {
    const finding = detailFindings({ ...well, ...change }).find(found => found.check === check)
    t.equal(finding?.result, result, what)
    t.equal(finding?.advice === null, result === 'pass', `${what}: says what to do`)
  }
})

t.test('shows the share of successes of this server, and the percentage of an older one', async t => {
  for (const successRate of [0.667, 66.7]) {
    const found = detailFindings({ ...well, deploy: { last5: [{ ...failedRun, status: 'success' }], successRate } })
    t.match(found.find(({ check }) => check === 'Deployments')?.detail, /^66\.7 % of/)
  }
})

t.test('names secrets that cannot be read, with the reason and what to do', async t => {
  const fault = {
    ok: false,
    why: 'the file is missing',
    unreadable: Array.from({ length: 12 }, (_, index) => `proj_a: N${index}`)
  }
  t.match(secretFindings({ ...well, secrets: fault }), [
    {
      result: 'failure',
      detail: /^cannot be read: the file is missing \(proj_a: N0, .*, and 2 more\)$/,
      advice: /Restore variables\.key/
    }
  ])
  t.match(secretFindings({ ...well, secrets: { ok: true, why: null, unreadable: [] } }), [{ result: 'pass' }])
  t.same(secretFindings(well), [], 'an older server')
})
