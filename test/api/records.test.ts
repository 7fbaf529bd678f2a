import t from 'tap'
import { checkOwn, createRecords } from '../../lib/api/records.js'
import type { ApiRequest } from '../../lib/api/route.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'

const row = {
  id: 'dep_a',
  projectId: 'proj_a',
  provenance: null as unknown,
  steps: [] as unknown,
  scripts: [] as unknown
} as DeploymentRow
const requestBy = (role: string, projectId: string | null) => ({ actor: { role, projectId } }) as ApiRequest

const settings = { text: () => 'https://git.test/{repository}?at={commit}' }
const records = createRecords({
  settings,
  findDeployment: id => (id === row.id ? row : undefined),
  deployer: {
    readOutput: async (_id, { maxBytes = 0, timestamps = false } = {}) => ({
      text: `${maxBytes} ${timestamps}`,
      truncated: maxBytes < 5000
    })
  }
})

t.test('a project token only finds records of its project', async t => {
  t.equal(records.find(requestBy('admin', null), 'dep_a'), row)
  t.equal(records.find(requestBy('project', 'proj_a'), 'dep_a'), row)
  t.throws(() => records.find(requestBy('project', 'proj_b'), 'dep_a'), { kind: 'forbidden', code: 'other_project' })
  t.throws(() => records.find(requestBy('admin', null), 'dep_b'), { kind: 'not_found', code: 'not_found' })
  t.throws(() => checkOwn(requestBy('project', null), 'proj_a'), { kind: 'forbidden', code: 'other_project' })
})

t.test('a record contains the end of its output', async t => {
  t.same(await records.complete(row), { ...row, output: `${1024 * 1024} false` })
  t.same(await records.complete(row, { timestamps: true }), { ...row, output: `${1024 * 1024} true` })
  t.same(await records.listed(row), { ...row, output: '4096 false', outputTruncated: true })
  t.same(records.bare(row), row)
})

t.test('a record contains the URL of its commit', async t => {
  const provenance = { commit: 'a'.repeat(40), repository: 'git.test:team/shop.git' }
  t.match(records.bare({ ...row, provenance } as DeploymentRow), {
    commitUrl: `https://git.test/team/shop?at=${'a'.repeat(40)}`
  })
})
