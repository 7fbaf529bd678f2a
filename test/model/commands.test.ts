import t from 'tap'
import { projectFields } from '../../lib/model/project-fields.js'
import { changesCommands } from '../../lib/model/commands.js'
import { runsCommand } from '../../lib/shared/runs-command.js'
import { aProject } from '../store/stage.js'

t.test('a deployment runs a command if any script or check of its does', async t => {
  const project = aProject({ preDeployScript: '', postDeployScript: ' \n', policy: {} })
  t.equal(runsCommand(project), false)
  t.equal(runsCommand(project, { preDeploy: '', postDeploy: null }), false)
  t.equal(runsCommand(project, { preDeploy: 'id' }), true)
  t.equal(runsCommand(project, { postDeploy: 'id' }), true)
  t.equal(runsCommand({ ...project, preDeployScript: 'npm ci' }), true, 'it may run what was uploaded')
  t.equal(runsCommand({ ...project, postDeployScript: 'npm ci' }), true)
  const gate = { interval: 1, timeout: 5, deadline: 30, successes: 1, stableFor: 0, onFailure: 'revert' } as const
  t.equal(runsCommand({ ...project, policy: { gate: { ...gate, after: [{ tcp: '127.0.0.1:80' }] } } }), false)
  t.equal(runsCommand({ ...project, policy: { gate: { ...gate, after: [{ command: 'id' }] } } }), true)
})

t.test('a change of a project decides what runs, except for these fields', async t => {
  const project = aProject({ policy: { drift: 'refuse' } })
  const harmless = ['name', 'description', 'env', 'categoryId', 'tagIds', 'scriptTimeoutSeconds', 'maxDiskMb', 'pinned']
  for (const key in projectFields) {
    const value = key === 'policy' ? { drift: 'off' } : 'something else'
    t.equal(changesCommands(project, { [key]: value }), !harmless.includes(key), key)
    t.equal(changesCommands(project, { [key]: undefined }), false, `${key} is absent`)
    const same = (project as unknown as Record<string, unknown>)[key]
    if (same !== undefined) t.equal(changesCommands(project, { [key]: same }), false, `${key} keeps its value`)
  }
  t.equal(changesCommands(project, { policy: { drift: null } }), true, 'the default again')
  t.equal(changesCommands(project, { policy: { prune: null, gate: null } }), false, 'the default is what it has')
  t.equal(changesCommands(project, {}), false)
})
