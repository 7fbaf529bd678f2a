import type { ListedNode, ListedPlacement, NodeRelease } from '../../../lib/model/node.js'

/* Which nodes are shown, how they are grouped by tree, and how the address expresses this. Pure. */

/** The states of nodes. `drained` nodes can be connected or not. */
export const nodeStates = ['connected', 'lost', 'drained'] as const
export type NodeState = (typeof nodeStates)[number]
/** The states by which nodes can be chosen. */
export const chosenStates = ['attention', ...nodeStates] as const

/** The forms of the list. */
export const nodeViews = ['grid', 'list'] as const
/** The form of the list. */
export type NodeView = (typeof nodeViews)[number]

/** Which nodes are shown. Empty texts show all. */
export interface NodeFilter {
  /** Each word must occur in the name, the labels, a project or the version of a node. */
  words: string
  /** An id. */
  project: string
  /** `key=value`. */
  label: string
  state: (typeof chosenStates)[number] | ''
  /** The first digits of a tree, or `none`. */
  tree: string
  /** Null: a grid, unless there are many nodes. */
  view: NodeView | null
}

/** The value of `tree` for nodes on which nothing is in place. */
export const noTree = 'none'

/** Returns the filter of an address. Invalid values are ignored. */
export function filterOf(query: URLSearchParams): NodeFilter {
  return {
    words: query.get('q') ?? '',
    project: query.get('project') ?? '',
    label: query.get('label') ?? '',
    state: chosenStates.find(state => state === query.get('state')) ?? '',
    tree: query.get('tree') ?? '',
    view: nodeViews.find(view => view === query.get('view')) ?? null
  }
}

/** Returns the address of a filter. Default values are omitted. */
export function addressOf({ words, project, label, state, tree, view }: NodeFilter): string {
  const said: Array<[name: string, value: string]> = [
    ['q', words],
    ['project', project],
    ['label', label],
    ['state', state],
    ['tree', tree],
    ['view', view ?? '']
  ]
  const query = new URLSearchParams(said.filter(([, value]) => value !== ''))
  return query.size === 0 ? 'nodes' : `nodes?${query}`
}

/** Returns the state of a node. A drained node is drained, whether it is connected or not. */
export function stateOf({ isDrained, isConnected }: Pick<ListedNode, 'isDrained' | 'isConnected'>): NodeState {
  return isDrained ? 'drained' : isConnected ? 'connected' : 'lost'
}

/**
 * Returns how much a node needs somebody's attention, on account of itself and of a placement, or of all of its placements. 0:
 * not at all. An old agent alone needs none now.
 */
export function urgencyOf(node: ListedNode, placements: readonly ListedPlacement[] = node.placements): number {
  const phases = placements.map(({ trouble }) => trouble?.phase)
  if (phases.some(phase => phase === 'failed' || phase === 'stuck')) return 4
  if (node.sharedSince !== null) return 3
  if (stateOf(node) === 'lost' || phases.includes('unreachable')) return 2
  return placements.some(({ isDrifted }) => isDrifted) ? 1 : 0
}

export function labelTexts({ labels }: Pick<ListedNode, 'labels'>): string[] {
  return Object.entries(labels).map(([key, value]) => (value === '' ? key : `${key}=${value}`))
}

/** Nodes prepared for fast filtering at every key press. */
export interface NodeIndex {
  readonly nodes: readonly ListedNode[]
  /** All labels, by name. */
  readonly labels: readonly string[]
  /** The placed projects, by name. */
  readonly projects: ReadonlyArray<{ id: string; name: string }>
  readonly counts: Readonly<Record<(typeof chosenStates)[number], number>>
  /** Returns the nodes that match: first those that need attention. */
  find(filter: NodeFilter): ListedNode[]
}

/** Creates the index. Nodes that are equally urgent stay in their order. */
export function createNodeIndex(nodes: readonly ListedNode[]): NodeIndex {
  const rows = nodes
    .map(node => ({ node, text: textOf(node), labels: labelTexts(node), urgency: urgencyOf(node) }))
    .sort((a, b) => b.urgency - a.urgency)
  const projects = new Map(nodes.flatMap(({ placements }) => placements.map(p => [p.projectId, p.projectName])))
  const counts = { connected: 0, lost: 0, drained: 0, attention: rows.filter(({ urgency }) => urgency > 0).length }
  for (const node of nodes) counts[stateOf(node)]++
  return {
    nodes,
    labels: [...new Set(rows.flatMap(({ labels }) => labels))].sort(collator.compare),
    projects: [...projects].map(([id, name]) => ({ id, name })).sort((a, b) => collator.compare(a.name, b.name)),
    counts,
    find(filter) {
      const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean)
      return rows
        .filter(
          ({ node, text, labels, urgency }) =>
            words.every(word => text.includes(word)) &&
            (filter.label === '' || labels.includes(filter.label)) &&
            (filter.state === '' || (filter.state === 'attention' ? urgency > 0 : stateOf(node) === filter.state)) &&
            passes(node, filter)
        )
        .map(({ node }) => node)
    }
  }
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })

