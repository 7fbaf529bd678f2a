import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import type { EtcdOptions } from './etcd/connection.js'
import type { HubAddress, OwnHub } from './hub-list.js'
import type { ReplicatedStore, ReplicatedStoreOptions } from './replicated-store.js'
import type { Clock } from '../base/clock.js'
import { openHubKey, writeClusterKeys } from '../base/config/cluster-file.js'
import { forwardKeyOf, type HubSigner } from './forwarded.js'
import { reasonOf } from '../base/errors.js'
import { expiryOfPem, type ExpiryWarnings } from '../http/tls/expiry.js'

/** The cluster of a hub: where its log is, and what only its hubs know. */
export interface ClusterOptions {
  /** The name of the cluster: part of every key in etcd. */
  name: string
  etcd: EtcdOptions
  /** This hub, and the URL at which the other hubs reach it. */
  hub: HubAddress
  /** 32 bytes: seals what etcd contains. */
  key: Buffer
  /** Keys that the cluster may have got meanwhile. */
  nextKeys?: readonly Buffer[]
  /** Certificates of the authorities that the other hubs are checked with, as PEM; undefined: those of the system. */
  hubCa?: string | undefined
  /** Path of that file; null: none. */
  hubCaFile?: string | null
  /** Whether hubs may talk to each other unencrypted over the network. */
  allowsHttp: boolean
  /** Reads the files of these options again. */
  reread?: () => Promise<ClusterSecrets>
  openStore: (options: ReplicatedStoreOptions) => Promise<ReplicatedStore>
  /** Whether this hub deploys to its own machine, too: it starts an agent in `node/` of the data directory. */
  hasNode: boolean
  /** Whether an earlier `svc cluster leave` did not finish: the hub enters the list of hubs again. */
  isLeaving?: boolean | undefined
}

/** Who this hub is for the others: what it publishes, and what it signs with. */
export interface HubIdentity {
  hub: OwnHub
  signer: HubSigner
}

/** Returns the options of the store that concern the key of the cluster: it is kept in cluster.key. */
export function clusterKeysFor(
  directory: string,
  { key, nextKeys }: Pick<ClusterOptions, 'key' | 'nextKeys'>
): Pick<ReplicatedStoreOptions, 'clusterKey' | 'nextKeys' | 'keepKeys'> {
  return { clusterKey: key, nextKeys, keepKeys: keys => writeClusterKeys(directory, keys) }
}

const bootBytes = 12

/** Opens the key of the hub of a data directory; the first call creates it. Each call is a start of its own. */
export async function openHubIdentity(
  directory: string,
  { hub, key: clusterKey }: Pick<ClusterOptions, 'hub' | 'key'>,
  clock: Clock
): Promise<HubIdentity> {
  const { key, publicKey } = await openHubKey(directory)
  return {
    hub: { name: hub.name, url: hub.url, publicKey, boot: randomBytes(bootBytes).toString('base64url') },
    signer: { hub: hub.name, key, legacyKey: forwardKeyOf(clusterKey), clock }
  }
}

/*
 * The files that a hub needs to reach etcd and the other hubs: certificates, authorities, and the password of etcd. They are replaced
 * while the hub runs, by certbot or by a person, so they are read again every few seconds and at SIGHUP. What cannot be used, or is
 * only half replaced, leaves the previous files in use.
 */

/** What the files contain. */
export interface ClusterSecrets {
  etcd: EtcdOptions
  /** Certificates of the authorities that the other hubs are checked with, as PEM. */
  hubCa?: string | undefined
}

export interface RenewingNeeds {
  secrets: ClusterSecrets
  /** Reads the files again. */
  reread(): Promise<ClusterSecrets>
  /** Called with what has changed. */
  use(secrets: ClusterSecrets): void
  report: { info(line: string): void; warn(line: string): void }
  expiry: Pick<ExpiryWarnings, 'look'>
  everyMs?: number
}

const defaultEveryMs = 10_000

type Part = [name: string, of: (secrets: ClusterSecrets) => string | undefined]
const parts: Part[] = [
  ['The authority of etcd', ({ etcd }) => etcd.ca],
  ['The certificate for etcd', ({ etcd }) => etcd.cert],
  ['The key for etcd', ({ etcd }) => etcd.key],
  ['The password of etcd', ({ etcd }) => etcd.password],
  ['The authority of the hubs', ({ hubCa }) => hubCa]
]

/** Starts to look. Warns at once of certificates that expire soon. */
export function startRenewing(needs: RenewingNeeds) {
  const { reread, use, report, expiry, everyMs = defaultEveryMs } = needs
  let { secrets } = needs
  let broken = ''
  let isTold = false

  async function look(): Promise<string | null> {
    const next = await reread()
    const changed = parts.filter(([, of]) => of(next) !== of(secrets)).map(([name]) => `t${name.slice(1)}`)
    if (changed.length > 0) {
      check(next)
      secrets = next
      use(next)
    }
    broken = ''
    isTold = false
    warnOfExpiry()
    return changed.length === 0 ? null : changed.join(', ')
  }

  function warnOfExpiry(): void {
    for (const [name, of] of parts.filter(([name]) => !/key|password/.test(name))) {
      expiry.look({
        name,
        expiresAtMs: expiryOfPem(of(secrets)),
        cure: 'Renew it: the hub reads the file again'
      })
    }
  }

  async function lookQuietly(): Promise<void> {
    try {
      const changed = await look()
      if (changed !== null) report.info(`Read again: ${changed}`)
    } catch (error) {
      // The files do not change at the same moment, so only what is still broken at the next look is reported.
      const why = reasonOf(error)
      if (why === broken && !isTold) {
        isTold = true
        report.warn(`The files for etcd and the hubs cannot be read again, the previous ones stay in use: ${why}`)
      } else if (why !== broken) isTold = false
      broken = why
    }
  }

  warnOfExpiry()
  const timer = setInterval(() => void lookQuietly(), everyMs).unref()
  return {
    /** Looks now, for `createReload`. */
    reload: look,
    stop: (): void => clearInterval(timer)
  }
}

/** Throws if a file contains no certificate, or the key is another one's. */
function check({ etcd: { ca, cert, key }, hubCa }: ClusterSecrets): void {
  for (const pem of [ca, cert, hubCa]) if (pem !== undefined) void new X509Certificate(pem)
  if (cert === undefined || key === undefined) return
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
    throw new Error('the key for etcd is not that of the certificate')
}
