/*
 * The secrets of a hub. Every hub of a cluster has the same ones, so they are rows of the replicated database, which etcd
 * has sealed. A server without a cluster keeps the same secrets in files of its data directory.
 */
import { randomBytes } from 'node:crypto'
import { checkNewToken, createTokenVerifier, type AdminToken } from '../../auth/admin-token.js'
import { createServerKey, type KeyFile, type ServerKey } from '../../audit/server-key.js'
import { parseSessionKey, sessionKeyBytes, type SessionKey } from '../../auth/session-key.js'
import { Refusal } from '../../base/errors.js'
import { parseVariablesKey, type VariablesKey } from '../../projects/variables-key.js'
import type { Store } from '../../store/database.js'
import { findSecret, putSecret, type SecretName } from '../../store/tables/cluster.js'

/** The keys of a server. */
export interface ServerKeys {
  /** Signs checkpoints of the audit log, and orders for agents. */
  server: ServerKey
  session: SessionKey
  /** Encrypts the secrets of projects. */
  variables: VariablesKey
}

type ReplicatedState = Pick<Store, 'get' | 'all' | 'write' | 'version'>

const where = 'the state of the cluster'
const tables = ['clusterSecrets'] as const

/** Returns a reader of one secret, which reads it again only if one has changed. */
function watched<T>(store: ReplicatedState, name: SecretName, parse: (text: string) => T | null): () => T | null {
  let version: string | null = null
  let value: T | null = null
  return () => {
    const now = store.version(tables)
    if (now !== version) {
      const text = findSecret(store, name)
      value = text === null ? null : parse(text)
      version = now
    }
    return value
  }
}

/** Creates the access to the keys in the replicated database. */
export function createReplicatedKeys(store: ReplicatedState): ServerKeys {
  const session = watched(store, 'session.key', parseSessionKey)
  const variables = watched(store, 'variables.key', parseVariablesKey)
  const put = (name: SecretName, value: string): Promise<void> => store.write(tx => putSecret(tx, name, value))
  return {
    server: createServerKey({
      path: where,
      // The public part follows from the key.
      read: async name => (isSecret(name) ? findSecret(store, name) : null),
      write: async (name, text) => void (isSecret(name) && (await put(name, text)))
    }),
    session: {
      current: session,
      async ensure(onCreate) {
        const found = session()
        if (found !== null) return found
        const made = randomBytes(sessionKeyBytes)
        await onCreate()
        await put('session.key', made.toString('base64url'))
        return made
      }
    },
    variables: {
      path: where,
      async find() {
        const key = variables()
        return key === null ? { key, isMissing: true, why: 'there is none' } : { key }
      },
      async create() {
        const made = randomBytes(32)
        return store.write(tx => {
          const found = findSecret(tx, 'variables.key')
          if (found !== null) return parseVariablesKey(found) as Buffer
          putSecret(tx, 'variables.key', made.toString('hex'))
          return made
        })
      }
    }
  }
}

function isSecret(name: KeyFile): name is Exclude<KeyFile, 'server.pub'> {
  return name !== 'server.pub'
}

/** Creates the access to the admin token in the replicated database. There is no override: it would apply on one hub. */
export function createReplicatedToken(store: ReplicatedState): AdminToken {
  const read = watched(store, 'adminToken', text => text)
  function current(): string {
    const token = read()
    if (token !== null) return token
    throw new Refusal('unavailable', 'no_admin_token', `Cannot log in: ${where} contains no admin token`)
  }
  return {
    isNew: false,
    current,
    verify: createTokenVerifier(current),
    async change(newToken) {
      checkNewToken(newToken, 'newToken')
      await store.write(tx => putSecret(tx, 'adminToken', newToken))
    },
    override: async () => {}
  }
}
