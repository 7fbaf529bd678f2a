/*
 * What a hub and an agent say to each other. The agent dials out, and nothing else opens a connection:
 *
 *   POST /api/agent/enroll              a one-time token and the agent's public key; answers the identity of the node
 *   POST /api/agent/session             SessionRequest; SessionAnswer: begins a session, whose name later signatures contain
 *   GET  /api/agent/desired?instance=…  NDJSON, DesiredLine: the orders of the node, at once and whenever they change
 *   GET  /api/agent/releases/:deployId  ReleaseDocument: what the node needs to know before it prepares
 *   GET  /api/agent/blobs/:sha256       the archive of a release, with Range
 *   POST /api/agent/blobs/:sha256/ranges   BlobRanges; answers these parts of the archive, one after the other
 *   POST /api/agent/reports             AgentReport
 *   POST /api/agent/relays/:id          a part of the answer to a relayed request (`?part=1` and so on; the last one has
 *                                       `&last=1`). 404: nobody waits for the answer any more
 *
 * A new stream begins with `welcome` and the orders of the node. An agent that connects sends a report with all its
 * placements at once: the hub answers a project that is not placed there with `unplaced`.
 *
 * Orders are desired state: a lost line is repeated by the next connection. Each request after `enroll` is signed with the
 * agent's Ed25519 key over its session and a number of its own. The hub signs the begin of a session with the nonce of
 * the agent, and each line of a stream, whatever its type, and each release over the node, the session, the number of the
 * request that it answers, and the exact text. So nothing that was recorded counts again, on either side.
 *
 * Agents before this protocol (1) check the signatures of single lines, without freshness. A hub still serves them; an
 * agent does not follow a hub of before.
 */

import type { NodeAnswer, OrderAction, RolloutPolicy } from './rollout.js'
import type { PolicyChanges } from './policy.js'
import type { OpenedVariable } from './variable.js'
import type { Actor } from './audit.js'

/** The body of `POST /api/agent/enroll`. */
export interface EnrollRequest {
  token: string
  /** The 32 bytes of the Ed25519 key in base64. */
  publicKey: string
  /** The name that the machine proposes; an enrollment with a name ignores it. */
  name: string
  labels: Record<string, string>
  version: string
}

/** The answer to `POST /api/agent/enroll`. */
export interface EnrollAnswer {
  nodeId: string
  name: string
  /** The public key of the hub: the 32 bytes in base64. The token names it, too. */
  hubKey: string
}

/** The protocol of this version. */
export const fleetProtocol = 2

/** The body of `POST /api/agent/session`. Agents of protocol 1 send none. The number of the request is the nonce. */
export interface SessionRequest {
  protocol: number
}

/** The answer to `POST /api/agent/session`. */
export interface SessionAnswer {
  session: string
  /** The keys of the hub after its first one, each signed with the one before over `hubKeyText`. */
  keys: SignedHubKey[]
  /** Ed25519 of the hub over `sessionText`, with its last key, in base64. */
  signature: string
}

/** A key of the hub after its first one. */
export interface SignedHubKey {
  /** The 32 bytes in base64. */
  hubKey: string
  /** The signature of the key before over `hubKeyText`, in base64. */
  signature: string
}

/** The body of `POST /api/agent/blobs/:sha256/ranges`: offset and length of each part, in ascending order. */
export interface BlobRanges {
  ranges: number[]
}

/** Maximum number of parts of one request. */
export const maxBlobRanges = 10_000

/** What a node is told to do about one project. */
export interface OrderLine {
  type: 'order'
  /** The history of the hub's database: another one after each restore. */
  epoch: string
  projectId: string
  rolloutId: string
  /** The number of the rollout in its project. */
  number: number
  attempt: number
  action: OrderAction
  /** The deployment of the hub. */
  deployId: string
  treeSha256: string
  archiveSha256: string
  archiveBytes: number
}

/**
 * A line of `GET /api/agent/desired`. The hub adds its number in the stream (`line`, from 1), the milliseconds since the
 * first one (`ms`), and at the end `seal`: Ed25519 over `lineText`, in base64.
 */
export type DesiredLine =
  | { type: 'welcome'; version: string; heartbeatMs: number; hubs: string[] }
  | OrderLine
  /** The project is no longer placed on the node: its record is removed, its files stay. */
  | { type: 'unplaced'; projectId: string }
  /** The hub has a new key: the lines after this one are sealed with it. This one is sealed with the key before. */
  | ({ type: 'key' } & SignedHubKey)
  /** A request of a user to the node itself: a `RelayedRequest` as JSON. */
  | { type: 'relay'; id: string; request: string }
  /**
   * A message for an open relay (terminal), in base64; an empty text ends the relay. `number` grows with each message of
   * the relay, from 1.
   */
  | { type: 'input'; id: string; number: number; bytes: string }
  | { type: 'heartbeat' }

