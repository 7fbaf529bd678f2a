import { request as httpRequest } from 'node:http'
import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import { fillForAccess, type AccessFixture, type Records } from '../support/access-fixture.js'
import {
  concernsRecord,
  promisedAnswer,
  promisedRights,
  promisedRoutes,
  type Aim,
  type CallerKind,
  type Promised
} from '../support/access-rules.js'
import { codeOf } from '../../lib/access/second-factor.js'
import { setClock } from '../support/clock.js'
import { formOf } from '../support/client.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { signIn } from '../support/session.js'

/*
 * Every route × every kind of caller, over real sockets: the answer is the one that docs/security.md promises
 * (support/access-rules.ts). Every answer below admin is searched for the secrets of the fixture, and every answer to a
 * caller that is limited to a project for texts of the other one. access.test.ts has the ways of an address.
 */

type Headers = Record<string, string>

interface Caller extends CallerKind {
  what: string
  headers(route: string): Headers | Promise<Headers>
  /** The deployment that the caller started. */
  own?: string
  /** Whether it may read the texts of scripts of `shop`. */
  seesScripts: boolean
}

interface Answer {
  status: number
  /** The error code; empty for a success. */
  code: string
  text: string
}

const hourMs = 60 * 60_000
/** Longer than the window of the failure limit. */
const forgottenMs = 11 * 60_000
const elsewhere = ['198.51.100.0/24']

/** Queries that a GET needs to find something. */
const queries: Readonly<Record<string, string>> = {
  '/api/audit/inclusion': '?id=aud_0000000000000000',
  '/api/audit/proof': '?from=0',
  '/api/projects/:id/file': '?path=index.html',
  '/api/projects/:id/download': '?path=index.html',
  '/api/projects/:id/drift/file': '?path=index.html',
  '/api/log-sources/:sourceId/search': '?q=line',
  '/api/search': '?q=o&limit=50',
  '/api/logs': '?limit=500',
  '/api/audit': '?limit=500',
  '/api/fs/list': '?path=/'
}

/** Statuses other than 2xx with which a handler may answer a permitted GET. */
const otherAnswers: Readonly<Record<string, number[]>> = {
  // Only a named token is a record.
  'GET /api/tokens/self': [404],
  'GET /api/projects/:id/drift/file': [404, 409],
  'GET /api/migration/verify': [400],
  // The name of the component is missing.
  'GET /api/components': [400],
  // There is no entry with this id.
  'GET /api/audit/inclusion': [404],
  // The project is locked.
  'GET /api/deploy/check': [409],
  // It does not wait.
  'GET /api/deployments/:id/plan': [409],
  // No release is kept.
  'GET /api/deploy/base': [409],
  // test/api/uploads.test.ts: it needs an upload.
  'GET /api/uploads/:id': [404],
  'GET /api/deployments/:id/changes': [404],
  // The deployment was only recorded.
  'GET /api/deployments/:id/receipt': [404],
  // The deployment is not signed.
  'GET /api/deployments/:id/attestations/:name': [404],
  // No node has this name.
  'GET /api/nodes/:node': [404],
  'GET /api/nodes/:node/at/*path': [404],
  'GET /api/nodes/:node/terminal': [404],
  'GET /api/rollouts/:rolloutId/nodes/:node': [404],
  // The request is no handshake, and node-pty may be missing.
  'GET /api/terminal/ws': [400, 426, 501]
}

/** Work that is refused while the same goes on. */
const oneAtATime = ['GET /api/projects/:id/verify', 'GET /api/projects/:id/drift']

/** Requests that succeed without a body, and must not remove what the next caller needs. */
const spare: Readonly<Record<string, (fixture: AccessFixture) => Promise<string>>> = {
  'DELETE /api/projects/:id': ({ addProject }) => addProject(),
  'POST /api/projects/:id/token': ({ addProject }) => addProject(),
  'DELETE /api/log-sources/:sourceId': ({ addSource }) => addSource()
}

/** Signs in once for each route, and for each attempt at the route that signs out. */
function oncePerRoute(begin: () => Promise<Headers>): (route: string) => Promise<Headers> {
  let known: { route: string; headers: Promise<Headers> } | undefined
  return route => {
    if (known?.route !== route || route === 'DELETE /api/auth/session') known = { route, headers: begin() }
    return known.headers
  }
}

