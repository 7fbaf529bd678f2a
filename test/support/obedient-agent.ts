import type { DesiredLine, OrderLine } from '../../lib/model/fleet-wire.js'
import type { NodeAnswer } from '../../lib/model/rollout.js'
import { enrolledAgent, type FakeAgent } from './fake-agent.js'

/** What an agent answers to an order, with the reason of a failure. */
export type Behavior = (order: OrderLine) => [answer: NodeAnswer, error?: string] | null

/** Does what it is told, and has success. */
export const obeys: Behavior = ({ action }) => {
  if (action === 'prepare') return ['prepared']
  if (action === 'swap') return ['good']
  if (action === 'revert') return ['reverted']
  return action === 'hold' ? ['held'] : null
}

/** Fails its checks at each swap. */
export const failsToSwap: Behavior = order =>
  order.action === 'swap' ? ['failed', 'Check http://127.0.0.1:3000/up answered 502'] : obeys(order)

/** An agent that answers the orders of its hub without files, until the test ends. */
export interface ObedientAgent {
  name: string
  agent: FakeAgent
  /** The orders so far. */
  orders: OrderLine[]
  behave(behavior: Behavior): void
}

/** Makes a machine a node, and lets it answer its orders. */
export async function obedientAgent(
  t: { teardown(work: () => unknown): void },
  hub: Parameters<typeof enrolledAgent>[0],
  { name, behavior = obeys }: { name: string; behavior?: Behavior }
): Promise<ObedientAgent> {
  const agent = await enrolledAgent(hub, name)
  const stream = await agent.follow()
  t.teardown(() => stream.close())
  const orders: OrderLine[] = []
  let behaves = behavior
  const good = new Set<string>()
  async function obey(order: OrderLine): Promise<void> {
    orders.push(order)
    // What has been put in place before the order to wait arrives stays.
    const answered = order.action === 'hold' && good.has(order.rolloutId) ? (['good'] as const) : behaves(order)
    if (answered === null) return
    if (answered[0] === 'good') good.add(order.rolloutId)
    else if (answered[0] === 'reverted') good.delete(order.rolloutId)
    const [answer, error = null] = answered
    const { projectId, rolloutId, attempt, deployId, treeSha256 } = order
    const has = answer === 'good' ? { liveDeployId: deployId, liveTree: treeSha256 } : null
    await agent.report({
      answers: [
        {
          projectId,
          rolloutId,
          attempt,
          answer,
          error,
          failedStep: error === null ? null : 'check',
          output: error === null ? null : `Starting\n${error}\n`,
          tookMs: 5
        }
      ],
      placements: has === null ? [] : [{ projectId, isDrifted: false, ...has }]
    })
  }
  async function live(): Promise<void> {
    for (let line: DesiredLine | null; (line = await stream.next()) !== null; )
      if (line.type === 'order') await obey(line)
  }
  live().catch(() => undefined)
  return { name, agent, orders, behave: given => void (behaves = given) }
}
