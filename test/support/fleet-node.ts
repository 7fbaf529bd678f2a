import type { Work } from '../../lib/fleet/duty.js'
import type { DutyState, NodeOrder } from '../../lib/model/fleet-wire.js'
import type { NodeAnswer } from '../../lib/model/rollout.js'
import type { Random } from './random.js'

/** The rules of a node; the test of the simulation changes them. */
export type DutyRules = typeof import('../../lib/fleet/duty.js')

/** How likely things fail on nodes, in percent, or at all. */
export interface Failing {
  /** Of 100 swaps, so many fail. */
  swaps: number
  /** Whether each node that checks the release finds it bad. */
  isBadRelease: boolean
  isCalm: boolean
}

/** The result of a work, as a node answers it. */
type Result = Exclude<NodeAnswer, 'begun' | 'held' | 'ignored'>

/** Returns the number of a rollout in the whole simulation: restores set back the numbers that orders have. */
export function serialOf({ rolloutId }: Pick<NodeOrder, 'rolloutId'>): number {
  return Number(rolloutId.slice(3))
}

/** A machine of the fleet: its files (a tree is the number of the rollout that named it), and what it knows. */
export class SimulatedNode {
  readonly index: number
  readonly id: string
  tree = 0
  /** The tree before the last deployment; null: nothing can be undone. */
  before: number | null = null
  /** The tree before the newest rollout that it knows. */
  old = 0
  duty: DutyState | null = null
  /** The work in progress, as it is on the disk. */
  doing: { work: Work; begun: DutyState } | null = null
  isUp = true
  isPlaced = true
  /** Counts crashes: a work of an earlier life does not end. */
  life = 0
  /** Until then no message reaches it or leaves it. */
  cutUntilMs = 0
  heardAtMs = 0
  /** Until then the disk of its target is missing. */
  lacksDiskUntilMs = 0
  /** Until then a copy of the machine runs, too. */
  isSharedUntilMs = 0
  wasSetBack = false
  /** A snapshot of the machine. */
  #kept: Pick<SimulatedNode, 'tree' | 'before' | 'old' | 'duty' | 'epoch'> | null = null
  /** The newest history of the hub's database that it has seen. */
  epoch = 0
  readonly #rules: DutyRules
  readonly #random: Random

  constructor(index: number, rules: DutyRules, random: Random) {
    this.index = index
    this.id = `node_${index}`
    this.#rules = rules
    this.#random = random
  }

  /** Takes an order. Returns false if it is not newer than the last one. */
  receive(order: NodeOrder): boolean {
    const epoch = Number(order.epoch)
    const obeyed = this.#rules.obey(this.duty, order, { isReplaced: epoch < this.epoch })
    if ('ignored' in obeyed) return false
    this.epoch = epoch
    const duty = obeyed.state
    if (duty.rolloutId !== this.duty?.rolloutId) this.old = this.tree
    this.duty = duty
    return true
  }

  /** Begins what the newest order demands; returns null if there is nothing to begin. */
  begin(): Work | null {
    const { duty } = this
    if (duty === null || this.doing !== null || !this.isUp) return null
    const work = this.#rules.workOf(duty)
    if (work === null) return null
    const begun = this.#rules.beginning(duty, work)
    this.doing = { work, begun }
    this.duty = begun
    return work
  }

  /** Ends the work in progress. */
  end(failing: Failing, nowMs: number): Result {
    const { work } = this.doing as { work: Work }
    const random = this.#random
    const lacksDisk = nowMs < this.lacksDiskUntilMs
    if (lacksDisk) return this.#finish(work === 'prepare' ? 'refused' : work === 'revert' ? 'stuck' : 'failed')
    if (work === 'prepare') return this.#finish(!failing.isCalm && random.below(500) === 0 ? 'refused' : 'prepared')
    if (work === 'revert') return this.#finish(!failing.isCalm && random.below(200) === 0 ? 'stuck' : 'reverted')
    const isGood = !failing.isBadRelease && random.below(100) >= failing.swaps
    return this.#finish(isGood ? 'good' : random.below(4) === 0 ? 'stuck' : 'failed')
  }

  /** Keeps a snapshot of the machine while it does nothing. */
  keep(): void {
    const { tree, before, old, duty, epoch } = this
    if (this.doing === null && (duty === null || this.#rules.workOf(duty) === null))
      this.#kept = { tree, before, old, duty, epoch }
  }

  /** Whether there is a snapshot. After a restore of the hub, one of before may be right, and nothing follows from it. */
  get isKept(): boolean {
    return this.#kept?.epoch === this.epoch
  }

  /** Sets the machine back to its snapshot; it starts later. */
  setBack(): void {
    this.crash()
    this.doing = null
    this.wasSetBack = true
    Object.assign(this, this.#kept)
  }

  crash(): void {
    this.isUp = false
    this.life++
  }

  /** Starts again. A work that had begun was just completed, or is put back; only the check of a release can still fail. */
  start(): Result | null {
    this.isUp = true
    const work = this.doing?.work
    const isComplete = this.#random.below(2) === 0
    switch (work) {
      case 'swap':
        return this.#finish(isComplete ? 'good' : 'failed')
      case 'revert':
        return this.#finish(isComplete ? 'reverted' : 'good')
      default:
        this.doing = null
        return null
    }
  }

  /** The files and what it knows after a work. */
  #finish(wanted: Result): Result {
    const { work, begun } = this.doing as { work: Work; begun: DutyState }
    // It says what is in place: a second try that failed after `stuck` leaves the files of the release.
    const result = wanted === 'failed' && this.tree === serialOf(begun) ? 'stuck' : wanted
    const duty = this.duty as DutyState
    this.doing = null
    if (work === 'swap' && (result === 'good' || result === 'stuck')) {
      // A second try after `stuck` finds the files of the release: going back means before the first one.
      if (this.tree !== serialOf(begun)) this.before = this.tree
      this.tree = serialOf(begun)
      // A work for the rollout before the newest one.
      if (begun.rolloutId !== duty.rolloutId) this.old = this.tree
    }
    if (result === 'reverted') {
      this.tree = this.before ?? this.tree
      this.before = null
      if (begun.rolloutId !== duty.rolloutId) this.old = this.tree
    }
    this.duty = this.#rules.ended(duty, { begun, result })
    return result
  }
}
