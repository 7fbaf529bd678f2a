import type { Sealing } from '../auth/second-factor.js'
import { seal, unseal } from '../projects/seal.js'
import { curesOfLostKey, needsStoredKey, ownPlace } from '../projects/sealed-places.js'
import { unusableKey, type VariablesKey } from '../projects/variables-key.js'
import type { Reader } from '../store/database.js'

/**
 * Encrypts secrets with the key of the variables, which backups contain. `name` says what they are: the second factor of
 * a token, or what a client sent for a rollout.
 */
export function createSealing(store: Reader, key: VariablesKey, name: 'second factor' | 'rollout'): Sealing {
  const unusable = (why: string) => unusableKey(key.path, why, curesOfLostKey(store))
  return {
    async seal(id, secret) {
      const found = await key.find()
      if (found.key !== null) return seal(found.key, ownPlace(id, name), secret)
      if (!found.isMissing || needsStoredKey(store)) throw unusable(found.why)
      return seal(await key.create(), ownPlace(id, name), secret)
    },
    async unseal(id, sealed) {
      const found = await key.find()
      if (found.key === null) throw unusable(found.why)
      const secret = unseal(found.key, ownPlace(id, name), sealed)
      if (secret === null) throw unusable(`it is not the key that encrypted this ${name}`)
      return secret
    }
  }
}
