import { oneLine, countOf } from '../base/text.js'
import { type ListedNode, type ListedPlacement, parseLabel, type PlacedRelease } from '../model/node.js'
import {
  isGoing,
  type ListedRollout,
  type ListedRolloutNode,
  type NodePhase,
  type RolloutDetail
} from '../model/rollout.js'
import { formatBytes, takingPart } from '../base/shared/api.js'
import { usage } from './command.js'
import type { Paint } from './terminal/output.js'
import { relativeTime, humanDuration } from './terminal/words.js'
import type { Column } from './terminal/columns.js'

/* What the commands for nodes have in common: operands, labels, tables and lines. */

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

function paintNode(
  paint: Paint,
  { isConnected, isDrained, isOutdated, sharedSince }: ListedNode,
  text: string
): string {
  if (!isConnected || sharedSince) return paint.red(text)
  return isDrained || isOutdated ? paint.yellow(text) : paint.green(text)
}

export function nodeColumns(paint: Paint, nowMs: number): Column<ListedNode>[] {
  return [
    { header: 'NODE', cell: ({ name }) => name },
    { header: 'STATE', cell: node => nodeState(node, nowMs), paint: (text, node) => paintNode(paint, node, text) },
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

/* The waves of a rollout as lines of text. Pure. */

/** Signs of the phases, one column each. */
const signs: Readonly<Record<NodePhase, readonly [sign: string, color: keyof Paint]>> = {
  pending: ['·', 'dim'],
  preparing: ['○', 'dim'],
  prepared: ['●', 'blue'],
  swapping: ['◐', 'yellow'],
  withdrawing: ['◐', 'yellow'],
  good: ['✓', 'green'],
  failed: ['✗', 'red'],
  reverting: ['◐', 'yellow'],
  reverted: ['↶', 'yellow'],
  stuck: ['!', 'red'],
  unreachable: ['?', 'red'],
  skipped: ['-', 'dim']
}

/** Phases that a summary names, the most important first. */
const named: readonly NodePhase[] = [
  'stuck',
  'failed',
  'unreachable',
  'swapping',
  'withdrawing',
  'reverting',
  'good',
  'reverted',
  'preparing',
  'prepared',
  'pending',
  'skipped'
]

/** Maximum number of signs in a line; a larger wave shows only its numbers. */
const maxSigns = 40
/** Maximum number of failed nodes that are listed with their errors. */
const maxErrors = 10

/** A wave: its number, and its nodes by name. */
interface Wave {
  wave: number
  nodes: ListedRolloutNode[]
}

/** Returns the waves of a rollout, in order. */
export function wavesOf({ nodes }: Pick<RolloutDetail, 'nodes'>): Wave[] {
  const waves = new Map<number, ListedRolloutNode[]>()
  for (const node of nodes) waves.set(node.wave, [...(waves.get(node.wave) ?? []), node])
  return [...waves].sort(([a], [b]) => a - b).map(([wave, nodes]) => ({ wave, nodes }))
}

/** Returns the state of a rollout in words: `swapping, wave 2 of 4`. */
export function stateWords({ state, wave, waves, haltedReason, pausedUntil }: ListedRollout, nowMs: number): string {
  const at = `wave ${wave} of ${waves}`
  if (state === 'swapping') return `in progress, ${at}`
  if (state === 'approval') return `waits for an approval, ${at} is done`
  if (state === 'pausing') {
    const left =
      pausedUntil === null ? '' : `, the next one begins in ${humanDuration(Date.parse(pausedUntil) - nowMs)}`
    return `${at} is done${left}`
  }
  const why = haltedReason === null ? '' : `: ${oneLine(haltedReason)}`
  return state === 'halted' || state === 'reverting' || state === 'reverted' ? `${state}${why}` : state
}

/** Returns the number of nodes in each phase in words: `1 failed, 3 good, 8 prepared`. */
export function countWords(counts: Partial<Record<NodePhase, number>>): string {
  const parts = named.flatMap(phase => (counts[phase] ? [`${counts[phase]} ${phase}`] : []))
  return parts.length === 0 ? 'no nodes' : parts.join(', ')
}

/** Returns the rollout as lines: a head, its waves, and the nodes that failed. */
export function rolloutLines(rollout: RolloutDetail, { paint, nowMs }: { paint: Paint; nowMs: number }): string[] {
  const head = `Rollout ${paint.bold(rollout.id)} of ${oneLine(rollout.projectName)}, tree ${rollout.treeSha256.slice(0, 8)}…: ${countOf(takingPart(rollout), 'node')}, ${countOf(rollout.waves, 'wave')}`
  return [
    head,
    paintState(paint, rollout, stateWords(rollout, nowMs)),
    '',
    ...wavesOf(rollout).map(wave => waveLine(wave, rollout, paint)),
    ...errorLines(rollout.nodes, paint)
  ]
}

/** Colours a text by the state of a rollout. */
export function paintState(paint: Paint, { state }: Pick<ListedRollout, 'state'>, text: string): string {
  if (state === 'done') return paint.green(text)
  if (state === 'halted') return paint.red(text)
  return state === 'reverted' ? paint.yellow(text) : paint.bold(text)
}

function waveLine({ wave, nodes }: Wave, { waves }: ListedRollout, paint: Paint): string {
  const width = String(waves).length
  const row =
    nodes.length > maxSigns ? '' : `  ${nodes.map(({ phase }) => paint[signs[phase][1]](signs[phase][0])).join('')}`
  const counts: Partial<Record<NodePhase, number>> = {}
  for (const { phase } of nodes) counts[phase] = (counts[phase] ?? 0) + 1
  return `wave ${String(wave).padStart(width)}/${waves}  ${nameRanges(nodes.map(({ nodeName }) => nodeName))}${row}  ${countWords(counts)}`
}

function errorLines(nodes: readonly ListedRolloutNode[], paint: Paint): string[] {
  const failed = nodes.filter(({ phase, error }) => error !== null && (phase === 'failed' || phase === 'stuck'))
  if (failed.length === 0) return []
  const shown = failed.slice(0, maxErrors).map(node => errorLine(node, paint))
  const more = failed.length - shown.length
  return ['', ...shown, ...(more > 0 ? [paint.dim(`and ${more} more`)] : [])]
}

/** Returns why a node failed: `web-4: check … answered 502`. */
export function errorLine({ nodeName, error, failedStep, phase }: ListedRolloutNode, paint: Paint): string {
  const step = failedStep === null ? '' : `${failedStep}: `
  return `${paint.red(phase === 'stuck' ? '!' : '✗')} ${nodeName}: ${step}${oneLine(error ?? 'no reason was given')}`
}

/*
 * Names of nodes on one line. Names that differ only in a number at their end, one after the other, are joined: web-2,
 * web-3 and web-4 become web-2…4.
 */

/** Maximum number of ranges in a line. */
const maxRanges = 6

interface Range {
  prefix: string
  first: string
  last: string
  count: number
}

/** Returns names as one text, with ranges, and the number of those that are left out. */
export function nameRanges(names: readonly string[]): string {
  const ranges: Range[] = []
  for (const name of [...names].sort(byNumber)) {
    const [, prefix = name, number = ''] = /^(.*?)(\d{1,9})$/.exec(name) ?? []
    const before = ranges.at(-1)
    const isNext = before !== undefined && number !== '' && before.prefix === prefix && follows(before.last, number)
    if (isNext) {
      before.last = number
      before.count++
    } else ranges.push({ prefix, first: number, last: number, count: 1 })
  }
  const shown = ranges.slice(0, maxRanges).map(textOf)
  const hidden = ranges.slice(maxRanges).reduce((sum, { count }) => sum + count, 0)
  return [...shown, ...(hidden > 0 ? [`${hidden} more`] : [])].join(', ')
}

/** Whether a number is the next one, with as many digits if it has leading zeros. */
function follows(last: string, number: string): boolean {
  return last !== '' && Number(number) === Number(last) + 1 && (!last.startsWith('0') || last.length === number.length)
}

function textOf({ prefix, first, last, count }: Range): string {
  if (count === 1) return prefix + first
  return count === 2 ? `${prefix}${first}, ${prefix}${last}` : `${prefix}${first}…${last}`
}

function byNumber(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}
