import t from 'tap'
import { isRefused, runsCommand } from '../../lib/shared/deployment.js'

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
