import t from 'tap'
import { shownDeployment, shownProject } from '../../lib/api/masks.js'
import type { Caller } from '../../lib/auth/bearer.js'
import type { RanScript } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'

const project = { id: 'proj_a', token: 'the-token', preDeployScript: 'a', postDeployScript: 'b' } as Project
const caller = (role: string, seesScripts: boolean) =>
  ({ role, seesScripts, token: role === 'local' ? undefined : { id: 'tok_a', name: 'x' } }) as Caller

const proof = { isRecent: (at: string | null | undefined) => at === undefined || at === 'now' }
const shown = (of: Caller) => shownProject(project, of, proof)

t.test('only admins see the deploy token, and scripts need the right to them', async t => {
  t.equal(shown(caller('admin', true)), project)
  t.equal(shown(caller('local', true)), project)
  t.same(shown(caller('operator', true)), { ...project, token: null })
  const session = (provenAt: string | null): Caller => ({ ...caller('admin', true), provenAt })
  t.equal(shown(session('now')), project)
  t.same(shown(session('long ago')), { ...project, token: null })
  t.same(shown(session(null)), { ...project, token: null })
  t.same(shown({ ...caller('admin', true), isRelayed: true }), { ...project, token: null }, 'a user of the hub')
  const masked = { ...project, token: null, preDeployScript: null, postDeployScript: null }
  t.same(shown(caller('viewer', false)), masked)
})

t.test('scripts of deployments', async t => {
  const script: RanScript = { step: 'preDeploy', source: 'client', script: 'text', async: false }
  const row = { id: 'dep_a', scripts: [script] }
  t.equal(shownDeployment(row, caller('operator', true)), row)
  t.same(shownDeployment(row, caller('viewer', false)), { id: 'dep_a', scripts: [{ ...script, script: null }] })
})
