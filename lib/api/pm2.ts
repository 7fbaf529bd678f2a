import { json } from '../http/core/route.js'
import type { Project } from '../model/project.js'
import type { LogSources } from '../logs/sources.js'
import type { Pm2 } from '../pm2/pm2.js'
import { type Handler, param } from './route.js'

/** Dependencies of the handlers of PM2 applications. */
export interface Pm2Needs {
  pm2: Pm2
  projects: { get(id: string): Project }
  sources: Pick<LogSources, 'list' | 'create'>
}

/** Handlers of PM2 applications, and of the one that a project is bound to (§4.11). */
export function pm2Handlers({ pm2, projects, sources }: Pm2Needs) {
  return {
    /** `POST /api/projects/:id/log-sources/pm2`: adds the log files of the application that are no log sources yet. */
    addLogs: async request => {
      const { id, pm2AppName } = projects.get(param(request, 'id'))
      const paths = await pm2.logFiles(pm2AppName)
      const present = new Set(sources.list(id).map(({ filePath }) => filePath))
      const missing = paths.filter(path => !present.has(path)).map(filePath => ({ filePath, kind: 'pm2' as const }))
      return json({
        success: true,
        items: missing.length === 0 ? [] : await sources.create(id, missing, request.actor)
      })
    },

    available: async () => json(await pm2.available()),
    apps: async () => json(await pm2.apps()),
    binding: async request => json(await pm2.binding(projects.get(param(request, 'id')).pm2AppName))
  } satisfies Record<string, Handler>
}
