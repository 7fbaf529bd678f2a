/* Starts a server as a hub of a cluster: as `serve` does, with the replicated store and services that follow its role. */

import { rmdir } from 'node:fs/promises'
import { readClusterFile, writeClusterFile } from '../base/config/cluster-file.js'
import { callAll } from '../base/async.js'
import { ensureHome, noSpaceFor, writeConfig } from '../base/config/home.js'
import { systemActor } from '../model/audit.js'
import type { HttpServer } from '../http/core/server.js'
import { Forwarder } from '../cluster/forward.js'
import { createHubReader, createHubClient, type HubClient } from '../cluster/forwarded.js'
import { countMembers, twoMembers } from '../cluster/etcd/connection.js'
import type { ReplicatedStore } from '../cluster/replicated-store.js'
import { ownedDisk } from '../core/store/disk.js'
import type { Ownership } from '../core/store/owner.js'
import { isDeploying, newestStartMs } from '../core/store/tables/deployments.js'
import type { Auth, Caller } from '../access/bearer.js'
import { createListener, viewOf } from './listener.js'
import { createReload } from './report.js'
import { warnOfUsers } from './services.js'
import {
  announce,
  type Closers,
  followRecords,
  ownHome,
  prepareStart,
  readOverride,
  type RunningServer,
  type ServeOptions
} from './serve.js'
import type { ClusterView, HubState, UnfinishedTarget } from '../model/health.js'
import type { ListedHub } from '../cluster/hub-list.js'
import { line, maxPathLength, nullable, readFields } from '../base/fields.js'
import { notFound, Refusal } from '../base/errors.js'
import { createHubSide, createWaiting, noLeader, notLeader, openTerms, type Terms } from './terms.js'
import { clusterKeysFor, type ClusterOptions, openHubIdentity, startRenewing } from '../cluster/options.js'
import { createHubRoutes, createReplicatedKeys, createReplicatedToken, rekeyCluster } from '../cluster/keys.js'
import { Archives, type Mirror, startMirror } from '../cluster/archives.js'
import { startOwnNode } from '../cluster/own-node.js'

/** Time for replies in progress after the work has ended. */
const replyGraceMs = 3000
/** Time between two looks for further hubs. */
const hubsEveryMs = 10_000
/** How long the token of a hub's own node is valid. */
const enrollSeconds = 600

type Start = Awaited<ReturnType<typeof prepareStart>>
type Parts = Awaited<ReturnType<typeof openParts>>

/** Opens the store of a hub, and creates what reaches the other hubs. `opened` gets what closes it. */
async function openParts(
  options: ServeOptions,
  cluster: ClusterOptions,
  given: Start & { opened: Closers; owner: Ownership }
) {
  const { home, report } = options
  const { base, steady, clock, ids, entrance, log, opened } = given
  const waiting = createWaiting({ entrance, base, report })
  opened.push(() => waiting.end())
  const { hub, signer } = await openHubIdentity(home.directory, cluster, clock)
  const trusted = { ca: cluster.hubCa }
  const client = createHubClient({
    signer,
    allowsHttp: cluster.allowsHttp,
    get ca() {
      return trusted.ca
    }
  })
  const store = await cluster.openStore({
    directory: home.directory,
    disk: ownedDisk(given.owner.check),
    etcd: cluster.etcd,
    cluster: cluster.name,
    ...clusterKeysFor(home.directory, cluster),
    hub,
    isReturning: cluster.isLeaving,
    fetchImage: (from, signal) => client.ask(from, { method: 'GET', target: '/api/hub/image', signal }),
    clock,
    warn: report.warn,
    onWaiting: waiting.tell,
    ...(options.signal && { signal: options.signal })
  })
  opened.push(() => store.close())
  await waiting.end()
  if (cluster.isLeaving) await stay(home.directory)
  // It is no refusal: etcd may be growing from one member to three.
  void countMembers(cluster.etcd).then(count => count === 2 && report.warn(twoMembers))
  if (clock === steady) followRecords(steady, newestStartMs(store), report)
  if ((await readOverride(options)) !== undefined) {
    report.warn('ADMIN_TOKEN is ignored: the hubs of a cluster have one admin token. Change it in the settings')
  }
  const etcd = (await readClusterFile(home.directory))?.etcd
  const admin = createReplicatedToken(store)
  const archives = new Archives({ store, hub: cluster.hub, client, home, ids, log })
  // Commands on this machine read it there. The replicated one applies.
  await writeConfig(home, config => void (config.adminToken = admin.current()))
  const forwarder = new Forwarder({
    signer,
    allowsHttp: cluster.allowsHttp,
    get ca() {
      return trusted.ca
    },
    adminToken: () => admin.current(),
    reached: store.reached
  })
  const read = createHubReader({ boot: hub.boot, peers: store.peers, legacyKey: signer.legacyKey, clock })
  const addresses = followAddresses(store, cluster.hub.url)
  opened.push(async () => addresses.stop())
  return { hub, trusted, client, store, etcd, admin, archives, forwarder, read, addresses }
}

