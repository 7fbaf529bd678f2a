import t from 'tap'
import type { ApiRequest } from '../../lib/api/route.js'
import { apiRoutes } from '../../lib/api/routes.js'
import type { Store } from '../../lib/core/store/database.js'
import { setClock } from '../support/clock.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'

/*
 * A 304 must cover everything that an answer reads. The handlers of routes that declare their tables run here with a
 * store and settings that note what is read.
 */

/** Runs `work` and returns the tables and the settings that it reads. */
async function readBy(stage: Stage, work: () => unknown): Promise<Set<string>> {
  const { store } = stage.server.services.agent
  const { settings } = stage.server.services.api
  const names = new Set<string>()
  const note = (sql: string): void => {
    for (const [, name] of sql.matchAll(/\b(?:from|join)\s+["`]?(\w+)/gi)) names.add(name as string)
  }
  const undo: Array<() => void> = []
  function watch<T extends object>(object: T, methods: ReadonlyArray<keyof T>, see: (first: string) => void): void {
    for (const method of methods) {
      const own = object[method] as (...given: unknown[]) => unknown
      const watched = (...given: unknown[]): unknown => {
        see(String(given[0]))
        return own.apply(object, given)
      }
      object[method] = watched as T[keyof T]
      undo.push(() => (object[method] = own as T[keyof T]))
    }
  }
  watch(store, ['get', 'all'], note)
  watch(
    settings as Record<'text' | 'number' | 'flag' | 'list' | 'all', unknown>,
    ['text', 'number', 'flag', 'list', 'all'],
    () => names.add('settings')
  )
  try {
    await work()
  } finally {
    for (const restore of undo) restore()
  }
  const tables = new Set(store.all(`SELECT name FROM sqlite_master WHERE type = 'table'`).map(({ name }) => name))
  return new Set([...names].filter(name => tables.has(name)))
}

/**
 * Returns the tables whose writes change what an answer contains of a table by themselves: by a trigger, or by ON DELETE.
 * A change of single columns matters only if the answer has a field of that name.
 */
function writersOf(store: Store, table: string, answer: string): string[] {
  const has = (columns: string[]): boolean => columns.some(column => answer.includes(`"${column}":`))
  const triggers = store.all(`SELECT tbl_name AS writer, sql FROM sqlite_master WHERE type = 'trigger'`)
  const rows = new RegExp(`\\b(?:into|delete\\s+from)\\s+${table}\\b`, 'i')
  const columns = new RegExp(`\\bupdate\\s+${table}\\s+set\\b([^]*?)(?:;|\\bwhere\\b|\\bend\\b)`, 'gi')
  const byTrigger = triggers.filter(({ sql }) => {
    const body = withoutParentheses(String(sql).replace(/^[^]*?\bBEGIN\b/i, ''))
    const set = [...body.matchAll(columns)].flatMap(([, list]) => [...(list as string).matchAll(/(\w+)\s*=/g)])
    return rows.test(body) || has(set.map(([, column]) => column as string))
  })
  const references = store.all(
    `SELECT "table" AS writer, "from" AS name, on_delete AS act FROM pragma_foreign_key_list('${table}')`
  )
  const byDelete = references.filter(
    ({ name, act }) => act === 'CASCADE' || (act === 'SET NULL' && has([String(name)]))
  )
  return [...byTrigger, ...byDelete].map(({ writer }) => String(writer))
}

function withoutParentheses(sql: string): string {
  const shorter = sql.replace(/\([^()]*\)/g, '')
  return shorter === sql ? sql : withoutParentheses(shorter)
}

async function fill(stage: Stage): Promise<Record<string, string>> {
  const { client } = stage
  const project = await stage.createProject('shop')
  const { body } = await client.post('/api/categories', { name: 'Sites', color: '#336699' })
  const { body: tagged } = await client.post('/api/tags', { name: 'live', color: '#336699' })
  const [categoryId, tagId] = [body.category?.id ?? body.item?.id, tagged.tag?.id ?? tagged.item?.id]
  await client.put(`/api/projects/${project.id}`, { categoryId, tagIds: [tagId], policy: { confirm: 'never' } })
  const pushed = await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }]
  ])
  const deployId = /dep_\w+/.exec(pushed.text)?.[0] as string
  // Its receipt is made after its end, and would be read in between.
  await client.get(`/api/deployments/${deployId}/receipt`)
  return { id: project.id, deployId }
}

t.test('what an answer reads is what its route declares, whenever it is asked', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const params = await fill(stage)
  const { store } = stage.server.services.agent
  const seen = new Set<string>()
  const routes = apiRoutes({
    ...stage.server.services.api,
    version: tables => {
      for (const table of tables) seen.add(table)
      return 'x'
    }
  })
  const declared = routes.filter(({ version }) => version !== undefined)
  t.ok(declared.length >= 9)
  for (const { method, path, handle, version } of declared) {
    const actors = [
      { name: 'admin', role: 'admin', projectId: null, projects: null, seesScripts: true },
      {
        name: 'ci',
        role: 'viewer',
        projectId: null,
        projects: [params['id']],
        seesScripts: false,
        token: { id: 'tok_a' }
      }
    ]
    for (const actor of actors) {
      const request = {
        params,
        query: new URLSearchParams(path === '/api/logs' ? { output: 'none' } : {}),
        headers: {},
        actor,
        client: { address: '127.0.0.1', witnessed: '127.0.0.1', viaProxy: false, local: false },
        signal: new AbortController().signal
      } as unknown as ApiRequest
      const what = `${method} ${path} for ${actor.name}`
      seen.clear()
      t.not(version?.(request), null, `${what} has a version`)
      let answers: unknown[] = []
      const read = await readBy(stage, async () => void (answers = [await handle(request)]))
      // Without the status of the reply itself.
      const answer = JSON.stringify(answers).replace(/"status":\d+/g, '')
      for (const table of read) {
        for (const writer of [table, ...writersOf(store, table, answer)])
          t.ok(seen.has(writer), `${what} declares ${writer}`)
      }
      clock.advance(40 * 24 * 3_600_000)
      answers.push(await handle(request))
      t.same(answers[1], answers[0], `${what} does not depend on the time`)
    }
  }
})
