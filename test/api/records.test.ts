import t from 'tap'
import { createRecords, projectReply, projectsReply, shownDeployment, shownProject } from '../../lib/api/records.js'
import type { ApiRequest } from '../../lib/api/route.js'
import type { DeploymentRow, RanScript } from '../../lib/model/deployment.js'
import type { Caller } from '../../lib/access/bearer.js'
import type { Project } from '../../lib/model/project.js'

const row = {
  id: 'dep_a',
  projectId: 'proj_a',
  tokenId: 'tok_a',
  provenance: null as unknown,
  steps: [] as unknown,
  scripts: [] as unknown
} as DeploymentRow
const requestBy = (role: string, projects: string[] | null, token?: { id: string; name: string }) =>
  ({ actor: { role, projects, token, seesScripts: role !== 'viewer' } }) as ApiRequest
const byAdmin = requestBy('admin', null)

const settings = { text: () => 'https://git.test/{repository}?at={commit}' }
const records = createRecords({
  settings,
  findDeployment: id => (id === row.id ? row : undefined),
  deployer: {
    readOutput: async (_id, { maxBytes = 0, timestamps = false } = {}) => ({
      text: `${maxBytes} ${timestamps}`,
      truncated: maxBytes < 5000,
      lost: false
    })
  }
})

t.test('a project token only finds records of its project', async t => {
  t.equal(records.find(requestBy('admin', null), 'dep_a'), row)
  t.equal(records.find(requestBy('project', ['proj_a']), 'dep_a'), row)
  t.throws(() => records.find(requestBy('project', ['proj_b']), 'dep_a'), { kind: 'forbidden', code: 'other_project' })
  t.throws(() => records.find(requestBy('admin', null), 'dep_b'), { kind: 'not_found', code: 'not_found' })
  t.throws(() => records.find(requestBy('viewer', ['proj_b']), 'dep_a'), { kind: 'not_found', code: 'not_found' })
})

t.test('a deployer decides only about deployments of its own token', async t => {
  const own = { id: 'tok_a', name: 'ci' }
  const other = { id: 'tok_b', name: 'ci-2' }
  t.equal(records.own(requestBy('deployer', null, own), 'dep_a'), row)
  t.throws(() => records.own(requestBy('deployer', null, other), 'dep_a'), { kind: 'forbidden', code: 'role_too_low' })
  t.equal(records.own(requestBy('operator', null, other), 'dep_a'), row)
  t.equal(records.own(requestBy('project', ['proj_a']), 'dep_a'), row)
})

t.test('a viewer sees no text of a script', async t => {
  const ran = { ...row, scripts: [{ step: 'preDeploy', source: 'client', script: 'secret', async: false }] }
  t.match(records.bare(requestBy('viewer', null), ran as DeploymentRow), {
    scripts: [{ step: 'preDeploy', script: null }]
  })
  t.match(records.bare(byAdmin, ran as DeploymentRow), { scripts: [{ script: 'secret' }] })
})

t.test('a record contains the end of its output', async t => {
  const shown = { ...row, artifactPath: null, artifactSize: null }
  t.same(await records.complete(byAdmin, row), { ...shown, output: `${1024 * 1024} false` })
  t.same(await records.complete(byAdmin, row, { timestamps: true }), { ...shown, output: `${1024 * 1024} true` })
  t.same(await records.listed(byAdmin, row), { ...shown, output: '4096 false', outputTruncated: true })
  t.same(records.bare(byAdmin, row), shown)
})

t.test('a record contains the URL of its commit', async t => {
  const provenance = { commit: 'a'.repeat(40), repository: 'git.test:team/shop.git' }
  t.match(records.bare(byAdmin, { ...row, provenance } as DeploymentRow), {
    commitUrl: `https://git.test/team/shop?at=${'a'.repeat(40)}`
  })
})

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

t.test('the JSON of a project is that of what its caller sees, also where it is kept', t => {
  const callers = [caller('admin', true), caller('operator', true), caller('viewer', false), caller('admin', true)]
  for (const of of callers) {
    const seen = shown(of)
    t.strictSame(projectReply(seen), { kind: 'json', status: 200, body: seen, text: JSON.stringify(seen) })
    const other = shownProject({ ...project, id: 'proj_b' }, of, proof)
    for (const list of [[], [seen], [other, seen]])
      t.strictSame(projectsReply(list), { kind: 'json', status: 200, body: list, text: JSON.stringify(list) })
  }
  t.end()
})

t.test('scripts of deployments', async t => {
  const script: RanScript = { step: 'preDeploy', source: 'client', script: 'text', async: false }
  const row = { id: 'dep_a', scripts: [script] }
  t.equal(shownDeployment(row, caller('operator', true)), row)
  t.same(shownDeployment(row, caller('viewer', false)), { id: 'dep_a', scripts: [{ ...script, script: null }] })
})