/** Follows the addresses of all hubs. Agents and pushes learn them. */
function followAddresses(store: ReplicatedStore, own: string) {
  let urls = [own]
  const follow = (): void =>
    void store.hubs().then(
      hubs => (urls = hubs.map(({ url }) => url)),
      () => {}
    )
  follow()
  const timer = setInterval(follow, hubsEveryMs).unref()
  return { urls: () => urls, stop: () => clearInterval(timer) }
}

/** Opens the terms of a hub, and creates the server that answers with the services of the current one. */
function openServer(options: ServeOptions, cluster: ClusterOptions, parts: Start & Parts) {
  const { home, report } = options
  const { base, publicUrl } = parts
  const { hub, client, store, etcd, admin, archives, forwarder, read, addresses } = parts
  let http: HttpServer<Auth, Caller> | undefined
  const late: { terms?: Terms } = {}
  const terms = openTerms({
    store,
    world: {
      ...parts.world,
      secretFiles: [options.tls?.key, etcd?.keyFile, etcd?.passwordFile].flatMap(path => path ?? []),
      keys: createReplicatedKeys(store),
      copies: archives,
      hubUrls: addresses.urls,
      cluster: {
        ...createClusterView({ store, cluster }),
        rekey: hubs => rekeyCluster({ store, client, own: hub.name }, hubs)
      },
      giveUpOn: (name, deployId) => giveUpOn({ store, client }, name, deployId)
    },
    admin,
    publicUrl,
    onTerm({ front, services }, table) {
      http ??= createListener(
        viewOf(() => late.terms?.current().front ?? front),
        {
          ...parts.listener,
          hub: createHubSide({ base, read, store, forwarder, terms: viewOfTerms(late) })
        }
      )
      const routes = createHubRoutes({
        store,
        home,
        archives,
        enroll: hub => enroll(late.terms, hub),
        giveUpHere: services.deployer.giveUpHere
      })
      http.complete({ ...table, routes: [...table.routes, ...routes] })
    },
    report: report.info
  })
  late.terms = terms
  return { terms, server: http as unknown as HttpServer<Auth, Caller> }
}

/** Starts the node of this hub, which enrolls itself at the leader. */
function startNode({ home, environment, report }: ServeOptions, cluster: ClusterOptions, { store, client }: Parts) {
  return startOwnNode({
    directory: home.directory,
    url: cluster.hub.url,
    caFile: cluster.hubCaFile ?? null,
    environment,
    warn: report.warn,
    async enroll(signal) {
      const leader = store.peers.find(store.role().leader?.name ?? '')
      if (leader === null) throw noLeader(store.role())
      const asked = { method: 'POST', target: '/api/hub/enrollments', body: {}, signal } as const
      return ((await client.json(leader, asked)) as { token: string }).token
    }
  })
}

/** Starts a hub. Refuses as `serve` and `openReplicatedStore` do. */
export async function serveHub(options: ServeOptions, cluster: ClusterOptions): Promise<RunningServer> {
  const { home, report } = options
  const start = await prepareStart(options)
  const { publicUrl, expiry, entrance, log } = start
  const made = await ensureHome(home)
  const opened: Closers = made.map(directory => () => rmdir(directory))
  try {
    const owner = await ownHome(options, opened)
    const parts = await openParts(options, cluster, { ...start, opened, owner })
    const { trusted, store, admin, archives, forwarder, addresses } = parts
    const { terms, server } = openServer(options, cluster, { ...start, ...parts })
    opened.push(() => terms.stop())
    opened.push(() => server.close({ graceMs: 0 }))
    const stopCutting = store.onRole(({ leader }) => forwarder.cut(leader?.name ?? null))
    opened.push(async () => stopCutting())
    const mirror = startMirror({ archives, store, log })
    opened.push(() => mirror.stop())
    const { reread } = cluster
    const renewing =
      reread === undefined
        ? null
        : startRenewing({
            secrets: cluster,
            reread,
            use(secrets) {
              trusted.ca = secrets.hubCa
              store.renewEtcd(secrets.etcd)
            },
            report,
            expiry
          })
    opened.push(async () => renewing?.stop())
    const ending: Array<() => Promise<void>> = [async () => addresses.stop(), async () => renewing?.stop()]
    const place = await entrance.open(server)
    server.serve(owner.server)
    if (cluster.hasNode) {
      const node = startNode(options, cluster, parts)
      opened.push(() => node.stop())
      ending.push(() => node.stop())
    }
    warnOfUsers(store, report)
    announce(report, {
      place,
      publicUrl,
      token: admin.current(),
      tokenFrom: home.configFile,
      isShown: false,
      directory: home.directory
    })
    report.info(`Hub "${cluster.hub.name}" of the cluster "${cluster.name}" at ${cluster.hub.url}`)
    return {
      url: place.url,
      localSocket: owner.path,
      adminToken: admin,
      get services() {
        return terms.current().services
      },
      isDeploying: () => isDeploying(store),
      reload: createReload(renewing === null ? [entrance.reload] : [entrance.reload, renewing.reload], report),
      stop: createStop({ http: server, terms, store, owner, stopCutting, mirror, ending })
    }
  } catch (error) {
    for (const close of opened.reverse()) await close().catch(() => {})
    throw noSpaceFor(home.directory, error) ?? error
  }
}

