/*
 * A fleet without machines: the hub's rules (lib/fleet/machine.ts) and the nodes' rules (lib/fleet/duty.ts) on a virtual
 * clock, with a network that loses, doubles, delays, reorders and cuts, and crashes of nodes and of the hub. Users halt,
 * resume, revert, approve, drain, place and remove meanwhile, and push again before the last nodes have answered. The hub is
 * restored from backups, its clock is set, disks of nodes are missing for a while, and copies of machines run. One seed is one
 * history.
 */
import * as duty from '../../lib/fleet/duty.js'
import { Machine, type MachineNeeds } from '../../lib/fleet/machine.js'
import { planWaves } from '../../lib/fleet/waves.js'
import {
  defaultRolloutPolicy,
  isGoing,
  nodeAnswers,
  orderActions,
  rolloutFailureModes,
  type Rollout,
  type RolloutPolicy
} from '../../lib/model/rollout.js'
import { Agenda, happenings, type FleetEvent, type Happening } from './fleet-agenda.js'
import { FleetNetwork } from './fleet-network.js'
import { serialOf, SimulatedNode, type DutyRules, type Failing } from './fleet-node.js'
import { FleetPromises } from './fleet-promises.js'
import { noFaults, rowsOf, type Backup, type SimulationReport } from './fleet-report.js'
import { createLongRandom, type Random } from './random.js'

/** The rules that are simulated. */
export interface Rules {
  Machine: typeof Machine
  duty: DutyRules
}

const startMs = 1e12
const pollMs = 15_000
const lostAfterMs = 60_000
const sweepMs = 10_000

const codes = Object.fromEntries(happenings.map((name, at) => [name, at])) as Readonly<Record<Happening, number>>
const noAnswer = nodeAnswers.length
/** A word of a message is an action or an answer, and the history of the hub's database in steps of this. */
const words = 32

/** Runs one history: some rollouts with random policies and faults. `hasSnapshots`: nodes are set back to snapshots, too. */
export function simulate(
  seed: number,
  size: number,
  { hasSnapshots = false, ...rules }: Partial<Rules> & { hasSnapshots?: boolean } = {}
): SimulationReport {
  return new Simulation(seed, size, { Machine, duty, ...rules }, hasSnapshots).run()
}

