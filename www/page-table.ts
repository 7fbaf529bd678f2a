/*
 * The table of pages: address, room, module. The panel routes by it (main.ts), and the server lists the modules of the
 * requested page in index.html (lib/http/static/static.ts), so this file uses no DOM.
 */

/** A module that exports elements by tag. */
type PageModule = { elements: Readonly<Record<string, CustomElementConstructor>> }

/** One row of the table. */
export interface PageEntry {
  /** Path below the base; `:name` is a parameter. */
  path: string
  /** Address of the room, or null for a page without a frame. */
  room: string | null
  /** Whether the page is one of the node that the parameter `node` names, shown through this server. */
  isOfNode?: boolean
  /** Name of the module in `pages/`. */
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
  { path: 'projects/:id/nodes', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
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
  { path: 'migration', room: 'settings', module: 'migration', load: () => import('./pages/migration.js') },
  { path: 'nodes', room: 'nodes', module: 'nodes', load: () => import('./pages/nodes.js') },
  { path: 'nodes/:node', room: 'nodes', module: 'node', load: () => import('./pages/node.js') },
  { path: 'rollouts', room: 'nodes', module: 'rollouts', load: () => import('./pages/rollouts.js') },
  { path: 'rollouts/:id', room: 'nodes', module: 'rollout', load: () => import('./pages/rollout.js') },
  ofNode('projects', 'projects', () => import('./pages/projects.js')),
  ofNode('projects/:id', 'project', () => import('./pages/project.js')),
  ofNode('projects/:id/files', 'project', () => import('./pages/project.js')),
  ofNode('projects/:id/logs', 'project-logs', () => import('./pages/project-logs.js')),
  ofNode('projects/:id/logs/:sourceId', 'project-logs', () => import('./pages/project-logs.js')),
  ofNode('logs', 'logs', () => import('./pages/logs.js')),
  ofNode('deployments', 'deployments', () => import('./pages/deployments.js')),
  ofNode('deployments/:id', 'deployment', () => import('./pages/deployment.js')),
  ofNode('terminal', 'terminal', () => import('./pages/terminal.js')),
  ofNode('system', 'system', () => import('./pages/system.js'))
]

/** Pages whose words are in the table of another one, or in that of the frame. */
const sharedWords: Readonly<Record<string, string>> = {
  denied: 'frame',
  deployment: 'deployments',
  labels: 'settings',
  login: 'frame',
  migration: 'settings',
  node: 'nodes',
  'node-away': 'nodes',
  'project-logs': 'logs',
  rollout: 'nodes',
  rollouts: 'nodes',
  storage: 'system'
}

/** Returns the name of the table in `words/<language>/` with the words of a module of `pages/`. */
export function wordsOf(module: string): string {
  return sharedWords[module] ?? module
}

/** Returns the row of a page that is shown for a node as well, with the contents of the node. */
function ofNode(path: string, module: string, load: PageEntry['load']): PageEntry {
  return { path: `nodes/:node/${path}`, room: 'nodes', isOfNode: true, module, load }
}
