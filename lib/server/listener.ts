import { probeRow } from '../api/probe.js'
import type { Auth, Caller } from '../auth/bearer.js'
import { createRest } from '../base/at-rest.js'
import { HttpServer, type HubSide, type ServerEvent, type ServerOptions } from '../http/core/server.js'
import type { Front } from './front.js'

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
  probe: Front['probe']
  bearer: Front['bearer']
  named: Pick<Front['named'], 'ended'>
  settings: Pick<Front['settings'], 'list'>
}

/** Event of an answered request. */
export type RequestEvent = Extract<ServerEvent, { kind: 'request' }>

/**
 * Creates the HTTP server of the whole program. It answers health requests at once, and all others when it gets the
 * table (table.ts).
 */
export function createListener(
  { probe, bearer, named, settings }: ListenerFront,
  { base, publicUrl, log, onRequest, ...secure }: ListenerOptions
): HttpServer<Auth, Caller> {
  const answered = createRest()
  return new HttpServer<Auth, Caller>({
    routes: [probeRow(probe)],
    isPartial: true,
    base,
    authorize: (route, facts) => bearer.authorise(route.auth, facts),
    lifeOf: ({ session, token }) => session?.ended() ?? (token === undefined ? undefined : named.ended(token.id)),
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