async function callersOf(stage: Stage, fixture: AccessFixture, nowMs: number): Promise<Caller[]> {
  const { shop, forum, mint } = fixture
  const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` })
  const limit = { projectIds: [shop.project.id] }
  const callers: Caller[] = []
  const add = (what: string, headers: Caller['headers'], kind: CallerKind & Partial<Caller>): void => {
    callers.push({ what, headers, seesScripts: false, ...kind })
  }

  add('anonymous', () => ({}), { column: null })
  for (const column of ['viewer', 'deployer', 'operator'] as const) {
    for (const isLimited of [false, true]) {
      const what = `${column}${isLimited ? ', limited to shop' : ''}`
      const token = await mint(what, column, isLimited ? limit : {})
      const own = column === 'deployer' ? { own: await fixture.deployWith(token) } : {}
      const seesScripts = column === 'operator'
      const limited = isLimited ? { limitedTo: 'shop' as const } : {}
      add(what, () => bearer(token), { column, isNamed: true, ...limited, seesScripts, ...own })
      if (!isLimited) continue
      const sessionOf = oncePerRoute(async () => (await signIn(stage.as(null), { token })).headers)
      const session = { column, isNamed: true, ...limited, seesScripts, ...own } as const
      add(`session of ${what}`, sessionOf, { ...session, session: 'with header' })
      add(
        `session of ${what}, without the CSRF header`,
        async route => ({ cookie: (await sessionOf(route))['cookie'] as string }),
        { ...session, session: 'without header' }
      )
    }
  }
  const reader = await mint('viewer who reads scripts', 'viewer', { ...limit, showScripts: true })
  add('viewer who reads scripts', () => bearer(reader), {
    column: 'viewer',
    isNamed: true,
    limitedTo: 'shop',
    seesScripts: true
  })
  const admin = await mint('admin', 'admin')
  add('admin', () => bearer(admin), { column: 'admin', isNamed: true, seesScripts: true })
  add('admin token', () => bearer(adminToken), { column: 'admin', seesScripts: true })
  add(
    'session of the admin token, without the CSRF header',
    oncePerRoute(async () => ({ cookie: (await signIn(stage.as(null))).cookie })),
    { column: 'admin', session: 'without header', seesScripts: true }
  )

  // Used on every route, so it lasts; only its own sign-out needs another one.
  const old = (await signIn(stage.as(null))).headers
  const ofOld = async (route: string): Promise<Headers> =>
    route === 'DELETE /api/auth/session' ? (await signIn(stage.as(null))).headers : old
  const unproven = { column: 'admin', session: 'with header', isUnproven: true, seesScripts: true } as const
  add('session of the admin token, hours after its sign-in', ofOld, unproven)

  const guarded = await mint('with a second factor', 'admin')
  const guard = await signIn(stage.as(null), { token: guarded })
  const { secret } = (await stage.as(null).post('/api/auth/second-factor', {}, guard.headers)).body
  fixture.secrets['second factor'] = secret
  const code = codeOf(secret, Math.floor(nowMs / 30_000))
  const confirmed = await stage.as(null).post('/api/auth/second-factor/confirm', { code }, guard.headers)
  if (confirmed.status !== 200) throw new Error(confirmed.text)
  add('second factor, as a bearer', () => bearer(guarded), { column: null, refusal: '403 second_factor_required' })

  const soon = new Date(nowMs + hourMs).toISOString()
  const expired = await mint('expired', 'admin', { expiresAt: soon })
  add('expired', () => bearer(expired), { column: null, refusal: '401 token_expired' })
  const revoked = await mint('revoked', 'admin')
  const { items } = (await stage.client.get('/api/tokens')).body
  const { id } = items.find(({ name }: { name: string }) => name === 'revoked')
  await stage.client.delete(`/api/tokens/${id}`)
  add('revoked', () => bearer(revoked), { column: null, refusal: '401 token_revoked' })
  const distant = await mint('distant', 'admin', { allowedIps: elsewhere })
  add('wrong address', () => bearer(distant), { column: null, refusal: '403 address_not_allowed' })

  add('deploy token', () => bearer(shop.project.token), { column: 'project', limitedTo: 'shop', seesScripts: true })
  add('deploy token of another project', () => bearer(forum.project.token), { column: 'project', limitedTo: 'forum' })
  const global = fixture.secrets['global_deploy_token'] as string
  add('global deploy token', () => bearer(global), { column: 'global' })
  return callers
}

/** Sends requests from an address of their own. */
function createAsk(url: string, fixture: AccessFixture) {
  return async ({ route, to, headers, from }: { route: string; to: Records; headers: Headers; from: string }) => {
    const [method = '', path = ''] = route.split(' ')
    const id = path.includes(':rolloutId')
      ? to.rolloutId
      : path.includes(':sourceId')
        ? to.sourceId
        : /:deployId|^\/api\/deployments/.test(path)
          ? to.deployId
          : path.startsWith('/api/projects/')
            ? to.project.id
            : 'unknown_id'
    const against = path === '/api/deployments/:id/changes' ? `?against=${fixture.shop.deployId}` : ''
    const given =
      path.startsWith('/api/deploy/') && path !== '/api/deploy/upload' ? `?projectId=${to.project.id}` : against
    const query = queries[path] ?? given
    const form = formOf([['projectId', to.project.id]])
    const isUpload = path === '/api/deploy/upload'
    // Everything else in a change is wrong, so that it changes nothing.
    const body = method === 'GET' ? undefined : isUpload ? form.body : Buffer.from('{')
    const type = isUpload ? form.contentType : 'application/json'
    const about = body === undefined ? {} : { 'content-type': type, 'content-length': body.length }
    return new Promise<Answer>((resolve, reject) => {
      const options = { method, localAddress: from, agent: false, headers: { ...headers, ...about } }
      const request = httpRequest(url + path.replace(/:\w+/g, id) + query, options, reply => {
        const chunks: Buffer[] = []
        const end = (): void => {
          const text = Buffer.concat(chunks).toString('latin1')
          const code = reply.statusCode === 200 ? '' : (/"code": ?"(\w+)"/.exec(text)?.[1] ?? '')
          resolve({ status: reply.statusCode as number, code, text })
        }
        reply.on('data', (chunk: Buffer) => {
          chunks.push(chunk)
          // A followed file has no end.
          if (path === '/api/log-sources/:sourceId/stream' && reply.statusCode === 200) reply.destroy()
        })
        reply.on('end', end).on('close', end).on('error', end)
      })
      request.on('error', reject)
      request.on('upgrade', (reply, socket) => {
        socket.destroy()
        resolve({ status: reply.statusCode as number, code: '', text: '' })
      })
      request.end(body)
    })
  }
}

/** Whether a handler answered as to a permitted request. */
function isIn(route: string, { status, code }: Answer, { concern }: Promised): boolean {
  if (otherAnswers[route]?.includes(status)) return true
  if (route.startsWith('GET ')) return status === 200
  // The body is wrong, and on the server there is no record with this id.
  return (
    status === 200 ||
    [400, 409, 411, 415].includes(status) ||
    (status === 404 && !concernsRecord(concern)) ||
    code === 'not_locked'
  )
}

t.test('every route answers every caller as docs/security.md promises', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const fixture = await fillForAccess(stage, adminToken)
  const callers = await callersOf(stage, fixture, clock.now())
  await fixture.lock()
  clock.advance(2 * hourMs)
  const { shop, forum, secrets, scripts } = fixture
  const ask = createAsk(stage.url, fixture)
  const promises = promisedRoutes()
  const routes = apiRoutes(stage.server.services.api)
  const unknown: Records = {
    project: { ...forum.project, id: 'proj_0000000000000000' },
    deployId: 'dep_0000000000000000',
    sourceId: 'log_0000000000000000',
    rolloutId: 'ro_0000000000000000',
    marks: []
  }

  t.test('the document names every route once, and every action has routes', async t => {
    const listed = routes.map(({ method, path }) => `${method} ${path}`)
    t.same([...promises.keys()].sort(), [...listed].sort())
    t.same(new Set([...promises.values()].map(({ action }) => action)), new Set(promisedRights().keys()))
  })

  /** What callers with the right to see it have seen: without it, nothing would be searched for. */
  const seen = new Set<string>()

  for (const [index, { method, path }] of routes.entries()) {
    const route = `${method} ${path}`
    const promised = promises.get(route)
    if (promised === undefined) continue
    clock.advance(forgottenMs)
    const from = `127.9.${index >> 8}.${index & 255}`
    const wrong: string[] = []
    const leaks: string[] = []

    /** Tries one caller, aimed at one of the projects. */
    const attempt = async (caller: Caller, aim: Aim): Promise<Answer> => {
      const { what, headers } = caller
      const wanted = promisedAnswer({ ...promised, route }, caller, aim)
      const to = aim === 'forum' ? forum : { ...shop, ...(aim === 'own' && { deployId: caller.own as string }) }
      const id = wanted === 'in' ? await spare[route]?.(fixture) : undefined
      const spared = id === undefined ? to : { ...to, project: { ...to.project, id }, sourceId: id }
      const answer = await ask({ route, to: spared, headers: await headers(route), from })
      const said = `${answer.status} ${answer.code}`
      const isRight = wanted === 'in' ? isIn(route, answer, promised) : said.startsWith(wanted)
      if (!isRight) wrong.push(`${what}, aimed at ${aim}: ${said} in place of ${wanted}`)
      leaks.push(...leaksOf(caller, answer).map(leak => `${what}, aimed at ${aim}: ${leak}`))
      return answer
    }

    const leaksOf = (caller: Caller, { status, text }: Answer): string[] => {
      const { what, column, seesScripts, limitedTo } = caller
      const found = (texts: readonly string[]): string[] => texts.filter(each => text.includes(each))
      for (const each of found([...Object.values(secrets), ...scripts, ...forum.marks])) seen.add(`${what}: ${each}`)
      const other = limitedTo === undefined || status !== 200 ? [] : (limitedTo === 'shop' ? forum : shop).marks
      return [
        ...(column === 'admin' ? [] : found(Object.values(secrets)).map(() => 'a secret')),
        ...(seesScripts || column === 'admin' ? [] : found(scripts).map(script => `a script, ${script}`)),
        ...found(other).map(mark => `another project, ${mark}`)
      ]
    }

    const attemptAll = async (caller: Caller): Promise<void> => {
      const first = await attempt(caller, 'shop')
      if (promised.concern === 'deployment' && caller.own !== undefined) await attempt(caller, 'own')
      if (caller.limitedTo !== 'shop' || !concernsRecord(promised.concern)) return
      const hidden = await attempt(caller, 'forum')
      if (!caller.isNamed || first.status === hidden.status) return
      const missing = await ask({ route, to: unknown, headers: await caller.headers(route), from })
      if (blank(hidden.text, forum) !== blank(missing.text, unknown) || hidden.status !== missing.status)
        wrong.push(`${caller.what}: another project differs from one that does not exist`)
    }

    if (oneAtATime.includes(route)) for (const caller of callers) await attemptAll(caller)
    else await Promise.all(callers.map(attemptAll))
    t.same(wrong, [], `${route}: ${promised.action}`)
    t.same(leaks, [], `${route} reveals nothing`)
  }

  t.test('callers with the right read what was searched for', async t => {
    const { token } = shop.project
    const readers = { 'admin token': [token], 'viewer who reads scripts': scripts, viewer: forum.marks }
    for (const [what, texts] of Object.entries(readers))
      for (const each of texts) t.ok(seen.has(`${what}: ${each}`), each)
  })

  t.test('a query that names another project, or its records, finds nothing', async t => {
    const limited = await fixture.mint('asks for others', 'operator', { projectIds: [shop.project.id] })
    const client = stage.as(limited)
    const { project, deployId, marks } = forum
    const paths = [
      `/api/deployments/${shop.deployId}/changes?against=${deployId}`,
      `/api/logs?projectId=${project.id}`,
      `/api/logs?before=${deployId}`,
      `/api/audit?projectId=${project.id}`,
      `/api/audit?tokenId=${(await stage.client.get('/api/tokens')).body.items[0].id}`,
      `/api/search?q=${project.name}`,
      `/api/search?q=${deployId}`,
      '/api/projects?tagIds=',
      `/api/deploy/check?projectId=${project.id}`
    ]
    for (const path of paths) {
      const { status, text } = await client.get(path)
      t.ok([200, 400, 403, 404].includes(status), `${path}: ${status}`)
      const asked = path.split('=').at(-1) as string
      for (const mark of marks) t.notMatch(text.replaceAll(asked, '…'), mark, path)
    }
  })
})

function blank(text: string, { project, deployId, sourceId, rolloutId }: Records): string {
  return [project.id, deployId, sourceId, rolloutId].reduce((said, id) => said.replaceAll(id, '…'), text)
}
