import { Refusal } from '../base/errors.js'
import { matchesCidr, parseCidr } from '../http/core/headers.js'

/** Addresses that are allowed to deploy, roll back and open a terminal (setting `allowed_ips`). */
export interface AllowList {
  /** Refuses: 403 `address_not_allowed`. */
  check(address: string): void
}

/** Creates the list. `allowed` returns the current addresses and CIDR blocks. An empty list allows every address. */
export function createAllowList({ allowed }: { allowed(): readonly string[] }): AllowList {
  return {
    check(address) {
      if (isAllowed(allowed(), address)) return
      const sentence = `Permission denied: the address "${address}" is not in the setting allowed_ips`
      throw new Refusal('forbidden', 'address_not_allowed', sentence)
    }
  }
}

/** Refuses (400 naming `allowed_ips`) a list that does not contain the address of the client that sets it. */
export function checkKeepsIn(allowed: readonly string[], address: string): void {
  if (isAllowed(allowed, address)) return
  const sentence = `"allowed_ips" cannot be set: it would lock out your own address "${address}"`
  throw new Refusal('invalid', 'shuts_out_yourself', sentence, { field: 'allowed_ips' })
}

function isAllowed(allowed: readonly string[], address: string): boolean {
  if (allowed.length === 0) return true
  return matchesCidr(
    address,
    allowed.flatMap(item => parseCidr(item) ?? [])
  )
}
