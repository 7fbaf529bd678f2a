import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { type Clock, systemClock } from '../../lib/base/clock.js'
import {
  createHubReader,
  forwardKeyOf,
  type HubReader,
  type HubSigner,
  type Peer
} from '../../lib/cluster/forwarded.js'
import type { HubAddress, OwnHub } from '../../lib/cluster/hub-list.js'

/*
 * Keys of hubs in a test. A hub of a name has the same key in all of a process.
 */

const keys = new Map<string, { key: KeyObject; publicKey: string }>()
const derHeaderBytes = 12
export const legacyKey = forwardKeyOf(Buffer.alloc(32, 7))

function keyOf(name: string): { key: KeyObject; publicKey: string } {
  const known = keys.get(name)
  if (known !== undefined) return known
  const { privateKey: key, publicKey } = generateKeyPairSync('ed25519')
  const der = publicKey.export({ type: 'spki', format: 'der' })
  const made = { key, publicKey: der.subarray(derHeaderBytes).toString('base64') }
  keys.set(name, made)
  return made
}

/** A hub as it enters the list of its cluster. */
export function ownHub({ name, url }: HubAddress): OwnHub {
  return { name, url, publicKey: keyOf(name).publicKey, boot: `boot of ${name}` }
}

/** Another hub, as this one knows it. */
export function peer(name: string, url = `http://${name}.test`): Peer {
  return ownHub({ name, url })
}

/** Signs as the hub of this name. */
export function signerOf(hub: string, clock: Clock = systemClock): HubSigner {
  return { hub, key: keyOf(hub).key, legacyKey, clock }
}

/** Reads as the hub of this name, which knows the hubs `known`. */
export function readerOf(name: string, known: readonly string[], clock: Clock = systemClock): HubReader {
  const peers = { find: (hub: string) => (known.includes(hub) ? peer(hub) : null), isFresh: () => true }
  return createHubReader({ boot: `boot of ${name}`, peers, legacyKey, clock })
}
