import { Agent, request as httpRequest } from 'node:http'
import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import type { Auth } from '../../lib/access/bearer.js'
import { findOwner } from '../../lib/core/store/owner.js'
import { enrolledAgent } from '../support/fake-agent.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { setClock, type SetClock } from '../support/clock.js'
import { eventsOf, formOf } from '../support/client.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { signIn } from '../support/session.js'
import { zipOf } from '../support/zip.js'
import { isThorough } from '../support/thorough.js'

/*
 * Authorization of the whole API: every route with every credential, over every way in which a client address can
 * arrive. The expectations are written by hand for each word of `auth`, independently of access/bearer.ts.
 */

type Credential =
  | 'none'
  | 'malformed'
  | 'unknown'
  | 'own'
  | 'other'
  | 'global'
  | 'metrics'
  | 'admin'
  | 'download'
  | 'terminal'
  | 'protocol'
  | 'local'
  | 'session'
  | 'sessionOnly'
  | 'sibling'
  | 'revoked'
  | 'expired'
  | 'idle'
  | 'changed'

/**
 * `in`: the request reached the handler. The handler may refuse it, because everything else in the request is wrong.
 */
type Answer = 'in' | 401 | 403

/** Ended sessions: signed out, expired, unused for too long, or from before a change of the admin token. */
const ended = { revoked: 401, expired: 401, idle: 401, changed: 401 } as const
const closed = {
  ...ended,
  none: 401,
  malformed: 401,
  unknown: 401,
  download: 401,
  terminal: 401,
  protocol: 401
} as const
const adminOnly = {
  ...closed,
  own: 403,
  other: 403,
  global: 403,
  metrics: 403,
  admin: 'in',
  local: 'in',
  session: 'in',
  sessionOnly: 'in',
  sibling: 403
} as const

const agentOnly = {
  ...closed,
  own: 401,
  other: 401,
  global: 401,
  metrics: 401,
  admin: 401,
  local: 401,
  session: 401,
  sessionOnly: 401,
  sibling: 401
} as const

const expectations: Record<
  Auth,
  { from: 'anywhere' | 'allowed' | readonly Credential[]; answers: Record<Credential, Answer> }
> = {
  public: {
    from: 'anywhere',
    answers: {
      none: 'in',
      malformed: 'in',
      unknown: 'in',
      own: 'in',
      other: 'in',
      global: 'in',
      metrics: 'in',
      admin: 'in',
      download: 'in',
      terminal: 'in',
      protocol: 'in',
      local: 'in',
      session: 'in',
      sessionOnly: 'in',
      sibling: 'in',
      revoked: 'in',
      expired: 'in',
      idle: 'in',
      changed: 'in'
    }
  },
  viewer: { from: 'anywhere', answers: adminOnly },
  operator: { from: 'anywhere', answers: adminOnly },
  admin: { from: 'anywhere', answers: adminOnly },
  operate: { from: 'allowed', answers: adminOnly },
  read: { from: 'anywhere', answers: { ...adminOnly, own: 'in' } },
  download: { from: 'anywhere', answers: { ...adminOnly, own: 'in', download: 'in' } },
  viewer_download: { from: 'anywhere', answers: { ...adminOnly, download: 'in' } },
  operator_download: { from: 'anywhere', answers: { ...adminOnly, download: 'in' } },
  admin_download: { from: 'anywhere', answers: { ...adminOnly, download: 'in' } },
  own: { from: ['own'], answers: { ...adminOnly, own: 'in' } },
  manage: { from: ['own'], answers: { ...adminOnly, own: 'in' } },
  approve: { from: 'allowed', answers: adminOnly },
  promote: { from: 'allowed', answers: { ...adminOnly, own: 'in' } },
  fetch: { from: 'anywhere', answers: { ...adminOnly, own: 'in' } },
  token: { from: 'anywhere', answers: { ...adminOnly, own: 'in', other: 'in', global: 'in' } },
  upload_check: { from: 'allowed', answers: { ...adminOnly, own: 'in', other: 'in', global: 'in' } },
  upload: {
    from: 'allowed',
    answers: {
      ...closed,
      own: 'in',
      other: 403,
      global: 'in',
      metrics: 401,
      admin: 401,
      local: 401,
      session: 'in',
      sessionOnly: 'in',
      sibling: 403
    }
  },
  // The body is wrong, and there is no upload with this id.
  piece: {
    from: 'allowed',
    answers: {
      ...closed,
      own: 'in',
      other: 'in',
      global: 'in',
      metrics: 401,
      admin: 401,
      local: 401,
      session: 'in',
      sessionOnly: 'in',
      sibling: 403
    }
  },
  agent: { from: 'anywhere', answers: agentOnly },
  metrics: { from: 'anywhere', answers: { ...adminOnly, metrics: 'in' } },
  terminal: { from: 'allowed', answers: { ...adminOnly, terminal: 'in', protocol: 'in' } },
  local: {
    from: 'anywhere',
    answers: {
      none: 403,
      malformed: 403,
      unknown: 403,
      own: 403,
      other: 403,
      global: 403,
      metrics: 403,
      admin: 403,
      download: 403,
      terminal: 403,
      protocol: 403,
      local: 'in',
      session: 403,
      sessionOnly: 403,
      sibling: 403,
      revoked: 403,
      expired: 403,
      idle: 403,
      changed: 403
    }
  }
}

