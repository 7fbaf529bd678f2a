import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { apiRoutes } from '../api/routes.js'
import type { Auth, Caller } from '../access/bearer.js'
import type { Table } from '../http/core/dispatch.js'
import type { Reply, Request } from '../http/core/route.js'
import { createDoor } from '../base/async.js'
import type { Services } from './services.js'

/**
 * Creates the table of everything that the server answers: the API, and the panel if it was built. `base` is as
 * `normaliseBase` returns it.
 */
export function createTable(
  { api }: Services,
  { base, publicUrl, panel: hasPanel = true }: { base: string; publicUrl: string | null; panel?: boolean }
): Table<Auth, Caller> {
  if (!hasPanel) return { routes: apiRoutes(api), fallback: sayAgent }
  const panel = fileURLToPath(new URL('../../www/', import.meta.url))
  return {
    routes: apiRoutes(api),
    ...(existsSync(panel) ? { fallback: createPanel(panel, { base, publicUrl }) } : {})
  }
}

/** Answers with the files of the panel. */
function createPanel(panel: string, { base, publicUrl }: { base: string; publicUrl: string | null }) {
  const files = createDoor(async () => {
    const { createStatic } = await import('../http/static/static.js')
    return createStatic(panel, { base, publicUrl, except: ['/api'], modulesOf: createModulesOf(panel) })
  })
  return async (request: Request): Promise<Reply | undefined> => (await files())(request)
}

const agentText = 'This is an agent of a fleet of svc. It has no panel: open the panel of its hub.\n'

/** Answers the address of an agent, which has no panel. */
async function sayAgent({ path }: Pick<Request, 'path'>): Promise<Reply | undefined> {
  if (path !== '/') return undefined
  const headers = { 'content-type': 'text/plain; charset=utf-8' }
  return { kind: 'bytes', status: 200, headers, body: Buffer.from(agentText) }
}

interface PanelModules {
  pageTable: ReadonlyArray<{ path: string; module: string }>
  wordsOf(module: string): string
  placeOf(rows: ReadonlyArray<{ path: string }>, path: string, search: string): { row: { path: string } } | null
}

/**
 * Returns which modules a page of the panel needs, by the panel's own router. Loading it touches no document.
 */
function createModulesOf(panel: string): (path: string, acceptLanguage: string) => Promise<readonly string[]> {
  let loading: Promise<PanelModules> | undefined
  const load = async (): Promise<PanelModules> => {
    return (await import(pathToFileURL(join(panel, 'router.js')).href)) as PanelModules
  }
  return async (path, acceptLanguage) => {
    const { pageTable, wordsOf, placeOf } = await (loading ??= load())
    const found = placeOf(pageTable, path.slice(1), '')?.row.path
    const module = pageTable.find(row => row.path === found)?.module
    if (module === undefined) return []
    // The first of the reader's languages that the panel has; the panel chooses in the same way (state/session.ts).
    const languages = acceptLanguage.split(',').map(tag => /^\s*(zh|en)\b/i.exec(tag)?.[1]?.toLowerCase())
    const isChinese = languages.find(Boolean) === 'zh'
    const words = isChinese ? ['frame', wordsOf(module)].map(name => `words/zh/${name}.js`) : []
    return [`pages/${module}.js`, ...words]
  }
}
