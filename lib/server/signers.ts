/* What the owner of the machine says about signatures, by an option of the start or by the environment. */
import type { Environment } from '../base/config/home.js'

/** Returns whether every release must be signed by a key in `keys/allowed_signers` of the data directory. */
export function requiresSignatures({
  requireSignatures = false,
  environment
}: {
  requireSignatures?: boolean | undefined
  environment: Environment
}): boolean {
  return requireSignatures || environment['SVC_REQUIRE_SIGNATURES'] === '1'
}

/** Returns whether the clock of the machine is right, although the server has recorded later times. */
export const trustsClock = (environment: Environment): boolean => environment['SVC_TRUST_CLOCK'] === '1'