/** The token of another project may request these lists, but sees nothing of this project in them. */
const listsOfOwn = [
  'GET /api/nodes/:node/at/*path',
  'GET /api/logs',
  'GET /api/locks',
  'GET /api/receipts',
  'GET /api/marks',
  'GET /api/components',
  'GET /api/rollouts'
]

/** A way to the server: peer address, headers, and whether the address that the server sees is in `allowed_ips`. */
interface Way {
  what: string
  peer: string
  headers: Record<string, string>
  isAllowed: boolean
}

const proxy = '127.0.0.1'

/** Each route uses its own addresses, so that no route locks out another. */
function waysOf(row: number): Way[] {
  const inside = (n: number): string => `2001:db8:a${n}:${row.toString(16)}::1`
  const outside = (n: number): string => `2001:db8:b${n}:${row.toString(16)}::1`
  const list = (...entries: string[]) => ({ 'x-forwarded-for': entries.join(', ') })
  return [
    { what: 'direct, allowed', peer: `127.7.1.${row}`, headers: {}, isAllowed: true },
    {
      what: 'direct, not allowed, with an invented header',
      peer: `127.8.1.${row}`,
      headers: list(inside(1)),
      isAllowed: false
    },
    {
      what: 'appended to an invented entry that is allowed',
      peer: proxy,
      headers: list(inside(1), outside(2)),
      isAllowed: false
    },
    {
      what: 'appended to an invented entry that is not',
      peer: proxy,
      headers: list(outside(1), inside(3)),
      isAllowed: true
    },
    { what: 'overwritten, allowed', peer: proxy, headers: list(inside(4)), isAllowed: true },
    { what: 'overwritten, not allowed', peer: proxy, headers: { 'x-real-ip': outside(5) }, isAllowed: false }
  ]
}

const allowed = `${proxy}, 127.7.0.0/16, ${[1, 3, 4].map(n => `2001:db8:a${n}::/48`).join(', ')}`

type Tap = typeof t

interface Given {
  headers?: Record<string, string>
  ticket?: string
}

/** Returns the headers of ended sessions. Each of them was valid before. */
async function endedSessions(
  t: Pick<Tap, 'ok' | 'notOk'>,
  stage: Stage,
  clock: SetClock
): Promise<Record<keyof typeof ended, Record<string, string>>> {
  const hourMs = 60 * 60_000
  const isIn = async (headers: Record<string, string>) =>
    (await stage.as(null).get('/api/projects', headers)).status === 200
  const begin = async (remember: boolean) => (await signIn(stage.as(null), { remember })).headers
  const [revoked, expired, idle, changed] = [
    await begin(true),
    await begin(false),
    await begin(true),
    await begin(true)
  ]
  for (const headers of [revoked, expired, idle, changed]) t.ok(await isIn(headers))
  const { body } = await stage.as(null).get('/api/auth/session', revoked)
  await stage.client.delete(`/api/sessions/${body.id}`)
  for (let hours = 0; hours < 24; hours += 6) {
    t.ok(await isIn(expired), 'used')
    clock.advance(6 * hourMs)
  }
  await stage.client.post('/api/settings/token', { oldToken: adminToken, newToken: 'another-token-0123456789' })
  await stage
    .as('another-token-0123456789')
    .post('/api/settings/token', { oldToken: 'another-token-0123456789', newToken: adminToken })
  for (const headers of [revoked, expired, idle, changed]) t.notOk(await isIn(headers))
  return { revoked, expired, idle, changed }
}

/** Longer than the window of the failure limit, so that thousands of wrong tokens here are not throttled. */
const forgottenMs = 11 * 60_000

