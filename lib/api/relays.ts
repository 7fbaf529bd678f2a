/*
 * The pages of a node, through the hub: the hub looks up the row of its own table for the path, applies its authorization,
 * and asks the node, which applies its own to the same user. Only rows that are marked are relayed.
 */
import { checkRule } from '../auth/bearer.js'
import { Refusal, invalid } from '../base/refusal.js'
import type { Fleet } from '../fleet/hub/fleet.js'
import type { HubRelays } from '../fleet/relay/hub-relays.js'
import { createRouter, pathSegments, type Router } from '../http/core/router.js'
import { json, type BodyLimits, type Reply } from '../http/core/route.js'
import { webSocket } from '../http/websocket/reply.js'
import type { WebSocketConnection } from '../http/websocket/socket.js'
import { relayPartBytes, type RelayedRequest } from '../model/fleet-wire.js'
import { nodeOf } from './agent.js'
import { notRelayed, param, type ApiRequest, type ApiRoute, type Handler } from './route.js'
import { checkScope } from './scope.js'
import { signedBytes } from './signed-body.js'
import { tokenProtocol } from './terminal.js'

/** Dependencies of the handlers of relays. */
export interface RelaysNeeds {
  fleet(): Promise<Fleet>
  relays(): Promise<HubRelays>
  /** Returns the table of routes. */
  routes(): readonly ApiRoute[]
}

/** Limits of a part of an answer. */
export const relayPartLimits: BodyLimits = { maxBytes: relayPartBytes, totalMs: 120_000 }

/** Headers of the client that change the answer. */
const passedDown = [
  'accept',
  'accept-language',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'last-event-id',
  'range'
]
/** Headers of the node that are not for the client: those of its own connection, and those that the hub sets itself. */
const notPassedUp =
  /^(connection|keep-alive|transfer-encoding|content-length|content-encoding|date|server|set-cookie|strict-transport-security)$/
/** Number of segments before the path of the node: `api/nodes/:node/at`. */
const segmentsBefore = 4
const goingAway = 1001
const internalError = 1011
/** A page that is reloaded or left closes with this code, and its user may come back. */
const pageLeft = 1001

/** Handlers of relays. */
export function relayHandlers({ fleet, relays, routes }: RelaysNeeds) {
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
      const node = await connectedNode(request)
      const asked = relayedRequest('request', request, { path: inner.slice('/api/'.length), method })
      const { head, body } = await (await relays()).request(node.id, asked, request.signal)
      return replyOf(head, body)
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
      const bytes = await signedBytes(request)
      const part = { number, isLast: query.get('last') === '1', bytes }
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
      passedDown.flatMap(header => {
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

async function replyOf(
  { status, headers }: { status: number; headers: Record<string, string> },
  body: AsyncIterable<Buffer>
): Promise<Reply> {
  const passed = Object.fromEntries(Object.entries(headers).filter(([name]) => !notPassedUp.test(name)))
  if (status === 204 || status === 304) {
    for await (const _ of body);
    return { kind: 'empty', status, headers: passed }
  }
  const type = passed['content-type'] ?? ''
  return {
    kind: 'stream',
    status,
    headers: passed,
    lasting: type.startsWith('text/event-stream') || type.startsWith('application/x-ndjson'),
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
  const terminal = await relays.terminal(nodeId, asked)
  const typed = async (): Promise<void> => {
    for await (const message of connection.messages()) if (typeof message === 'string') terminal.send(message)
    const closed = await connection.closed
    const how = closed.how === 'peer' && closed.code !== pageLeft ? 'closed' : 'broken'
    terminal.send(JSON.stringify({ type: 'left', how }))
  }
  void typed()
  try {
    for await (const line of terminal.lines) {
      const end = endOf(line)
      if (end === null) await connection.send(line)
      else connection.close(end.code, end.reason)
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    connection.close(goingAway, error.message)
  } finally {
    terminal.end()
  }
}

/** Returns how the node ends a terminal; null: the line is a message of the terminal. */
function endOf(line: string): { code: number; reason: string } | null {
  if (!/^\{"type":"(?:close|refused)"/.test(line)) return null
  const { type, code, reason, error } = JSON.parse(line) as Record<string, unknown>
  return type === 'close'
    ? { code: Number(code), reason: String(reason) }
    : { code: internalError, reason: String(error) }
}
