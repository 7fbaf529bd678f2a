import t from 'tap'
import { runsCommand } from '../../lib/shared/runs-command.js'

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