/** The headers of a client that a hub relays: those that change the answer of a page. */
export const relayedHeaders = [
  'accept',
  'accept-language',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'last-event-id',
  'range'
]

/** The roles of users whose requests a hub relays. */
export const relayedRoles = ['viewer', 'deployer', 'operator', 'admin', 'project'] as const

/** A request of a user to the node itself, as the hub relays it. */
export interface RelayedRequest {
  kind: 'request' | 'terminal'
  method: 'GET' | 'HEAD'
  /** The path below `/api/` of the node, with its query. */
  path: string
  /** Of `relayedHeaders`. */
  headers: Record<string, string>
  /** The user. The node applies its own rules of authorization to it. */
  caller: {
    name: string
    role: (typeof relayedRoles)[number]
    /** The projects that the user is limited to; null: none. */
    projects: string[] | null
    seesScripts: boolean
  }
}

/**
 * The beginning of the answer to a relayed request: the first line of part 1, as JSON. The bytes of the body follow. A
 * terminal has no beginning: each message is a line.
 */
export interface RelayedHead {
  status: number
  headers: Record<string, string>
}

/** Scripts that came with an archive. */
export interface OfferedToNode {
  origin: 'upload' | 'source deployment'
  preDeploy?: string | undefined
  postDeploy?: string | undefined
  postDeployAsync?: boolean | undefined
}

/** What a node needs to know about a release before it prepares. */
export interface ReleaseDocument {
  deployId: string
  projectId: string
  projectName: string
  env: string
  /** The directory on this node. */
  deployPath: string
  treeSha256: string
  archiveSha256: string
  archiveBytes: number
  fileCount: number | null
  policy: PolicyChanges
  /** `nodeSettings`, and whether clients may send scripts. */
  project: Record<string, unknown>
  variables: OpenedVariable[]
  /** What the client of the push sent for scripts. */
  offered: OfferedToNode
  clientEnv: Record<string, string>
  message: string | null
  /** The statement of the release and its signatures, which the node verifies itself; absent: it is not signed. */
  attested?: { statement: string; signatures: string[] }
}

/** The body of `POST /api/agent/reports`: what a node says. A repeated report changes nothing. */
export interface AgentReport {
  version: string
  freeBytes: number | null
  answers: Array<{
    projectId: string
    rolloutId: string
    attempt: number
    answer: NodeAnswer
    error: string | null
    failedStep: string | null
    /** The end of the output. */
    output: string | null
    tookMs: number | null
  }>
  /** What is in place now. */
  placements: Array<{
    projectId: string
    /** The deployment of the hub whose files are in place; null: none, or a deployment of the node itself. */
    liveDeployId: string | null
    liveTree: string | null
    isDrifted: boolean
  }>
}

/** Returns the text that an agent signs for one request (header `Authorization: SvcNode …`). */
export function requestText(request: {
  nodeId: string
  session: string
  /** Grows with each request of the session; for the request that begins one, a random text. */
  counter: number | string
  method: string
  /** Path and query below the base path of the hub. */
  path: string
  /** SHA-256 of the body in hexadecimal; of no bytes if there is none. */
  bodySha256: string
}): string {
  const { nodeId, session, counter, method, path, bodySha256 } = request
  return ['svc-agent-request 1', nodeId, session, counter, method, path, bodySha256, ''].join('\n')
}

/** A request of an agent, as the signatures of what answers it name it. */
export interface Asked {
  nodeId: string
  session: string
  /** The number of the request in its session. */
  counter: number | string
}

/** Returns the text that the hub signs for a session that it begins. `counter` is the nonce of the agent. */
export function sessionText({ nodeId, session, counter }: Asked): string {
  return ['svc-agent-session 2', nodeId, counter, session, ''].join('\n')
}

/** Returns the text that the hub signs for a line of a stream; `json` is the exact text of the line without its seal. */
export function lineText({ nodeId, session, counter }: Asked, line: number, json: string): string {
  return ['svc-agent-line 2', nodeId, session, counter, line, json, ''].join('\n')
}

/** Returns the text that the hub signs for a release document; `json` is the exact body of the answer. */
export function releaseText({ nodeId, session, counter }: Asked, json: string): string {
  return ['svc-agent-release 2', nodeId, session, counter, json, ''].join('\n')
}

/** Returns the text that the hub signs with its earlier key for a new one. */
export function hubKeyText(hubKey: string): string {
  return `svc-agent-hub-key 1\n${hubKey}\n`
}

/** The header of a release document that contains the signature of the hub over `releaseText`, in base64. */
export const releaseSignatureHeader = 'svc-signature'
/** Maximum size of one part of the answer to a relayed request, in bytes. */
export const relayPartBytes = 256 * 1024

/** How often the hub sends a line to each agent. */
export const heartbeatMs = 15_000
/** An agent that hears nothing for this long connects again. */
export const silentAfterMs = 45_000
/** An agent reports at least this often, even if nothing has changed, so that the hub notices one that is cut off. */
export const reportEveryMs = 20_000
/** A node that was not heard of for this long is unreachable. */
export const lostAfterMs = 60_000

