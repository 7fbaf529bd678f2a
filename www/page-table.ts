/*
 * Every page: its address, the room it belongs to, its module. The panel routes by it (main.ts); the server names the
 * modules of the page that is asked for in index.html (lib/http/modules.ts), so this file touches no document.
 */

/** Elements by their tag, as a module hands them to whoever registers them. */
type PageModule = { elements: Readonly<Record<string, CustomElementConstructor>> }

export interface PageEntry {
  /** Segments below the base; `:name` is a parameter. */
  path: string
  /** The address of the room; null: a page without a frame. */
  room: string | null
  /** The page in `pages/`, and its words in `words/<language>/`. */
  module: string
  load: () => Promise<PageModule>
}

const entry = (path: string, room: string | null, module: string, load: () => Promise<PageModule>): PageEntry =>
  ({ path, room, module, load })

export const pageTable: readonly PageEntry[] = [
  entry('', '.', 'overview', () => import('./pages/overview.js')),
  entry('login', null, 'login', () => import('./pages/login.js')),
  entry('projects', 'projects', 'projects', () => import('./pages/projects.js')),
  entry('projects/:id', 'projects', 'project', () => import('./pages/project.js')),
  entry('projects/:id/files', 'projects', 'project', () => import('./pages/project.js')),
  entry('projects/:id/settings', 'projects', 'project', () => import('./pages/project.js')),
  entry('projects/:id/logs', 'projects', 'project-logs', () => import('./pages/project-logs.js')),
  entry('projects/:id/logs/:sourceId', 'projects', 'project-logs', () => import('./pages/project-logs.js')),
  entry('logs', 'logs', 'logs', () => import('./pages/logs.js')),
  entry('deployments', 'deployments', 'deployments', () => import('./pages/deployments.js')),
  entry('deployments/:id', 'deployments', 'deployment', () => import('./pages/deployment.js')),
  entry('terminal', 'terminal', 'terminal', () => import('./pages/terminal.js')),
  entry('system', 'system', 'system', () => import('./pages/system.js')),
  entry('storage', 'system', 'storage', () => import('./pages/storage.js')),
  entry('audit', 'system', 'audit', () => import('./pages/audit.js')),
  entry('settings', 'settings', 'settings', () => import('./pages/settings.js')),
  entry('labels', 'settings', 'labels', () => import('./pages/labels.js')),
  entry('migration', 'settings', 'migration', () => import('./pages/migration.js'))
]
