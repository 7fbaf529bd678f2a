import type { Machine } from '../../lib/fleet/machine.js'
import { waveSize } from '../../lib/fleet/waves.js'
import { isGoing, type NodePhase, type Rollout, type RolloutNode } from '../../lib/model/rollout.js'
import type { SimulatedNode } from './fleet-node.js'

/** The phases of nodes that may put the files in place: the hub knows that it does not know. */
const openPhases: ReadonlySet<NodePhase> = new Set(['swapping', 'withdrawing', 'unreachable', 'skipped'])
/** The phases of nodes that certainly do not have the release. */
const oldPhases: ReadonlySet<NodePhase> = new Set(['pending', 'preparing', 'prepared', 'failed', 'reverted'])

/**
 * What a fleet promises. It looks at the nodes themselves, not at what the hub believes: at each begin and each end of a
 * work, after each change at the hub, and when nothing is open.
 */
export class FleetPromises {
  readonly #broken: string[] = []
  readonly #named = new Set([0])
  #machine!: Machine
  #nodeCount = 0
  #wave = 0
  #pausedUntilMs = 0
  #isApproved = false
  /** Nodes that put the files of the newest rollout in place now. */
  readonly #swapping = new Set<SimulatedNode>()
  /** Nodes that failed to since the rollout began, or was resumed. */
  readonly #failed = new Set<SimulatedNode>()

  /** What was broken, in words. */
  get broken(): readonly string[] {
    return this.#broken
  }

  /** A rollout was accepted. */
  accepted(machine: Machine, nodeCount: number): void {
    this.#named.add(machine.rollout.number)
    this.#swapping.clear()
    this.#failed.clear()
    this.#nodeCount = nodeCount
    this.#wave = 0
    this.restarted(machine)
  }

  /** The hub started again. */
  restarted(machine: Machine): void {
    this.#machine = machine
  }

  /** A user let a rollout go on after it was halted. */
  resumed(): void {
    this.#failed.clear()
  }

  /** A user approved the next wave. */
  approved(): void {
    this.#isApproved = true
  }

  /** A node was placed. */
  placed(nodeCount: number): void {
    this.#nodeCount = Math.max(this.#nodeCount, nodeCount)
  }

  /** A node was removed. */
  removed(node: SimulatedNode): void {
    this.#swapping.delete(node)
    this.#failed.delete(node)
  }