class Simulation {
  readonly #rules: Rules
  readonly #random: Random
  readonly #agenda = new Agenda()
  readonly #network: FleetNetwork
  readonly #promises = new FleetPromises()
  readonly #nodes: SimulatedNode[]
  readonly #byId: Map<string, SimulatedNode>
  readonly #drained = new Set<string>()
  readonly #failing: Failing = { swaps: 0, isBadRelease: false, isCalm: false }
  readonly #needs: MachineNeeds
  readonly #report = {
    rollouts: 0,
    ends: {} as Record<string, number>,
    crashes: 0,
    hubCrashes: 0,
    actions: 0,
    ...noFaults()
  }
  #machine: Machine | null = null
  #isHubUp = true
  /** The history of the hub's database, which orders name, and the number of its last rollout in the project. */
  #epoch = 0
  #rank = 0
  /** The numbers of the rollouts in their project. */
  readonly #ranks: number[] = []
  #backup: Backup | null = null
  /** How far the clock of the hub is off. */
  #offMs = 0
  /** Number of nodes that work. */
  #busy = 0
  readonly #event: FleetEvent = { happening: 0, node: 0, number: 0, attempt: 0, word: 0 }

  /** Random numbers of their own, so that they change nothing else. */
  readonly #snapshots: Random
  readonly #hasSnapshots: boolean

  constructor(seed: number, size: number, rules: Rules, hasSnapshots: boolean) {
    this.#rules = rules
    this.#random = createLongRandom(seed)
    this.#snapshots = createLongRandom(seed)
    this.#hasSnapshots = hasSnapshots
    this.#network = new FleetNetwork(this.#agenda, this.#random)
    this.#agenda.nowMs = startMs
    this.#needs = { now: () => this.#nowMs, isDrained: id => this.#drained.has(id) }
    this.#nodes = Array.from({ length: size }, (_, at) => new SimulatedNode(at, rules.duty, this.#random))
    this.#byId = new Map(this.#nodes.map(node => [node.id, node]))
  }

  run(): SimulationReport {
    const random = this.#random
    for (const node of this.#nodes) {
      node.heardAtMs = startMs
      node.isPlaced = random.below(20) > 0
      this.#later(random.below(pollMs), 'poll', node)
    }
    this.#later(sweepMs, 'sweep')
    for (let number = 1, last = 1 + random.below(4); number <= last; number++) {
      this.#rollOut(number)
      if (number < last && random.below(3) === 0 && !isGoing((this.#machine as Machine).rollout.state))
        this.#count('replaced')
      else this.#settle()
    }
    const { messages, lost, doubled, partitions } = this.#network
    const hours = (this.#agenda.nowMs - startMs) / 3_600_000
    return { ...this.#report, messages, lost, doubled, partitions, broken: this.#promises.broken, hours }
  }

  /** The clock of the hub. */
  get #nowMs(): number {
    return this.#agenda.nowMs + this.#offMs
  }

  #later(afterMs: number, happening: Happening, node?: SimulatedNode): void {
    const { index = 0, life = 0 } = node ?? {}
    this.#agenda.add(afterMs, { happening: codes[happening], node: index, number: life, attempt: 0, word: 0 })
  }

  /** Lets time pass for some seconds, or until something is so. Returns whether it is. */
  #pass(seconds: number, isSo: () => boolean = () => false): boolean {
    const untilMs = this.#agenda.nowMs + seconds * 1000
    while (!isSo()) {
      if (!this.#agenda.next(untilMs, this.#event)) return false
      this.#happen(this.#event)
    }
    return true
  }

  #happen({ happening, node: at, number, attempt, word }: FleetEvent): void {
    const node = this.#nodes[at] as SimulatedNode
    switch (happening) {
      case codes.poll:
        return this.#poll(node)
      case codes.order:
        return this.#receive(node, { number, attempt, word })
      case codes.report:
      case codes.request:
        return this.#hear(node, { number, attempt, word, isRequest: happening === codes.request })
      case codes.ended:
        return number === node.life ? this.#end(node) : undefined
      case codes.crash:
        return this.#crash(node)
      case codes.start:
        return this.#start(node)
      case codes.hubStart:
        return this.#startHub()
      case codes.sweep:
        return this.#sweep()
    }
  }

  #policy(): RolloutPolicy {
    const { below, oneOf } = this.#random
    return {
      ...defaultRolloutPolicy,
      canary: 1 + below(5),
      then: oneOf([this.#nodes.length > 300 ? '5%' : '1', '10%', '25%', '50%', '100%']),
      pause: oneOf([0, 0, 30, 'approve'] as const),
      maxFailures: oneOf([0, 0, 1, 5]),
      maxUnreachable: oneOf(['0', '10%', '50%', '100%']),
      onFailure: oneOf(rolloutFailureModes),
      order: oneOf([null, 'zone'])
    }
  }

  #rollOut(number: number): void {
    const random = this.#random
    if (this.#backup !== null && random.below(3) === 0) this.#restore(this.#backup)
    this.#ranks[number] = ++this.#rank
    const policy = this.#policy()
    this.#failing.swaps = random.oneOf([0, 0, 1, 20])
    this.#failing.isBadRelease = random.below(6) === 0
    this.#setCalm(random.below(3) === 0)
    const placed = this.#nodes.filter(({ isPlaced }) => isPlaced)
    const plan = planWaves(
      placed.map(({ id, index }) => ({
        id,
        name: id,
        labels: { zone: String(index % 7) },
        isDrained: this.#drained.has(id)
      })),
      policy
    )
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
      lastAttempt: 0,
      pausedUntil: null,
      revertFrom: null,
      haltedReason: null,
      createdAt: new Date(this.#nowMs).toISOString(),
      endedAt: null
    }
    this.#report.rollouts++
    this.#machine = new this.#rules.Machine(rollout, plan.nodes, this.#needs)
    this.#isHubUp = true
    this.#promises.accepted(this.#machine, placed.length)
    this.#machine.start()
    this.#keep()
    for (let turns = random.below(12); turns > 0; turns--) {
      this.#pass(random.oneOf([1 + random.below(20), 20 + random.below(200)]))
      if (this.#isHubUp) this.#manage(this.#machine)
      if (random.below(4) === 0) this.#backup = { ...rowsOf(this.#machine), rank: this.#rank }
    }
  }

  #setClock(): void {
    this.#report.clockSteps++
    this.#offMs += this.#random.oneOf([-86_400_000, -3_600_000, 3_600_000])
  }

  /** The hub is what it was at the backup, and does not know what happened since. */
  #restore({ rollout, rows, rank }: Backup): void {
    this.#report.restores++
    this.#epoch++
    this.#rank = rank
    const machine = new this.#rules.Machine(structuredClone(rollout), structuredClone(rows), this.#needs)
    this.#machine = machine
    this.#isHubUp = true
    this.#promises.accepted(machine, this.#nodes.length)
    machine.restored('restored')
    for (const node of this.#nodes) {
      if (!node.isPlaced) machine.remove(node.id)
      else if (machine.node(node.id) === undefined) machine.add(node.id)
      else this.#order(node)
    }
    this.#keep()
    this.#pass(this.#random.below(200))
  }

  /** Everything works again, and everything that is open ends. */
  #settle(): void {
    this.#setCalm(true)
    for (const node of this.#nodes) {
      node.cutUntilMs = 0
      node.lacksDiskUntilMs = 0
      node.isSharedUntilMs = 0
      if (!node.isUp) this.#start(node)
    }
    const isSettled = () => this.#busy === 0 && this.#isHubUp && this.#isClosed(this.#machine as Machine)
    // Late answers open it again.
    do if (!this.#pass(12 * 3600, isSettled)) this.#promises.breaks('nodes are open in the end')
    while (this.#pass(200, () => !isSettled()) && this.#promises.broken.length === 0)
    this.#promises.settled(this.#nodes, id => this.#drained.has(id))
    this.#count((this.#machine as Machine).rollout.state)
  }

  #isClosed(machine: Machine): boolean {
    const { state, policy } = machine.rollout
    if (isGoing(state) || machine.count('swapping', 'withdrawing', 'unreachable', 'reverting') > 0) return false
    const mayRelease = state === 'done' && machine.count('failed', 'stuck') <= policy.maxFailures
    return machine.count('preparing') === 0 && !(mayRelease && machine.count('prepared') > 0)
  }

  #count(end: string): void {
    const { ends } = this.#report
    ends[end] = (ends[end] ?? 0) + 1
  }

  #setCalm(isCalm: boolean): void {
    this.#failing.isCalm = isCalm
    this.#network.isCalm = isCalm
  }

  /** What users do meanwhile. */
  #manage(machine: Machine): void {
    const random = this.#random
    const { rollout } = machine
    this.#report.actions++
    switch (random.below(10)) {
      case 0:
        machine.halt('by hand')
        break
      case 1:
        if (rollout.state === 'halted' || rollout.state === 'reverted') this.#promises.resumed()
        machine.resume()
        break
      case 2:
        if (rollout.state !== 'reverted') machine.revert(1 + random.below(rollout.waves), 'by hand')
        break
      case 3:
        this.#some(node => this.#drain(node, machine))
        break
      case 4:
        this.#failing.isBadRelease = false
        this.#failing.swaps = 0
        break
      case 5:
        this.#some(node => this.#place(node, machine))
        break
      default:
        this.#promises.approved()
        machine.approve()
    }
    this.#keep()
  }

  /** Does something with one node, or with a few in a row; often with the same ones. */
  #some(act: (node: SimulatedNode) => void): void {
    const count = this.#random.oneOf([1, 1 + Math.floor(this.#nodes.length / 50)])
    const from = this.#random.below(this.#random.oneOf([5, this.#nodes.length]))
    for (const node of this.#nodes.slice(from, from + count)) act(node)
  }

  #drain({ id }: SimulatedNode, machine: Machine): void {
    if (this.#drained.delete(id)) machine.wake(id)
    else {
      this.#drained.add(id)
      machine.drain(id)
    }
  }

  #place(node: SimulatedNode, machine: Machine): void {
    node.isPlaced = !node.isPlaced
    if (node.isPlaced) {
      node.heardAtMs = this.#agenda.nowMs
      this.#promises.placed(this.#nodes.length)
      machine.add(node.id)
    } else {
      this.#promises.removed(node)
      machine.remove(node.id)
    }
  }

  /** After each change: the hub's state is on the disk, and those connected get their orders, unless it crashes. */
  #keep(): void {
    const changed = (this.#machine as Machine).takeChanged()
    this.#promises.changed(changed, this.#nowMs)
    if (!this.#failing.isCalm && this.#random.below(200 + Math.floor(this.#nodes.length / 10)) === 0) this.#crashHub()
    else for (const { nodeId } of changed) this.#order(this.#byId.get(nodeId) as SimulatedNode)
  }

  #crashHub(): void {
    this.#report.hubCrashes++
    this.#isHubUp = false
    this.#later(this.#random.below(60_000), 'hubStart')
  }

  /** Everything that the hub knows is in its rows. */
  #startHub(): void {
    if (this.#isHubUp) return
    const { rollout, rows } = rowsOf(this.#machine as Machine)
    this.#machine = new this.#rules.Machine(rollout, rows, this.#needs)
    this.#promises.restarted(this.#machine)
    this.#isHubUp = true
    for (const node of this.#nodes) node.heardAtMs = this.#agenda.nowMs
  }

  /** Sends a node its order. One that it has already changes nothing, now or later, and is left out. */
  #order(node: SimulatedNode): void {
    const machine = this.#machine as Machine
    if (!node.isPlaced || this.#agenda.nowMs < node.isSharedUntilMs) return
    const { number } = machine.rollout
    const { action, attempt } = machine.orderOf(node.id)
    const { duty } = node
    if (duty !== null && duty.epoch === String(this.#epoch) && serialOf(duty) === number && duty.attempt >= attempt)
      return
    const word = orderActions.indexOf(action) + this.#epoch * words
    this.#network.send(node, { happening: codes.order, node: node.index, number, attempt, word })
  }

  #receive(node: SimulatedNode, order: { number: number; attempt: number; word: number }): void {
    if (!node.isUp || !this.#network.reaches(node)) return
    const { number, attempt, word } = order
    const action = orderActions[word % words] as (typeof orderActions)[number]
    const epoch = String(Math.floor(word / words))
    if (!node.receive({ epoch, rolloutId: `ro_${number}`, number: this.#ranks[number] as number, attempt, action }))
      return
    this.#begin(node)
    this.#answer(node, 'report')
  }

  #answer(node: SimulatedNode, happening: 'report' | 'request'): void {
    if (!node.isPlaced) return
    const answer = node.duty === null ? null : this.#rules.duty.answerOf(node.duty)
    this.#network.send(node, {
      happening: codes[happening],
      node: node.index,
      number: node.duty === null ? 0 : serialOf(node.duty),
      attempt: answer?.attempt ?? 0,
      word: (answer === null ? noAnswer : nodeAnswers.indexOf(answer.answer)) + this.#epoch * words
    })
  }

  #hear(
    node: SimulatedNode,
    { number, attempt, word, isRequest }: { number: number; attempt: number; word: number; isRequest: boolean }
  ): void {
    const machine = this.#machine
    if (machine === null || !this.#isHubUp || !this.#network.reaches(node)) return
    // A request to the hub before its restore does not reach the one after it.
    if (Math.floor(word / words) !== this.#epoch) return
    node.heardAtMs = this.#agenda.nowMs
    if (this.#agenda.nowMs < node.isSharedUntilMs) return
    const answer = nodeAnswers[word % words]
    if (answer !== undefined && number === machine.rollout.number)
      if (machine.answer({ nodeId: node.id, attempt, answer })) this.#keep()
    if (isRequest && this.#isHubUp) this.#order(node)
  }

  /** Does what the newest order demands, if the node is free. */
  #begin(node: SimulatedNode): void {
    const work = node.begin()
    if (work === null) return
    this.#busy++
    if (work === 'swap') this.#promises.began(node, node.duty?.attempt ?? 0)
    this.#answer(node, 'report')
    const random = this.#random
    this.#later(500 + random.below(20_000), 'ended', node)
    if (!this.#failing.isCalm && random.below(60) === 0) this.#later(random.below(20_000), 'crash', node)
  }

  #end(node: SimulatedNode): void {
    const { work, begun } = node.doing as NonNullable<SimulatedNode['doing']>
    const result = node.end(this.#failing, this.#agenda.nowMs)
    this.#busy--
    if (work === 'swap') this.#promises.ended(node, serialOf(begun), result === 'good')
    this.#begin(node)
    this.#answer(node, 'report')
  }

  /** Snapshots of a machine are made now and then, and it is set back to the last one. */
  #keepOrSetBack(node: SimulatedNode): void {
    if (this.#snapshots.below(3) > 0 || !node.isUp || !node.isKept) return node.keep()
    this.#report.setBacks++
    if (node.doing !== null) this.#busy--
    this.#promises.removed(node)
    node.setBack()
    // Nothing that was sent to it before reaches it.
    node.cutUntilMs = this.#agenda.nowMs + 200_000
    this.#later(1000, 'start', node)
  }

  /** Stops a node at any moment. */
  #crash(node: SimulatedNode): void {
    if (!node.isUp) return
    this.#report.crashes++
    node.crash()
    this.#later(1000 + this.#random.below(300_000), 'start', node)
  }

  #start(node: SimulatedNode): void {
    if (node.isUp) return
    const { doing } = node
    const result = node.start()
    if (doing !== null) this.#busy--
    if (doing?.work === 'swap') this.#promises.ended(node, serialOf(doing.begun), result === 'good')
    this.#begin(node)
    this.#answer(node, 'report')
  }

  /** A node asks for its orders again and again, so that a lost one is repeated. */
  #poll(node: SimulatedNode): void {
    if (!this.#failing.isCalm) {
      if (this.#hasSnapshots && this.#snapshots.below(50) === 0) this.#keepOrSetBack(node)
      if (this.#random.below(300) === 0) this.#network.cut([node])
      if (this.#random.below(1500) === 0) this.#crash(node)
      if (this.#random.below(1500) === 0) this.#loseDisk(node)
      if (this.#random.below(3000) === 0) this.#copy(node)
    }
    if (node.isUp) this.#answer(node, 'request')
    this.#later(pollMs, 'poll', node)
  }

  #loseDisk(node: SimulatedNode): void {
    this.#report.missingDisks++
    node.lacksDiskUntilMs = this.#agenda.nowMs + this.#random.below(600_000)
  }

  /** Two machines with one identity: once they are found, the hub sends no orders and believes no answers. */
  #copy(node: SimulatedNode): void {
    this.#report.copies++
    node.isSharedUntilMs = this.#agenda.nowMs + this.#random.below(600_000)
  }

  #sweep(): void {
    this.#later(sweepMs, 'sweep')
    if (!this.#failing.isCalm && this.#random.below(60) === 0) this.#cutMany()
    if (!this.#failing.isCalm && this.#random.below(30) === 0) this.#setClock()
    const machine = this.#machine
    if (machine === null || !this.#isHubUp) return
    const longAgoMs = this.#agenda.nowMs - lostAfterMs
    for (const node of this.#nodes)
      if (node.isPlaced && (node.heardAtMs < longAgoMs || this.#agenda.nowMs < node.isSharedUntilMs))
        machine.lost(node.id)
    machine.tick()
    if (this.#failing.isCalm && machine.rollout.state === 'approval') {
      this.#promises.approved()
      machine.approve()
    }
    this.#keep()
  }

  /** A part of the fleet, or all of it, is cut off. */
  #cutMany(): void {
    const { below, oneOf } = this.#random
    const share = oneOf([0.1, 0.5, 1])
    const from = below(this.#nodes.length)
    this.#network.cut(this.#nodes.slice(from, from + Math.ceil(share * this.#nodes.length)))
  }
}
