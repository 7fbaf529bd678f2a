/*
 * The only reader of `Host` (RFC 9110 §7.2: `host[:port]`) and `Origin` (RFC 6454 §7: `scheme://host[:port]`). Neither has
 * a user name, a path or a query: a text with more than its grammar names no host. A URL parser would accept
 * `https://host@evil`, and see the one or the other.
 */
import { isIP } from 'node:net'

/** A host, as browsers write it: in lower case, without brackets and the final dot. */
export interface Place {
  name: string
  /** Null: that of the scheme. */
  port: number | null
}

/** The place that a page came from. */
export interface Origin extends Place {
  scheme: 'http' | 'https'
  port: number
}

const ports = { http: 80, https: 443 } as const
const place = /^(?:\[([\da-f:.]+)\]|([\w.-]*))(?::(\d{0,5}))?$/i

/** Reads a value of `Host` or `X-Forwarded-Host`. Null: it names no host. The name is empty if the value is. */
export function parseHost(text: string): Place | null {
  const [found, address, name = '', port = ''] = place.exec(text.trim()) ?? []
  if (found === undefined) return null
  return { name: (address ?? name).toLowerCase().replace(/\.$/, ''), port: port === '' ? null : Number(port) }
}

/** Reads a value of `Origin`. Null: it is not an origin of the web. */
export function parseOrigin(text: string): Origin | null {
  const [, scheme = '', rest = ''] = /^(https?):\/\/(.+)$/i.exec(text) ?? []
  const found = rest === '' ? null : parseHost(rest)
  if (found === null || found.name === '') return null
  const known = scheme.toLowerCase() as Origin['scheme']
  return { ...found, scheme: known, port: found.port ?? ports[known] }
}

/** Whether a page of this origin is one of the server that was called by this host. Schemes are not compared. */
export function isOriginOf(origin: Origin, host: Place): boolean {
  return host.name === origin.name && (host.port ?? ports[origin.scheme]) === origin.port
}

/** Whether a name cannot be that of a page that was rebound: addresses are not looked up, and neither is `localhost`. */
export function isFixedName(name: string): boolean {
  return name === 'localhost' || isIP(name) !== 0
}
