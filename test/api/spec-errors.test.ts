import { rm } from 'node:fs/promises'
import t from 'tap'
import type { Test } from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import type { ApiNeeds } from '../../lib/api/routes.js'
import type { Caller } from '../../lib/auth/bearer.js'
import type { DiskFigures } from '../../lib/model/machine.js'
import { createHealth } from '../../lib/system/health.js'
import { startServer as startHttp } from '../support/http-server.js'
import { openStage } from '../support/store.js'
import { startServer } from '../support/server.js'
import type { Stage } from '../support/server.js'

/** Section 7 of the specification: one row for each that the server answers. Rooms add theirs. */
interface Row {
  condition: string
  status: number
  body: object
  headers?: Record<string, RegExp>
  /** What to do first, and then to ask for. */
  ask(stage: Stage): Promise<{ status: number; headers: object; body: unknown }>
}

const refused = { success: false, error: String, code: String }

const rows: Row[] = [
  { condition: 'project id unknown', status: 404, body: refused, ask: ({ client }) => client.get('/api/projects/proj_unknown') },
  { condition: 'deployment id unknown', status: 404, body: refused, ask: ({ client }) => client.get('/api/logs/dep_unknown') },
  {
    condition: 'login lockout after 8 failures',
    status: 429,
    body: refused,
    headers: { 'retry-after': /^300$/ },
    async ask({ as }) {
      for (let i = 0; i < 8; i++) await as(null).post('/api/auth/login', { token: 'wrong' })
      return as(null).post('/api/auth/login', { token: 'wrong' })
    }
  },
  {
    condition: 'token-change lockout after 8 failures',
    status: 429,
    body: refused,
    headers: { 'retry-after': /^300$/ },
    async ask({ client }) {
      const change = () => client.post('/api/settings/token', { oldToken: 'wrong', newToken: 'another-token-0123456789' })
      for (let i = 0; i < 8; i++) await change()
      return change()
    }
  }
]

for (const { condition, status, body, headers = {}, ask } of rows) {
  t.test(`§7: ${condition}: ${status}`, async t => {
    const reply = await ask(await startServer(t))
    t.equal(reply.status, status)
    t.match(reply.body, body)
    t.match(reply.headers, headers)
  })
}

t.test('§7: a path without the configured prefix: 404', async t => {
  const { url } = await startServer(t, { base: 'deploy' })
  t.equal((await fetch(`${url}/api/health`)).status, 200)
  for (const path of ['/', '/api/health', '/deployment/api/health']) {
    t.equal((await fetch(new URL(path, url))).status, 404, path)
  }
})

/** The routes of health over a socket, on a store and a disk that can be made to fail. */
async function startHealth(t: Test) {
  const { store, clock, directory } = await openStage(t)
  const world = { dbOk: true, percentUsed: 50 as number | null, home: directory }
  const disk = (): DiskFigures => ({ freeBytes: 1, totalBytes: 2, percentUsed: world.percentUsed })
  const health = createHealth({
    store: { ...store, state: () => ({ ...store.state(), ok: world.dbOk }) },
    clock,
    version: '1',
    startedAtMs: clock.now(),
    home: { get directory() { return world.home }, tmp: directory },
    diskOf: async () => disk()
  })
  const stage = await startServer(t)
  const needs: ApiNeeds = { ...stage.server.services.api, health: { health } }
  const actor = { name: 'admin', ip: null } as unknown as Caller
  const { url } = await startHttp(t, apiRoutes(needs) as never, { authorize: () => actor })
  return { world, url, directory }
}

t.test('§7, §4.8: health answers 503 in the same shape', async t => {
  const { world, url, directory } = await startHealth(t)
  const well = { ...world }
  const cases: Array<[what: string, change: Partial<typeof world>, probe: number, detail: number]> = [
    ['all is well', {}, 200, 200],
    ['the store', { dbOk: false }, 503, 503],
    ['the data directory cannot be written', { home: `${directory}/gone` }, 200, 503],
    ['the disk at 95 %', { percentUsed: 95 }, 200, 503],
    ['the disk at 94.99 %', { percentUsed: 94.99 }, 200, 200],
    ['no figures of the disk', { percentUsed: null }, 200, 200]
  ]
  const shapes = new Set<string>()
  for (const [what, change, probe, detail] of cases) {
    Object.assign(world, well, change)
    const [first, second] = [await fetch(`${url}/api/health`), await fetch(`${url}/api/health/detail`)]
    t.equal(first.status, probe, `${what}: probe`)
    t.equal(second.status, detail, `${what}: detail`)
    shapes.add(Object.keys((await first.json()) as object).join() + Object.keys((await second.json()) as object).join())
  }
  t.equal(shapes.size, 1)
})

t.test('the real data directory, gone', async t => {
  const { client, home } = await startServer(t)
  await rm(home.directory, { recursive: true })
  t.match(await client.get('/api/health/detail'), { status: 503, body: { kiteHome: { writable: false, tmpWritable: false } } })
})
