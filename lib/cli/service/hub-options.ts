import type { Options, OptionTable } from '../option-table.js'

/** The options of `serve` for a hub. */
export const hubOptions = {
  store: {
    type: 'text',
    value: 'etcd:url,…',
    help: 'be a hub of a cluster: addresses of the three members of etcd, or of its only one (docs/fleet.md)'
  },
  'hub-name': { type: 'text', value: 'name', help: 'name of this hub; default: as in cluster.json' },
  'hub-url': { type: 'text', value: 'url', help: 'address at which the other hubs reach this one' },
  'hub-ca': {
    type: 'text',
    value: 'file',
    help: 'certificates to trust for other hubs, in PEM, instead of the usual ones'
  },
  'allow-http': {
    type: 'switch',
    help: 'let hubs of other machines be reached at http: addresses, on a private network; https is safer'
  },
  'etcd-ca': { type: 'text', value: 'file', help: 'certificate of the authority of etcd, in PEM' },
  'etcd-cert': { type: 'text', value: 'file', help: 'certificate of this hub for etcd, if etcd requires one' },
  'etcd-key': { type: 'text', value: 'file', help: 'private key of that certificate' },
  'etcd-user': { type: 'text', value: 'name', help: 'user of etcd; also SVC_ETCD_USER' },
  'etcd-password-file': {
    type: 'text',
    value: 'file',
    help: 'file with the password of that user; also SVC_ETCD_PASSWORD'
  }
} as const satisfies OptionTable

/** The values of `hubOptions`. */
export type HubWords = Options<typeof hubOptions>
