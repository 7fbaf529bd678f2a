/*
 * A fleet without machines: the hub's rules (lib/fleet/machine.ts) and the nodes' rules (lib/fleet/duty.ts) on a virtual
 * clock, with a network that loses, doubles, delays and reorders messages, partitions, and crashes of nodes and of the
 * hub. One seed is one history.
 */
import { Machine, type MachineNeeds } from '../../lib/fleet/machine.js'
import { answerOf, beginning, ended, obey, workOf, type DutyAnswer } from '../../lib/fleet/duty.js'
import type { DutyState, NodeOrder } from '../../lib/model/duty.js'
import { planWaves, waveSize } from '../../lib/fleet/waves.js'
import {
  defaultRolloutPolicy,
  isGoing,
  rolloutFailureModes,
  type Rollout,
  type RolloutNode,
  type RolloutPolicy
} from '../../lib/model/rollout.js'
import { createRandom, type Random } from './random.js'

/** What a history found. Empty lists are good. */
export interface SimulationReport {
  rollouts: number
  ends: Record<string, number>
  messages: number
  crashes: number
  hubCrashes: number
  broken: string[]
  /** Virtual hours. */
  hours: number
}

interface SimulatedNode {
  id: string
  tree: number
  /** The tree before the last change; null: nothing can be undone. */
  before: number | null
  duty: DutyState | null
  /** The release of the rollout that the duty is about. */
  release: number
  isUp: boolean
  /** Until then no message reaches it or leaves it. */
  cutUntilMs: number
  /** What it is doing; counts up with each crash, so that a work of before does not end afterwards. */
  life: number
  isBusy: boolean
  lastHeardMs: number
}

interface Event {
  atMs: number
  run(): void
}

/** Events by time. */
class Agenda {
  readonly #heap: Event[] = []

  add(event: Event): void {
    const heap = this.#heap
    heap.push(event)
    for (let at = heap.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1
      if ((heap[parent] as Event).atMs <= (heap[at] as Event).atMs) break
      this.#swap(at, parent)
      at = parent
    }
  }

  next(): Event | undefined {
    const heap = this.#heap
    const [first] = heap
    const last = heap.pop()
    if (heap.length === 0 || last === undefined) return first
    heap[0] = last
    for (let at = 0; ; ) {
      const [left, right] = [2 * at + 1, 2 * at + 2]
      let least = at
      for (const child of [left, right])
        if (child < heap.length && (heap[child] as Event).atMs < (heap[least] as Event).atMs) least = child
      if (least === at) return first
      this.#swap(at, least)
      at = least
    }
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap
    ;[heap[a], heap[b]] = [heap[b] as Event, heap[a] as Event]
  }
}

const pollMs = 15_000
const lostAfterMs = 60_000
const sweepMs = 10_000

/** Runs one history: some rollouts with random policies and faults. */
export function simulate(seed: number, size: number): SimulationReport {
  return new Simulation(seed, size).run()
}