t.test('each route accepts exactly its credentials, from the client addresses that it allows', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, {
    clock,
    settings: { global_deploy_token: 'global-deploy-token', metrics_token: 'metrics-token-1', trusted_proxies: proxy }
  })
  const { port } = new URL(stage.url)
  const socketPath = (await findOwner(stage.home.directory)) as string
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  const pushed = await stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }]
  ])
  const { deployId } = eventsOf(pushed).at(-1)
  const hub = await stage.server.services.fleet.hub()
  const { name } = await enrolledAgent({ url: stage.url, hub })
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: name }] })
  const rolloutId = await beginRollout({ hub }, {}, shop.id)
  await hub.rollouts.halt(rolloutId, null, { name: 'admin', ip: null })
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { remove: [name] })
  await stage.client.put('/api/settings', { allowed_ips: allowed })

  const { tickets } = stage.server.services.api
  const gone = await endedSessions(t, stage, clock)
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  /** Each request has its own session, because one route ends the session. */
  const session = async () => (await signIn(stage.as(null))).headers
  const given: Record<Credential, () => Given | Promise<Given>> = {
    none: () => ({}),
    malformed: () => ({ headers: { authorization: `Bearer ${adminToken} and more` } }),
    unknown: () => ({ headers: bearer('a-token-that-nobody-has') }),
    own: () => ({ headers: bearer(shop.token) }),
    other: () => ({ headers: bearer(forum.token) }),
    global: () => ({ headers: bearer('global-deploy-token') }),
    metrics: () => ({ headers: bearer('metrics-token-1') }),
    admin: () => ({ headers: bearer(adminToken) }),
    download: () => ({ ticket: tickets.issue('download', { tokenId: null }).ticket }),
    terminal: () => ({ ticket: tickets.issue('terminal', { tokenId: null }).ticket }),
    protocol: () => ({ headers: { 'sec-websocket-protocol': `svc-admin-token, ${adminToken}` } }),
    local: () => ({}),
    session: async () => ({ headers: await session() }),
    sessionOnly: async () => ({ headers: { cookie: (await session()).cookie } }),
    sibling: async () => ({ headers: { ...(await session()), 'sec-fetch-site': 'same-site' } }),
    revoked: () => ({ headers: gone.revoked }),
    expired: () => ({ headers: gone.expired }),
    idle: () => ({ headers: gone.idle }),
    changed: () => ({ headers: gone.changed })
  }
  const form = formOf([['projectId', shop.id]])
  let agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())

  /** Returns the status, negative if the status and WWW-Authenticate do not match. */
  async function ask(
    row: { method: string; path: string; auth: Auth },
    credential: Credential,
    way: Way
  ): Promise<number> {
    const isOfOwn = ['read', 'download', 'own', 'promote', 'manage', 'fetch'].includes(row.auth)
    const ownId = row.path.startsWith('/api/projects/')
      ? shop.id
      : row.path.startsWith('/api/rollouts/')
        ? rolloutId
        : deployId
    const { headers = {}, ticket } = await given[credential]()
    const path =
      row.path.replace(/:\w+/g, isOfOwn ? ownId : 'unknown_id') + (ticket === undefined ? '' : `?ticket=${ticket}`)
    // Everything in the request is wrong, except for an upload, whose form names the project.
    const isUpload = row.auth === 'upload'
    const body = isUpload ? form.body : Buffer.from('{')
    const type = isUpload ? form.contentType : 'application/json'
    const to =
      credential === 'local' ? { socketPath, agent: false } : { host: proxy, port, localAddress: way.peer, agent }
    const all = { ...headers, ...way.headers, 'content-type': type, 'content-length': body.length }
    return new Promise((resolve, reject) => {
      const request = httpRequest({ ...to, method: row.method, path, headers: all }, reply => {
        const status = reply.statusCode as number
        resolve((reply.headers['www-authenticate'] === undefined) === (status === 401) ? -status : status)
        reply.on('error', () => {})
        if (/\/(stream|events|desired|export|backup)$/.test(row.path)) reply.destroy()
        else reply.resume()
      })
      // The server may close an idle connection at the moment it is reused.
      request.on('error', error => (request.reusedSocket ? resolve(ask(row, credential, way)) : reject(error)))
      request.end(body)
    })
  }

  const routes = apiRoutes(stage.server.services.api)
  t.ok(routes.length < 250, 'one byte of an address distinguishes the routes')
  for (const [index, row] of routes.entries()) {
    clock.advance(forgottenMs)
    // More than a thousand idle connections of anonymous clients would make the server close one that is in use.
    agent.destroy()
    agent = new Agent({ keepAlive: true })
    const { from, answers } = expectations[row.auth]
    const wrong: string[] = []
    // Directly, with an allowed and another address, and in turn through one or two of the four proxy ways: how the
    // address is found does not depend on the route.
    const ways = waysOf(index).filter((_, at) => at < 2 || (isThorough ? at % 2 === index % 2 : at - 2 === index % 4))
    for (const way of ways) {
      await Promise.all(
        (Object.keys(given) as Credential[]).map(async credential => {
          let expected = answers[credential]
          if (credential === 'sessionOnly' && row.method !== 'GET' && expected === 'in' && row.auth !== 'public')
            expected = 403
          if (credential === 'other' && listsOfOwn.includes(`${row.method} ${row.path}`)) expected = 'in'
          const needsAllowed = from === 'allowed' || (Array.isArray(from) && from.includes(credential))
          const isFromElsewhere = needsAllowed && !way.isAllowed && credential !== 'local'
          // An upload checks the address before it reads the form that names the project.
          if (isFromElsewhere && expected === 'in') expected = 403
          const status = await ask(row, credential, way)
          // 501: node-pty is not installed on this machine.
          const answer =
            status === 401 || status === 403
              ? status
              : (status >= 0 && status < 500) || status === 501
                ? 'in'
                : `${status}`
          if (answer !== expected) wrong.push(`${credential}, ${way.what}: ${answer} in place of ${expected}`)
        })
      )
    }
    t.same(wrong, [], `${row.method} ${row.path} (${row.auth})`)
  }
})
