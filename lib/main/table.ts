import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { apiRoutes } from '../api/routes.js'
import type { Auth, Caller } from '../auth/bearer.js'
import type { Table } from '../http/server.js'
import { createStatic } from '../http/static.js'
import type { Services } from './services.js'

/** All that is answered: the API, and the panel where it was built. `base` as `normaliseBase` gives it. */
export function createTable(
  { api }: Services, { base, publicUrl }: { base: string; publicUrl: string | null }
): Table<Auth, Caller> {
  const panel = fileURLToPath(new URL('../../www/', import.meta.url))
  return {
    routes: apiRoutes(api),
    ...(existsSync(panel) ? { fallback: createStatic(panel, { base, publicUrl, except: ['/api'] }) } : {})
  }
}
