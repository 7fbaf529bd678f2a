/*
 * The secrets of a hub. Every hub of a cluster has the same ones, so they are rows of the replicated database, which etcd
 * has sealed. A server without a cluster keeps the same secrets in files of its data directory.
 */

import { isIdOf } from '../base/digests.js'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type AdminToken, checkNewToken, createTokenVerifier } from '../access/admin-token.js'
import { parseSessionKey, type SessionKey, sessionKeyBytes } from '../access/session-key.js'
import { notFound, Refusal } from '../base/errors.js'
import { parseVariablesKey, type VariablesKey } from '../projects/seal.js'
import type { Store } from '../core/store/database.js'
import { findSecret, putSecret, type SecretName } from '../core/store/tables/fleet.js'
import { newClusterKey, parseClusterKey } from '../base/config/cluster-file.js'
import type { HubClient } from './forwarded.js'
import type { ClusterHub, UnfinishedTarget } from '../model/health.js'
import type { ListedHub } from './hub-list.js'
import type { ReplicatedStore } from './replicated-store.js'
import type { Auth, Caller } from '../access/bearer.js'
import { checked, integer, line, readFields } from '../base/fields.js'
import type { Home } from '../base/config/home.js'
import { json, jsonBody, type Method, type Reply, type Request, type Route } from '../http/core/route.js'
import { fileReply } from '../http/static/file.js'
import type { Archives } from './archives.js'
import { createServerKey, type KeyFile, type ServerKey } from '../core/audit/signed-note.js'

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

/*
 * `svc cluster rekey`, on the hub that leads. Each hub gets the new key in a request that the leader signs, over the connection on
 * which hubs pass the database to each other, and keeps it beside the old one. When all have it, the leader seals what is in etcd with
 * it (cluster/history.ts). If a hub does not take it, nothing has changed: what the hubs keep for nothing goes with the next key.
 */

export interface RekeyNeeds {
  store: Pick<ReplicatedStore, 'hubs' | 'expectKey' | 'rekey'>
  client: Pick<HubClient, 'json'>
  /** The name of this hub. */
  own: string
}

/** The time of one hub to keep the key. */
const keepMs = 15_000

/**
 * Gives the cluster a new key, which `hubs` get: those that the operator has seen. Refuses `hubs_changed`, `hub_without_key`, and
 * what the store refuses.
 */
export async function rekeyCluster({ store, client, own }: RekeyNeeds, hubs: readonly ClusterHub[]): Promise<void> {
  const listed = await store.hubs()
  const isSeen = ({ name, url }: ListedHub): boolean => hubs.some(seen => seen.name === name && seen.url === url)
  if (listed.length !== hubs.length || !listed.every(isSeen)) {
    throw new Refusal(
      'conflict',
      'hubs_changed',
      'The hubs of the cluster have changed meanwhile. Run the command again'
    )
  }
  const key = newClusterKey()
  await store.expectKey(key)
  for (const hub of listed) {
    if (hub.name !== own) await give(client, hub, key)
  }
  await store.rekey(key, listed)
}

async function give(client: Pick<HubClient, 'json'>, hub: ListedHub, key: Buffer): Promise<void> {
  const body = { key: key.toString('hex') }
  const signal = AbortSignal.timeout(keepMs)
  await client.json(hub, { method: 'POST', target: '/api/hub/key', body, signal }).catch((error: unknown) => {
    const why = signal.aborted ? `it did not answer in ${keepMs / 1000} s` : (error as Error).message
    const sentence = `The key was not replaced: the hub "${hub.name}" did not take the new one: ${why}. Start it with this version of svc, or remove it: svc cluster forget ${hub.name}`
    throw new Refusal('conflict', 'hub_without_key', sentence, { cause: error })
  })
}