/** Forgets that the hub was about to leave: it was started instead. */
async function stay(directory: string): Promise<void> {
  const file = await readClusterFile(directory)
  if (file !== null) await writeClusterFile(directory, { ...file, isLeaving: false })
}

/** Returns a token with which the node of a hub enrolls itself. */
async function enroll(terms: Terms | undefined, hub: string): Promise<string> {
  if (terms === undefined || !terms.isLeading()) throw notLeader()
  const { enrollments } = await terms.current().services.fleet.hub()
  const { token } = await enrollments.create({ name: hub, labels: {}, seconds: enrollSeconds }, systemActor)
  return token
}

function viewOfTerms(late: { terms?: Terms }): Pick<Terms, 'isLeading' | 'settled'> {
  return {
    isLeading: () => late.terms?.isLeading() ?? false,
    settled: async () => late.terms?.settled()
  }
}

/**
 * Returns a function that stops the hub. It gives up the leadership when its own work has ended, so that another hub
 * leads at once. Deployments in progress are left to that hub.
 */
function createStop({
  http,
  terms,
  store,
  owner,
  stopCutting,
  mirror,
  ending
}: {
  http: Pick<HttpServer, 'close'>
  terms: Terms
  store: ReplicatedStore
  owner: { release(): Promise<void> }
  stopCutting: () => void
  mirror: Mirror
  ending: ReadonlyArray<() => Promise<void>>
}): RunningServer['stop'] {
  let stopping: Promise<void> | undefined

  function stop(): Promise<void> {
    let replies: Promise<void> | undefined
    return callAll([
      () => Promise.all(ending.map(end => end())),
      () => {
        replies = http.close({ graceMs: replyGraceMs })
        replies.catch(() => {}) // it is awaited below
      },
      () => terms.stop(),
      () => store.resign().catch(() => {}),
      () => replies,
      stopCutting,
      () => mirror.stop(),
      () => store.close(),
      () => owner.release()
    ])
  }

  return () => (stopping ??= stop())
}

export interface ClusterStatusNeeds {
  store: Pick<ReplicatedStore, 'role' | 'hubs'>
  cluster: { name: string; hub: { name: string; url: string } }
}

/** Maximum time to ask etcd for the hubs. */
const maxAskMs = 3000

/** Creates the view of the cluster that this hub has. */
export function createClusterView({ store, cluster }: ClusterStatusNeeds): Omit<ClusterView, 'rekey'> {
  let hubs: readonly ListedHub[] = []

  function state(): HubState {
    const { kind, staleMs, sequence, problem, reason } = store.role()
    return { role: kind, staleSeconds: Math.ceil(staleMs / 1000), sequence, problem, reason }
  }

  /** A hub that hears of no leader keeps the list that it has: an answer would not come, or come late. */
  async function look(): Promise<void> {
    if (store.role().kind === 'alone' && hubs.length > 0) return
    hubs = (await Promise.race([store.hubs(), later()]).catch(() => null)) ?? hubs
  }

  return {
    state,
    async status() {
      await look()
      const now = state()
      return {
        name: cluster.name,
        hub: cluster.hub.name,
        leader: store.role().leader,
        ...now,
        hubs: hubs.map(({ name, url, applied, seenAt }) => {
          const known = name === cluster.hub.name ? now.sequence : applied
          return { name, url, applied: known, behind: Math.max(0, now.sequence - known), seenAt }
        })
      }
    }
  }
}

function later(): Promise<null> {
  return new Promise(resolve => setTimeout(resolve, maxAskMs, null).unref())
}

/* The leader asks another hub to give up an unfinished target on its machine: a user of that hub has told it to. */

export interface GiveUpNeeds {
  store: { peers: Pick<ReplicatedStore['peers'], 'find'> }
  client: Pick<HubClient, 'json'>
}

const limitMs = 15_000
const answerFields = { target: nullable(line({ max: maxPathLength })) }

/** Resolves with what was given up. Refuses 404, (`conflict`) `target_there`, and what prevents that the hub answers. */
export async function giveUpOn(
  { store, client }: GiveUpNeeds,
  hub: string,
  deployId: string
): Promise<UnfinishedTarget> {
  const to = store.peers.find(hub)
  if (to === null) throw notFound('Hub', hub)
  const target = `/api/hub/unfinished/${encodeURIComponent(deployId)}`
  const asked = { method: 'POST', target, body: {}, signal: AbortSignal.timeout(limitMs) } as const
  const answer = await client.json(to, asked).catch((error: unknown) => {
    // To ask again would not help.
    if (error instanceof Refusal && error.code === 'target_there')
      throw new Refusal('conflict', error.code, error.message, { cause: error })
    throw error instanceof Refusal && error.code === 'not_found' ? notFound('Unfinished target', deployId) : error
  })
  return { deployId, target: readFields(answer, answerFields).target }
}
