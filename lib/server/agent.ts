/*
 * An agent of a fleet: a whole server without the panel, and what connects it to its hub. Everything comes in as options,
 * so that one process can run many agents (test/bench).
 */

import { hostname } from 'node:os'
import type { IncomingMessage } from 'node:http'
import { type Agent, type AgentTimes, createAgent } from '../fleet/agent/agent.js'
import { HubClient, enrol } from '../fleet/agent/hub-client.js'
import { createKeyring } from '../fleet/agent/from-hub.js'
import {
  addressesOf,
  type AgentKey,
  type Identity,
  isConfidential,
  openAgentKey,
  openNextKey,
  readIdentity,
  replaceIdentity,
  writeIdentity
} from '../fleet/agent/identity.js'
import { type AgentRelayNeeds, createAgentRelay, type OwnAnswer, type TerminalEnd } from '../fleet/relay/agent-relay.js'
import { randomIds } from '../base/digests.js'
import { reasonOf, Refusal } from '../base/errors.js'
import { readVersion } from '../base/config/version.js'
import { type Caller, createCaller } from '../http/outgoing/caller.js'
import { fleetLimits } from '../model/node.js'
import type { ApiServices } from '../api/services.js'
import { openTerminal } from '../api/terminal.js'
import { relayedHeaders } from '../access/bearer.js'
import type { Closed } from '../http/websocket/socket.js'
import { revokedCode } from '../model/terminal.js'
import type { RelayedHead } from '../model/fleet-wire.js'
import { type Reporter, reportFailure } from './report.js'
import { type RunningServer, serve, type ServeOptions } from './serve.js'

export interface AgentOptions extends Omit<ServeOptions, 'panel' | 'deploymentEnded'> {
  /** The addresses of the hubs; empty: those of the last start. */
  hubs: string[]
  /** The one-time token; needed once. */
  enroll?: string | undefined
  /** The name that the machine proposes. Default: its host name. */
  name?: string | undefined
  labels?: Record<string, string>
  /** Whether addresses of hubs may be without TLS that are not on this machine. */
  allowHttp?: boolean
  /** As in `CallerOptions`. */
  ca?: (() => Promise<string>) | undefined
  /** Whether users of the hub can read the pages of this node; default: true. */
  relay?: boolean
  times?: Partial<AgentTimes>
  random?: () => number
}

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
    const { identity, key } = await identityOf(options, makeCaller)
    const { deployer, api } = server.services
    const log = (message: string, error?: unknown): void => reportFailure(report, message, error)
    const own = createOwnServer({ socketPath: server.localSocket, secret: relaySecret, terminal: api })
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

interface Self {
  identity: Identity
  key: AgentKey
}

type MakeCaller = (address: string) => Caller

async function identityOf(options: AgentOptions, makeCaller: MakeCaller): Promise<Self> {
  const { home, hubs, enroll, allowHttp = false, report } = options
  const key = await openAgentKey(home.directory)
  const known = await readIdentity(home.directory)
  if (known !== null) {
    const given = hubs.length === 0 ? known : { ...known, hubs }
    const identity = allowHttp ? { ...given, allowHttp } : given
    refuseReadable(identity, known, report)
    const again = enroll === undefined ? null : await enrolAgain({ ...options, enroll }, { identity, key }, makeCaller)
    if (again !== null) return again
    if (identity !== known) await writeIdentity(home.directory, identity)
    report.info(`Node ${identity.name} (${identity.nodeId})`)
    return { identity, key }
  }
  if (hubs.length === 0) throw missing('--hub', 'the address of the hub')
  if (enroll === undefined) throw missing('--enroll', 'an enrollment token ("svc fleet enroll" on the hub prints one)')
  refuseReadable({ hubs, allowHttp }, null, report)
  const identity = { ...(await ask({ ...options, enroll }, key, makeCaller)), allowHttp }
  await writeIdentity(home.directory, identity)
  report.info(`Enrolled as node ${identity.name} (${identity.nodeId})`)
  return { identity, key }
}

type EnrolledOptions = AgentOptions & { enroll: string }

function ask(options: EnrolledOptions, key: AgentKey, createCaller: MakeCaller): Promise<Identity> {
  const { enroll: token, hubs, labels = {}, name = hostname() } = options
  const proposed = name.slice(0, fleetLimits.nameLength)
  const { signal } = new AbortController()
  return enrol({ token, hubs, name: proposed, labels, version: readVersion(), key, createCaller, signal })
}

const greetMs = 10_000

