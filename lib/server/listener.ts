/*
 * What listens. It is loaded before the front, so that a start answers health while it loads the rest (test/bench/start).
 */
import type { Auth, Bearer, Caller } from '../access/bearer.js'
import type { AdminToken } from '../access/admin-token.js'
import { probeRow } from '../api/probe.js'
import { elapsedOf } from '../base/clock.js'
import { createRest } from '../base/runtime.js'
import { itemsOf } from '../base/text.js'
import type { Reader } from '../core/store/database.js'
import { readSettingText } from '../core/store/tables/start.js'
import { defaultTrustedProxies } from '../http/core/headers.js'
import { HttpServer, type HubSide, type ServerEvent, type ServerOptions } from '../http/core/server.js'
import { createProbe, type Probe, type ProbeNeeds } from '../operate/machine/probe.js'
import type { World } from './world.js'
import type { RequestEvent } from './report.js'

interface ListenerOptions extends Pick<ServerOptions<string, unknown>, 'secure'> {
  /** In a cluster: what this hub does with requests. */
  hub?: HubSide<Auth, Caller>
  /** Base path as `normaliseBase` returns it. */
  base: string
  /** Public URL as `readPublicUrl` returns it. */
  publicUrl: string | null
  log(message: string, error?: unknown): void
  /** Called after each answered request, if given. */
  onRequest?: ((request: RequestEvent) => void) | undefined
}

/** The parts of the front that every request needs. */
export interface ListenerFront {
  probe: Pick<Probe, 'report'>
  bearer: Pick<Bearer, 'authorise'>
  rights(): string
  settings: { list(key: 'trusted_proxies' | 'allowed_hosts'): readonly string[] }
}

/** Returns a front for a listener that always asks the current one. */
export function viewOf(front: () => ListenerFront): ListenerFront {
  return {
    probe: { report: () => front().probe.report() },
    bearer: { authorise: (auth, credentials) => front().bearer.authorise(auth, credentials) },
    rights: () => front().rights(),
    settings: { list: key => front().settings.list(key) }
  }
}

/**
 * Creates the front of a server that has not loaded its own yet. Only health is answered then (http/core/dispatch.ts), which
 * everybody may ask for. The settings are those of the store: nothing can change them before there is a table.
 */
export function createEarlyFront(store: Reader, probe: Probe): ListenerFront {
  const lists = {
    trusted_proxies: itemsOf(readSettingText(store, 'trusted_proxies') ?? defaultTrustedProxies),
    allowed_hosts: itemsOf(readSettingText(store, 'allowed_hosts') ?? '')
  }
  return {
    probe,
    bearer: {
      authorise(auth, { client }) {
        if (auth !== 'public') throw new Error(`Nobody is known yet: ${auth}`)
        return { ...nobody, ip: client.witnessed }
      }
    },
    rights: () => '',
    settings: { list: key => lists[key] }
  }
}

const nobody = { name: 'anonymous', role: 'anonymous', projectId: null, projects: null, seesScripts: false } as const

/** The health probe of a server, and the time from which its uptime counts, as `elapsedOf` counts. */
export interface Probing {
  probe: Probe
  startedAtMs: number
}

/** Creates the health probe. It needs no front. */
export function createHealthProbe(
  { store, home, clock, version, cluster }: Pick<World, 'store' | 'home' | 'clock' | 'version' | 'cluster'>,
  admin: Pick<AdminToken, 'current'>,
  { isRecovering }: Pick<ProbeNeeds, 'isRecovering'> = {}
): Probing {
  const startedAtMs = elapsedOf(clock)
  const probe = createProbe({
    store,
    clock,
    version,
    startedAtMs,
    directory: home.directory,
    hasToken: () => hasToken(admin),
    hub: cluster?.state,
    isRecovering
  })
  return { probe, startedAtMs }
}

/** One for all listeners, because the memory is that of the process. */
let rest: ReturnType<typeof createRest> | null = null

/**
 * Creates the HTTP server of the whole program. It answers health requests at once, and all others when it gets the
 * table (table.ts).
 */
export function createListener(
  { probe, bearer, rights, settings }: ListenerFront,
  { base, publicUrl, log, onRequest, ...secure }: ListenerOptions
): HttpServer<Auth, Caller> {
  const answered = (rest ??= createRest())
  return new HttpServer<Auth, Caller>({
    routes: [probeRow(probe)],
    isPartial: true,
    base,
    authorize: (route, facts) => bearer.authorise(route.auth, facts),
    standing: { version: rights, check: ({ checkAgain }, finishes) => checkAgain?.(finishes) },
    callerOf: ({ role, name, token, node }) => (role === 'anonymous' ? undefined : (token?.id ?? node?.id ?? name)),
    publicUrl,
    trustedProxies: () => settings.list('trusted_proxies'),
    allowedHosts: createAllowedHosts(publicUrl, () => settings.list('allowed_hosts')),
    log: event => {
      if (event.kind === 'request') answered()
      pass(event, { log, onRequest })
    },
    ...secure
  })
}

/** Returns the names of the setting and of SVC_PUBLIC_URL. Returns the same array until the setting changes. */
function createAllowedHosts(publicUrl: string | null, listed: () => readonly string[]): () => readonly string[] {
  const own = publicUrl === null ? [] : [new URL(publicUrl).hostname]
  let list: readonly string[] = []
  let hosts: readonly string[] = own
  return () => {
    if (list !== listed()) hosts = [...own, ...(list = listed())]
    return hosts
  }
}

const outOfDescriptors =
  'Cannot open files or accept connections: too many open files. ' +
  'Raise the limit (LimitNOFILE= in the unit, or ulimit -n)'

function pass(event: ServerEvent, { log, onRequest }: Pick<ListenerOptions, 'log' | 'onRequest'>): void {
  if (event.kind === 'request') onRequest?.(event)
  else if (event.kind === 'out_of_descriptors') log(outOfDescriptors)
  else log(`${event.method} ${event.path} failed (${event.id})`, event.error)
}

function hasToken(admin: Pick<AdminToken, 'current'>): boolean {
  try {
    return admin.current() !== ''
  } catch {
    return false
  }
}
