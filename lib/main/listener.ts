import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { apiRoutes } from '../api/routes.js'
import { createHttpServer } from '../http/server.js'
import type { HttpServer, ServerEvent } from '../http/server.js'
import { createStatic } from '../http/static.js'
import type { Services } from './services.js'

interface ListenerOptions {
  /** As `normaliseBase` gives it. */
  base: string
  log(message: string, error?: unknown): void
}

/** The HTTP server of the whole program: the API, and the panel where it was built. */
export function createListener({ api, bearer, settings }: Services, { base, log }: ListenerOptions): HttpServer {
  const panel = fileURLToPath(new URL('../../www/', import.meta.url))
  return createHttpServer({
    routes: apiRoutes(api),
    base,
    authorize: (route, facts) => bearer.authorise(route.auth, facts),
    trustedProxies: () => settings.list('trusted_proxies'),
    log: event => logFailure(event, log),
    ...(existsSync(panel) ? { fallback: createStatic(panel, { base, except: ['/api'] }) } : {})
  })
}

function logFailure(event: ServerEvent, log: ListenerOptions['log']): void {
  if (event.kind === 'failure') log(`${event.method} ${event.path} failed (${event.id})`, event.error)
}
