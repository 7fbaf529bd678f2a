/* The key with which the hub signs for its nodes: the key of the server. */
import type { ServerKey } from '../../audit/server-key.js'
import type { Signer } from '../../audit/signed-note.js'
import type { DesiredLine } from '../../model/fleet-wire.js'
import type { Store } from '../../store/database.js'
import { readAuditTree } from '../../store/tables/audit-tree.js'
import { listHubKeys } from '../../store/tables/hub-keys.js'

/** The key of the hub. */
export interface HubKey {
  /** Returns the current key. Refuses `server_key`. */
  current(): Promise<Pick<Signer, 'publicKey' | 'sign'>>
  /** Returns the lines from which a node learns the keys after the first one. */
  lines(): DesiredLine[]
}

/** Creates the access to the key of the hub. */
export function createHubKey({ store, key }: { store: Store; key: Pick<ServerKey, 'signers'> }): HubKey {
  return {
    async current() {
      const { signers } = await key.signers(readAuditTree(store).origin)
      return signers[0] as Signer
    },
    lines: () => listHubKeys(store).map(({ publicKey, signature }) => ({ type: 'key', hubKey: publicKey, signature }))
  }
}
