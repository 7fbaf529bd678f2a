/*
 * The pages of a node, through the hub: the hub looks up the row of its own table for the path, applies its authorization,
 * and asks the node, which applies its own to the same user. Only rows that are marked are relayed. What a node answers is
 * read by fleet/relay/node-answer.ts.
 */
import { checkRule } from '../auth/bearer.js'
import type { Proof } from '../auth/proof.js'
import { Refusal, invalid } from '../base/errors.js'
import type { Fleet } from '../fleet/hub/fleet.js'
import type { HubRelays, RelayedAnswer } from '../fleet/relay/hub-relays.js'
import { createRouter, pathSegments, type Router } from '../http/core/router.js'
import { json, type BodyLimits, type Reply } from '../http/core/route.js'
import { webSocket, type WebSocketConnection } from '../http/websocket/socket.js'
import { relayedHeaders, relayPartBytes, type RelayedRequest } from '../model/fleet-wire.js'
import { nodeOf } from './agent.js'
import { needsProof, notRelayed, param, type ApiRequest, type ApiRoute, type Handler } from './route.js'
import { checkScope } from './scope.js'
import { signedBytes } from './signed-body.js'
import { tokenProtocol } from './terminal.js'

/** Dependencies of the handlers of relays. */
export interface RelaysNeeds {
  fleet(): Promise<Fleet>
  relays(): Promise<HubRelays>
  proof: Pick<Proof, 'check'>
  /** Returns the table of routes. */
  routes(): readonly ApiRoute[]
}

/** Limits of a part of an answer. */
export const relayPartLimits: BodyLimits = { maxBytes: relayPartBytes, totalMs: 120_000 }

/** Number of segments before the path of the node: `api/nodes/:node/at`. */
const segmentsBefore = 4
/** A page that is reloaded or left closes with this code, and its user may come back. */
const pageLeft = 1001

/** Handlers of relays. */
export function relayHandlers({ fleet, relays, routes, proof }: RelaysNeeds) {
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
    /** `GET /api/nodes/:node/at/*path`: what `GET /api/<path>` of the node answers. */
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

    /** `GET /api/nodes/:node/terminal`: a WebSocket with the messages of `GET /api/terminal/ws` of the node. */
    async terminal(request) {
      const node = await connectedNode(request)
      const asked = relayedRequest('terminal', request, { path: 'terminal/ws', method: 'GET' })
      return webSocket({
        protocols: [tokenProtocol],
        run: async connection => converse(connection, await relays(), { nodeId: node.id, asked })
      })
    },

    /** `POST /api/agent/relays/:id`: a part of the answer of a node. */
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
}

/** Passes messages between a client and a terminal of a node until one of them has left. */
async function converse(
  connection: WebSocketConnection,
  relays: HubRelays,
  { nodeId, asked }: Conversation
): Promise<void> {
  // A server without nodes loads nothing of the fleet.
  const { closeCodes, readTerminalLine } = await import('../fleet/relay/node-answer.js')
  const close = (error: unknown): void => {
    if (!(error instanceof Refusal)) throw error
    connection.close(error.kind === 'bad_gateway' ? closeCodes.failed : closeCodes.left, error.message)
  }
  const terminal = await relays.terminal(nodeId, asked).catch(close)
  if (terminal === undefined) return
  const typed = async (): Promise<void> => {
    for await (const message of connection.messages()) if (typeof message === 'string') terminal.send(message)
    const closed = await connection.closed
    const how = closed.how === 'peer' && closed.code !== pageLeft ? 'closed' : 'broken'
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
