import { probeRow } from '../api/probe.js'
import type { Auth, Caller } from '../auth/bearer.js'
import { createHttpServer } from '../http/server.js'
import type { HttpServer, ServerEvent, ServerOptions } from '../http/server.js'
import type { Front } from './front.js'

interface ListenerOptions extends Pick<ServerOptions<string, unknown>, 'secure'> {
  /** As `normaliseBase` gives it. */
  base: string
  /** As `readPublicUrl` gives it. */
  publicUrl: string | null
  log(message: string, error?: unknown): void
  /** Called when a request was answered; without it nobody wants to know. */
  onRequest?: ((request: RequestEvent) => void) | undefined
}

export type RequestEvent = Extract<ServerEvent, { kind: 'request' }>

/** The HTTP server of the whole program. It answers health; everything else when it is given the table (table.ts). */
export function createListener(
  { probe, bearer, settings }: Front, { base, publicUrl, log, onRequest, ...secure }: ListenerOptions
): HttpServer<Auth, Caller> {
  return createHttpServer<Auth, Caller>({
    routes: [probeRow(probe)],
    isPartial: true,
    base,
    authorize: (route, facts) => bearer.authorise(route.auth, facts),
    lifeOf: ({ session }) => session?.ended(),
    trustedProxies: () => settings.list('trusted_proxies'),
    allowedHosts: createAllowedHosts(publicUrl, () => settings.list('allowed_hosts')),
    log: event => pass(event, { log, onRequest }),
    ...secure
  })
}

/** The names of the setting and that of SVC_PUBLIC_URL: the same array until the setting changes. */
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
  'No file can be opened and no connection accepted: the limit of open files is reached. Raise it (LimitNOFILE= in the unit, or ulimit -n)'

function pass(event: ServerEvent, { log, onRequest }: Pick<ListenerOptions, 'log' | 'onRequest'>): void {
  if (event.kind === 'request') onRequest?.(event)
  else if (event.kind === 'out_of_descriptors') log(outOfDescriptors)
  else log(`${event.method} ${event.path} failed (${event.id})`, event.error)
}
