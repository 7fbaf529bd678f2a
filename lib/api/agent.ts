/* The routes of the agents: what the nodes of a fleet ask their hub for. `model/fleet-wire.ts` describes the exchange. */

import {
  escapedLine,
  flag,
  integer,
  line,
  list,
  multiline,
  nullable,
  object,
  oneOf,
  readFields,
  withDefault
} from '../base/fields.js'
import { invalid, Refusal } from '../base/errors.js'
import { type FilePart, fileReply, partsReply } from '../http/static/file.js'
import {
  fleetProtocol,
  maxBlobRanges,
  relayedHeaders,
  type RelayedRequest,
  relayPartBytes,
  releaseSignatureHeader
} from '../model/fleet-wire.js'
import { createRouter, json, pathSegments, type Reply, type Router } from '../http/core/route.js'
import { streamHeaders } from '../http/core/reply.js'
import type { NodeRequest } from '../fleet/hub/voice.js'
import type { SigningNode } from '../access/node-requests.js'
import { type Actor, hasLostRight } from '../model/audit.js'
import { fleetLimits, nodeLabels } from '../model/node.js'
import { nodeAnswers } from '../model/rollout.js'
import { checkRule } from '../access/bearer.js'
import type { HubRelays, RelayedAnswer } from '../fleet/relay/hub-relays.js'
import { webSocket, type WebSocketConnection } from '../http/websocket/socket.js'
import {
  type ApiRequest,
  type ApiRoute,
  checkScope,
  type Handler,
  jsonOf,
  needsProof,
  notRelayed,
  param,
  queryText,
  signedBytes,
  signedJson
} from './route.js'
import { tokenProtocol } from './terminal.js'
import type { ApiServices } from './services.js'

/** Characters of the name of a start of an agent. */
const maxInstanceLength = 64

/** Handlers of what agents do. */
export function agentHandlers({ agents, nodeRequests, archivePath }: ApiServices) {
  return {
    async enroll(request) {
      const { token, publicKey, name, labels, version } = readFields(await request.json(), enrollFields)
      const { ip, claimedIp } = request.actor
      const { enroll } = await agents()
      return json({ success: true, ...(await enroll({ token, publicKey, name, labels, version }, { ip, claimedIp })) })
    },

    async session(request) {
      const { id: nodeId, session, counter } = nodeOf(request)
      if (session !== '-') throw invalid('authorization', 'A session begins with a request that names the session "-"')
      const body = await signedBytes(request)
      const { protocol } = readFields(body.length === 0 ? {} : jsonOf(body), sessionFields)
      const { greet } = await agents()
      const begun = nodeRequests.begin(nodeId, Math.min(protocol, fleetProtocol))
      return json({ success: true, ...(await greet({ nodeId, session: begun, counter })) })
    },

    async desired(request) {
      const { desired } = await agents()
      const instance = queryText(request.query, 'instance')?.slice(0, maxInstanceLength)
      return {
        kind: 'stream',
        status: 200,
        headers: { ...streamHeaders, 'content-type': 'application/x-ndjson' },
        lasting: true,
        run: sink => desired({ ...askedBy(request), instance }, sink)
      }
    },

    async release(request) {
      const { document } = await agents()
      const { json, signature } = await document(askedBy(request), param(request, 'deployId'))
      const type = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
      return {
        kind: 'bytes',
        status: 200,
        body: Buffer.from(json),
        headers: { ...type, [releaseSignatureHeader]: signature }
      }
    },

    async blob(request) {
      const { archiveOf, limited } = await agents()
      const deployId = archiveOf(nodeOf(request).id, param(request, 'sha256'))
      const file = await archivePath(deployId, request.signal)
      return limited(fileReply({ file, headers: { 'content-type': 'application/zip' } }))
    },

    async blobRanges(request) {
      const { archiveOf, limited } = await agents()
      const deployId = archiveOf(nodeOf(request).id, param(request, 'sha256'))
      const { ranges } = readFields(await signedJson(request), rangesFields)
      const parts = partsOf(ranges)
      const file = await archivePath(deployId, request.signal)
      return limited(partsReply(file, { parts, headers: { 'content-type': 'application/octet-stream' } }))
    },

    async report(request) {
      const { id } = nodeOf(request)
      const report = readFields(await signedJson(request), reportFields)
      await (await agents()).report(id, report)
      return json({ success: true })
    }
  } satisfies Record<string, Handler>
}

function nodeOf({ actor }: ApiRequest): SigningNode {
  if (actor.node === undefined) throw new Error('Only a node may call this route')
  return actor.node
}

