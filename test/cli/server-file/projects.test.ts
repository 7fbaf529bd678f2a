import t from 'tap'
import { readServerFile } from '../../../lib/cli/server-file/format.js'
import { type ServerState, usualProject } from '../../../lib/cli/server-file/state.js'
import { planOf } from '../../../lib/cli/commands/server-file.js'

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
  t.throws(() => plan([{ name: 'wiki', deployPath: 'srv/wiki' }], kept), {
    message: /"srv\/wiki" is not an absolute path/
  })
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

/** Returns what a plan does with the log sources of a server (`there`) and of a file, both named by a letter. */
function planSources(there: string, inFile: string, prune = false) {
  const source = (letter: string) => ({ filePath: `/log/${letter}`, label: letter, kind: 'plain' as const })
  const sources = [...there].map((letter, index) => ({
    id: letter,
    seen: '1',
    sortOrder: index * 2,
    fields: source(letter)
  }))
  const fields = { ...usualProject, name: 'shop', deployPath: '/srv/shop' }
  const kept = { id: 'proj_1', seen: '"1"', hasDeployments: false, sources, variables: [], placements: [], fields }
  const projects = [{ name: 'shop', deployPath: '/srv/shop', logSources: [...inFile].map(source) }]
  const read = readServerFile(JSON.stringify({ format: 'svc-server-1', projects }), { name: 'file', env: {} })
  const others = { settings: {}, categories: [], tags: [], nodes: [], notificationTargets: [] }
  const state = { ...others, projects: [kept] } as unknown as ServerState
  const { tasks } = planOf({ ...read, state, prune, secrets: false })
  return tasks.map(({ action, name, fields }) => {
    const order = fields.find(({ field }) => field === 'sortOrder')?.to
    return `${action} ${name.slice(-1)}${order === undefined ? '' : ` ${order}`}`
  })
}

t.test('log sources get the order of the file', async t => {
  t.same(planSources('abc', 'abc'), [])
  t.same(planSources('abc', 'cba'), ['change c 0', 'change b 1', 'change a 2'])
  t.same(planSources('abc', 'ca'), ['change c 0', 'change a 2', 'change b 1'], 'the others keep their places')
  t.same(planSources('abc', 'ac'), [])
  t.same(planSources('ab', 'abx'), ['create x'], 'a new one is the last')
  t.same(planSources('ab', 'xab'), ['create x', 'change a 1'], 'or where the file has it: b is third already')
  t.same(planSources('', 'xy'), ['create x', 'create y'])
  t.same(planSources('abc', 'ca', true), ['change c 0', 'change a 1', 'delete b'])
})

const nodes = ['web-1', 'web-2', 'web-3']
const placed = (node: string, deployPath: string) => ({ node, deployPath })

function placedProject(name: string, placements: object[]) {
  const fields = { ...usualProject, name, deployPath: `/srv/${name}` }
  const own = { sources: [], variables: [], placements, fields }
  return { id: `proj_${name}`, seen: '"1"', hasDeployments: false, ...own }
}

const kept = [
  placedProject('shop', [placed('web-1', '/srv/shop'), placed('web-2', '/srv/other')]),
  placedProject('wiki', [placed('web-1', '/srv/wiki')])
]

function planPlacements(placements: object[] | undefined, options: { prune?: boolean } = {}) {
  const wiki = { name: 'wiki', deployPath: '/srv/wiki' }
  const projects = [{ name: 'shop', deployPath: '/srv/shop', ...(placements && { placements }) }, wiki]
  const text = JSON.stringify({ format: 'svc-server-1', projects }, null, 1)
  const read = readServerFile(text, { name: 'file', env: {} })
  const others = { settings: {}, categories: [], tags: [], notificationTargets: [] }
  const state = { ...others, nodes, projects: kept } as unknown as ServerState
  const { tasks } = planOf({ ...read, state, prune: false, secrets: false, ...options })
  return tasks.map(({ action, kind, name, fields }) => [action, kind, name, ...fields.map(({ to }) => to)].join(' '))
}

t.test('nodes are added, and removed by a prune of a file that names nodes', async t => {
  t.same(
    planPlacements([{ node: 'WEB-1' }, { node: 'web-2' }]),
    [],
    'a node without a directory keeps the one that it has'
  )
  t.same(planPlacements([{ node: 'web-3' }]), ['create placement shop: web-3 /srv/shop'])
  t.same(planPlacements([{ node: 'web-3', deployPath: '/srv/there/' }]), ['create placement shop: web-3 /srv/there'])
  t.same(planPlacements([{ node: 'web-1' }], { prune: true }), ['delete placement shop: web-2'])
  t.same(planPlacements([], { prune: true }), ['delete placement shop: web-1', 'delete placement shop: web-2'])
  t.same(planPlacements(undefined, { prune: true }), [], 'a file without nodes leaves them alone')
})

t.test('what the fleet refuses is refused before the first change, with its line', async t => {
  const wrong: Array<[placements: object[], says: RegExp]> = [
    [[{ node: 'web-9' }], /line 8: There is no node "web-9"\. "svc fleet enroll"/],
    [[{ node: 'web-1' }, { node: 'web-1' }], /"web-1" is in the file twice/],
    [[{ node: 'web-2', deployPath: '/srv/shop' }], /line 8: The project is placed in "\/srv\/other" of "web-2"/],
    [[{ name: 'web-2' }], /placements\[0\]/]
  ]
  for (const [placements, says] of wrong) t.throws(() => planPlacements(placements), { message: says }, String(says))
  const nested = [placedProject('shop', []), placedProject('wiki', [placed('web-3', '/srv/shop/wiki')])]
  const text = JSON.stringify({
    format: 'svc-server-1',
    projects: [{ name: 'shop', deployPath: '/srv/shop', placements: [{ node: 'web-3' }] }]
  })
  const state = {
    ...{ settings: {}, categories: [], tags: [], notificationTargets: [] },
    nodes,
    projects: nested
  } as unknown as ServerState
  const read = readServerFile(text, { name: 'file', env: {} })
  t.throws(() => planOf({ ...read, state, prune: false, secrets: false }), {
    message: /Cannot place the project in "\/srv\/shop" of "web-3": "wiki" is placed in "\/srv\/shop\/wiki"/
  })
})
