/*
 * Which names in `Host` (RFC 9110 §7.2) a server answers to.
 *
 * A page whose name its owner suddenly points at 127.0.0.1, or at an address of the victim's network ("DNS rebinding"),
 * is same-origin with svc for the browser, and may send it anything. It cannot choose what the browser writes into Host:
 * the page's own name. An address in its place was never looked up, so it is always good, and so is `localhost`.
 */
import { isIP } from 'node:net'
import { Refusal } from '../base/refusal.js'
import type { Request } from './route.js'

/**
 * Refuses a request for another name than `allowed` (lower case): 421 `misdirected_host`. An empty list allows every
 * name. Of a trusted proxy the names in X-Forwarded-Host must be allowed too.
 */
export function checkHost({ headers, client }: Pick<Request, 'headers' | 'client'>, allowed: readonly string[]): void {
  if (allowed.length === 0 || client.local) return
  const forwarded = client.viaProxy ? [headers['x-forwarded-host'] ?? []].flat().flatMap(names => names.split(',')) : []
  const wrong = [headers.host ?? '', ...forwarded].map(hostName).find(name => !isAllowed(name, allowed))
  if (wrong === undefined) return
  const sentence = `This server does not answer to the name "${wrong.slice(0, 255)}": add it to the setting allowed_hosts, or use the address of SVC_PUBLIC_URL`
  throw new Refusal('misdirected', 'misdirected_host', sentence)
}

/** Whether a server that answers to these names answers to this value of Host. */
export function isAllowedHost(host: string | undefined, allowed: readonly string[]): boolean {
  return allowed.length === 0 || isAllowed(hostName(host ?? ''), allowed)
}

function isAllowed(name: string, allowed: readonly string[]): boolean {
  return name === '' || name === 'localhost' || isIP(name) !== 0 || allowed.includes(name)
}

/** Without port, brackets and the dot of the root, in lower case. */
function hostName(host: string): string {
  const found = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host.trim())
  return (found?.[1] ?? found?.[2] ?? host).toLowerCase().replace(/\.$/, '')
}
