import t from 'tap'
import { shownDeployment, shownProject } from '../../lib/api/masks.js'
import type { Caller } from '../../lib/auth/bearer.js'
import type { RanScript } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'

const project = { id: 'proj_a', token: 'the-token', preDeployScript: 'a', postDeployScript: 'b' } as Project
const caller = (role: string, seesScripts: boolean) =>
  ({ role, seesScripts, token: role === 'local' ? undefined : { id: 'tok_a', name: 'x' } }) as Caller

t.test('only admins see the deploy token, and scripts need the right to them', async t => {
  t.equal(shownProject(project, caller('admin', true)), project)
  t.equal(shownProject(project, caller('local', true)), project)
  t.same(shownProject(project, caller('operator', true)), { ...project, token: null })
  const masked = { ...project, token: null, preDeployScript: null, postDeployScript: null }
  t.same(shownProject(project, caller('viewer', false)), masked)
})

t.test('scripts of deployments', async t => {
  const script: RanScript = { step: 'preDeploy', source: 'client', script: 'text', async: false }
  const row = { id: 'dep_a', scripts: [script] }
  t.equal(shownDeployment(row, caller('operator', true)), row)
  t.same(shownDeployment(row, caller('viewer', false)), { id: 'dep_a', scripts: [{ ...script, script: null }] })
})
