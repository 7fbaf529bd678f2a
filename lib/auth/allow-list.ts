import { Refusal } from '../base/refusal.js'
import { matchesCidr, parseCidr } from '../http/client-address.js'

/** Who may deploy, roll back and open a terminal (setting `allowed_ips`). */
export interface AllowList {
  /** Refuses: 403 `address_not_allowed`. */
  check(address: string): void
}

/** `allowed` gives the addresses and CIDR blocks as they stand now; none: everybody may. */
export function createAllowList({ allowed }: { allowed(): readonly string[] }): AllowList {
  return {
    check(address) {
      if (isAllowed(allowed(), address)) return
      const sentence = `"${address}" may not do this: it is not among the addresses of the setting allowed_ips`
      throw new Refusal('forbidden', 'address_not_allowed', sentence)
    }
  }
}

/** Refuses (400 naming `allowed_ips`) a list that would shut out the one who sets it. */
export function checkKeepsIn(allowed: readonly string[], address: string): void {
  if (isAllowed(allowed, address)) return
  const sentence = `"allowed_ips" cannot be set: it would shut out your own address "${address}"`
  throw new Refusal('invalid', 'shuts_out_yourself', sentence, { field: 'allowed_ips' })
}

function isAllowed(allowed: readonly string[], address: string): boolean {
  if (allowed.length === 0) return true
  return matchesCidr(address, allowed.flatMap(item => parseCidr(item) ?? []))
}
