/* The key with which the hub signs for its nodes: the key of the server. */
import type { ServerKey } from '../../audit/server-key.js'
import type { Signer } from '../../audit/signed-note.js'
import { sessionText, type Asked, type SessionAnswer, type SignedHubKey } from '../../model/fleet-wire.js'
import type { Store } from '../../store/database.js'
import { readAuditTree } from '../../store/tables/audit.js'
import { listHubKeys } from '../../store/tables/cluster.js'

/** Signs for nodes. */
export type HubSigner = Pick<Signer, 'publicKey' | 'sign'>

/** The key of the hub. */
export type HubKey = ReturnType<typeof createHubKey>

/** Creates the access to the key of the hub. */
export function createHubKey({ store, key }: { store: Store; key: Pick<ServerKey, 'signers'> }) {
  /** Returns the keys after the first one, from which a node learns the current one. */
  function all(): SignedHubKey[] {
    return listHubKeys(store).map(({ publicKey, signature }) => ({ hubKey: publicKey, signature }))
  }

  /** Returns the current key. Refuses `server_key`. */
  async function current(): Promise<HubSigner> {
    const { signers } = await key.signers(readAuditTree(store).origin)
    return signers[0] as Signer
  }

  return {
    all,
    current,
    /** Returns the keys after another one. */
    after(publicKey: string): SignedHubKey[] {
      const keys = all()
      return keys.slice(keys.findIndex(({ hubKey }) => hubKey === publicKey) + 1)
    },
    /** Returns what a node gets that begins a session. */
    async greet(asked: Asked): Promise<SessionAnswer> {
      const { sign } = await current()
      return { session: asked.session, keys: all(), signature: sign(sessionText(asked)) }
    }
  }
}