/**
 * Enrolls a node that its hub has forgotten, as a new node with a new key. Returns null, with a warning, if the hub knows
 * the node, cannot be asked, or does not take the token, which a service may give at each start.
 */
async function enrolAgain(
  options: EnrolledOptions,
  { identity, key }: Self,
  createCaller: MakeCaller
): Promise<Self | null> {
  const { home, report } = options
  const { nodeId, name, hubKey, hubs } = identity
  const keyring = createKeyring(hubKey, () => {})
  const client = new HubClient({ nodeId, key, keyring, hubs: addressesOf(identity), createCaller })
  const why = await client
    .greet(AbortSignal.timeout(greetMs))
    .then(
      () => null,
      (error: unknown) => error
    )
    .finally(() => client.close())
  if (!(why instanceof Refusal && why.code === 'node_unknown')) {
    const reason = why === null ? '' : `, and its hub did not say that it has forgotten it (${reasonOf(why)})`
    report.warn(`This machine is the node "${name}" already${reason}: --enroll is ignored`)
    return null
  }
  try {
    const next = await openNextKey(home.directory)
    const enrolled = await ask({ ...options, hubs, name: options.name ?? name }, next, createCaller)
    const { allowHttp } = identity
    const again = { ...enrolled, ...(allowHttp === undefined ? {} : { allowHttp }) }
    await replaceIdentity(home.directory, again)
    report.info(`The hub had forgotten the node ${nodeId}. Enrolled again as node ${again.name} (${again.nodeId})`)
    return { identity: again, key: next }
  } catch (error) {
    const cure = 'Start it with --enroll and a new token ("svc fleet enroll" on the hub prints one)'
    report.warn(`The hub has forgotten the node "${name}", and did not enroll it again: ${reasonOf(error)}. ${cure}`)
    return null
  }
}

/**
 * Refuses (`usage`) an address over which releases and variables could be read on the way. Those that an earlier version used
 * go on with a warning.
 */
function refuseReadable(
  { hubs, allowHttp = false }: Pick<Identity, 'hubs' | 'allowHttp'>,
  known: Identity | null,
  report: Reporter
): void {
  const address = hubs.find(each => !isConfidential(each))
  if (address === undefined || allowHttp) return
  const what = `${address} has no TLS: releases and variables can be read on the way`
  const sentence = `${what}. Use https, or allow it with --allow-http`
  if (known?.allowHttp !== undefined || !known?.hubs.includes(address))
    throw new Refusal('usage', 'usage', sentence, { field: '--hub' })
  report.warn(sentence)
}

function missing(field: string, what: string): Refusal {
  return new Refusal('usage', 'usage', `This machine is not a node yet. Use ${field}: ${what}`, { field })
}

/* What an agent relays to the users of its hub: the answers of its own server, and terminals. */

/** Where the server of an agent is asked, and as whom. */
export interface OwnServer {
  /** The path of its local socket. */
  socketPath: string
  /** The secret of `World.relaySecret`. */
  secret: string
  terminal: Pick<ApiServices, 'terminals' | 'projects'>
}

/** Time limit until the own server begins to answer. */
const answerMs = 60_000
const closeCodeOf = { closed: 1000, broken: 1001, revoked: revokedCode }

function createOwnServer({ socketPath, secret, terminal }: OwnServer): Pick<AgentRelayNeeds, 'ask' | 'terminal'> {
  const caller = createCaller({ address: 'http://localhost', socketPath, environment: {} })

  return {
    async ask({ method, path, headers, caller: user }, signal): Promise<OwnAnswer> {
      const sent = { ...headers, ...relayedHeaders(secret, user) }
      const answer = await caller.send({ method, path: `/api/${path}`, headers: sent, limitMs: answerMs, signal })
      return { head: headOf(answer), body: answer }
    },

    async terminal(request, end) {
      const { name, projects: _, ...user } = request.caller
      const query = new URL(request.path, 'http://localhost').searchParams
      const run = await openTerminal(terminal, { query, actor: { ...user, name: `hub:${name}`, ip: null } })
      await run({
        send: message => end.send(String(message)),
        close: (code, reason = '') => end.close(code, reason),
        messages: end.messages,
        closed: closedOf(end)
      })
    }
  }
}

function headOf(answer: IncomingMessage): RelayedHead {
  const headers = Object.entries(answer.headers).flatMap(([name, value]) =>
    typeof value === 'string' ? [[name, value]] : []
  )
  return { status: answer.statusCode as number, headers: Object.fromEntries(headers) }
}

async function closedOf({ left }: TerminalEnd): Promise<Closed> {
  return { how: 'peer', code: closeCodeOf[await left], reason: '' }
}
