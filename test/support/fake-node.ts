import type { DesiredLine } from '../../lib/model/fleet-wire.js'
import type { NodeAnswer } from '../../lib/model/rollout.js'
import type { Hub } from '../../lib/fleet/hub/hub.js'
import { enrolledAgent, type FakeAgent } from './fake-agent.js'

/** What a node answers to an order; null: nothing. */
export type Answering = (line: Extract<DesiredLine, { type: 'order' }>) => {
  answer: NodeAnswer
  error?: string
  output?: string
} | null

const obedient: Answering = ({ action }) => {
  if (action === 'prepare') return { answer: 'prepared' }
  if (action === 'swap') return { answer: 'good' }
  if (action === 'revert') return { answer: 'reverted' }
  return action === 'hold' ? { answer: 'held' } : null
}

/** A node that answers each order at once, over real connections. */
export interface FakeNode {
  agent: FakeAgent
  /** Orders that arrived. */
  orders: Array<Extract<DesiredLine, { type: 'order' }>>
  /** Answers from now on like this; it may return undefined to answer as an obedient node. */
  answering: ((line: Extract<DesiredLine, { type: 'order' }>) => ReturnType<Answering> | undefined) | null
  /** Connects again, after the hub has started again at another address. */
  connect(url?: string): Promise<void>
  close(): void
}

/** Makes a node of a hub that is connected. */
export async function startNode(
  given: { url: string; hub: Pick<Hub, 'enrollments'> },
  name: string
): Promise<FakeNode> {
  const agent = await enrolledAgent(given, name)
  let stream: Awaited<ReturnType<FakeAgent['follow']>> | null = null
  const node: FakeNode = {
    agent,
    orders: [],
    answering: null,
    async connect(url = agent.url) {
      stream?.close()
      agent.url = url
      await agent.begin()
      const own = await agent.follow()
      stream = own
      void follow(own).catch(() => {})
    },
    close: () => stream?.close()
  }

  async function follow(own: NonNullable<typeof stream>): Promise<void> {
    for (let line = await own.next(); line !== null; line = await own.next()) {
      if (line.type !== 'order') continue
      node.orders.push(line)
      const { projectId, rolloutId, attempt, action } = line
      const chosen = node.answering?.(line)
      const said = chosen === undefined ? obedient(line) : chosen
      if (said === null) continue
      const { answer, error = null, output = null } = said
      const one = { projectId, rolloutId, attempt, answer, error, failedStep: null, output, tookMs: 5 }
      const isLive = action === 'swap' && answer === 'good'
      const placements = isLive
        ? [{ projectId, liveDeployId: line.deployId, liveTree: line.treeSha256, isDrifted: false }]
        : []
      await agent.report({ answers: [one], placements })
    }
  }

  await node.connect()
  return node
}
