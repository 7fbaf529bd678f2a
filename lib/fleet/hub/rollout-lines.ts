/*
 * The lines that a rollout adds to the output of its deployment: how many nodes are ready, then a line for each wave, and
 * what remains to be done.
 */
import { countOf, formatSeconds, oneLine } from '../../base/text.js'
import {
  isGoing,
  type ListedRollout,
  type ListedRolloutNode,
  type NodePhase,
  type RolloutEvent
} from '../../model/rollout.js'
import { formatBytes, takingPart } from '../../base/shared/api.js'

export interface RolloutLinesNeeds {
  say(line: string): void
  archiveBytes: number
  /** Milliseconds since some moment. */
  nowMs(): number
  /** Whether an earlier process has said what happened until now. */
  isResumed: boolean
}

/** The phases of nodes that have prepared. */
const readyPhases: ReadonlySet<NodePhase> = new Set(['prepared', 'swapping', 'good'])
/** Each node of a wave has a mark of its own up to this number. */
const maxMarks = 40
/** Number of failed nodes that a line describes. */
const maxErrors = 5
const titleWidth = 10
const namesWidth = 20

/** Creates a function that takes the events of a rollout, and says what users want to read. */
export function createRolloutLines({ say, archiveBytes, nowMs, isResumed }: RolloutLinesNeeds) {
  const nodes = new Map<string, ListedRolloutNode>()
  const startedMs = nowMs()
  let rollout: ListedRollout | null = null
  let isPrepared = false
  let saidWaves = 0
  let saidWait = ''

  function sayPrepared({ nodeCount, counts }: ListedRollout): void {
    if (isPrepared) return
    isPrepared = true
    const ready = [...nodes.values()].filter(({ phase }) => readyPhases.has(phase)).length
    const all = takingPart({ nodeCount, counts })
    const took = formatSeconds(nowMs() - startedMs)
    const faults = errorsOf([...nodes.values()])
    say(`${pad('prepare', titleWidth)}${ready}/${all} ready (${formatBytes(archiveBytes)} each, ${took})${faults}`)
  }

  /** Says how the waves up to this one have ended. */
  function sayWaves(upTo: number, { waves }: ListedRollout): void {
    for (let wave = saidWaves + 1; wave <= upTo; wave++) {
      const members = [...nodes.values()].filter(node => node.wave === wave && node.phase !== 'skipped')
      if (members.length > 0) say(`${pad(`wave ${wave}/${waves}`, titleWidth)}${waveText(members)}`)
    }
    saidWaves = Math.max(saidWaves, upTo)
  }

  function sayWait({ state, wave, waves, id, policy }: ListedRollout): void {
    const next = `wave ${wave + 1}/${waves}`
    const text =
      state === 'pausing'
        ? `${pad('pause', titleWidth)}${policy.pause} s before ${next}`
        : state === 'approval'
          ? `${pad('approval', titleWidth)}${next} waits for: svc rollout approve ${id}`
          : ''
    if (text !== '' && text !== saidWait) say(text)
    saidWait = text
  }

  function begin(first: ListedRollout): void {
    if (isResumed) {
      isPrepared = first.wave > 0
      saidWaves = Math.max(0, first.state === 'swapping' ? first.wave - 1 : first.wave)
      return
    }
    const { id, treeSha256, waves } = first
    const left = [...nodes.values()].filter(({ phase }) => phase === 'skipped')
    const count = countOf(takingPart(first), 'node')
    const without = left.length === 0 ? '' : `, without ${namesOf(left)} (drained)`
    say(`Rollout ${id} of tree ${shortTree(treeSha256)}: ${count}, ${countOf(waves, 'wave')}${without}`)
  }

  function progress(now: ListedRollout): void {
    rollout = now
    if (now.state !== 'preparing') sayPrepared(now)
    const isWaveOver = now.state !== 'swapping' && now.state !== 'preparing' && now.state !== 'reverting'
    sayWaves(isWaveOver ? now.wave : Math.min(now.wave - 1, now.waves), now)
    sayWait(now)
  }

  return (event: RolloutEvent): void => {
    if (event.type === 'node') {
      nodes.set(event.node.nodeId, event.node)
      return
    }
    if (event.type === 'rollout') {
      for (const node of event.rollout.nodes) nodes.set(node.nodeId, node)
      if (rollout === null) begin(event.rollout)
    }
    progress(event.rollout)
    if (event.type === 'end') for (const line of endLines(event.rollout, [...nodes.values()])) say(line)
  }
}

