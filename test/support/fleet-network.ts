import type { Agenda, FleetEvent } from './fleet-agenda.js'
import type { SimulatedNode } from './fleet-node.js'
import type { Random } from './random.js'

/** How many copies of a message arrive. */
const copies = [0, 1, 1, 1, 1, 1, 1, 2] as const

/** A network that loses, doubles, delays and reorders messages, and is cut now and then. */
export class FleetNetwork {
  isCalm = false
  messages = 0
  lost = 0
  doubled = 0
  partitions = 0
  readonly #agenda: Agenda
  readonly #random: Random

  constructor(agenda: Agenda, random: Random) {
    this.#agenda = agenda
    this.#random = random
  }

  /** Sends a message from or to a node. */
  send(node: SimulatedNode, message: FleetEvent): void {
    this.messages++
    if (!this.reaches(node)) this.lost++
    else if (this.isCalm) this.#agenda.add(50, message)
    else {
      const count = this.#random.oneOf(copies)
      if (count === 0) this.lost++
      if (count === 2) this.doubled++
      for (let at = 0; at < count; at++) this.#agenda.add(this.#delayMs(), message)
    }
  }

  /** Returns whether a node is connected now: a message needs that when it leaves and when it arrives. */
  reaches(node: SimulatedNode): boolean {
    return node.cutUntilMs <= this.#agenda.nowMs
  }

  /** Cuts nodes off for a while. */
  cut(nodes: Iterable<SimulatedNode>): void {
    this.partitions++
    const untilMs = this.#agenda.nowMs + this.#random.below(400_000)
    for (const node of nodes) node.cutUntilMs = untilMs
  }

  #delayMs(): number {
    switch (this.#random.below(5)) {
      case 0:
        return 5
      case 1:
        return 50
      case 2:
        return 500
      case 3:
        return 5000
      default:
        return this.#random.below(200_000)
    }
  }
}
