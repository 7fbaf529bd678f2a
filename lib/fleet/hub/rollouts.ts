import { notFound, Refusal } from '../../base/errors.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import {
  isGoing,
  type ListedRollout,
  type ListedRolloutNode,
  type RolloutDetail,
  type RolloutEvent,
  type NodePhase
} from '../../model/rollout.js'
import type { Store, Transaction } from '../../core/store/database.js'
import {
  countPhases,
  findRollout,
  listRollouts,
  type RolloutFilter,
  rolloutOfDeployment,
  type StoredRollout,
  storedRolloutNode,
  type StoredRolloutNode,
  storedRolloutNodes
} from '../../core/store/tables/rollouts.js'
import { takingPart, formatBytes } from '../../base/shared/api.js'
import { findProject, nameOfActor } from '../../core/store/tables/projects.js'
import type { Machine } from '../machine.js'
import { type Clock, elapsedOf } from '../../base/clock.js'
import { countOf, formatSeconds, oneLine } from '../../base/text.js'
import type { RollEnd, RolloutWatch, Rolls } from '../../model/fleet-wire.js'
import { nodesOfProject } from '../../core/store/tables/fleet.js'
import type { Rollouts } from './fleet.js'
import type { NodeLinks } from './links.js'
import { requireNode } from './nodes.js'
import type { Release, Rollings } from './rolling.js'
import type { Releases } from './voice.js'

export interface RolloutsNeeds {
  store: Store
  audit: { within(tx: Transaction, event: AuditEvent): void }
  links: NodeLinks
  rollings: Rollings
}

export function createRolloutReader({ store, links }: Pick<RolloutsNeeds, 'store' | 'links'>) {
  function listed(stored: StoredRollout & { projectName?: string }): ListedRollout {
    const { archiveSha256: _, archiveBytes: __, sealed: ___, ...rollout } = stored
    const counts = countPhases(store, stored.id)
    const nodeCount = Object.values(counts).reduce((sum, each) => sum + each, 0)
    const projectName = stored.projectName ?? findProject(store, stored.projectId)?.name ?? stored.projectId
    return { ...rollout, projectName, counts, nodeCount }
  }

  function shownNode(node: StoredRolloutNode): ListedRolloutNode {
    return { ...node, isConnected: links.find(node.nodeId) !== null }
  }

  return {
    listed: (id: string): ListedRollout => listed(requireRollout(store, id)),
    detail(id: string): RolloutDetail {
      const nodes = storedRolloutNodes(store, id).map(shownNode)
      return { ...listed(requireRollout(store, id)), nodes }
    },

    /** Returns a node; undefined: it was forgotten. */
    node(id: string, nodeId: string): ListedRolloutNode | undefined {
      const node = storedRolloutNode(store, id, nodeId)
      return node === undefined ? undefined : shownNode(node)
    },
    list: (query: RolloutFilter): ListedRollout[] => listRollouts(store, query).map(listed)
  }
}

/** Creates what users do with rollouts. */
export function createRollouts(needs: RolloutsNeeds & { reader: RolloutReader; events: RolloutEvents }): Rollouts {
  const { store, audit, rollings, reader, events } = needs

  /** Changes a rollout, if it is the last one of its project. */
  async function change(
    id: string,
    { action, actor, detail = null }: { action: string; actor: Actor; detail?: string | null },
    work: (machine: Machine) => void
  ): Promise<ListedRollout> {
    await rollings.write(turn => {
      const { projectId } = requireRollout(turn.tx, id)
      const rolling = turn.of(projectId)
      if (rolling === null || rolling.stored.id !== id) throw replaced(id, rolling?.stored.id)
      work(rolling.machine)
      audit.within(turn.tx, { action, actor, projectId, target: id, detail })
    })
    return reader.listed(id)
  }

  return {
    list: query => reader.list(query),
    get: reader.detail,
    projectOf: id => findRollout(store, id)?.projectId,

    node(id, nodeIdOrName) {
      requireRollout(store, id)
      const node = reader.node(id, requireNode(store, nodeIdOrName).id)
      if (node === undefined) throw notFound('Node', nodeIdOrName)
      return node
    },

    halt: (id, reason, actor) =>
      change(id, { action: 'rollout.halt', actor, detail: reason }, machine => {
        refuseUnless(machine, isGoing(machine.rollout.state), 'halt')
        machine.halt(`${nameOfActor(store, actor.name)} stopped it${reason === null ? '' : `: ${reason}`}`)
      }),

    resume: (id, actor) =>
      change(id, { action: 'rollout.resume', actor }, machine => {
        const { state } = machine.rollout
        refuseUnless(machine, state === 'halted' || state === 'reverted', 'resume')
        machine.resume()
      }),

    revert: (id, wave, actor) =>
      change(id, { action: 'rollout.revert', actor, detail: wave === null ? null : `from wave ${wave}` }, machine => {
        const { state, revertFrom } = machine.rollout
        const from = wave ?? 1
        const isFurther = revertFrom === null || from < revertFrom
        const hasEnded = state === 'reverting' || (state === 'reverted' && machine.count('stuck') === 0)
        refuseUnless(machine, isFurther || !hasEnded, 'revert')
        machine.revert(from, `${nameOfActor(store, actor.name)} reverts it`)
      }),

    approve: (id, actor) =>
      change(id, { action: 'rollout.approve', actor }, machine => {
        const { state, wave } = machine.rollout
        refuseUnless(machine, state === 'approval' || state === 'pausing', `approve wave ${wave + 1} of`)
        machine.approve()
      }),

    follow(id, signal) {
      requireRollout(store, id)
      return events.follow(id, signal)
    }
  }
}

