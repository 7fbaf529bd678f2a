import t from 'tap'
import { isCutOff, isRefused, routePath, runsCommand, formatBytes } from '../../../lib/base/shared/api.js'

t.test('the path of a route, with its parameters', async t => {
  t.equal(routePath('GET /api/projects', {}), '/api/projects')
  t.equal(routePath('PUT /api/projects/:id/lock', { id: 'a/b ü' }), '/api/projects/a%2Fb%20%C3%BC/lock')
  t.equal(
    routePath('GET /api/rollouts/:rolloutId/nodes/:node', { rolloutId: 'r', node: 'n' }),
    '/api/rollouts/r/nodes/n'
  )
})

t.test('a hub is cut off if it hears of no leader, or is a follower that cannot follow', async t => {
  t.notOk(isCutOff({ role: 'leader', problem: null }))
  t.notOk(isCutOff({ role: 'leader', problem: 'etcd is full' }), 'its own reads are up to date')
  t.notOk(isCutOff({ role: 'follower', problem: null }))
  t.ok(isCutOff({ role: 'follower', problem: 'The cluster has a newer schema' }))
  t.ok(isCutOff({ role: 'alone', problem: null }))
})

t.test('a project runs a command by its scripts, those of the client, and its checks', t => {
  const plain = { preDeployScript: null, postDeployScript: ' ', policy: {} }
  const table: Array<[project: Parameters<typeof runsCommand>[0], offered: object, runs: boolean]> = [
    [plain, {}, false],
    [plain, { postDeploy: 'id' }, true],
    [{ ...plain, preDeployScript: 'id' }, {}, true],
    [{ ...plain, policy: { gate: null } }, {}, false],
    [{ ...plain, policy: { gate: { after: [{ command: 'id' }] } } }, {}, true],
    [{ ...plain, policy: { gate: { after: [{ tcp: '127.0.0.1:1' }] } } }, {}, false]
  ]
  for (const [project, offered, runs] of table) t.equal(runsCommand(project, offered), runs, JSON.stringify(project))
  t.end()
})

t.test('refuses a plan with a conflict or a failed check', async t => {
  const plan = (conflicts: number, ...checks: boolean[]) => ({
    counts: { conflicts },
    checks: checks.map(ok => ({ ok }))
  })
  t.notOk(isRefused(plan(0, true, true)))
  t.notOk(isRefused(plan(0)))
  t.ok(isRefused(plan(1, true)))
  t.ok(isRefused(plan(0, true, false)))
})

t.test('formats bytes for people', async t => {
  const cases: Array<[bytes: number, text: string]> = [
    [0, '0 B'],
    [1, '1 B'],
    [1023, '1023 B'],
    [1024, '1.0 KB'],
    [1536, '1.5 KB'],
    [4300, '4.2 KB'],
    [10 * 1024, '10 KB'],
    [1023.6 * 1024, '1.0 MB'],
    [1024 ** 2 - 1, '1.0 MB'],
    [5 * 1024 ** 2, '5.0 MB'],
    [500 * 1024 ** 2, '500 MB'],
    [1.5 * 1024 ** 3, '1.5 GB'],
    [2000 * 1024 ** 4, '2000 TB']
  ]
  for (const [bytes, text] of cases) t.equal(formatBytes(bytes), text)
})
