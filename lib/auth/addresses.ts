import type { ClientAddress } from '../http/core/route.js'
import type { Actor } from '../model/audit.js'

/**
 * Returns the addresses of an actor: the witnessed one, and the claimed one if it differs. Both are null for the local
 * socket.
 */
export function addressesOf({ local, witnessed, address }: ClientAddress): Required<Pick<Actor, 'ip' | 'claimedIp'>> {
  if (local) return { ip: null, claimedIp: null }
  return { ip: witnessed, claimedIp: address === witnessed ? null : address }
}
