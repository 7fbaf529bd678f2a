/*
 * Reads a request that the hub relays to this node. The hub may be taken over, and the request goes to a socket at which
 * the node's own server trusts its operator. So only a path below the API, and the headers that change an answer, get there.
 */
import {
  checked,
  flag,
  line,
  list,
  maxNameLength,
  nullable,
  object,
  oneOf,
  optional,
  readFields
} from '../../base/fields.js'
import { relayedHeaders, relayedRoles, type RelayedRequest } from '../../model/fleet-wire.js'

const base = 'http://localhost'
const maxLength = 16 * 1024
const maxProjects = 10_000

const fields = {
  kind: oneOf(['request', 'terminal']),
  method: oneOf(['GET', 'HEAD']),
  path: checked(line({ min: 1, max: maxLength }), path => {
    const plain = `/api/${path}`
    const { pathname, search, hash } = new URL(plain, base)
    const isSame = hash === '' && pathname + search === plain
    return isSame ? null : 'expected a path below the API, and its query, percent-encoded'
  }),
  headers: object(Object.fromEntries(relayedHeaders.map(name => [name, optional(line({ max: maxLength }))]))),
  caller: object({
    name: line({ max: maxNameLength }),
    role: oneOf(relayedRoles),
    projects: nullable(list(line({ max: maxNameLength }), { max: maxProjects })),
    seesScripts: flag
  })
}

/** Reads a request from the text of a line. Refuses 400 for everything else; unknown fields and headers are ignored. */
export function readRelayedRequest(text: string): RelayedRequest {
  const { headers, ...request } = readFields(JSON.parse(text), fields)
  const given = Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  return { ...request, headers: Object.fromEntries(given) }
}
