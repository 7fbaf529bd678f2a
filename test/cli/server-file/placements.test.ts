import t from 'tap'
import { readServerFile } from '../../../lib/cli/server-file/format.js'
import { planOf } from '../../../lib/cli/server-file/plan.js'
import { type ServerState, usualProject } from '../../../lib/cli/server-file/state.js'

const nodes = ['web-1', 'web-2', 'web-3']
const placed = (node: string, deployPath: string) => ({ node, deployPath })

function projectOf(name: string, placements: object[]) {
  const fields = { ...usualProject, name, deployPath: `/srv/${name}` }
  const own = { sources: [], variables: [], placements, fields }
  return { id: `proj_${name}`, seen: '"1"', hasDeployments: false, ...own }
}

const kept = [
  projectOf('shop', [placed('web-1', '/srv/shop'), placed('web-2', '/srv/other')]),
  projectOf('wiki', [placed('web-1', '/srv/wiki')])
]

function plan(placements: object[] | undefined, options: { prune?: boolean } = {}) {
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
  t.same(plan([{ node: 'WEB-1' }, { node: 'web-2' }]), [], 'a node without a directory keeps the one that it has')
  t.same(plan([{ node: 'web-3' }]), ['create placement shop: web-3 /srv/shop'])
  t.same(plan([{ node: 'web-3', deployPath: '/srv/there/' }]), ['create placement shop: web-3 /srv/there'])
  t.same(plan([{ node: 'web-1' }], { prune: true }), ['delete placement shop: web-2'])
  t.same(plan([], { prune: true }), ['delete placement shop: web-1', 'delete placement shop: web-2'])
  t.same(plan(undefined, { prune: true }), [], 'a file without nodes leaves them alone')
})

t.test('what the fleet refuses is refused before the first change, with its line', async t => {
  const wrong: Array<[placements: object[], says: RegExp]> = [
    [[{ node: 'web-9' }], /line 8: There is no node "web-9"\. "svc fleet enroll"/],
    [[{ node: 'web-1' }, { node: 'web-1' }], /"web-1" is in the file twice/],
    [[{ node: 'web-2', deployPath: '/srv/shop' }], /line 8: The project is placed in "\/srv\/other" of "web-2"/],
    [[{ name: 'web-2' }], /placements\[0\]/]
  ]
  for (const [placements, says] of wrong) t.throws(() => plan(placements), { message: says }, String(says))
  const nested = [projectOf('shop', []), projectOf('wiki', [placed('web-3', '/srv/shop/wiki')])]
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