function textOf(node: ListedNode): string {
  const projects = node.placements.map(({ projectName }) => projectName)
  return [node.name, node.id, node.version ?? '', ...labelTexts(node), ...projects].join('\n').toLowerCase()
}

function passes({ placements }: ListedNode, { project, tree }: NodeFilter): boolean {
  if (project === '' && tree === '') return true
  return placements.some(
    placement => (project === '' || placement.projectId === project) && (tree === '' || hasTree(placement, tree))
  )
}

function hasTree({ liveTree }: ListedPlacement, tree: string): boolean {
  return tree === noTree ? liveTree === null : (liveTree?.startsWith(tree) ?? false)
}

/** Nodes that have the same tree of a project. */
export interface TreeGroup {
  key: string
  /** Null: the nodes have no project. */
  project: { id: string; name: string } | null
  /** Null: nothing is in place. */
  tree: string | null
  deployId: string | null
  /** Null: it is not known. */
  release: NodeRelease | null
  /** Whether it is the newest of several releases of the project. */
  isNewest: boolean
  /** First those that need attention. */
  nodes: Array<{ node: ListedNode; placement: ListedPlacement | null }>
}

/** Groups nodes by project and tree: the projects by name, and the newest release of each first. */
export function groupByTree(
  nodes: readonly ListedNode[],
  { project, tree }: NodeFilter,
  releases: readonly NodeRelease[] = []
): TreeGroup[] {
  const groups = new Map<string, TreeGroup>()
  const none = { project: null, tree: null, deployId: null, release: null, isNewest: false }
  const add = (group: Omit<TreeGroup, 'nodes'>, member: TreeGroup['nodes'][number]): void => {
    const known = groups.get(group.key) ?? { ...group, nodes: [] }
    known.nodes.push(member)
    known.deployId ??= group.deployId
    groups.set(group.key, known)
  }
  for (const node of nodes) {
    for (const placement of node.placements) {
      const { projectId: id, projectName: name, liveTree, liveDeployId: deployId } = placement
      if ((project !== '' && id !== project) || (tree !== '' && !hasTree(placement, tree))) continue
      const group = { ...none, key: `${id} ${liveTree ?? ''}`, project: { id, name }, tree: liveTree, deployId }
      add(group, { node, placement })
    }
    if (node.placements.length === 0) add({ ...none, key: '' }, { node, placement: null })
  }
  const byId = new Map(releases.map(release => [release.id, release]))
  for (const group of groups.values()) {
    group.release = byId.get(group.deployId ?? '') ?? null
    group.nodes.sort((a, b) => urgencyIn(b) - urgencyIn(a))
  }
  const startOf = ({ release }: TreeGroup): string => release?.startTime ?? ''
  const sorted = [...groups.values()].sort(
    (a, b) =>
      Number(a.project === null) - Number(b.project === null) ||
      collator.compare(a.project?.name ?? '', b.project?.name ?? '') ||
      Number(a.tree === null) - Number(b.tree === null) ||
      (startOf(a) < startOf(b) ? 1 : startOf(a) > startOf(b) ? -1 : 0) ||
      b.nodes.length - a.nodes.length
  )
  for (const [at, group] of sorted.entries()) {
    const isOf = (other: TreeGroup | undefined): boolean => other?.project?.id === group.project?.id
    group.isNewest = group.release !== null && !isOf(sorted[at - 1]) && isOf(sorted[at + 1])
  }
  return sorted
}

function urgencyIn({ node, placement }: TreeGroup['nodes'][number]): number {
  return urgencyOf(node, placement === null ? [] : [placement])
}

/** Returns the number of nodes of a group that need attention. */
export function urgentCount({ nodes }: TreeGroup): number {
  return nodes.filter(member => urgencyIn(member) > 0).length
}

/** Returns the trees of groups, the most frequent first. */
export function treesOf(groups: readonly TreeGroup[]): string[] {
  const counts = new Map<string, number>()
  for (const { tree, nodes } of groups) if (tree !== null) counts.set(tree, (counts.get(tree) ?? 0) + nodes.length)
  return [...counts].sort(([, a], [, b]) => b - a).map(([tree]) => tree)
}

/** Reads labels from lines of the form `key=value`. Returns the first line that is none as `wrong`. */
export function readLabels(text: string): { labels: Record<string, string>; wrong: string | null } {
  const labels: Record<string, string> = {}
  for (const line of text.split(/[\n,]/).map(each => each.trim())) {
    if (line === '') continue
    const at = line.indexOf('=')
    if (at < 1) return { labels, wrong: line }
    labels[line.slice(0, at).trim()] = line.slice(at + 1).trim()
  }
  return { labels, wrong: null }
}
