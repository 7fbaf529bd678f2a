import t from 'tap'
import type { ListedNode } from '../../../../lib/model/node.js'
import {
  addressOf,
  createNodeIndex,
  filterOf,
  groupByTree,
  labelTexts,
  noTree,
  readLabels,
  stateOf,
  type TreeGroup,
  treesOf,
  urgencyOf,
  urgentCount
} from '../../../../www/elements/fleet/node-filter.js'
import { nodeOf, placementOf } from '../../../support/fleet-stand-in.js'

const shop = { id: 'proj_shop', name: 'shop' }
const api = { id: 'proj_api', name: 'api' }
const [old, fresh] = ['77c0be12'.repeat(8), '4f1a9c0d'.repeat(8)]

function node(
  number: number,
  trees: Array<[project: typeof shop, tree: string | null]>,
  given: Partial<ListedNode> = {}
) {
  const made = nodeOf(number, given)
  made.placements = trees.map(([project, liveTree]) => placementOf(made, project, { liveTree }))
  return made
}

const nodes = [
  node(1, [[shop, fresh]]),
  node(2, [[shop, old]], { isConnected: false }),
  node(
    3,
    [
      [shop, old],
      [api, fresh]
    ],
    { isDrained: true }
  ),
  node(4, [[api, null]], { version: '2.0.0', labels: { zone: 'asia', gpu: '' } }),
  node(5, [])
]
const index = createNodeIndex(nodes)
const names = (query: string): string[] => index.find(filterOf(new URLSearchParams(query))).map(({ id }) => id)

t.test('finds nodes by words, project, label, state and tree', async t => {
  for (const [query, found] of [
    ['', ['node_2', 'node_1', 'node_3', 'node_4', 'node_5']],
    ['state=attention', ['node_2']],
    ['q=PLANT-A2', ['node_2']],
    ['q=zone%3Dus plant', ['node_1', 'node_3', 'node_5']],
    ['q=api 2.0', ['node_4']],
    ['project=proj_api', ['node_3', 'node_4']],
    ['label=zone%3Deu', ['node_2']],
    ['label=gpu', ['node_4']],
    ['state=lost', ['node_2']],
    ['state=drained', ['node_3']],
    ['state=connected', ['node_1', 'node_4', 'node_5']],
    ['tree=77c0', ['node_2', 'node_3']],
    ['project=proj_api&tree=4f1a', ['node_3']],
    [`tree=${noTree}`, ['node_4']],
    ['q=nothing', []]
  ] as const) {
    t.same(names(query), found, query || 'everything')
  }
})

t.test('knows the labels, the projects and the number of nodes in each state', async t => {
  t.same(index.labels, ['gpu', 'zone=asia', 'zone=eu', 'zone=us'])
  t.same(index.projects, [api, shop])
  t.same(index.counts, { attention: 1, connected: 3, lost: 1, drained: 1 })
})

t.test('a drained node is drained, whether it is connected or not', async t => {
  t.equal(stateOf({ isDrained: true, isConnected: false }), 'drained')
  t.equal(stateOf({ isDrained: false, isConnected: false }), 'lost')
})

t.test('groups nodes by project and tree, the newest release first, and nodes without a project last', async t => {
  const all = filterOf(new URLSearchParams())
  const groups = groupByTree(nodes, all)
  t.same(
    groups.map(({ project, tree, nodes }) => [project?.name, tree?.slice(0, 4), nodes.map(({ node }) => node.id)]),
    [
      ['api', '4f1a', ['node_3']],
      ['api', undefined, ['node_4']],
      ['shop', '77c0', ['node_2', 'node_3']],
      ['shop', '4f1a', ['node_1']],
      [undefined, undefined, ['node_5']]
    ]
  )
  t.same(treesOf(groups), [fresh, old])
  const ofShop = groupByTree(index.find({ ...all, project: shop.id }), { ...all, project: shop.id })
  t.same(
    ofShop.map(({ project }) => project?.name),
    ['shop', 'shop']
  )
})

const release = (id: string, startTime: string) => ({
  id,
  message: null,
  triggerSource: 'cli' as const,
  undoOf: null,
  provenance: null,
  startTime
})

t.test('the newest release of a project comes first, and is named where there are several', async t => {
  const made = [nodeOf(1), nodeOf(2), nodeOf(3)]
  for (const [at, node] of made.entries()) {
    const [tree, deployId] = at === 2 ? [fresh, 'dep_2'] : [old, 'dep_1']
    node.placements = [placementOf(node, shop, { liveTree: tree, liveDeployId: deployId })]
  }
  const groups = (releases: Array<ReturnType<typeof release>>) =>
    groupByTree(made, filterOf(new URLSearchParams()), releases).map(({ tree, release, isNewest }) => [
      tree,
      release?.id ?? null,
      isNewest
    ])
  t.same(
    groups([]),
    [
      [old, null, false],
      [fresh, null, false]
    ],
    'the most frequent one if none is known'
  )
  const [first, second] = [release('dep_1', '2026-11-20'), release('dep_2', '2026-11-21')]
  t.same(groups([first, second]), [
    [fresh, 'dep_2', true],
    [old, 'dep_1', false]
  ])
  made.pop()
  t.same(groups([first]), [[old, 'dep_1', false]], 'a single one needs no word')
})

t.test('what needs attention comes first: failed, then shared, then lost, then drifted', async t => {
  const trouble = (phase: 'failed' | 'unreachable') => ({ trouble: { rolloutId: 'ro_1', phase } })
  const rows: Array<[urgency: number, given: Partial<ListedNode>, placement: Parameters<typeof placementOf>[2]]> = [
    [0, { isOutdated: true }, {}],
    [0, { isDrained: true, isConnected: false }, {}],
    [1, {}, { isDrifted: true }],
    [2, { isConnected: false }, {}],
    [2, {}, trouble('unreachable')],
    [3, { sharedSince: '2026-11-20' }, {}],
    [4, { isConnected: false }, trouble('failed')]
  ]
  const made = rows.map(([, given, placement], number) => {
    const node = nodeOf(number, given)
    node.placements = [placementOf(node, shop, placement)]
    return node
  })
  t.same(
    made.map(node => urgencyOf(node)),
    rows.map(([urgency]) => urgency)
  )
  t.equal(urgencyOf(made[6] as ListedNode, []), 2, 'it failed for another project')
  const [group] = groupByTree(made, filterOf(new URLSearchParams()))
  t.same(
    group?.nodes.map(({ node }) => node.id),
    ['node_6', 'node_5', 'node_3', 'node_4', 'node_2', 'node_0', 'node_1']
  )
  t.equal(urgentCount(group as TreeGroup), 5)
  t.equal(createNodeIndex(made).counts.attention, 5)
})

t.test('an address says what is shown', async t => {
  const query = 'q=a+b&project=proj_shop&label=zone%3Deu&state=lost&tree=4f1a&view=list'
  t.equal(addressOf(filterOf(new URLSearchParams(query))), `nodes?${query}`)
  t.equal(addressOf(filterOf(new URLSearchParams('state=nonsense&view=nonsense'))), 'nodes')
})

t.test('reads labels as they are shown', async t => {
  const labels = { zone: 'eu', gpu: '', path: 'a=b' }
  t.same(labelTexts({ labels }), ['zone=eu', 'gpu', 'path=a=b'])
  t.same(readLabels(' zone = eu \n\npath=a=b, rack=7'), { labels: { zone: 'eu', path: 'a=b', rack: '7' }, wrong: null })
  t.equal(readLabels('zone=eu\nnonsense').wrong, 'nonsense')
  t.equal(readLabels('=eu').wrong, '=eu')
})