/** Returns the lines at the end of a rollout. */
function endLines(rollout: ListedRollout, nodes: readonly ListedRolloutNode[]): string[] {
  const { id, state, haltedReason, treeSha256 } = rollout
  if (isGoing(state)) return []
  const tree = shortTree(treeSha256)
  const having = (...phases: NodePhase[]): ListedRolloutNode[] => nodes.filter(({ phase }) => phases.includes(phase))
  const parts = [
    [having('good', 'stuck'), 'has', 'have', tree],
    [having('reverted'), 'went', 'went', 'back'],
    [having('failed'), 'has', 'have', 'the earlier files'],
    [having('swapping', 'withdrawing', 'unreachable', 'reverting'), 'is', 'are', 'unknown']
  ] as const
  const told = parts.flatMap(([those, one, many, rest]) => {
    return those.length === 0 ? [] : [`${namesOf(those)} ${those.length === 1 ? one : many} ${rest}`]
  })
  const untouched = having('pending', 'preparing', 'prepared').length
  if (untouched > 0) told.push(`${untouched} ${untouched === 1 ? 'was' : 'were'} not touched`)
  const summary = told.join(', ')
  if (state === 'done') return [`done: ${summary}`]
  const reason = haltedReason === null ? '' : oneLine(haltedReason)
  if (state === 'reverted') return [`reverted: ${reason}. ${summary}`, `next: svc rollout resume ${id}`]
  return [`halted: ${reason}. ${summary}`, `next: svc rollout revert ${id}   or   svc rollout resume ${id}`]
}

function waveText(members: readonly ListedRolloutNode[]): string {
  const names = pad(namesOf(members), namesWidth)
  const [only] = members
  if (members.length === 1 && only !== undefined) {
    const took = only.tookMs === null ? '' : ` ${formatSeconds(only.tookMs)}`
    return only.phase === 'good' ? `${names}✓ good${took}` : `${names}${markOf(only)}${errorsOf(members)}`
  }
  return `${names}${marksOf(members)}${errorsOf(members)}`
}

function marksOf(members: readonly ListedRolloutNode[]): string {
  if (members.length <= maxMarks) return members.map(markOf).join('')
  const marks = ['✓', '✗', '?', '·'].map(mark => [mark, members.filter(node => markOf(node) === mark).length] as const)
  return marks.flatMap(([mark, count]) => (count === 0 ? [] : [`${mark} ${count}`])).join('  ')
}

function markOf({ phase }: ListedRolloutNode): string {
  if (phase === 'good') return '✓'
  if (phase === 'failed' || phase === 'stuck' || phase === 'reverted' || phase === 'reverting') return '✗'
  return phase === 'unreachable' || phase === 'withdrawing' || phase === 'swapping' ? '?' : '·'
}

function errorsOf(members: readonly ListedRolloutNode[]): string {
  const failed = members.filter(({ error, phase }) => error !== null || phase === 'unreachable')
  const told = failed
    .slice(0, maxErrors)
    .map(({ nodeName, error }) => `${nodeName}: ${oneLine(error ?? 'unreachable')}`)
  if (failed.length > maxErrors) told.push(`${failed.length - maxErrors} more`)
  return told.length === 0 ? '' : `   ${told.join('; ')}`
}

/** Returns the names of nodes: `a1`, `a1…4` for names that end with successive numbers, or how many they are. */
function namesOf(nodes: readonly ListedRolloutNode[]): string {
  const names = nodes.map(({ nodeName }) => nodeName)
  const [first = '', ...others] = names
  const last = others.at(-1)
  if (last === undefined) return first
  if (names.length === 2) return `${first}, ${last}`
  const stem = first.replace(/(?<!\d)\d+$/, '')
  const from = Number(first.slice(stem.length))
  const isSeries = names.every((name, at) => name === `${stem}${from + at}`)
  return isSeries ? `${first}…${last.slice(stem.length)}` : countOf(names.length, 'node')
}

/** Returns the beginning of a digest, as outputs name trees. */
function shortTree(treeSha256: string): string {
  return `${treeSha256.slice(0, 8)}…`
}

function pad(text: string, width: number): string {
  return text.length < width ? text.padEnd(width) : `${text} `
}