function askedBy(request: ApiRequest): NodeRequest {
  const { id: nodeId, session, counter, protocol } = nodeOf(request)
  return { nodeId, session, counter, protocol }
}

/** Returns the parts that pairs of offset and length name. Refuses (`invalid`) those that are not in ascending order. */
function partsOf(ranges: readonly number[]): FilePart[] {
  const parts: FilePart[] = []
  for (let index = 0; index < ranges.length; index += 2) {
    const [at, bytes = 0] = ranges.slice(index, index + 2) as [number, number?]
    const { at: last, bytes: lastBytes } = parts.at(-1) ?? { at: 0, bytes: 0 }
    if (bytes === 0 || at < last + lastBytes) {
      throw invalid('ranges', 'Send an offset and a length for each part, in ascending order, and no part twice')
    }
    parts.push({ at, bytes })
  }
  return parts
}

const id = line({ min: 1, max: 100 })
const tree = nullable(line({ max: 64 }))

/** Fields of `POST /api/agent/enroll`. */
export const enrollFields = {
  /** The enrollment token, `svcnode_…`. */
  token: line({ min: 1, max: 300 }),
  /** The Ed25519 key of the agent: 32 bytes in base64. */
  publicKey: line({ min: 44, max: 44 }),
  /** The name that the machine proposes. An enrollment with a name ignores it. */
  name: line({ min: 1, max: fleetLimits.nameLength }),
  /** Labels of the node. Those of the enrollment take precedence. */
  labels: nodeLabels,
  /** The version of svc on the machine. */
  version: line({ min: 1, max: 100 })
}

/** Fields of `POST /api/agent/session`. */
export const sessionFields = {
  /** The protocol of the agent: 2. */
  protocol: withDefault(integer(1, 1000), 1)
}

/** Fields of `POST /api/agent/blobs/:sha256/ranges`. */
export const rangesFields = {
  /** Offset and length of each part, in ascending order. */
  ranges: list(integer(0, Number.MAX_SAFE_INTEGER), { max: 2 * maxBlobRanges })
}

/** Fields of `POST /api/agent/reports`. */
export const reportFields = {
  /** The version of svc on the machine. */
  version: line({ min: 1, max: 100 }),
  /** Free bytes where the agent keeps its data. */
  freeBytes: nullable(integer(0, Number.MAX_SAFE_INTEGER)),
  /** Answers to orders. */
  answers: list(
    object({
      projectId: id,
      rolloutId: id,
      attempt: integer(0, Number.MAX_SAFE_INTEGER),
      answer: oneOf(nodeAnswers),
      error: nullable(escapedLine({ max: fleetLimits.outputBytes })),
      failedStep: nullable(line({ max: 100 })),
      output: nullable(multiline({ max: fleetLimits.outputBytes })),
      tookMs: nullable(integer(0, Number.MAX_SAFE_INTEGER))
    }),
    { max: 1000 }
  ),
  /** What is in place of each project that is placed on the node. */
  placements: list(object({ projectId: id, liveDeployId: nullable(id), liveTree: tree, isDrifted: flag }), {
    max: 1000
  })
}

/*
 * The pages of a node, through the hub: the hub looks up the row of its own table for the path, applies its authorization,
 * and asks the node, which applies its own to the same user. Only rows that are marked are relayed. What a node answers is
 * read by fleet/relay/hub-relays.ts.
 */

/** Number of segments before the path of the node: `api/nodes/:node/at`. */
const segmentsBefore = 4
/** A page that is reloaded or left closes with this code, and its user may come back. */
const pageLeft = 1001

