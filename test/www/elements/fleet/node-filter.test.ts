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
  treesOf
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
    ['', ['node_1', 'node_2', 'node_3', 'node_4', 'node_5']],
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
  t.same(index.counts, { connected: 3, lost: 1, drained: 1 })
})

t.test('a drained node is drained, whether it is connected or not', async t => {
  t.equal(stateOf({ isDrained: true, isConnected: false }), 'drained')
  t.equal(stateOf({ isDrained: false, isConnected: false }), 'lost')
})

t.test('groups nodes by project and tree, the most frequent tree first, and nodes without a project last', async t => {
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
