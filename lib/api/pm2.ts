import { json } from '../http/core/route.js'
import type { Project } from '../model/project.js'
import type { Pm2 } from '../pm2/pm2.js'
import type { Handler } from './route.js'
import { param } from './route.js'

/** Handlers of PM2 applications, and of the one that a project is bound to (§4.11). */
export function pm2Handlers({ pm2, projects }: { pm2: Pm2; projects: { get(id: string): Project } }) {
  return {
    available: async () => json(await pm2.available()),
    apps: async () => json(await pm2.apps()),
    binding: async request => json(await pm2.binding(projects.get(param(request, 'id')).pm2AppName))
  } satisfies Record<string, Handler>
}
