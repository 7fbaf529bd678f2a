import t from 'tap'
import { readServerFile } from '../../../lib/cli/server-file/format.js'
import { planOf } from '../../../lib/cli/server-file/plan.js'
import { type ServerState, usualProject } from '../../../lib/cli/server-file/state.js'

const gate = { after: [{ http: 'http://x/', header: { Key: '***' } }], interval: 2 }
function projectOf(name: string, more: object = {}) {
  const { fields, ...others } = { fields: {}, ...more }
  const own = { ...usualProject, name, deployPath: `/srv/${name}`, ...fields }
  return {
    id: `proj_${name}`,
    seen: '"1"',
    hasDeployments: false,
    sources: [],
    variables: [],
    placements: [],
    fields: own,
    ...others
  }
}
const empty = { settings: {}, categories: [], tags: [], nodes: [], notificationTargets: [] }

function plan(projects: object[], kept: object[], options: { prune?: boolean; secrets?: boolean } = {}) {
  const read = readServerFile(JSON.stringify({ format: 'svc-server-1', projects }), { name: 'file', env: {} })
  const state = { ...empty, projects: kept } as unknown as ServerState
  const { tasks, notCompared } = planOf({ ...read, state, prune: false, secrets: false, ...options })
  return { notCompared, steps: tasks.map(({ action, name, fields }) => ({ action, name, fields })) }
}

t.test('a project is found by its name, or else by its target', async t => {
  const kept = [projectOf('shop'), projectOf('wiki')]
  t.same(plan([{ name: 'store', deployPath: '/srv/shop' }], kept).steps, [
    { action: 'change', name: 'shop', fields: [{ field: 'name', from: 'shop', to: 'store' }] }
  ])
  const both = [
    { name: 'shop', deployPath: '/srv/shop' },
    { name: 'store', deployPath: '/srv/shop/sub' }
  ]
  t.throws(() => plan(both, kept), { message: /Cannot deploy to "\/srv\/shop\/sub": the project "shop"/ })
})

t.test('what waits for others is done after them', async t => {
  const shop = { name: 'shop', deployPath: '/srv/shop', policy: { promoteFrom: { projectId: 'staging' } } }
  const { steps } = plan([shop, { name: 'staging', deployPath: '/srv/staging' }], [])
  t.match(
    steps.map(({ action, name }) => `${action} ${name}`),
    ['create shop', 'create staging', 'create shop'],
    'the policy of the first has to wait'
  )
})

t.test('a header keeps its value unless it is to be set again', async t => {
  const kept = [projectOf('shop', { fields: { policy: { gate } } })]
  const wanted = { after: [{ http: 'http://x/', header: { Key: 'secret-of-the-check' } }], interval: 2 }
  const given = [{ name: 'shop', deployPath: '/srv/shop', policy: { gate: wanted } }]
  const place = 'projects[0].policy.gate.after[0].header.Key'
  t.match(plan(given, kept), { notCompared: [place] })
  t.match(
    plan(given, kept, { secrets: true }).steps[0]?.fields.find(({ field }) => field.endsWith('.Key')),
    { to: 'changed' }
  )
})

t.test('a prune keeps a project with deployments, by refusing', async t => {
  t.match(plan([], [projectOf('old')], { prune: true }).steps, [{ action: 'delete', name: 'old' }])
  t.throws(() => plan([], [projectOf('old', { hasDeployments: true })], { prune: true }), { code: 'has_deployments' })
})
