/* What an agent relays to the users of its hub: the answers of its own server, and terminals. */
import type { IncomingMessage } from 'node:http'
import { openTerminal, type TerminalNeeds } from '../api/terminal.js'
import { relayedHeaders } from '../auth/relayed-callers.js'
import type { AgentRelayNeeds, OwnAnswer, TerminalEnd } from '../fleet/relay/agent-relay.js'
import { createCaller } from '../http/outgoing/caller.js'
import type { Closed } from '../http/websocket/socket.js'
import type { RelayedHead } from '../model/fleet-wire.js'

/** Where the server of an agent is asked, and as whom. */
export interface OwnServer {
  /** The path of its local socket. */
  socketPath: string
  /** The secret of `World.relaySecret`. */
  secret: string
  terminal: Pick<TerminalNeeds, 'terminals' | 'projects'>
}

/** Time limit until the own server begins to answer. */
const answerMs = 60_000
const pageLeft = 1001

/** Creates what the relay of an agent needs of its own server. */
export function createOwnServer({
  socketPath,
  secret,
  terminal
}: OwnServer): Pick<AgentRelayNeeds, 'ask' | 'terminal'> {
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
  return (await left) === 'closed'
    ? { how: 'peer', code: 1000, reason: '' }
    : { how: 'peer', code: pageLeft, reason: '' }
}
