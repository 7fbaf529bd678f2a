/*
 * The table of pages: address, room, module. The panel routes by it (main.ts), and the server lists the modules of the
 * requested page in index.html (lib/http/static/link.ts), so this file uses no DOM.
 */

/** A module that exports elements by tag. */
type PageModule = { elements: Readonly<Record<string, CustomElementConstructor>> }

/** One row of the table. */
export interface PageEntry {
  /** Path below the base; `:name` is a parameter. */
  path: string
  /** Address of the room, or null for a page without a frame. */
  room: string | null
  /** Name of the module in `pages/` and of its words in `words/<language>/`. */
  module: string
  load: () => Promise<PageModule>
}

/** All pages. */
export const pageTable: readonly PageEntry[] = [
  { path: '', room: '.', module: 'overview', load: () => import('./pages/overview.js') },
  { path: 'login', room: null, module: 'login', load: () => import('./pages/login.js') },
  { path: 'projects', room: 'projects', module: 'projects', load: () => import('./pages/projects.js') },
  { path: 'projects/:id', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
  { path: 'projects/:id/files', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
  { path: 'projects/:id/settings', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
  {
    path: 'projects/:id/logs',
    room: 'projects',
    module: 'project-logs',
    load: () => import('./pages/project-logs.js')
  },
  {
    path: 'projects/:id/logs/:sourceId',
    room: 'projects',
    module: 'project-logs',
    load: () => import('./pages/project-logs.js')
  },
  { path: 'logs', room: 'logs', module: 'logs', load: () => import('./pages/logs.js') },
  { path: 'deployments', room: 'deployments', module: 'deployments', load: () => import('./pages/deployments.js') },
  { path: 'deployments/:id', room: 'deployments', module: 'deployment', load: () => import('./pages/deployment.js') },
  { path: 'terminal', room: 'terminal', module: 'terminal', load: () => import('./pages/terminal.js') },
  { path: 'system', room: 'system', module: 'system', load: () => import('./pages/system.js') },
  { path: 'storage', room: 'system', module: 'storage', load: () => import('./pages/storage.js') },
  { path: 'audit', room: 'system', module: 'audit', load: () => import('./pages/audit.js') },
  { path: 'settings', room: 'settings', module: 'settings', load: () => import('./pages/settings.js') },
  { path: 'access', room: 'settings', module: 'access', load: () => import('./pages/access.js') },
  { path: 'labels', room: 'settings', module: 'labels', load: () => import('./pages/labels.js') },
  { path: 'migration', room: 'settings', module: 'migration', load: () => import('./pages/migration.js') }
]
