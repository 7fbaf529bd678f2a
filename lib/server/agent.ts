/*
 * An agent of a fleet: a whole server without the panel, and what connects it to its hub. Everything comes in as options,
 * so that one process can run many agents (test/bench).
 */
import { hostname } from 'node:os'
import { createAgent, type Agent, type AgentTimes } from '../fleet/agent/agent.js'
import { enrol } from '../fleet/agent/enrol.js'
import { openAgentKey, readIdentity, writeIdentity, type AgentKey, type Identity } from '../fleet/agent/identity.js'
import { createAgentRelay } from '../fleet/relay/agent-relay.js'
import { randomIds } from '../base/ids.js'
import { Refusal } from '../base/refusal.js'
import { readVersion } from '../config/version.js'
import { createCaller, type Caller } from '../http/outgoing/caller.js'
import { fleetLimits } from '../model/node.js'
import { createOwnServer } from './relay.js'
import { reportFailure } from './reporter.js'
import { serve, type RunningServer, type ServeOptions } from './serve.js'

/** Options of `startAgent`. */
export interface AgentOptions extends Omit<ServeOptions, 'panel' | 'deploymentEnded'> {
  /** The addresses of the hubs; empty: those of the last start. */
  hubs: string[]
  /** The one-time token; needed once. */
  enroll?: string | undefined
  /** The name that the machine proposes. Default: its host name. */
  name?: string | undefined
  labels?: Record<string, string>
  /** Certificates to trust for the hub, in PEM, instead of those that Node trusts. */
  ca?: string | undefined
  /** Whether users of the hub can read the pages of this node; default: true. */
  relay?: boolean
  times?: Partial<AgentTimes>
  random?: () => number
}

/** An agent that is running. */
export interface RunningAgent extends RunningServer {
  agent: Agent
}

/**
 * Starts an agent: first the server, then the connection to the hub. Enrolls the machine if it is not a node yet. Refuses
 * as `serve` and `enrol` do, and (`usage`) what is missing for an enrolment. After a failed start, everything is closed.
 */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { home, environment, report, ca } = options
  const late: { agent?: Agent } = {}
  const relaySecret = randomIds.token()
  const server = await serve({
    ...options,
    relaySecret,
    port: options.port ?? 0,
    panel: false,
    deploymentEnded: ({ projectId }) => late.agent?.deploymentEnded(projectId)
  })
  try {
    const makeCaller = (address: string): Caller => createCaller({ address, environment, ca })
    const key = await openAgentKey(home.directory)
    const identity = await identityOf(options, key, makeCaller)
    const { deployer, api } = server.services
    const log = (message: string, error?: unknown): void => reportFailure(report, message, error)
    const own = createOwnServer({ socketPath: server.localSocket, secret: relaySecret, terminal: api.terminal })
    late.agent = createAgent({
      ...server.services.agent,
      home: home.directory,
      identity,
      key,
      createCaller: makeCaller,
      deployer,
      createRelay: client => createAgentRelay({ ...own, client, isOn: options.relay ?? true, log }),
      ...(options.times === undefined ? {} : { times: options.times }),
      ...(options.random === undefined ? {} : { random: options.random }),
      info: report.info,
      warn: report.warn,
      log
    })
  } catch (error) {
    await server.stop({ wait: false })
    throw error
  }
  const { agent } = late
  return {
    ...server,
    agent,
    async stop({ wait }) {
      // The deployments of the hub are awaited, or stopped, like any other. A result that is not stored before the store
      // is closed is found by the next start.
      await Promise.all([agent.stop(), server.stop({ wait })])
    }
  }
}

async function identityOf(
  { home, hubs, enroll, name = hostname(), labels = {}, report }: AgentOptions,
  key: AgentKey,
  makeCaller: (address: string) => Caller
): Promise<Identity> {
  const known = await readIdentity(home.directory)
  if (known !== null) {
    if (enroll !== undefined) report.warn(`This machine is the node "${known.name}" already: --enroll is ignored`)
    const identity = hubs.length === 0 ? known : { ...known, hubs }
    if (identity !== known) await writeIdentity(home.directory, identity)
    report.info(`Node ${identity.name} (${identity.nodeId})`)
    return identity
  }
  if (hubs.length === 0) throw missing('--hub', 'the address of the hub')
  if (enroll === undefined) throw missing('--enroll', 'an enrollment token ("svc fleet enroll" on the hub prints one)')
  const { signal } = new AbortController()
  const version = readVersion()
  const proposed = name.slice(0, fleetLimits.nameLength)
  const identity = await enrol({
    token: enroll,
    hubs,
    name: proposed,
    labels,
    version,
    key,
    createCaller: makeCaller,
    signal
  })
  await writeIdentity(home.directory, identity)
  report.info(`Enrolled as node ${identity.name} (${identity.nodeId})`)
  return identity
}

function missing(field: string, what: string): Refusal {
  return new Refusal('usage', 'usage', `This machine is not a node yet. Use ${field}: ${what}`, { field })
}
