import type { Sealing } from '../auth/second-factor.js'
import { seal, unseal } from '../projects/seal.js'
import { unusableKey } from '../projects/variables-key.js'
import type { VariablesKey } from '../projects/variables-key.js'
import type { Reader } from '../store/database.js'
import { listSecrets } from '../store/tables/variables.js'

/** Encrypts the secrets of second factors with the key of the variables, which backups contain. */
export function createFactorSealing(store: Reader, key: VariablesKey): Sealing {
  const placeOf = (tokenId: string) => ({ projectId: tokenId, name: 'second factor' })
  return {
    async seal(tokenId, secret) {
      const found = await key.find()
      if (found.key !== null) return seal(found.key, placeOf(tokenId), secret)
      // A new key would hide that the secrets which the lost one encrypted are lost.
      const others = listSecrets(store).some(({ value }) => value !== '')
      if (!found.isMissing || others) throw unusableKey(key.path, found.why)
      return seal(await key.create(), placeOf(tokenId), secret)
    },
    async unseal(tokenId, sealed) {
      const found = await key.find()
      if (found.key === null) throw unusableKey(key.path, found.why)
      const secret = unseal(found.key, placeOf(tokenId), sealed)
      if (secret === null) throw unusableKey(key.path, 'it is not the key that encrypted this second factor')
      return secret
    }
  }
}
