/* Starts a server as a hub of a cluster: as `serve` does, with the replicated store and services that follow its role. */
import { readClusterFile, writeClusterFile } from '../../config/cluster-file.js'
import { rmdir } from 'node:fs/promises'
import { finishRestore } from '../../backup/place.js'
import { callAll } from '../../base/async.js'
import { createSteadyClock } from '../../base/clock.js'
import { randomIds } from '../../base/digests.js'
import { ensureHome, noSpaceFor, readConfig, refuseNetworkHome, warningOfRoot, writeConfig } from '../../config/home.js'
import { readPublicUrl } from '../../config/public-url.js'
import { readVersion } from '../../config/version.js'
import { systemActor } from '../../model/audit.js'
import { normaliseBase } from '../../http/core/dispatch.js'
import type { HttpServer } from '../../http/core/server.js'
import { createForwarder } from '../../http/outgoing/forward.js'
import { createHubReader } from '../../http/outgoing/forwarded.js'
import { createHubClient } from '../../http/outgoing/hub-request.js'
import { countMembers, twoMembers } from '../../store/log/etcd/members.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'
import { ownDirectory } from '../../store/owner.js'
import { warnOfUsers } from '../users-warning.js'
import { newestStartMs, unfinishedDeployments } from '../../store/tables/deployments.js'
import type { Auth, Caller } from '../../auth/bearer.js'
import { createExpiryWarnings } from '../expiry.js'
import { prepareEntrance } from '../entrance.js'
import { createListener, type ListenerFront, type RequestEvent } from '../listener.js'
import { createReload } from '../reload.js'
import { reportFailure, reportRequest } from '../reporter.js'
import { announce, followRecords, readOverride, type RunningServer, type ServeOptions } from '../serve.js'
import { createClusterView } from './cluster-status.js'
import { notLeader } from './fenced-store.js'
import { clusterKeysFor, openHubIdentity } from './hub-identity.js'
import { createHubSide, noLeader } from './hub-side.js'
import { createReplicatedKeys, createReplicatedToken } from './keys.js'
import { createArchives } from './archives.js'
import { giveUpOn } from './give-up.js'
import { createHubRoutes } from './hub-routes.js'
import { startMirror, type Mirror } from './mirror.js'
import { startOwnNode } from './own-node.js'
import type { ClusterOptions } from './options.js'
import { rekeyCluster } from './rekey.js'
import { startRenewing } from './renewing.js'
import { openTerms, type Terms } from './terms.js'
import { createWaiting } from './waiting.js'

/** Time for replies in progress after the work has ended. */
const replyGraceMs = 3000
/** Time between two looks for further hubs. */
const hubsEveryMs = 10_000
/** How long the token of a hub's own node is valid. */
const enrollSeconds = 600

