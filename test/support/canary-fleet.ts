import { createClient, eventsOf } from './client.js'
import { enrolledAgent, FakeAgent } from './fake-agent.js'
import { obedientAgent, obeys, type ObedientAgent } from './obedient-agent.js'
import type { startServer, Stage } from './server.js'
import { until } from './until.js'

/** Records of which the answers can be asked for. */
export interface AskedRecords {
  id: string
  deployId: string
  token: string
  source?: string
  archiveSha256?: string
  rolloutId?: string
  node?: string
  /** Other records, by the name of their collection in paths. */
  ids?: Record<string, string>
}

/** Records of a project on nodes, with a node that has it and one that does not. */
export interface PlacedRecords extends AskedRecords {
  placedNode: ObedientAgent
  otherNode: FakeAgent
}

interface Planting {
  /** Returns `before` with the canary of a text. */
  plant(key: string, before?: string): string
  /** Returns the body of an answer 200. */
  done(reply: Promise<{ status: number; text: string; body: any }>): Promise<any>
  /** What a client sends with its archive. */
  fields: Array<[string, string | { filename: string; bytes: Uint8Array }]>
  allowedEnv: string[]
}

/**
 * A project on three nodes, with a canary in each text that an admin, a client or a node can give about them. A fourth
 * node proposed its name itself and is drained. The rollout has a node that failed, and a user has halted it.
 */
export async function plantFleet(
  t: Parameters<typeof startServer>[0],
  stage: Stage,
  { plant, done, fields, allowedEnv }: Planting
): Promise<PlacedRecords> {
  const { client, url } = stage
  const hub = await stage.server.services.fleet.hub()
  const order = plant('projects.policy.rollout.order')
  const rollout = { canary: 2, then: '1', pause: 'approve', maxFailures: 1, order }
  const { id, token } = await stage.createProject('placed', { policy: { rollout }, allowedEnv } as never)

  const agents = []
  for (const name of ['web-1', 'web-2', 'web-3'])
    agents.push(
      await obedientAgent(
        t,
        { url, hub },
        { name, behavior: given => (isFailing(name, given.action) ? null : obeys(given)) }
      )
    )
  const [first, failing] = agents
  const node = plant('nodes.name')
  await done(client.patch('/api/nodes/web-1', { name: node, labels: { [order]: plant('nodes.labels.*') } }))
  await done(
    client.post('/api/agent/enroll', {
      token: (await done(client.post('/api/enrollments', {}))).token,
      publicKey: new FakeAgent(url).publicKey,
      name: plant('agent.name'),
      labels: { zone: plant('agent.labels.*') },
      version: plant('agent.version')
    })
  )
  const deployPath = plant('projects.add[].deployPath', '/srv/')
  const add = [{ node, deployPath }, { node: 'web-2' }, { node: 'web-3' }, { node: plant('agent.name') }]
  await done(client.patch(`/api/projects/${id}/placements`, { add }))
  await done(client.put(`/api/nodes/${plant('agent.name')}/drain`, { drained: true }))

  const pushing = stage.as(token).upload([['projectId', id], ...fields])
  const swapOf = () => failing?.orders.find(({ action }) => action === 'swap')
  await until(() => swapOf() !== undefined)
  const { rolloutId, attempt } = swapOf() as { rolloutId: string; attempt: number }
  const answer = {
    projectId: id,
    rolloutId,
    attempt,
    answer: 'failed' as const,
    // As earlier versions wrote it.
    error: `The check command "${plant('agent.answers[].error.command')}" failed: ${plant('agent.answers[].error')}`,
    failedStep: plant('agent.answers[].failedStep'),
    output: plant('agent.answers[].output'),
    tookMs: 5
  }
  const liveDeployId = plant('agent.placements[].liveDeployId')
  const placed = { projectId: id, liveDeployId, liveTree: plant('agent.placements[].liveTree'), isDrifted: true }
  const version = plant('agent.version')
  await failing?.agent.report({ version, answers: [answer], placements: [placed] })
  await until(async () => (await client.get(`/api/rollouts/${rolloutId}`)).body.rollout.state === 'approval')
  await done(client.post(`/api/rollouts/${rolloutId}/halt`, { reason: plant('rollouts.reason') }))
  const { deployId } = eventsOf(await pushing).at(-1)
  const placedNode = first as ObedientAgent
  const otherNode = await enrolledAgent({ url, hub }, 'web-9')
  return { id, token, deployId, rolloutId, node: placedNode.agent.nodeId, placedNode, otherNode }
}

function isFailing(name: string, action: string): boolean {
  return name === 'web-2' && action === 'swap'
}

/** Returns a client of the operator of the machine. */
export function localClient({ server }: Pick<Stage, 'server'>) {
  return createClient(() => 'http://localhost', null, { socketPath: server.localSocket })
}
