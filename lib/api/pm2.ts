import { json } from '../http/route.js'
import type { Project } from '../model/project.js'
import type { Pm2 } from '../system/pm2.js'
import type { Handler } from './route.js'
import { param } from './route.js'

/** PM2 applications, and the one a project is bound to (§4.11). */
export function pm2Handlers({ pm2, projects }: { pm2: Pm2; projects: { get(id: string): Project } }) {
  return {
    available: async () => json({ available: (await pm2.list()).outcome === 'listed' }),
    apps: async () => json({ apps: await pm2.apps() }),
    binding: async request => json(await pm2.binding(projects.get(param(request, 'id')).pm2AppName))
  } satisfies Record<string, Handler>
}
