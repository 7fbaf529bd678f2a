import { apiRoutes } from '../../lib/api/routes.js'
import type { RunningServer } from '../../lib/server/serve.js'
import type { Client } from './client.js'

/** Pages whose answers depend on the moment or the machine, not on the data directory. */
const passedOver = [
  '/api/health',
  '/api/health/detail',
  '/api/settings/status',
  '/api/overview',
  '/api/storage',
  '/api/system/resources',
  '/api/pm2/available',
  '/api/pm2/apps',
  '/api/fs/home',
  '/api/fs/list',
  '/api/migration/export',
  '/api/audit/checkpoint',
  '/api/audit/proof',
  '/api/audit/inclusion',
  '/api/audit/export',
  '/api/backup',
  '/metrics',
  '/install.sh',
  '/client.tgz',
  '/agent.tgz',
  '/api/system/history',
  '/api/changes',
  '/api/auth/session',
  '/api/auth/whoami',
  '/api/access/report',
  '/api/sessions',
  '/api/deploy/check',
  // test/deploy/intake.test.ts: it needs a kept release.
  '/api/deploy/base',
  // test/api/uploads.test.ts: it needs an upload.
  '/api/uploads/:id',
  '/api/projects/:id/tree',
  '/api/projects/:id/verify',
  '/api/projects/:id/drift',
  '/api/projects/:id/drift/file',
  '/api/terminal/available',
  '/api/terminal/ws',
  '/api/log-sources/:sourceId/stream',
  '/api/log-sources/:sourceId/search',
  // test/api/fleet.test.ts and test/fleet/hub/nodes.test.ts: they need a fleet.
  '/api/nodes/:node',
  '/api/rollouts/:rolloutId',
  '/api/rollouts/:rolloutId/nodes/:node',
  '/api/rollouts/:rolloutId/events'
]
const queries: Record<string, string> = {
  '/api/logs': '?limit=500',
  '/api/audit': '?limit=500',
  '/api/search': '?q=a',
  '/api/logs/:deployId': '?timestamps=1',
  '/api/logs/:deployId/output': '?timestamps=1',
  '/api/projects/:id/file': '?path=index.html',
  '/api/projects/:id/download': '?path=index.html'
}

/** Returns status and body of every GET page of the API, with every existing id, by path. */
export async function apiPages({
  server,
  client
}: {
  server: RunningServer
  client: Client
}): Promise<Record<string, unknown>> {
  const ids = async (path: string): Promise<string[]> =>
    ((await client.get(path)).body as Array<{ id: string }>).map(({ id }) => id)
  const projects = await ids('/api/projects')
  const deployments = await ids('/api/logs?limit=500')
  const sources: string[] = []
  for (const id of projects) {
    const { items } = (await client.get(`/api/projects/${id}/log-sources`)).body as { items: Array<{ id: string }> }
    sources.push(...items.map(({ id }) => id))
  }
  const idsOf = (route: string): string[] =>
    route.includes(':sourceId') ? sources : /:deployId|^\/api\/deployments/.test(route) ? deployments : projects
  const pages: Record<string, unknown> = {}
  for (const { method, path: route } of apiRoutes(server.services.api)) {
    if (method !== 'GET' || passedOver.includes(route)) continue
    for (const id of route.includes(':') ? idsOf(route) : ['']) {
      const against = route.endsWith('/:id/changes') ? `?against=${deployments.at(-1)}` : ''
      const path = route.replace(/:\w+/, id) + (queries[route] ?? against)
      const { status, body, text } = await client.get(path)
      pages[path] = { status, body: body ?? text }
    }
  }
  const { totals } = (await client.get('/api/storage')).body
  pages['/api/storage'] = { archives: totals.archives, logs: totals.logs }
  return pages
}
