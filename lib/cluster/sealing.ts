/*
 * Seals what a cluster keeps in etcd with AES-256-GCM, so that a reader of etcd or of its snapshots sees no token
 * and no setting, and nobody without the key can write a value that a hub accepts.
 *
 *   sealed  = nonce (12 bytes)  ciphertext  tag (16 bytes)
 *
 * The associated data is the key in etcd and the id of the log, so a value that was moved to another key, or that comes
 * from another log, is refused. Nonces are random. NIST SP 800-38D §8.3 allows 2^32 of them for one key; each block of a
 * million numbers has a key of its own (HKDF, RFC 5869), so no key comes near that.
 *
 * A cluster gets a new key in one transaction of etcd (history.ts). Before that, each hub is given the key that comes. A history or
 * a leader that it opens proves that the transaction was carried out: from then on the earlier key opens nothing. The reader of the
 * log says when (etcd-log.ts), because it reads the lines before it, too.
 */

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { Refusal } from '../base/errors.js'

/** Seals and opens the values of one cluster. */
export interface Sealing {
  /** Seals a value for a key of etcd. `number` is the one in the key; 0: there is none. */
  seal(plain: Uint8Array, place: SealedPlace): Buffer
  /** Opens a value. Refuses `cluster_sealed` if it was sealed with another key, or for another place. */
  open(sealed: Uint8Array, place: SealedPlace): Buffer
  /** The key in use, and those that may follow it. */
  readonly keys: readonly Buffer[]
  /** Adds a key that may follow. It opens values from now on. */
  expect(key: Buffer): void
  /** Uses the key that opens this value from now on, and forgets all others. Refuses like `open`. */
  adopt(sealed: Uint8Array, place: SealedPlace): void
  /** Uses a key from now on, and forgets all others. */
  use(key: Buffer): void
}

/** Where a value is. */
export interface SealedPlace {
  /** The key in etcd. */
  key: string
  /** The id of the log; empty for the value that names it. */
  history: string
  number?: number
}

const algorithm = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
/** Length of the tag at the end of a sealed value. */
export const tagBytes = 16
const block = 2 ** 20
/** Keys of blocks that are cached: the present one and the last one, and the one for other values. */
const maxKeys = 8
/** Keys that may follow: one, and those of attempts that did not finish. */
const maxComing = 4

export interface SealingOptions {
  /** Keys that may follow the one in use (`expect`). */
  next?: readonly Buffer[] | undefined
  /** Called after another key came into use. */
  onUse?: () => void
}

/** Creates the sealing of a cluster with this key. Throws if it does not have 32 bytes. */
export function createSealing(clusterKey: Buffer, { next = [], onUse = () => {} }: SealingOptions = {}): Sealing {
  let [present, ...coming] = [clusterKey, ...next].map(withKey) as [WithKey, ...WithKey[]]

  function use(one: WithKey): void {
    present = one
    coming = []
    onUse()
  }

  function find(sealed: Uint8Array, place: SealedPlace): { one: WithKey; plain: Buffer } {
    for (const one of [present, ...coming]) {
      const plain = one.open(sealed, place)
      if (plain !== null) return { one, plain }
    }
    throw new Refusal(
      'unavailable',
      'cluster_sealed',
      `Cannot open the value of "${place.key}" in etcd: it was sealed with another cluster key, or changed. Use the "cluster.key" of this cluster`
    )
  }

  return {
    get keys() {
      return [present, ...coming].map(({ key }) => key)
    },
    expect(key) {
      if (![present, ...coming].some(one => one.key.equals(key))) coming = [...coming, withKey(key)].slice(-maxComing)
    },
    adopt(sealed, place) {
      const { one } = find(sealed, place)
      if (one !== present) use(one)
    },
    use: key => use(withKey(key)),
    seal: (plain, place) => present.seal(plain, place),
    open: (sealed, place) => find(sealed, place).plain
  }
}

type WithKey = ReturnType<typeof withKey>

function withKey(clusterKey: Buffer) {
  if (clusterKey.length !== keyBytes) throw new Error(`A cluster key has ${keyBytes} bytes, not ${clusterKey.length}`)
  const keys = new Map<number, Buffer>()

  function keyOf(number: number): Buffer {
    const at = Math.floor(number / block)
    let key = keys.get(at)
    if (key === undefined) {
      if (keys.size >= maxKeys) keys.clear()
      key = Buffer.from(hkdfSync('sha256', clusterKey, new Uint8Array(), `svc log ${at}`, keyBytes))
      keys.set(at, key)
    }
    return key
  }

  return {
    key: clusterKey,
    seal(plain: Uint8Array, { key, history, number = 0 }: SealedPlace): Buffer {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, keyOf(number), nonce)
      cipher.setAAD(Buffer.from(`${history} ${key}`))
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
    },

    /** Returns null if the value was sealed with another key, or for another place. */
    open(sealed: Uint8Array, { key, history, number = 0 }: SealedPlace): Buffer | null {
      try {
        const nonce = sealed.subarray(0, nonceBytes)
        const decipher = createDecipheriv(algorithm, keyOf(number), nonce, { authTagLength: tagBytes })
        decipher.setAAD(Buffer.from(`${history} ${key}`))
        decipher.setAuthTag(sealed.subarray(-tagBytes))
        return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, -tagBytes)), decipher.final()])
      } catch {
        return null
      }
    }
  }
}

/*
 * The keys of a cluster in etcd:
 *
 *   /svc/<cluster>/history         the id of the log, and the number after which it begins
 *   /svc/<cluster>/hubs/<name>     what a hub last said of itself: its address, and how far it is
 *   /svc/<cluster>/leader          the hub that leads, with its lease
 *   /svc/<cluster>/log/<number>    a line of the log, by the number of its first transaction
 *   /svc/<cluster>/part/<number>/<part>   a part of a line that is too long for one value
 *
 * One watch from `leader` to below `part` reports all that a follower needs.
 */

export interface ClusterKeys {
  history: string
  leader: string
  /** The beginning of the keys of hubs. */
  hubs: string
  /** The beginning of the keys of lines. */
  log: string
  part: string
  hub(name: string): string
  line(first: number): string
  partOf(first: number, part: number): string
  /** Returns the number in the key of a line. */
  numberOf(key: string): number
}

const digits = 16
const partDigits = 6

export function keysOf(cluster: string): ClusterKeys {
  const top = `/svc/${cluster}/`
  const padded = (number: number) => String(number).padStart(digits, '0')
  return {
    history: `${top}history`,
    leader: `${top}leader`,
    hubs: `${top}hubs/`,
    log: `${top}log/`,
    part: `${top}part/`,
    hub: name => `${top}hubs/${name}`,
    line: first => `${top}log/${padded(first)}`,
    partOf: (first, part) => `${top}part/${padded(first)}/${String(part).padStart(partDigits, '0')}`,
    numberOf: key => Number(key.slice(top.length + 'log/'.length))
  }
}