/*
 * What the hubs of a cluster ask each other. These routes are not part of the API: they accept only requests that a hub of
 * the cluster has signed, and exist for nobody else.
 *
 *   GET  /api/hub/image               the database as a SQLite file
 *   GET  /api/hub/archives/:deployId  an archive, with Range
 *   POST /api/hub/archives            asks this hub to fetch an archive; answers when it is on the disk
 *   GET  /api/hub/outputs/:deployId   the output of a finished deployment
 *   POST /api/hub/key                 the key that the cluster gets; only the leader sends it
 *   POST /api/hub/enrollments         a one-time token for the node of the hub that asks; the leader answers
 *   POST /api/hub/unfinished/:deployId  asks this hub to give up an unfinished target; only the leader sends it
 */

export interface HubRouteNeeds {
  store: Pick<ReplicatedStore, 'image' | 'expectKey' | 'role'>
  home: Pick<Home, 'deployments'>
  archives: Pick<Archives, 'fetch'>
  /** Returns a one-time token for the node of a hub. Refuses `not_leader`. */
  enroll(hub: string): Promise<string>
  /** As in `Unfinished`. */
  giveUpHere(deployId: string): UnfinishedTarget
}

const archiveFields = {
  deployId: line({ min: 1, max: 100 }),
  sha256: line({ min: 64, max: 64 }),
  bytes: integer(1, Number.MAX_SAFE_INTEGER)
}
const keyFields = {
  key: checked(line({ min: 64, max: 64 }), text => (parseClusterKey(text) === null ? 'is not a key' : null))
}
const zipType = { 'content-type': 'application/zip' }
const outputType = { 'content-type': 'text/plain; charset=utf-8' }

export function createHubRoutes({
  store,
  home,
  archives,
  enroll,
  giveUpHere
}: HubRouteNeeds): Array<Route<Auth, Caller>> {
  const fileOf = (request: Request, ending: string): string => {
    const { deployId = '' } = request.params
    if (!isIdOf('dep_', deployId)) throw unknown(request)
    return join(home.deployments, `${deployId}${ending}`)
  }
  const requireLeader = (request: Request): void => {
    if (request.client.hub?.name !== store.role().leader?.name) throw unknown(request)
  }
  return [
    ofHub('GET', '/api/hub/image', async () => {
      const image = await store.image()
      return {
        kind: 'stream',
        status: 200,
        headers: { 'content-type': 'application/vnd.sqlite3', 'content-length': String(image.bytes) },
        async run(sink) {
          try {
            for (const piece of image.pieces) await sink.write(piece)
          } finally {
            image.release()
          }
        }
      }
    }),
    ofHub('GET', '/api/hub/archives/:deployId', async request =>
      fileReply({ file: fileOf(request, '.zip'), headers: zipType })
    ),
    ofHub('GET', '/api/hub/outputs/:deployId', async request =>
      fileReply({ file: fileOf(request, '.log'), headers: outputType })
    ),
    ofHub('POST', '/api/hub/archives', async request => {
      const facts = readFields(await request.json(), archiveFields)
      if (!isIdOf('dep_', facts.deployId)) throw unknown(request)
      await archives.fetch(facts, request.client.hub?.name ?? '', request.signal)
      return json({ success: true })
    }),
    ofHub('POST', '/api/hub/key', async request => {
      requireLeader(request)
      const { key } = readFields(await request.json(), keyFields)
      await store.expectKey(parseClusterKey(key) as Buffer)
      return json({ success: true })
    }),
    ofHub('POST', '/api/hub/enrollments', async ({ client }) => {
      return json({ success: true, token: await enroll(client.hub?.name ?? '') })
    }),
    ofHub('POST', '/api/hub/unfinished/:deployId', async request => {
      requireLeader(request)
      return json(giveUpHere(request.params['deployId'] ?? ''))
    })
  ]
}

/** Returns a route that only hubs of the cluster can call. */
function ofHub(
  method: Method,
  path: string,
  handle: (request: Request<Caller>) => Promise<Reply>
): Route<Auth, Caller> {
  return {
    method,
    path,
    auth: 'public',
    body: jsonBody,
    answeredBy: 'receiver',
    async handle(request) {
      if (!request.client.hub?.isOwn) throw unknown(request)
      return handle(request)
    }
  }
}

function unknown({ path }: Request): Refusal {
  return notFound('Path', path)
}
