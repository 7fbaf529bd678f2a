import { invalid, type Refusal } from '../base/errors.js'
import { webSocket, type WebSocketConnection } from '../http/websocket/socket.js'
import { json } from '../http/core/route.js'
import type { Actor } from '../model/audit.js'
import { maxTerminalSide, revokedCode, type TerminalAvailability, type TerminalInput } from '../model/terminal.js'
import type { TerminalClient } from '../operate/terminal/session.js'
import type { Opening, Terminals } from '../operate/terminal/sessions.js'
import { type Handler, queryText } from './route.js'
import type { ApiServices } from './services.js'

/**
 * The WebSocket subprotocol of clients that send the admin token as a second subprotocol; `access/bearer.ts` reads it.
 */
export const tokenProtocol = 'svc-admin-token'
/** 1003: "a type of data it cannot accept" (RFC 6455 §7.4.1). */
const unsupportedData = 1003
const goingAway = 1001

/** Handlers of the terminal. `GET /api/terminal/ws` becomes a WebSocket with the messages of `model/terminal.ts`. */
export function terminalHandlers({ terminals, projects, allowList }: ApiServices) {
  return {
    async available({ client }): Promise<ReturnType<typeof json>> {
      if (!client.local) {
        try {
          allowList.check(client.witnessed)
        } catch (error) {
          const { message, code } = error as Refusal
          return json({ available: false, reason: message, code } satisfies TerminalAvailability)
        }
      }
      return json(await (await terminals()).available())
    },

    async connect(request) {
      return webSocket({ protocols: [tokenProtocol], run: await openTerminal({ terminals, projects }, request) })
    }
  } satisfies Record<string, Handler>
}

/** The part of a WebSocket that a terminal uses. */
export type TerminalConnection = Pick<WebSocketConnection, 'send' | 'close' | 'messages' | 'closed'>

/** Returns what a terminal does with its connection. Refuses as `Terminals.check` does. */
export async function openTerminal(
  { terminals, projects }: Pick<ApiServices, 'terminals' | 'projects'>,
  { query, actor }: { query: URLSearchParams; actor: Actor }
): Promise<(connection: TerminalConnection) => Promise<void>> {
  const opening = { ...readOpening(query, projects), actor }
  const opened = await terminals()
  await opened.check()
  return connection => converse(connection, client => opened.connect(client, opening))
}

function readOpening(query: URLSearchParams, projects: ApiServices['projects']): Omit<Opening, 'actor'> {
  const cols = queryCount(query, 'cols', { min: 1, max: maxTerminalSide })
  const rows = queryCount(query, 'rows', { min: 1, max: maxTerminalSide })
  const sessionId = queryText(query, 'sessionId')
  const projectId = sessionId === undefined ? queryText(query, 'projectId') : undefined
  return {
    size: cols === undefined || rows === undefined ? undefined : { cols, rows },
    sessionId,
    from: queryCount(query, 'from', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    project: projectId === undefined ? undefined : projects.get(projectId)
  }
}

/** Reads a whole number in the query. Returns undefined if the parameter is absent or empty. */
function queryCount(
  query: URLSearchParams,
  field: string,
  { min, max }: { min: number; max: number }
): number | undefined {
  const given = queryText(query, field)
  if (given === undefined) return undefined
  const value = /^\d{1,16}$/.test(given) ? Number(given) : NaN
  if (value >= min && value <= max) return value
  throw invalid(field, `"${field}" is "${given.slice(0, 80)}": expected a whole number from ${min} to ${max}`)
}

/** Passes messages between a connection and its terminal session until the connection closes. */
async function converse(
  connection: TerminalConnection,
  connect: (client: TerminalClient) => ReturnType<Terminals['connect']>
): Promise<void> {
  const client: TerminalClient = {
    send: message => connection.send(JSON.stringify(message)),
    end: (code, reason) => connection.close(code, reason)
  }
  const session = await connect(client)
  if (session === undefined) return
  for await (const message of connection.messages()) {
    if (typeof message !== 'string') {
      connection.close(unsupportedData, 'Expected text frames')
      continue
    }
    const input = readMessage(message)
    if (input.type === 'invalid')
      void client.send({ type: 'error', reason: 'invalid_message', message: input.sentence })
    else session.take(input)
  }
  const closed = await connection.closed
  // A page that is reloaded or left closes with 1001 (RFC 6455 §7.4.1), and its user may come back.
  if (closed.how === 'peer' && closed.code === revokedCode) return session.detach('revoked')
  session.detach(closed.how === 'peer' && closed.code !== goingAway ? 'closed' : 'broken')
}

/** Parses a frame of a client. Returns the input, or a sentence that says why it is invalid. */
export function readMessage(text: string): TerminalInput | { type: 'invalid'; sentence: string } {
  let given: unknown
  try {
    given = JSON.parse(text)
  } catch {
    return invalidMessage('a JSON object is needed')
  }
  if (typeof given !== 'object' || given === null) return invalidMessage('a JSON object is needed')
  const { type, data, at, cols, rows, bytes } = given as Record<string, unknown>
  switch (type) {
    case 'input':
      if (typeof data !== 'string') return invalidMessage('"data" must be a string')
      if (at === undefined) return { type, data }
      return isCount(at) ? { type, data, at } : invalidMessage('"at" must be a whole number, 0 or greater')
    case 'resize':
      if (!isSide(cols) || !isSide(rows))
        return invalidMessage(`"cols" and "rows" must be whole numbers from 1 to ${maxTerminalSide}`)
      return { type, cols, rows }
    case 'ping':
      return { type }
    case 'ack':
      return isCount(bytes) ? { type, bytes } : invalidMessage('"bytes" must be a whole number, 0 or greater')
    default:
      return invalidMessage('"type" must be input, resize, ping or ack')
  }
}

function isSide(value: unknown): value is number {
  return isCount(value) && value >= 1 && value <= maxTerminalSide
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function invalidMessage(why: string): { type: 'invalid'; sentence: string } {
  return { type: 'invalid', sentence: `Invalid message: ${why}` }
}
