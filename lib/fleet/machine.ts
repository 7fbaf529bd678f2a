/*
 * The rules of a rollout, without time, network and disk of its own: it is told what happened, and says what each node is
 * to do. The hub keeps its state in the database. test/fleet/simulation.test.ts runs it against thousands of nodes that
 * crash, and a network that loses, doubles and reorders.
 *
 * - An order has a number (`attempt`). A node obeys only the newest one that it knows, and its answers name that one, so
 *   that late and doubled messages do no harm.
 * - A node that was told to put the files in place is unknown until it answers: it is asked again, and nothing is assumed.
 *   To be asked, it is told to `hold`: it begins nothing and says what it has.
 * - Nodes begin only in the current wave. After a halt, those that have not begun are told to hold.
 */
import { countOf } from '../base/text.js'
import {
  isGoing,
  type NodeAnswer,
  type NodePhase,
  type OrderAction,
  type Rollout,
  type RolloutNode,
  type RolloutState
} from '../model/rollout.js'
import { nodeCount, Waiting, waveSize } from './waves.js'

/** What a node is told to do, and the number of that order. */
export interface Order {
  action: OrderAction
  attempt: number
}

/** What a node has answered. */
export interface Answered {
  nodeId: string
  /** The number of the order that is answered. */
  attempt: number
  answer: NodeAnswer
  error?: string | null
}

export interface MachineNeeds {
  /** The time in milliseconds since 1970. */
  now(): number
  /** Whether a node is drained. */
  isDrained(nodeId: string): boolean
}

const actions: Readonly<Record<NodePhase, OrderAction>> = {
  pending: 'none',
  preparing: 'prepare',
  prepared: 'hold',
  swapping: 'swap',
  withdrawing: 'hold',
  good: 'none',
  failed: 'none',
  reverting: 'revert',
  reverted: 'none',
  stuck: 'none',
  unreachable: 'hold',
  skipped: 'hold'
}

/** The phases that begin with a new order. In the others, the last order still holds, or none does. */
const begunByOrder: ReadonlySet<NodePhase> = new Set([
  'preparing',
  'swapping',
  'withdrawing',
  'reverting',
  'unreachable',
  'skipped'
])
/** Returns whether a node gets a new order when it enters a phase. */
export function beginsByOrder(phase: NodePhase): boolean {
  return begunByOrder.has(phase)
}

/** The phases of a node of which the hub does not know what it has. */
const unknownPhases: ReadonlySet<NodePhase> = new Set(['swapping', 'withdrawing', 'unreachable', 'skipped'])

/** The phases of a node that has been told to hold because it did not answer, or is drained. */
const absentPhases: ReadonlySet<NodePhase> = new Set(['unreachable', 'skipped'])
/** The phases of a node that certainly does not have the release. */
const withoutRelease: ReadonlySet<NodePhase> = new Set(['pending', 'failed', 'reverted'])

/** Returns whether a node has the release, since it was stuck before it prepared once more. */
function wasStuck({ phase, swapAttempt }: RolloutNode): boolean {
  return (phase === 'preparing' || phase === 'prepared') && swapAttempt > 0
}

/** Returns what a node is to do; undefined: it does not take part. */
export function orderIn(node: Pick<RolloutNode, 'phase' | 'attempt'> | undefined): Order {
  return node === undefined ? { action: 'none', attempt: 0 } : { action: actions[node.phase], attempt: node.attempt }
}

/** A rollout with its rules. */
export class Machine {
  readonly rollout: Rollout
  readonly #nodes: Map<string, RolloutNode>
  readonly #needs: MachineNeeds
  readonly #counts = new Map<NodePhase, number>()
  readonly #waiting: Waiting
  /** Number of nodes that do not answer, or are drained, and may have the release. */
  #unknown = 0
  #clock = { ms: Number.NaN, text: '' }
  #changed = new Set<string>()