class Simulation {
  readonly #random: Random
  readonly #agenda = new Agenda()
  readonly #nodes = new Map<string, SimulatedNode>()
  readonly #drained = new Set<string>()
  readonly #trees = new Set<number>([0])
  readonly #report: SimulationReport = {
    rollouts: 0,
    ends: {},
    messages: 0,
    crashes: 0,
    hubCrashes: 0,
    broken: [],
    hours: 0
  }
  readonly #needs: MachineNeeds
  #machine: Machine | null = null
  #nowMs = 1e12
  /** Whether the network and the machines are without faults now. */
  #isCalm = false
  /** Share of swaps that fail, in percent. */
  #failing = 0
  #isBadRelease = false
  /** Failures of swaps since the rollout began, or was resumed. */
  #failures = 0
  #seed: number

  constructor(seed: number, size: number) {
    this.#seed = seed
    this.#random = createRandom(seed)
    this.#needs = { now: () => this.#nowMs, isDrained: id => this.#drained.has(id) }
    for (let at = 0; at < size; at++) {
      const id = `node_${at}`
      const fresh = { tree: 0, before: null, duty: null, release: 0, isUp: true, cutUntilMs: 0, life: 0, isBusy: false }
      this.#nodes.set(id, { id, ...fresh, lastHeardMs: this.#nowMs })
    }
  }

  run(): SimulationReport {
    for (const node of this.#nodes.values()) this.#later(this.#random.below(pollMs), () => this.#poll(node))
    this.#later(sweepMs, () => this.#sweep())
    const rollouts = 1 + this.#random.below(4)
    for (let number = 1; number <= rollouts; number++) this.#rollOut(number)
    this.#report.hours = (this.#nowMs - 1e12) / 3_600_000
    return this.#report
  }

  #later(afterMs: number, run: () => void): void {
    this.#agenda.add({ atMs: this.#nowMs + afterMs, run })
  }

  /** Lets time pass until a condition holds; at most this many seconds. */
  #until(condition: () => boolean, seconds: number): boolean {
    const endMs = this.#nowMs + seconds * 1000
    while (!condition()) {
      const event = this.#agenda.next()
      if (event === undefined) return false
      this.#nowMs = Math.max(this.#nowMs, event.atMs)
      if (this.#nowMs > endMs) {
        this.#agenda.add(event)
        return false
      }
      event.run()
    }
    return true
  }

  #rollOut(number: number): void {
    const random = this.#random
    const policy: RolloutPolicy = {
      ...defaultRolloutPolicy,
      canary: 1 + random.below(5),
      then: random.oneOf(['1', '10%', '25%', '50%', '100%']),
      pause: random.oneOf([0, 0, 30, 'approve'] as const),
      maxFailures: random.oneOf([0, 0, 1, 5]),
      maxUnreachable: random.oneOf(['0', '10%', '50%', '100%']),
      onFailure: random.oneOf(rolloutFailureModes)
    }
    if (policy.then === '1' && this.#nodes.size > 300) policy.then = '5%'
    this.#failing = random.oneOf([0, 0, 1, 20])
    this.#isBadRelease = random.below(6) === 0
    this.#isCalm = random.below(3) === 0
    this.#failures = 0
    const nodes = [...this.#nodes.values()].map(({ id }) => ({
      id,
      name: id,
      labels: {},
      isDrained: this.#drained.has(id)
    }))
    const plan = planWaves(nodes, policy)
    const rollout: Rollout = {
      id: `ro_${number}`,
      projectId: 'proj_x',
      number,
      deployId: `dep_${number}`,
      treeSha256: String(number),
      policy,
      state: 'preparing',
      wave: 0,
      waves: plan.waves,
      pausedUntil: null,
      revertFrom: null,
      haltedReason: null,
      createdAt: new Date(this.#nowMs).toISOString(),
      endedAt: null
    }
    this.#trees.add(number)
    this.#report.rollouts++
    this.#machine = new Machine(rollout, plan.nodes, this.#needs)
    this.#machine.start()
    this.#after()
    this.#manage()
    // Then everything works again, and everything that is open ends.
    this.#isCalm = true
    this.#heal()
    const machine = () => this.#machine as Machine
    const isSettled = () => {
      const { state } = machine().rollout
      if (state === 'approval') machine().approve()
      this.#after()
      const open = machine().count('swapping', 'withdrawing', 'unreachable', 'reverting')
      return open === 0 && !isGoing(machine().rollout.state) && [...this.#nodes.values()].every(({ isBusy }) => !isBusy)
    }
    if (!this.#until(isSettled, 6 * 3600)) this.#broken('it does not end')
    this.#check()
    const { state } = machine().rollout
    this.#report.ends[state] = (this.#report.ends[state] ?? 0) + 1
  }

  /** What users do meanwhile: halt, resume, revert, approve, drain. */
  #manage(): void {
    for (let turns = this.#random.below(8); turns > 0; turns--) {
      this.#until(() => false, 20 + this.#random.below(200))
      const machine = this.#machine as Machine
      const { state } = machine.rollout
      switch (this.#random.below(8)) {
        case 0:
          machine.halt('by hand')
          break
        case 1:
          if (state === 'halted' || state === 'reverted') this.#failures = 0
          machine.resume()
          break
        case 2:
          if (state !== 'reverted') machine.revert(1 + this.#random.below(machine.rollout.waves), 'by hand')
          break
        case 3:
          this.#drain()
          break
        case 4:
          this.#isBadRelease = false
          this.#failing = 0
          break
        default:
          machine.approve()
      }
      this.#after()
    }
  }

  #drain(): void {
    const id = `node_${this.#random.below(this.#nodes.size)}`
    if (this.#drained.delete(id)) this.#machine?.wake(id)
    else {
      this.#drained.add(id)
      this.#machine?.drain(id)
    }
  }

  #heal(): void {
    for (const node of this.#nodes.values()) {
      node.cutUntilMs = 0
      if (!node.isUp) this.#start(node)
    }
  }

  /** After each change: the hub's state is on the disk, and those connected get their orders. */
  #after(): void {
    const machine = this.#machine as Machine
    for (const { nodeId } of machine.takeChanged()) this.#send(nodeId)
    if (!this.#isCalm && this.#random.below(2000) === 0) this.#crashHub()
    if (this.#failures > this.#allowedFailures()) this.#broken(`${this.#failures} nodes failed`)
  }

  #allowedFailures(): number {
    const { policy } = (this.#machine as Machine).rollout
    return policy.maxFailures + Math.max(policy.canary, waveSize(policy, this.#nodes.size))
  }

  /** Everything that the hub knows is in its rows. */
  #crashHub(): void {
    const { rollout, nodes } = this.#machine as Machine
    this.#report.hubCrashes++
    const kept = JSON.parse(JSON.stringify({ rollout, nodes: [...nodes] })) as {
      rollout: Rollout
      nodes: RolloutNode[]
    }
    this.#machine = new Machine(kept.rollout, kept.nodes, this.#needs)
    for (const node of this.#nodes.values()) node.lastHeardMs = this.#nowMs
  }

  /** Sends the order of a node, perhaps twice, late, or not at all. */
  #send(nodeId: string): void {
    const machine = this.#machine as Machine
    const node = this.#nodes.get(nodeId) as SimulatedNode
    const { id: rolloutId, number } = machine.rollout
    const order: NodeOrder = { rolloutId, number, ...machine.orderOf(nodeId) }
    this.#transport(node, () => this.#receive(node, order))
  }

  #transport(node: SimulatedNode, deliver: () => void): void {
    const random = this.#random
    this.#report.messages++
    const copies = this.#isCalm ? 1 : random.oneOf([0, 1, 1, 1, 1, 1, 1, 2])
    for (let at = 0; at < copies; at++) {
      const delay = this.#isCalm ? 50 : random.oneOf([5, 50, 500, 5000, random.below(200_000)])
      if (node.cutUntilMs <= this.#nowMs) this.#later(delay, () => node.cutUntilMs <= this.#nowMs && deliver())
    }
  }

  #receive(node: SimulatedNode, order: NodeOrder): void {
    if (!node.isUp) return
    const duty = obey(node.duty, order)
    if (duty === null) return
    if (duty.number !== node.duty?.number) node.release = order.number
    node.duty = duty
    this.#work(node)
    this.#answer(node)
  }

  #answer(node: SimulatedNode): void {
    const answer = node.duty === null ? null : answerOf(node.duty)
    this.#transport(node, () => this.#hear(node, answer))
  }

  #hear(node: SimulatedNode, answer: DutyAnswer | null): void {
    const machine = this.#machine as Machine
    node.lastHeardMs = this.#nowMs
    if (answer === null || answer.rolloutId !== machine.rollout.id) return
    const before = machine.count('failed', 'stuck')
    machine.answer({ nodeId: node.id, ...answer })
    if (answer.answer !== 'refused') this.#failures += Math.max(0, machine.count('failed', 'stuck') - before)
    this.#after()
  }

  /** Does what the newest order demands, if the node is free. */
  #work(node: SimulatedNode): void {
    const { duty } = node
    if (duty === null || node.isBusy || !node.isUp) return
    const work = workOf(duty)
    if (work === null) return
    const begun = beginning(duty, work)
    node.duty = begun
    node.isBusy = true
    const { life } = node
    this.#answer(node)
    this.#later(500 + this.#random.below(20_000), () => {
      if (node.life !== life) return
      node.isBusy = false
      const result = this.#result(node, work)
      node.duty = ended(node.duty as DutyState, { begun, result })
      this.#work(node)
      this.#answer(node)
    })
    if (!this.#isCalm && this.#random.below(60) === 0) this.#later(this.#random.below(20_000), () => this.#crash(node))
  }

  #result(node: SimulatedNode, work: 'prepare' | 'swap' | 'revert') {
    if (work === 'prepare') return this.#random.below(500) === 0 && !this.#isCalm ? 'refused' : 'prepared'
    if (work === 'revert') {
      if (node.before !== null) node.tree = node.before
      node.before = null
      return 'reverted'
    }
    if (this.#isBadRelease || this.#random.below(100) < this.#failing) return 'failed'
    node.before = node.tree
    node.tree = node.release
    return 'good'
  }

  /** Stops a node at any moment. What it had begun is put back at its start, or had just been completed. */
  #crash(node: SimulatedNode): void {
    if (!node.isUp) return
    this.#report.crashes++
    node.isUp = false
    node.life++
    this.#later(1000 + this.#random.below(300_000), () => this.#start(node))
  }

  #start(node: SimulatedNode): void {
    if (node.isUp) return
    node.isUp = true
    node.isBusy = false
    if (node.duty?.outcome === 'begun') {
      const isComplete = this.#random.below(2) === 0
      if (isComplete) {
        node.before = node.tree
        node.tree = node.release
      }
      node.duty = { ...node.duty, outcome: isComplete ? 'good' : 'failed' }
    }
    if (node.duty?.outcome === 'reverting') {
      const isComplete = node.before === null || this.#random.below(2) === 0
      if (isComplete) {
        node.tree = node.before ?? node.tree
        node.before = null
      }
      node.duty = { ...node.duty, outcome: isComplete ? 'reverted' : 'good' }
    }
    this.#work(node)
    this.#answer(node)
  }

  /** A node asks for its orders again and again, so that a lost one is repeated. */
  #poll(node: SimulatedNode): void {
    if (!this.#isCalm && this.#random.below(300) === 0) node.cutUntilMs = this.#nowMs + this.#random.below(400_000)
    if (!this.#isCalm && this.#random.below(1500) === 0) this.#crash(node)
    if (node.isUp) {
      this.#answer(node)
      this.#transport(node, () => this.#machine !== null && this.#send(node.id))
    }
    this.#later(pollMs, () => this.#poll(node))
  }

  #sweep(): void {
    const machine = this.#machine
    if (machine !== null) {
      for (const { id, lastHeardMs } of this.#nodes.values())
        if (this.#nowMs - lastHeardMs > lostAfterMs) machine.lost(id)
      machine.tick()
      this.#after()
    }
    this.#later(sweepMs, () => this.#sweep())
  }

  /** What must hold when nothing is open. */
  #check(): void {
    const machine = this.#machine as Machine
    const { rollout } = machine
    for (const node of this.#nodes.values()) {
      if (!this.#trees.has(node.tree)) this.#broken(`${node.id} has the tree ${node.tree}, which no rollout named`)
      const phase = machine.node(node.id)?.phase
      const has = node.tree === rollout.number
      if (phase === 'good' && !has) this.#broken(`${node.id} is good, and has the tree ${node.tree}`)
      if (['pending', 'prepared', 'failed', 'reverted', 'preparing'].includes(phase ?? '') && has)
        this.#broken(`${node.id} is ${phase}, and has the tree`)
      const goesBack = rollout.revertFrom !== null && (machine.node(node.id)?.wave ?? 0) >= rollout.revertFrom
      if (rollout.state === 'reverted' && goesBack && has) this.#broken(`${node.id} should have gone back`)
    }
  }

  #broken(what: string): void {
    const { rollout } = this.#machine as Machine
    this.#report.broken.push(`seed ${this.#seed}, ${rollout.id} (${rollout.state}): ${what}`)
  }
}
