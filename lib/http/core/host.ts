/*
 * Checks the name in `Host` (RFC 9110 §7.2).
 *
 * The owner of a page can let its name resolve to 127.0.0.1, or to an address of the victim's network ("DNS
 * rebinding"). Then the browser treats the page as same-origin with svc and lets it send anything. But the page cannot
 * choose what the browser writes into Host: the page's own name. An IP address was never looked up, so it is always
 * allowed, and so is `localhost`.
 */
import { Refusal } from '../../base/refusal.js'
import { isFixedName, parseHost } from './origin.js'
import type { Request } from './route.js'

/**
 * Refuses a request for a name that is not in `allowed` (lower case): 421 `misdirected_host`. An empty list allows
 * every name. If the request came through a trusted proxy, the names in X-Forwarded-Host must be allowed too.
 */
export function checkHost({ headers, client }: Pick<Request, 'headers' | 'client'>, allowed: readonly string[]): void {
  if (allowed.length === 0 || client.local || client.hub?.isOwn) return
  const forwarded = client.viaProxy ? [headers['x-forwarded-host'] ?? []].flat().flatMap(names => names.split(',')) : []
  const wrong = [headers.host ?? '', ...forwarded].find(host => !isAllowed(host, allowed))
  if (wrong === undefined) return
  const sentence =
    `Host name not allowed: "${wrong.trim().slice(0, 255)}". ` +
    'Add it to the setting allowed_hosts, or use the address of SVC_PUBLIC_URL'
  throw new Refusal('misdirected', 'misdirected_host', sentence)
}

/** Whether a server with these allowed names accepts this value of Host. */
export function isAllowedHost(host: string | undefined, allowed: readonly string[]): boolean {
  return allowed.length === 0 || isAllowed(host ?? '', allowed)
}

function isAllowed(host: string, allowed: readonly string[]): boolean {
  const name = parseHost(host)?.name
  return name !== undefined && (name === '' || isFixedName(name) || allowed.includes(name))
}
