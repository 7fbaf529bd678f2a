/* What the commands for nodes have in common: operands, labels, tables and lines. */
import { oneLine } from '../../base/text.js'
import { type ListedNode, type ListedPlacement, parseLabel, type PlacedRelease } from '../../model/node.js'
import { isGoing, type ListedRollout } from '../../model/rollout.js'
import { formatBytes } from '../../base/shared/api.js'
import { usage } from '../command.js'
import type { Paint } from '../terminal/output.js'
import type { Column } from '../terminal/columns.js'
import { relativeTime } from '../terminal/words.js'

/** Operand of the commands for one node. */
export const nodeOperand = { required: true, complete: 'nodes', help: 'name or id of the node' } as const

/** Option that sets or selects a label of nodes. */
export const labelOption = { type: 'text', value: 'key=value', repeatable: true } as const

/** Reads `--label key=value`. Throws a usage error. */
export function readLabels(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    words.map(word => {
      const label = parseLabel(word)
      if (label === null) throw usage('--label', `--label cannot be "${word}": it must be key=value, like zone=eu`)
      return [label.key, label.value]
    })
  )
}

/** Checks one `--label key=value`, and returns it. */
export function parsedLabel(word: string): string {
  readLabels([word])
  return word
}

/** Returns what nodes get that were placed now; `newest` is the newest rollout of the project. */
export function placedLine(newest: Pick<ListedRollout, 'id' | 'state' | 'deployId'> | undefined): string {
  if (newest === undefined) return 'Nothing was rolled out yet: the nodes get the next push.'
  const { id, state, deployId } = newest
  if (state === 'done') return `The added nodes get ${deployId}, as rollout ${id} did.`
  if (isGoing(state) && state !== 'reverting') return `The added nodes get ${deployId} with rollout ${id}.`
  const first = 'The added nodes get nothing yet:'
  if (state === 'reverting') return `${first} rollout ${id} is going back. Then they get what the others go back to.`
  if (state === 'reverted')
    return `${first} rollout ${id} was reverted, and the archive of no earlier one is kept. Push again.`
  return `${first} rollout ${id} is halted. Next: svc rollout revert ${id}   or   svc rollout resume ${id}`
}

/** Returns whether a node is connected, and whether it is drained. */
export function nodeState(node: ListedNode, nowMs: number): string {
  const { isConnected, isDrained, isOutdated, lastSeenAt, sharedSince } = node
  const seen = lastSeenAt === null ? 'never connected' : `lost, seen ${relativeTime(lastSeenAt, nowMs)}`
  return [
    isConnected ? 'connected' : seen,
    ...(isDrained ? ['drained'] : []),
    ...(isOutdated ? ['upgrade the agent'] : []),
    ...(sharedSince ? ['two machines use its identity'] : [])
  ].join(', ')
}

/** Returns labels as text: `zone=eu role=web`. */
export function labelWords(labels: Readonly<Record<string, string>>): string {
  const words = Object.entries(labels).map(([key, value]) => `${key}=${value}`)
  return oneLine(words.sort().join(' '))
}

/** Returns what a node has of a project: the deployment, or nothing. */
export function liveWords({ liveDeployId, liveTree, isDrifted }: ListedPlacement): string {
  if (liveDeployId === null && isDrifted) return 'a deployment of its own'
  return `${releaseWords(liveDeployId, liveTree)}${isDrifted ? ', edited' : ''}`
}

function releaseWords(deployId: string | null, tree: string | null): string {
  return (deployId ?? 'nothing yet') + (tree === null ? '' : ` (tree ${tree.slice(0, 8)}…)`)
}

/** Returns a release that nodes have as a line: `live on web-1, web-2 and 3 more (1 drained): dep_… (tree …)`. */
export function releaseLine({ deployId, tree, nodes, drained, drifted, names }: PlacedRelease): string {
  const more = nodes + drained - names.length
  const where = `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  const notes = [drained > 0 ? `${drained} drained` : '', drifted > 0 ? `${drifted} edited` : ''].filter(Boolean)
  const notice = notes.length === 0 ? '' : ` (${notes.join(', ')})`
  return oneLine(`on ${where}${notice}: ${releaseWords(deployId, tree)}`)
}

function paintState(
  paint: Paint,
  { isConnected, isDrained, isOutdated, sharedSince }: ListedNode,
  text: string
): string {
  if (!isConnected || sharedSince) return paint.red(text)
  return isDrained || isOutdated ? paint.yellow(text) : paint.green(text)
}

/** Returns the columns of a list of nodes. */
export function nodeColumns(paint: Paint, nowMs: number): Column<ListedNode>[] {
  return [
    { header: 'NODE', cell: ({ name }) => name },
    { header: 'STATE', cell: node => nodeState(node, nowMs), paint: (text, node) => paintState(paint, node, text) },
    { header: 'LABELS', cell: ({ labels }) => labelWords(labels), shrinkTo: 8, drop: 'last' },
    {
      header: 'PROJECTS',
      cell: ({ placements }) =>
        placements.map(placement => `${placement.projectName}${placement.isDrifted ? ' (drifted)' : ''}`).join(', '),
      shrinkTo: 16,
      drop: 'last'
    },
    {
      header: 'FREE',
      cell: ({ freeBytes }) => (freeBytes === null ? '' : formatBytes(freeBytes)),
      align: 'right',
      drop: 'last'
    },
    { header: 'VERSION', cell: ({ version }) => version ?? '', drop: 'last' }
  ]
}

/** Returns the columns of the nodes of a project. */
export function placementColumns(paint: Paint, nowMs: number): Column<ListedPlacement>[] {
  return [
    { header: 'NODE', cell: ({ nodeName }) => nodeName },
    { header: 'DIRECTORY', cell: ({ deployPath }) => deployPath, shrinkTo: 20, drop: 'last' },
    {
      header: 'HAS',
      cell: liveWords,
      shrinkTo: 20,
      paint: (text, { isDrifted }) => (isDrifted ? paint.yellow(text) : text)
    },
    { header: 'SAID', cell: ({ seenAt }) => (seenAt === null ? 'nothing yet' : relativeTime(seenAt, nowMs)) }
  ]
}
