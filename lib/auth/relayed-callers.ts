/*
 * The users of a hub whose requests the agent of this server sends to the socket of its data directory. A secret of this
 * process marks them, so that the operator at the same socket is not mistaken for one.
 */
import type { RequestFacts } from '../http/core/route.js'
import { relayedRoles, type RelayedRequest } from '../model/fleet-wire.js'
import { isSameSecret } from './secret.js'

/** A user of the hub. */
export type RelayedCaller = RelayedRequest['caller']

const secretHeader = 'svc-relay-secret'
const callerHeader = 'svc-relay-caller'

/** Returns the headers that name a user. */
export function relayedHeaders(secret: string, caller: RelayedCaller): Record<string, string> {
  return { [secretHeader]: secret, [callerHeader]: encodeURIComponent(JSON.stringify(caller)) }
}

/** Creates the function that finds the user of a request; null: the request is not relayed. */
export function createRelayedCallers(secret: string): (headers: RequestFacts['headers']) => RelayedCaller | null {
  return headers => {
    const [given, caller] = [headers[secretHeader], headers[callerHeader]]
    if (typeof given !== 'string' || typeof caller !== 'string' || !isSameSecret(given, secret)) return null
    const { name, role, projects, seesScripts } = JSON.parse(decodeURIComponent(caller)) as RelayedCaller
    if (!relayedRoles.includes(role)) throw new Error(`A relayed request has the unknown role "${role}"`)
    return { name: `hub:${name}`, role, projects, seesScripts }
  }
}
