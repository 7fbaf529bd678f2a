import type { IncomingHttpHeaders } from 'node:http'
import { clientAddress, parseCidr, type Cidr } from './client-address.js'
import type { ClientAddress } from './route.js'

/** Maximum number of peer addresses that are kept. Normally there are few (one, behind a proxy). */
const maxKnownPeers = 1000

/**
 * Creates `clientAddress` for a list of trusted proxies that may change at any time. For requests without proxy headers
 * the result is cached by peer.
 */
export function createPeers(
  read: () => readonly string[]
): (remote: string, headers: IncomingHttpHeaders) => ClientAddress {
  let seen: readonly string[] | undefined
  let trusted: readonly Cidr[] = []
  const direct = new Map<string, ClientAddress>()
  return (remote, headers) => {
    const now = read()
    if (now !== seen || direct.size > maxKnownPeers) {
      seen = now
      trusted = now.flatMap(text => parseCidr(text) ?? [])
      direct.clear()
    }
    const isDirect = headers['x-forwarded-for'] === undefined && headers['x-real-ip'] === undefined
    const known = isDirect ? direct.get(remote) : undefined
    if (known !== undefined) return known
    const found = clientAddress({ remote, headers, trusted })
    if (isDirect) direct.set(remote, Object.freeze(found))
    return found
  }
}