/** What the client of a push sent for scripts. */
export type ScriptOffer = Pick<ReleaseDocument, 'offered' | 'clientEnv'>

/** Encrypts texts of a deployment. */
export interface OfferSealing {
  seal(deployId: string, text: string): Promise<string>
  /** Refuses 503 `variables_key`. */
  unseal(deployId: string, sealed: string): Promise<string>
}

/** Encrypts what clients have sent, while their deployments wait. */
export type Offers = ReturnType<typeof createOffers>

const nothingSent: ScriptOffer = { offered: { origin: 'upload' }, clientEnv: {} }

/** Creates the encryption of what clients have sent. */
export function createOffers(sealing: OfferSealing) {
  return {
    /** Encrypts what a client has sent; null if it sent nothing. */
    async seal(deployId: string, offer: ScriptOffer): Promise<string | null> {
      const { preDeploy, postDeploy } = offer.offered
      const isEmpty = !preDeploy && !postDeploy && Object.keys(offer.clientEnv).length === 0
      const isPlain = offer.offered.origin === 'upload' && offer.offered.postDeployAsync === undefined
      return isEmpty && isPlain ? null : sealing.seal(deployId, JSON.stringify(offer))
    },

    /** Decrypts it. Refuses 503 `variables_key`. */
    async open(deployId: string, sealed: string | null): Promise<ScriptOffer> {
      return sealed === null ? nothingSent : (JSON.parse(await sealing.unseal(deployId, sealed)) as ScriptOffer)
    }
  }
}

/** A release for the nodes of a project. */
export interface NodeRelease {
  projectId: string
  deployId: string
  treeSha256: string
  archiveSha256: string
  archiveBytes: number
  policy: RolloutPolicy
  offer: ScriptOffer
  /** The deployment whose archive a rollback deploys again; null: it is none. */
  rollbackOf: string | null
  actor: Actor
}

/** Who watches a rollout. */
export interface RolloutWatch {
  say(line: string): void
  /** Ends the watching; the rollout continues. */
  signal: AbortSignal
}

/** The end of a rollout, or the state in which it waits for a user. */
export interface RollEnd {
  outcome: 'done' | 'halted' | 'reverted'
  /** What happened, as a sentence. */
  sentence: string
}

/** Rollouts of deployments. An abort ends only the watching, and throws the reason of the signal. */
export interface Rolls {
  /** Begins a rollout and follows it. Refuses 409 `no_nodes`. */
  begin(release: NodeRelease, watch: RolloutWatch): Promise<RollEnd>
  /** Follows the rollout that an earlier process has begun. */
  follow(deployId: string, watch: RolloutWatch): Promise<RollEnd>
  /** Lets all nodes go back to what they had before the deployment, and follows that. */
  revert(deployId: string, reason: string, watch: RolloutWatch): Promise<RollEnd>
  /** Stops the rollout of a deployment, if it is going on. */
  halt(deployId: string, reason: string): Promise<void>
}

/* What a node knows about the rollouts of a project, and has done for them. `fleet/duty.ts` has the rules. */

/** An order as it reaches a node. */
export interface NodeOrder {
  /** The history of the hub's database that numbers belong to; empty: of before histories had names. */
  epoch: string
  rolloutId: string
  /** The number of the rollout in its project. */
  number: number
  attempt: number
  action: OrderAction
}

/** What a node knows about the newest rollout of a project, and has done for it. */
export interface DutyState extends NodeOrder {
  hasPrepared: boolean
  /** What became of the release here. `none`: the earlier files are in place, and nothing was tried. */
  outcome: 'none' | 'refused' | 'begun' | 'good' | 'failed' | 'stuck' | 'reverting' | 'reverted'
  /** The order that `outcome` is the result of. */
  doneAttempt: number
  error: string | null
}

/** What an agent keeps about the newest rollout of a project. */
export interface Duty {
  projectId: string
  /** The node for which the hub gave the order: an agent may be enrolled again, also by another hub. */
  nodeId: string
  /** Whether the project is not placed here any more: only the last order is kept, so that none before it is obeyed. */
  isRemoved: boolean
  state: DutyState
  /** The state before the work began that `state.outcome` is about; null: no work has begun. */
  before: DutyState | null
  /** The release, as the order says. */
  release: {
    /** The deployment of the hub. */
    deployId: string
    treeSha256: string
    archiveSha256: string
    archiveBytes: number
  }
  /** The deployment of the node that puts the release in place; null: there is none yet. */
  swapId: string | null
  /** The deployment of the node that undoes `swapId`; null: there is none yet. */
  undoId: string | null
  /** What the last work ended with, for the hub. */
  failedStep: string | null
  output: string | null
  tookMs: number | null
}
