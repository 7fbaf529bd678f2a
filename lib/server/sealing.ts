import type { Sealing } from '../auth/second-factor.js'
import { seal, unseal } from '../projects/seal.js'
import { unusableKey } from '../projects/variables-key.js'
import type { VariablesKey } from '../projects/variables-key.js'
import type { Reader } from '../store/database.js'
import { listSecrets } from '../store/tables/variables.js'

/**
 * Encrypts secrets with the key of the variables, which backups contain. `name` says what they are: the second factor of
 * a token, or what a client sent for a rollout.
 */
export function createSealing(store: Reader, key: VariablesKey, name: 'second factor' | 'rollout'): Sealing {
  const placeOf = (id: string) => ({ projectId: id, name })
  return {
    async seal(id, secret) {
      const found = await key.find()
      if (found.key !== null) return seal(found.key, placeOf(id), secret)
      // A new key would hide that the secrets which the lost one encrypted are lost.
      const others = listSecrets(store).some(({ value }) => value !== '')
      if (!found.isMissing || others) throw unusableKey(key.path, found.why)
      return seal(await key.create(), placeOf(id), secret)
    },
    async unseal(id, sealed) {
      const found = await key.find()
      if (found.key === null) throw unusableKey(key.path, found.why)
      const secret = unseal(found.key, placeOf(id), sealed)
      if (secret === null) throw unusableKey(key.path, `it is not the key that encrypted this ${name}`)
      return secret
    }
  }
}