  /** The rows of some nodes were changed, and perhaps the rollout. */
  changed(rows: readonly RolloutNode[], nowMs: number): void {
    const { rollout } = this.#machine
    if (rollout.wave > this.#wave && this.#wave > 0) this.#checkBegin(rollout, rows, nowMs)
    if (rows.some(({ phase, hasBegun }) => phase === 'swapping' && !hasBegun)) this.#checkOpen()
    this.#wave = rollout.wave
    if (rollout.state === 'swapping') this.#isApproved = false
    this.#pausedUntilMs = rollout.pausedUntil === null ? 0 : Date.parse(rollout.pausedUntil)
  }

  /** A node begins to put the files in place. */
  began(node: SimulatedNode, attempt: number): void {
    const { rollout } = this.#machine
    const row = this.#machine.node(node.id)
    if (!node.isPlaced || row === undefined || node.duty?.rolloutId !== rollout.id) return
    const { phase, swapAttempt, wave, hasBegun } = row
    const mayRepeat = hasBegun && node.wasSetBack
    if (!openPhases.has(phase)) this.#breaks(`${node.id} begins, and is ${phase}`)
    // One that had begun when it was set back to a snapshot begins again.
    if (phase === 'swapping' && !mayRepeat && rollout.state !== 'swapping' && rollout.state !== 'done')
      this.#breaks(`${node.id} begins, and was not told that others do not`)
    // An order from before it was removed and placed again: the hub asks it what it has.
    if (phase === 'skipped' && swapAttempt === 0) return
    if (swapAttempt !== attempt) this.#breaks(`${node.id} begins with order ${attempt} instead of ${swapAttempt}`)
    if (wave > rollout.wave) this.#breaks(`${node.id} of wave ${wave} begins in wave ${rollout.wave}`)
    this.#swapping.add(node)
    if (this.#swapping.size > this.#concurrency()) this.#breaks(`${this.#swapping.size} nodes begin at once`)
  }

  /** A node has ended to put the files of a rollout in place. */
  ended(node: SimulatedNode, number: number, isGood: boolean): void {
    const { rollout } = this.#machine
    if (number !== rollout.number || !this.#swapping.delete(node)) return
    if (!isGood) this.#failed.add(node)
    const allowed = rollout.policy.maxFailures + this.#concurrency()
    if (this.#failed.size > allowed) this.#breaks(`${this.#failed.size} nodes failed, ${allowed} may`)
  }

  /** Nothing is open. */
  settled(nodes: Iterable<SimulatedNode>, isDrained: (id: string) => boolean): void {
    const { rollout } = this.#machine
    if (isGoing(rollout.state)) this.#breaks('it does not end')
    for (const node of nodes) {
      const { id, tree } = node
      if (!this.#named.has(tree)) this.#breaks(`${id} has the tree ${tree}, which no rollout named`)
      const row = node.isPlaced ? this.#machine.node(id) : undefined
      if (row === undefined) continue
      const has = tree === rollout.number
      if (!has && node.duty?.rolloutId === rollout.id && tree !== node.old)
        this.#breaks(`${id} has neither its earlier tree ${node.old} nor the new one, but ${tree}`)
      const { phase, wave, swapAttempt } = row
      if ((phase === 'good' || phase === 'stuck') && !has) this.#breaks(`${id} is ${phase}, and has the tree ${tree}`)
      if (oldPhases.has(phase) && swapAttempt === 0 && has) this.#breaks(`${id} is ${phase}, and has the tree`)
      const goesBack = rollout.state === 'reverted' && rollout.revertFrom !== null && wave >= rollout.revertFrom
      if (goesBack && phase !== 'stuck' && has) this.#breaks(`${id} should have gone back`)
      if (rollout.state === 'done' && !this.#isServed(row, isDrained(id))) this.#breaks(`${id} is ${phase} in the end`)
    }
  }

  /** Something else is broken. */
  breaks(what: string): void {
    this.#breaks(what)
  }

  /** After a rollout is done, each node has the release, could not take it, is drained, or waits since too many failed. */
  #isServed({ phase }: RolloutNode, isDrained: boolean): boolean {
    if (phase === 'good' || phase === 'failed' || phase === 'stuck') return true
    if (phase === 'skipped') return isDrained
    const { policy } = this.#machine.rollout
    return phase === 'prepared' && this.#machine.count('failed', 'stuck') > policy.maxFailures
  }

  /** A wave begins: the one before has ended, and the pause or an approval, too. */
  #checkBegin({ policy, wave }: Rollout, rows: readonly RolloutNode[], nowMs: number): void {
    const changed = new Set(rows)
    for (const row of this.#machine.nodes)
      if (row.phase === 'swapping' && !changed.has(row)) this.#breaks(`wave ${wave} begins before ${row.nodeId} ended`)
    if (policy.pause === 'approve' && !this.#isApproved) this.#breaks(`nobody approved wave ${wave}`)
    if (nowMs < this.#pausedUntilMs && !this.#isApproved) this.#breaks(`wave ${wave} begins before the pause ended`)
  }

  /** Nodes were told to begin: with those of which nobody knows what they have, they are no more than a wave. */
  #checkOpen(): void {
    let open = 0
    for (const { phase, swapAttempt } of this.#machine.nodes) if (swapAttempt > 0 && openPhases.has(phase)) open++
    if (open > this.#concurrency()) this.#breaks(`${open} nodes may begin at once`)
  }

  /** The largest number of nodes that may put the files in place at once. */
  #concurrency(): number {
    const { policy } = this.#machine.rollout
    return Math.max(1, policy.canary, waveSize(policy, this.#nodeCount))
  }

  #breaks(what: string): void {
    const { id, state } = this.#machine.rollout
    if (this.#broken.length < 1000) this.#broken.push(`${id} (${state}): ${what}`)
  }
}
