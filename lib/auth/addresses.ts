import type { ClientAddress } from '../http/route.js'
import type { Actor } from '../model/audit.js'

/** The addresses of an actor: the witnessed one, and the claimed one if it differs. The local socket has no address. */
export function addressesOf({ local, witnessed, address }: ClientAddress): Required<Pick<Actor, 'ip' | 'claimedIp'>> {
  if (local) return { ip: null, claimedIp: null }
  return { ip: witnessed, claimedIp: address === witnessed ? null : address }
}
