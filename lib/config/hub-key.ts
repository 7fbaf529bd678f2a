import { join } from 'node:path'
import { Refusal } from '../base/errors.js'
import { openSigningKey, type SigningKey } from '../base/signing-key.js'

/** The file with the private key of a hub, below its data directory. The public half is in etcd (store/log/hub-list.ts). */
export const hubKeyName = 'hub.ed25519'

/** Returns the key of the hub of a data directory. The first call creates it. Refuses `hub_key`. */
export function openHubKey(directory: string): Promise<SigningKey> {
  const path = join(directory, 'keys', hubKeyName)
  return openSigningKey(path, (why, cause) => {
    const sentence = `Cannot use the key of this hub "${path}": ${why}. Restore it from a backup, or let the hub join again with an empty data directory`
    return new Refusal('unavailable', 'hub_key', sentence, { cause })
  })
}