/** Returns a rollout. Refuses `not_found`. */
function requireRollout(db: Pick<Store, 'all' | 'get'>, id: string): StoredRollout {
  const rollout = findRollout(db, id)
  if (rollout === undefined) throw notFound('Rollout', id)
  return rollout
}

/** Refuses (409 `rollout_state`) what the state of a rollout does not allow. */
function refuseUnless({ rollout }: Machine, isAllowed: boolean, doing: string): void {
  if (isAllowed) return
  const sentence = `Cannot ${doing} rollout ${rollout.id}: it is ${stateWords[rollout.state]}`
  throw new Refusal('conflict', 'rollout_state', sentence)
}

const stateWords = {
  preparing: 'preparing',
  swapping: 'in progress',
  pausing: 'pausing before the next wave',
  approval: 'waiting for an approval',
  halted: 'halted',
  reverting: 'going back',
  reverted: 'reverted',
  done: 'done'
} as const

function replaced(id: string, last: string | undefined): Refusal {
  const sentence = `Cannot change rollout ${id}: rollout ${last} of the same project has replaced it`
  return new Refusal('conflict', 'rollout_state', sentence)
}

/* A rollout as the deployment sees it that began it: it waits for the end, and writes what happens to its output. */

export interface RollsNeeds {
  store: Store
  clock: Clock
  begin(release: Release): Promise<string>
  releases: Pick<Releases, 'sealOffer' | 'offerOf'>
  rollings: Rollings
  events: RolloutEvents
}

/** Creates the rollouts of deployments. */
export function createRolls({ store, clock, begin, releases, rollings, events }: RollsNeeds): Rolls {
  async function follow(
    { id, archiveBytes }: Pick<StoredRollout, 'id' | 'archiveBytes'>,
    { say, signal, isResumed }: RolloutWatch & { isResumed: boolean }
  ): Promise<RollEnd> {
    const take = createRolloutLines({ say, archiveBytes, nowMs: () => elapsedOf(clock), isResumed })
    for await (const event of events.follow(id, signal)) {
      take(event)
      if (event.type !== 'end') continue
      const { state, haltedReason } = event.rollout
      const outcome = state === 'done' || state === 'reverted' ? state : 'halted'
      if (outcome === 'done')
        return { outcome, sentence: `rolled out to ${countOf(takingPart(event.rollout), 'node')}` }
      return { outcome, sentence: `The rollout ${id} was ${outcome}: ${haltedReason}` }
    }
    throw new Error(`The events of rollout ${id} have no end`)
  }

  /** Changes a rollout that is the last one of its project. */
  const change = ({ id, projectId }: StoredRollout, work: (last: { machine: Machine }) => void): Promise<void> =>
    rollings.write(turn => {
      const last = turn.of(projectId)
      if (last?.stored.id === id) work(last)
    })

  return {
    async begin({ offer, rollbackOf, ...release }, watch) {
      const nodes = nodesOfProject(store, release.projectId)
      if (nodes.every(({ isDrained }) => isDrained)) throw noNodes()
      const given = rollbackOf === null ? offer : ((await releases.offerOf(rollbackOf)) ?? offer)
      const sealed = await releases.sealOffer(release.deployId, given)
      const id = await begin({ ...release, sealed })
      return follow({ id, archiveBytes: release.archiveBytes }, { ...watch, isResumed: false })
    },

    async follow(deployId, watch) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined) throw new Error(`Deployment ${deployId} has no rollout`)
      return follow(rollout, { ...watch, isResumed: true })
    },

    async revert(deployId, reason, watch) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined) throw new Error(`Deployment ${deployId} has no rollout`)
      await change(rollout, ({ machine }) => {
        const { state } = machine.rollout
        if (state !== 'reverting' && state !== 'reverted') machine.revert(1, reason)
      })
      return follow(rollout, { ...watch, isResumed: true })
    },

    async halt(deployId, reason) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout !== undefined) await change(rollout, ({ machine }) => machine.halt(reason))
    }
  }
}