  constructor(rollout: Rollout, nodes: Iterable<RolloutNode>, needs: MachineNeeds) {
    this.rollout = rollout
    this.#nodes = new Map([...nodes].map(node => [node.nodeId, node]))
    this.#needs = needs
    this.#waiting = new Waiting(this.#nodes.values(), rollout.wave)
    for (const node of this.#nodes.values()) this.#count(node, 1)
  }

  /** The nodes in the order of their waves. */
  get nodes(): IterableIterator<RolloutNode> {
    return this.#nodes.values()
  }

  /** Returns the number of nodes in some phases. */
  count(...phases: NodePhase[]): number {
    let sum = 0
    for (const phase of phases) sum += this.#counts.get(phase) ?? 0
    return sum
  }

  /** Returns a node, or undefined if it does not take part. */
  node(nodeId: string): RolloutNode | undefined {
    return this.#nodes.get(nodeId)
  }

  /** Returns what a node is to do. */
  orderOf(nodeId: string): Order {
    return orderIn(this.#nodes.get(nodeId))
  }

  /** Returns the nodes that have changed since the last call. */
  takeChanged(): RolloutNode[] {
    const changed = [...this.#changed].map(id => this.#nodes.get(id) as RolloutNode)
    this.#changed = new Set()
    return changed
  }

  /** Begins: every node prepares. */
  start(): void {
    for (const node of this.#nodes.values()) if (node.phase === 'pending') this.#move(node, 'preparing')
    this.#goOn()
  }

  /** Takes an answer of a node. Returns false if it is of no use: late, doubled, or of a node that does not take part. */
  answer({ nodeId, attempt, answer, error = null }: Answered): boolean {
    const node = this.#nodes.get(nodeId)
    if (node === undefined) return false
    const next = this.#phaseAfter(node, attempt, answer)
    if (next === null) return false
    if (answer === 'begun') node.hasBegun = true
    if (next === 'failed' || next === 'stuck') node.error = error
    if (answer === 'held' || answer === 'reverted') this.#hasEarlierFiles(node)
    this.#changed.add(nodeId)
    if (next !== node.phase) this.#enter(node, next)
    this.#judge()
    this.#goOn()
    return true
  }

  /** Returns whether the rollout waits for a node, or is about to. */
  isWaitedFor(nodeId: string): boolean {
    const phase = this.#nodes.get(nodeId)?.phase
    if (phase === 'prepared') return isGoing(this.rollout.state)
    return phase === 'preparing' || phase === 'swapping' || phase === 'withdrawing' || phase === 'reverting'
  }

  /** Takes note that a node has not answered for too long. */
  lost(nodeId: string, error: string | null = null): void {
    const node = this.#nodes.get(nodeId)
    if (node === undefined || !this.isWaitedFor(nodeId)) return
    if (error !== null) node.error = error
    this.#move(node, 'unreachable')
    this.#judge()
    this.#goOn()
  }

  /** Whether a pause has ended, or the clock was set back: it is never longer than the policy says. */
  isDue(): boolean {
    return this.#leftMs() <= 0 || this.#leftMs() > this.#pauseMs()
  }

  /** Continues after a pause, if its time has come. */
  tick(): void {
    if (this.#leftMs() > this.#pauseMs()) this.rollout.pausedUntil = this.#pauseEnd()
    if (!(this.#leftMs() <= 0)) return
    this.#beginWave(this.rollout.wave + 1)
    this.#goOn()
  }

  /** Begins the next wave of a rollout that waits for it. */
  approve(): void {
    if (this.rollout.state !== 'approval' && this.rollout.state !== 'pausing') return
    this.#beginWave(this.rollout.wave + 1)
    this.#goOn()
  }

  /** Stops the rollout: no other node begins. */
  halt(reason: string): void {
    if (isGoing(this.rollout.state)) this.#stop(reason)
  }

  /**
   * Stops the rollout after its hub was restored: nodes may have had later releases. Those with this one keep it. None begins, or
   * goes back, also if the rollout was halted or had ended while the order was open.
   */
  restored(reason: string): void {
    const { state } = this.rollout
    const isOpen =
      (state === 'done' && this.count('good') < this.#nodes.size) ||
      (state === 'reverted' && this.count('reverting', ...unknownPhases) > 0)
    if (isGoing(state) || isOpen) this.#stop(reason)
    for (const node of this.#nodes.values())
      if (node.phase === 'swapping' || node.phase === 'reverting') this.#move(node, 'withdrawing')
  }

  /** Continues a rollout that was halted, or went back: nodes that failed try again; those that do not answer are skipped. */
  resume(): void {
    if (this.rollout.state !== 'halted' && this.rollout.state !== 'reverted') return
    this.rollout.haltedReason = null
    this.rollout.revertFrom = null
    this.#turn('preparing')
    for (const node of this.#nodes.values()) {
      if (node.phase === 'unreachable') this.#move(node, 'skipped')
      else if (['pending', 'failed', 'stuck', 'reverted'].includes(node.phase)) this.#move(node, 'preparing')
    }
    this.#goOn()
  }

  /** Lets the nodes of the waves from `from` on go back. */
  revert(from: number, reason: string): void {
    const { rollout } = this
    rollout.haltedReason = reason
    rollout.revertFrom = Math.min(from, rollout.revertFrom ?? from)
    this.#turn('reverting')
    this.#withdraw()
    for (const node of this.#nodes.values()) {
      const hasRelease = node.phase === 'good' || node.phase === 'stuck' || wasStuck(node)
      if (hasRelease && this.#goesBack(node)) this.#move(node, 'reverting')
    }
    this.#goOn()
  }

  /** Leaves a node out from now on, unless it has begun. */
  drain(nodeId: string): void {
    const node = this.#nodes.get(nodeId)
    if (node === undefined || !['pending', 'preparing', 'prepared', 'unreachable'].includes(node.phase)) return
    this.#move(node, 'skipped')
    this.#goOn()
  }

  /** Asks a node that was skipped what it has; afterwards, it gets the release if the rollout is done. */
  wake(nodeId: string): void {
    const node = this.#nodes.get(nodeId)
    if (node?.phase === 'skipped') this.#move(node, 'skipped')
  }

  /** Lets a node take part that was placed after the rollout had begun. It is asked what it has: it may have been placed before. */
  add(nodeId: string): void {
    if (this.#nodes.has(nodeId)) return
    const { waves, lastAttempt } = this.rollout
    // It may know orders from before it was removed.
    const fresh = { wave: waves, attempt: lastAttempt, swapAttempt: 0, hasBegun: false, error: null, updatedAt: '' }
    const node: RolloutNode = { nodeId, phase: 'skipped', ...fresh }
    this.#nodes.set(nodeId, node)
    this.#waiting.join(node)
    this.#count(node, 1)
    this.#move(node, 'skipped')
  }

  /** Forgets a node. */
  remove(nodeId: string): void {
    const node = this.#nodes.get(nodeId)
    if (node === undefined) return
    this.#nodes.delete(nodeId)
    this.#changed.delete(nodeId)
    this.#waiting.leave(node)
    this.#count(node, -1)
    this.#goOn()
  }

  #stop(reason: string): void {
    this.rollout.haltedReason = reason
    this.#turn('halted')
    this.#withdraw()
  }

  /** Returns the phase of a node after an answer; null if the answer is of no use. */
  #phaseAfter(node: RolloutNode, attempt: number, answer: NodeAnswer): NodePhase | null {
    const { phase } = node
    const isLast = attempt === node.attempt
    // A node that was told to hold may have answered before it knew of that.
    const isOfSwap = unknownPhases.has(phase) && (isLast || (phase === 'withdrawing' && attempt === node.swapAttempt))
    switch (answer) {
      case 'prepared':
        return isLast && phase === 'preparing' ? 'prepared' : null
      case 'refused':
        if (!isLast || phase !== 'preparing') return null
        return wasStuck(node) ? 'stuck' : 'failed'
      case 'begun':
        if (!isOfSwap || (node.hasBegun && !absentPhases.has(phase))) return null
        return phase === 'swapping' ? phase : 'withdrawing'
      case 'good':
        // A node that was set back to a snapshot may have the release again.
        return isOfSwap || (isLast && phase !== 'good' && phase !== 'reverting') ? answer : null
      case 'failed':
        return isOfSwap ? answer : null
      case 'stuck':
        return isOfSwap || (isLast && phase === 'reverting') ? 'stuck' : null
      case 'reverted':
        if (!isLast || phase !== 'reverting') return null
        return this.#goesBack(node) || this.rollout.state === 'halted' ? 'reverted' : this.#afterHold(node)
      case 'ignored':
        if (!isLast || !begunByOrder.has(phase) || phase === 'skipped') return null
        return phase === 'reverting' || wasStuck(node) ? 'stuck' : 'failed'
      case 'held':
        // One with the release has lost it if it was set back.
        if (!isLast || !(phase === 'withdrawing' || phase === 'good' || phase === 'stuck' || absentPhases.has(phase)))
          return null
        return phase === 'withdrawing' && this.rollout.state === 'halted' ? 'prepared' : this.#afterHold(node)
    }
  }

  /** Returns the phase of a late node without the release. */
  #afterHold(node: RolloutNode): NodePhase {
    const { state, wave } = this.rollout
    if (this.#needs.isDrained(node.nodeId)) return 'skipped'
    if (state === 'done' || state === 'preparing') return 'preparing'
    return isGoing(state) && state !== 'reverting' && node.wave > wave ? 'preparing' : 'pending'
  }

  /** Moves a node as its answer says. One that should not have the release goes back. */
  #enter(node: RolloutNode, phase: NodePhase): void {
    const hasRelease = phase === 'good' || (phase === 'stuck' && node.phase !== 'reverting')
    this.#move(node, hasRelease && this.#goesBack(node) ? 'reverting' : phase)
  }

  #goesBack({ wave }: RolloutNode): boolean {
    const { state, revertFrom } = this.rollout
    return (state === 'reverting' || state === 'reverted') && revertFrom !== null && wave >= revertFrom
  }

  /** Tells the nodes that have not begun not to. */
  #withdraw(): void {
    for (const node of this.#nodes.values()) {
      if (node.phase === 'preparing') this.#move(node, wasStuck(node) ? 'stuck' : 'pending')
      else if (node.phase === 'swapping' && !node.hasBegun) this.#move(node, 'withdrawing')
    }
  }

  /** Stops the rollout if more nodes failed, or are unreachable, than the policy allows. */
  #judge(): void {
    const { rollout } = this
    if (!isGoing(rollout.state) || rollout.state === 'reverting') return
    const reason = this.#tooMany()
    if (reason === null) return
    const { onFailure } = rollout.policy
    if (onFailure === 'halt' || rollout.wave === 0) this.halt(reason)
    else this.revert(onFailure === 'revert_all' ? 1 : rollout.wave, reason)
  }

  #tooMany(): string | null {
    const { maxFailures, maxUnreachable } = this.rollout.policy
    const failures = this.count('failed', 'stuck')
    if (failures > maxFailures) return `${failures} failed (allowed: ${maxFailures})`
    const unreachable = this.count('unreachable')
    if (unreachable === 0) return null
    const allowed = nodeCount(maxUnreachable, this.#nodes.size)
    return unreachable > allowed ? `${countOf(unreachable, 'node')} unreachable (allowed: ${allowed})` : null
  }

  /** Goes on as far as possible. */
  #goOn(): void {
    const { rollout } = this
    const open = this.count('swapping', 'withdrawing')
    switch (rollout.state) {
      case 'preparing':
        if (this.count('preparing') === 0 && open === 0) this.#beginWave(Math.max(1, rollout.wave))
        break
      case 'swapping':
        if (open > 0) break
        if (this.#nodes.size === 0) this.halt('No node is left')
        else if (!this.#release()) this.halt('Too many nodes do not say whether they have the release')
        else if (this.count('swapping') > 0) break
        else if (rollout.wave === rollout.waves) this.#end('done')
        else this.#pause()
        break
      case 'reverting':
        if (open === 0 && this.count('reverting') === 0) this.#end('reverted')
        break
      case 'done':
        // Late nodes, unless too many have failed.
        if (this.count('prepared') > 0 && this.count('failed', 'stuck') <= rollout.policy.maxFailures) this.#release()
    }
  }

  /** Waits before the next wave, or begins it. */
  #pause(): void {
    const { rollout } = this
    const { pause } = rollout.policy
    if (pause === 'approve') return this.#turn('approval')
    if (pause === 0) return this.#beginWave(rollout.wave + 1)
    this.#turn('pausing')
    rollout.pausedUntil = this.#pauseEnd()
  }

  #pauseMs(): number {
    const { pause } = this.rollout.policy
    return pause === 'approve' ? 0 : pause * 1000
  }

  #pauseEnd(): string {
    return new Date(this.#needs.now() + this.#pauseMs()).toISOString()
  }

  /** Returns how long the pause still lasts; NaN: there is none. */
  #leftMs(): number {
    const { state, pausedUntil } = this.rollout
    return state === 'pausing' && pausedUntil !== null ? Date.parse(pausedUntil) - this.#needs.now() : Number.NaN
  }

  /** Begins a wave with the prepared nodes of it, and of those before it. */
  #beginWave(wave: number): void {
    this.rollout.wave = wave
    this.#waiting.begin(wave)
    this.#turn('swapping')
    this.#release()
    this.#goOn()
  }

  /**
   * Lets prepared nodes put the files in place, so many that with those of which nobody knows what became of them they
   * are no more than a wave. Returns false if nodes wait only because of the unknown ones.
   */
  #release(): boolean {
    const wasEmpty = this.#waiting.size === 0
    const free = this.#waveSize() - this.#unknown - this.count('swapping', 'withdrawing')
    for (const node of this.#waiting.first(free)) this.#move(node, 'swapping')
    return wasEmpty || free > 0 || this.count('swapping', 'withdrawing') > 0
  }

  #waveSize(): number {
    const { policy, wave } = this.rollout
    return wave === 1 ? Math.max(1, policy.canary) : waveSize(policy, this.#nodes.size)
  }

  #end(state: 'done' | 'reverted'): void {
    this.#turn(state)
    this.rollout.endedAt = this.#time()
    if (state === 'reverted') return
    for (const node of this.#nodes.values()) if (node.phase === 'pending') this.#move(node, 'preparing')
  }

  #turn(state: RolloutState): void {
    this.rollout.state = state
    this.rollout.pausedUntil = null
    this.rollout.endedAt = null
  }

  #move(node: RolloutNode, phase: NodePhase): void {
    this.#count(node, -1)
    this.#waiting.move(node, phase)
    node.updatedAt = this.#time()
    if (begunByOrder.has(phase)) {
      node.attempt++
      this.rollout.lastAttempt = Math.max(this.rollout.lastAttempt, node.attempt)
    }
    if (withoutRelease.has(phase)) node.swapAttempt = 0
    if (phase === 'swapping') {
      node.swapAttempt = node.attempt
      node.hasBegun = false
    }
    if (phase === 'preparing' || phase === 'good') node.error = null
    this.#count(node, 1)
    this.#changed.add(node.nodeId)
  }

  /** Notes that a node certainly has its earlier files: it is not one that was stuck. */
  #hasEarlierFiles(node: RolloutNode): void {
    this.#count(node, -1)
    node.swapAttempt = 0
    this.#count(node, 1)
  }

  #count({ phase, swapAttempt }: RolloutNode, by: 1 | -1): void {
    this.#counts.set(phase, (this.#counts.get(phase) ?? 0) + by)
    if (swapAttempt > 0 && absentPhases.has(phase)) this.#unknown += by
  }

  #time(): string {
    const ms = this.#needs.now()
    if (ms !== this.#clock.ms) this.#clock = { ms, text: new Date(ms).toISOString() }
    return this.#clock.text
  }
}