/** Handlers of relays. */
export function relayHandlers({ fleet, relays, proof }: ApiServices, routes: () => readonly ApiRoute[]) {
  let router: Router<ApiRoute> | null = null

  /** Returns the row of the table for a path. Refuses 404 `not_relayed`. */
  function rowOf(path: string) {
    // The node finds its row in the whole table, too: a row that is not relayed must not give way to a less specific one.
    router ??= createRouter(routes())
    const match = router.match('GET', path)
    if (match.outcome === 'route' && match.route.isRelayed) return match
    throw notRelayed()
  }

  async function connectedNode(request: ApiRequest) {
    const node = (await fleet()).nodes.get(param(request, 'node'), request.actor.projects)
    if (node.isConnected) return node
    const details = { retryAfterSeconds: 10 }
    throw new Refusal('unavailable', 'node_away', `The node "${node.name}" is not connected. Try again later`, details)
  }

  return {
    async read(request) {
      const { actor, query, headers, method } = request
      // Segment by segment, so that an encoded slash stays a part of its segment, here and on the node.
      const below = pathSegments(request.belowPath).slice(segmentsBefore)
      const inner = `/api/${below.map(encodeURIComponent).join('/')}`
      const { route, params } = rowOf(inner)
      checkRule(route.auth, actor, { hasTicket: query.has('ticket') && headers.authorization === undefined })
      // The records that the other scopes look up are those of the node.
      if (route.scope === 'server' || route.scope === 'project') {
        checkScope(route.scope, { actor, params }, { ofDeployment: none, ofLogSource: none, ofRollout: none })
      }
      if (needsProof(route.power)) proof.check(actor.provenAt)
      const node = await connectedNode(request)
      const asked = relayedRequest('request', request, { path: inner.slice('/api/'.length), method })
      return replyOf(await (await relays()).request(node.id, asked, request.signal), asked)
    },

    async terminal(request) {
      const node = await connectedNode(request)
      const asked = relayedRequest('terminal', request, { path: 'terminal/ws', method: 'GET' })
      return webSocket({
        protocols: [tokenProtocol],
        run: async connection => converse(connection, await relays(), { nodeId: node.id, asked, actor: request.actor })
      })
    },

    async part(request) {
      const { query } = request
      const number = Number(query.get('part'))
      if (!Number.isSafeInteger(number) || number < 1) throw invalid('part', '"part" must be a whole number from 1')
      const part = { number, isLast: query.get('last') === '1', read: () => signedBytes(request) }
      await (await relays()).take(nodeOf(request).id, param(request, 'id'), part)
      return json({ success: true })
    }
  } satisfies Record<string, Handler>
}

function none(): undefined {
  return undefined
}

function relayedRequest(
  kind: RelayedRequest['kind'],
  { actor, query, headers }: ApiRequest,
  { path, method }: { path: string; method: string }
): RelayedRequest {
  const passed = new URLSearchParams(query)
  passed.delete('ticket')
  const search = passed.toString()
  const { name, role, projects, seesScripts } = actor
  return {
    kind,
    method: method === 'HEAD' ? 'HEAD' : 'GET',
    path: search === '' ? path : `${path}?${search}`,
    headers: Object.fromEntries(
      relayedHeaders.flatMap(header => {
        const value = headers[header]
        return typeof value === 'string' ? [[header, value]] : []
      })
    ),
    caller: {
      name,
      role: role === 'local' ? 'admin' : (role as RelayedRequest['caller']['role']),
      projects: projects === null ? null : [...projects],
      seesScripts
    }
  }
}

function replyOf({ head, body, end }: RelayedAnswer, { method }: Pick<RelayedRequest, 'method'>): Reply {
  const { status, headers, isLasting } = head
  const isEmpty = status === 304
  if (isEmpty || method === 'HEAD') end()
  if (isEmpty) return { kind: 'empty', status, headers }
  return {
    kind: 'stream',
    status,
    headers,
    lasting: isLasting,
    heldBytes: relayPartBytes,
    async run(sink) {
      sink.sendHead()
      for await (const bytes of body) await sink.write(bytes)
    }
  }
}

interface Conversation {
  nodeId: string
  asked: RelayedRequest
  actor: Actor
}

/** Passes messages between a client and a terminal of a node until one of them has left. */
async function converse(
  connection: WebSocketConnection,
  relays: HubRelays,
  { nodeId, asked, actor }: Conversation
): Promise<void> {
  // A server without nodes loads nothing of the fleet.
  const { closeCodes, readTerminalLine } = await import('../fleet/relay/hub-relays.js')
  const close = (error: unknown): void => {
    if (!(error instanceof Refusal)) throw error
    connection.close(error.kind === 'bad_gateway' ? closeCodes.failed : closeCodes.left, error.message)
  }
  const terminal = await relays.terminal(nodeId, asked).catch(close)
  if (terminal === undefined) return
  const typed = async (): Promise<void> => {
    for await (const message of connection.messages()) if (typeof message === 'string') terminal.send(message)
    const closed = await connection.closed
    const isLeft = closed.how === 'peer' && closed.code !== pageLeft
    const how = hasLostRight(actor) ? 'revoked' : isLeft ? 'closed' : 'broken'
    terminal.send(JSON.stringify({ type: 'left', how }))
  }
  void typed()
  try {
    for await (const line of terminal.lines) {
      const read = readTerminalLine(line)
      if ('message' in read) await connection.send(read.message)
      else connection.close(read.code, read.reason)
    }
  } catch (error) {
    close(error)
  } finally {
    terminal.end()
  }
}