function noNodes(): Refusal {
  const sentence = 'No node takes the release: all nodes of the project are drained'
  return new Refusal('conflict', 'no_nodes', sentence)
}

/*
 * Followers of rollouts. A follower that is slow gets each changed node once, in its newest state, so that it costs no
 * more memory than the rollout has nodes.
 */

/** Tells followers what has changed. */
export type RolloutEvents = ReturnType<typeof createRolloutEvents>

/** Reads rollouts for the followers. */
export type RolloutReader = ReturnType<typeof createRolloutReader>

interface Follower {
  nodeIds: Set<string>
  isChanged: boolean
  wake(): void
}

export function createRolloutEvents(reader: RolloutReader) {
  const byRollout = new Map<string, Set<Follower>>()

  async function* follow(rolloutId: string, signal: AbortSignal): AsyncGenerator<RolloutEvent> {
    signal.throwIfAborted()
    const follower: Follower = { nodeIds: new Set(), isChanged: false, wake() {} }
    const followers = byRollout.get(rolloutId) ?? new Set()
    byRollout.set(rolloutId, followers.add(follower))
    const stop = (): void => follower.wake()
    signal.addEventListener('abort', stop)
    try {
      const known = new Map<string, string>()
      let rollout: ListedRollout = reader.detail(rolloutId)
      for (const node of (rollout as RolloutDetail).nodes) known.set(node.nodeId, stateOf(node))
      yield { type: 'rollout', rollout: rollout as RolloutDetail }
      while (isGoing(rollout.state)) {
        if (!follower.isChanged) await new Promise<void>(resolve => (follower.wake = resolve))
        signal.throwIfAborted()
        const { nodeIds } = follower
        follower.nodeIds = new Set()
        follower.isChanged = false
        const before = rollout
        rollout = reader.listed(rolloutId)
        // The store may be ahead of what was told: with a new state, all nodes are compared.
        const isTurn = rollout.state !== before.state || rollout.wave !== before.wave
        const nodes = isTurn
          ? reader.detail(rolloutId).nodes
          : [...nodeIds].flatMap(id => reader.node(rolloutId, id) ?? [])
        for (const node of nodes) {
          if (known.get(node.nodeId) === stateOf(node)) continue
          known.set(node.nodeId, stateOf(node))
          yield { type: 'node', node }
          signal.throwIfAborted()
        }
        if (JSON.stringify(rollout) !== JSON.stringify(before)) yield { type: 'state', rollout }
      }
      yield { type: 'end', rollout }
    } finally {
      signal.removeEventListener('abort', stop)
      followers.delete(follower)
      if (followers.size === 0) byRollout.delete(rolloutId)
    }
  }

  function stateOf({ phase, attempt, hasBegun, error, tookMs, updatedAt }: ListedRolloutNode): string {
    return `${phase} ${attempt} ${hasBegun} ${tookMs} ${updatedAt} ${error}`
  }

  return {
    /** Takes note of a change of a rollout, and of the nodes that changed. */
    changed(rolloutId: string, nodeIds: readonly string[]): void {
      for (const follower of byRollout.get(rolloutId) ?? []) {
        for (const nodeId of nodeIds) follower.nodeIds.add(nodeId)
        follower.isChanged = true
        follower.wake()
      }
    },

    /**
     * Yields the rollout, then what changes, until it is halted, reverted or done. An abort throws the signal's reason.
     */
    follow,
    /** Number of followers. */
    count: (): number => [...byRollout.values()].reduce((sum, { size }) => sum + size, 0)
  }
}

/*
 * The lines that a rollout adds to the output of its deployment: how many nodes are ready, then a line for each wave, and
 * what remains to be done.
 */

interface RolloutLinesNeeds {
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
  const [back, on] = [`svc rollout revert ${id}`, `svc rollout resume ${id}`]
  if (state === 'reverted')
    return [`reverted: ${reason}. ${summary}`, `next: ${having('stuck').length > 0 ? back : on}`]
  return [`halted: ${reason}. ${summary}`, `next: ${back}   or   ${on}`]
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