/** Starts a hub. Refuses as `serve` and `openReplicatedStore` do. */
export async function serveHub(options: ServeOptions, cluster: ClusterOptions): Promise<RunningServer> {
  const { home, report, environment } = options
  const base = normaliseBase(options.base ?? '')
  const steady = createSteadyClock()
  const clock = options.clock ?? steady
  const ids = options.ids ?? randomIds
  const publicUrl = readPublicUrl(environment, base)
  const expiry = options.expiry ?? createExpiryWarnings(line => report.warn(line), clock)
  const entrance = await prepareEntrance(options, { base, clock, expiry, report })
  const made = await ensureHome(home)
  const opened: Array<() => Promise<unknown>> = made.map(directory => () => rmdir(directory))
  try {
    await refuseNetworkHome(home, environment)
    await readConfig(home)
    const rootWarning = await warningOfRoot(home)
    if (rootWarning !== null) report.warn(rootWarning)
    const owner = await ownDirectory(home.directory)
    opened.push(() => owner.release())
    if (await finishRestore(home.directory)) await ensureHome(home)
    const waiting = createWaiting({ entrance, base, report })
    opened.push(() => waiting.end())
    const { hub, signer } = await openHubIdentity(home.directory, cluster, clock)
    let { hubCa } = cluster
    const client = createHubClient({
      signer,
      allowsHttp: cluster.allowsHttp,
      get ca() {
        return hubCa
      }
    })
    const store = await cluster.openStore({
      directory: home.directory,
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
    const log = (message: string, error?: unknown): void => reportFailure(report, message, error)
    const { terminal = true, allowSystemPaths = false } = options
    const etcd = (await readClusterFile(home.directory))?.etcd
    const admin = createReplicatedToken(store)
    let hubUrls = [cluster.hub.url]
    const archives = createArchives({ store, hub: cluster.hub, client, home, ids, log })
    // Commands on this machine read it there. The replicated one applies.
    await writeConfig(home, config => void (config.adminToken = admin.current()))
    const forwarder = createForwarder({
      signer,
      allowsHttp: cluster.allowsHttp,
      get ca() {
        return hubCa
      },
      adminToken: () => admin.current(),
      reached: store.reached
    })
    const read = createHubReader({ boot: hub.boot, peers: store.peers, legacyKey: signer.legacyKey, clock })
    /** Agents and pushes learn the addresses of all hubs. */
    const followHubs = (): void =>
      void store.hubs().then(
        hubs => (hubUrls = hubs.map(({ url }) => url)),
        () => {}
      )
    followHubs()
    const hubsTimer = setInterval(followHubs, hubsEveryMs).unref()
    opened.push(async () => clearInterval(hubsTimer))
    let http: HttpServer<Auth, Caller> | undefined
    const late: { terms?: Terms } = {}
    const terms = openTerms({
      store,
      world: {
        home,
        clock,
        ids,
        environment,
        terminal,
        allowSystemPaths,
        secretFiles: [options.tls?.key, etcd?.keyFile, etcd?.passwordFile].flatMap(path => path ?? []),
        version: readVersion(),
        base,
        publicUrl,
        keys: createReplicatedKeys(store),
        copies: archives,
        hubUrls: () => hubUrls,
        cluster: {
          ...createClusterView({ store, cluster }),
          rekey: hubs => rekeyCluster({ store, client, own: hub.name }, hubs)
        },
        giveUpOn: (name, deployId) => giveUpOn({ store, client }, name, deployId),
        certificates: expiry.list,
        log
      },
      admin,
      publicUrl,
      onTerm({ front, services }, table) {
        http ??= createListener(
          viewOf(() => late.terms?.current().front ?? front),
          {
            base,
            publicUrl,
            log,
            hub: createHubSide({ base, read, store, forwarder, terms: viewOfTerms(late) }),
            onRequest: options.requests ? (event: RequestEvent) => reportRequest(report, event) : undefined,
            ...entrance.secure
          }
        )
        http.complete({
          ...table,
          routes: [
            ...table.routes,
            ...createHubRoutes({
              store,
              home,
              archives,
              enroll: hub => enroll(late.terms, hub),
              giveUpHere: services.deployer.giveUpHere
            })
          ]
        })
      },
      report: report.info
    })
    late.terms = terms
    opened.push(() => terms.stop())
    const server = http as unknown as HttpServer<Auth, Caller>
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
              hubCa = secrets.hubCa
              store.renewEtcd(secrets.etcd)
            },
            report,
            expiry
          })
    opened.push(async () => renewing?.stop())
    const ending: Array<() => Promise<void>> = [async () => clearInterval(hubsTimer), async () => renewing?.stop()]
    const place = await entrance.open(server)
    server.serve(owner.server)
    if (cluster.hasNode) {
      const node = startOwnNode({
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
      isDeploying: () => unfinishedDeployments(store).length > 0,
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

/** Returns the front of the current term. */
function viewOf(front: () => ListenerFront): ListenerFront {
  return {
    probe: { ...front().probe },
    bearer: { authorise: (auth, credentials) => front().bearer.authorise(auth, credentials) },
    named: { ended: id => front().named.ended(id) },
    settings: { list: key => front().settings.list(key) }
  }
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
