import t from 'tap'
import {
  type Auth,
  type Caller,
  createBearer,
  createRelayedCallers,
  type Credentials,
  relayedHeaders,
  type Role
} from '../../lib/access/bearer.js'
import { Limiter } from '../../lib/access/limiter.js'
import { Refusal } from '../../lib/base/errors.js'
import { setClock } from '../support/clock.js'

const address = '203.0.113.9'

/** One session with the cookie `good`. The cookie `old` belongs to a session that has ended. */
const sessions = {
  find: ({ cookie }: Credentials['headers']) =>
    cookie === 'good'
      ? {
          id: 'ses_1',
          tokenId: null,
          provenAt: null,
          expiresAt: '2026-12-01T00:00:00.000Z',
          csrf: () => 'the-csrf'
        }
      : null,
  isAlive: () => true,
  hasCookie: ({ cookie }: Credentials['headers']) => cookie !== undefined
}

const named = { callerOf: () => null, callerById: () => null, callerAgain: () => null }
let isNodeKnown = true
const nodes = {
  isKnown: () => isNodeKnown,
  verify({ headers }: Pick<Credentials, 'headers'>) {
    if (headers.authorization !== 'SvcNode signed') throw new Refusal('unauthorized', 'unauthorized', 'Not signed')
    return { id: 'node_a', name: 'plant-a1', session: 's', counter: '1', protocol: 2, bodySha256: '' }
  }
}

function bearerWith({ allowed = true, global = 'global-token' } = {}) {
  const limiter = new Limiter({ clock: setClock(), onFailure: () => {}, wait: async () => {} })
  const bearer = createBearer({
    limiter,
    nodes,
    sessions,
    admin: { verify: token => token === 'admin-token' },
    projectOf: token => (token === 'shop-token' ? { id: 'proj_shop', token } : undefined),
    globalToken: () => global,
    metricsToken: () => 'metrics-token',
    named,
    tickets: { redeem: (ticket, purpose) => (ticket === `good-${purpose}` ? { tokenId: null } : null) },
    allowList: {
      check() {
        if (!allowed) throw new Refusal('forbidden', 'address_not_allowed', 'Not from there')
      }
    }
  })
  // There are too few failures to delay a check.
  return { authorise: (auth: Auth, given: Credentials) => bearer.authorise(auth, given) as Caller }
}

function credentials(authorization?: string, { search = '', local = false } = {}): Credentials {
  const client = local
    ? { address: 'local', witnessed: 'local', viaProxy: false, local: true }
    : { address, witnessed: address, viaProxy: false, local: false }
  return {
    method: 'GET',
    path: '/api/projects',
    headers: authorization === undefined ? {} : { authorization },
    query: new URLSearchParams(search),
    client
  }
}

t.test('identifies the holder of a token by the rule of the route', async t => {
  const cases: Array<[Auth, string | undefined, Role | 401 | 403]> = [
    ['agent', 'SvcNode signed', 'agent'],
    ['agent', 'Bearer admin-token', 401],
    ['agent', undefined, 401],
    ['admin', 'SvcNode signed', 401],
    ['public', undefined, 'anonymous'],
    ['public', 'Bearer admin-token', 'anonymous'],
    ['admin', 'Bearer admin-token', 'admin'],
    ['admin', 'bearer admin-token', 'admin'],
    ['admin', 'BEARER   admin-token ', 'admin'],
    ['admin', undefined, 401],
    ['admin', '', 401],
    ['admin', 'Bearer', 401],
    ['admin', 'Bearer ', 401],
    ['admin', 'Basic YWRtaW4=', 401],
    ['admin', 'admin-token', 401],
    ['admin', 'Bearer admin-token extra', 401],
    ['admin', `Bearer ${'x'.repeat(5000)}`, 401],
    ['admin', 'Bearer wrong', 401],
    ['admin', 'Bearer shop-token', 403],
    ['admin', 'Bearer global-token', 403],
    ['operate', 'Bearer admin-token', 'admin'],
    ['operate', 'Bearer shop-token', 403],
    ['read', 'Bearer shop-token', 'project'],
    ['read', 'Bearer admin-token', 'admin'],
    ['read', 'Bearer global-token', 403],
    ['download', 'Bearer shop-token', 'project'],
    ['upload', 'Bearer shop-token', 'project'],
    ['upload', 'Bearer global-token', 'global'],
    ['upload', 'Bearer admin-token', 401],
    ['upload', undefined, 401]
  ]
  for (const [auth, authorization, expected] of cases) {
    const authorise = () => bearerWith().authorise(auth, credentials(authorization))
    const what = `${auth}: ${authorization?.slice(0, 40)}`
    if (expected === 401) t.throws(authorise, { kind: 'unauthorized', code: 'unauthorized' }, what)
    else if (expected === 403) t.throws(authorise, { kind: 'forbidden', code: 'forbidden' }, what)
    else t.equal(authorise().role, expected, what)
  }
})

t.test('a removed node changes nothing any more, and the hub ends its stream', async t => {
  const { checkAgain } = bearerWith().authorise('agent', credentials('SvcNode signed'))
  checkAgain?.(true)
  isNodeKnown = false
  t.teardown(() => (isNodeKnown = true))
  t.throws(() => checkAgain?.(true), { kind: 'unauthorized', code: 'token_revoked' })
  t.doesNotThrow(() => checkAgain?.(false))
})

t.test('names callers as the audit log does', async t => {
  const bearer = bearerWith()
  t.match(bearer.authorise('admin', credentials('Bearer admin-token')), { name: 'admin', ip: address })
  t.match(bearer.authorise('upload', credentials('Bearer shop-token')), {
    name: 'project:proj_shop',
    projectId: 'proj_shop'
  })
  t.match(bearer.authorise('upload', credentials('Bearer global-token')), { name: 'global-deploy', projectId: null })
  t.match(bearer.authorise('public', credentials()), { name: 'anonymous', ip: address })
})

t.test('accepts no global token if none is set, not even an empty one', async t => {
  t.throws(() => bearerWith({ global: '' }).authorise('upload', credentials('Bearer ')), {
    kind: 'unauthorized',
    code: 'unauthorized'
  })
  t.throws(() => bearerWith({ global: '' }).authorise('upload', credentials('Bearer global-token')), {
    kind: 'unauthorized',
    code: 'unauthorized'
  })
})

t.test('accepts tickets only for routes with their purpose', async t => {
  const bearer = bearerWith()
  t.equal(bearer.authorise('download', credentials(undefined, { search: 'ticket=good-download' })).role, 'admin')
  t.equal(bearer.authorise('terminal', credentials(undefined, { search: 'ticket=good-terminal' })).role, 'admin')
  const refused: Array<[Auth, string]> = [
    ['download', 'good-terminal'],
    ['terminal', 'good-download'],
    ['download', ''],
    ['admin', 'good-download'],
    ['read', 'good-download']
  ]
  for (const [auth, ticket] of refused) {
    const given = credentials(undefined, { search: `ticket=${ticket}` })
    t.throws(() => bearer.authorise(auth, given), { kind: 'unauthorized', code: 'unauthorized' }, `${auth}: ${ticket}`)
  }
  const both = credentials('Bearer wrong', { search: 'ticket=good-download' })
  t.throws(
    () => bearer.authorise('download', both),
    { kind: 'unauthorized', code: 'unauthorized' },
    'the header takes precedence over a ticket'
  )
})

t.test('the local operator needs no token, except for uploads', async t => {
  const bearer = bearerWith()
  t.match(bearer.authorise('admin', credentials(undefined, { local: true })), {
    role: 'local',
    name: 'local',
    ip: null
  })
  t.throws(() => bearer.authorise('upload', credentials(undefined, { local: true })), {
    kind: 'unauthorized',
    code: 'unauthorized'
  })
  t.equal(bearer.authorise('local', credentials(undefined, { local: true })).role, 'local')
  // A token that is given replaces its rights.
  t.equal(bearer.authorise('upload_check', credentials('Bearer shop-token', { local: true })).role, 'project')
  t.throws(() => bearer.authorise('admin', credentials('Bearer shop-token', { local: true })), { code: 'forbidden' })
  t.throws(() => bearer.authorise('admin', credentials('Bearer wrong', { local: true })), { code: 'unauthorized' })
  t.throws(() => bearer.authorise('local', credentials('Bearer admin-token')), { kind: 'forbidden', code: 'forbidden' })
})

t.test('requires an allowed address for deployments, rollbacks and the terminal', async t => {
  const bearer = bearerWith({ allowed: false })
  const notAllowed = { kind: 'forbidden', code: 'address_not_allowed' }
  t.throws(() => bearer.authorise('upload', credentials('Bearer shop-token')), notAllowed)
  t.throws(() => bearer.authorise('operate', credentials('Bearer admin-token')), notAllowed)
  t.throws(() => bearer.authorise('terminal', credentials(undefined, { search: 'ticket=good-terminal' })), notAllowed)
  t.throws(
    () => bearer.authorise('upload', credentials('Bearer wrong')),
    { kind: 'unauthorized', code: 'unauthorized' },
    'the token is checked first'
  )
  t.equal(bearer.authorise('admin', credentials('Bearer admin-token')).role, 'admin')
  t.equal(bearer.authorise('operate', credentials(undefined, { local: true })).role, 'local')
})

t.test('uses the witnessed address, and records the claimed one with it', async t => {
  const checked: string[] = []
  const bearer = createBearer({
    nodes,
    sessions,
    admin: { verify: () => true },
    projectOf: () => undefined,
    globalToken: () => '',
    metricsToken: () => 'metrics-token',
    named,
    tickets: { redeem: () => null },
    allowList: { check: address => void checked.push(address) },
    limiter: new Limiter({ clock: setClock(), onFailure: () => {} })
  })
  const { headers, query } = credentials('Bearer admin-token')
  const client = { address: '10.0.0.1', witnessed: '203.0.113.9', viaProxy: true, local: false }
  t.match(await bearer.authorise('operate', { method: 'GET', path: '/', headers, query, client }), {
    ip: '203.0.113.9',
    claimedIp: '10.0.0.1'
  })
  t.match(await bearer.authorise('operate', credentials('Bearer admin-token')), { ip: address, claimedIp: null })
  t.same(checked, ['203.0.113.9', address])
})

t.test('counts every wrong secret, but no untried one', async t => {
  const cases: Array<[what: string, auth: Auth, given: Credentials, isCounted: boolean]> = [
    ['an unknown token', 'admin', credentials('Bearer wrong'), true],
    ['an unknown deploy token', 'upload', credentials('Bearer wrong'), true],
    ['the admin token for an upload', 'upload', credentials('Bearer admin-token'), true],
    ['a wrong ticket', 'download', credentials(undefined, { search: 'ticket=wrong' }), true],
    ['a ticket of another purpose', 'terminal', credentials(undefined, { search: 'ticket=good-download' }), true],
    [
      'a wrong subprotocol token',
      'terminal',
      { ...credentials(), headers: { 'sec-websocket-protocol': 'svc-admin-token, wrong' } },
      true
    ],
    ['no token', 'admin', credentials(), false],
    ['no bearer', 'admin', credentials('Basic YWRtaW4='), false],
    ['a known token of another kind', 'admin', credentials('Bearer shop-token'), false],
    ['a wrong token for a public route', 'public', credentials('Bearer wrong'), false],
    ['a wrong token for a local route', 'local', credentials('Bearer wrong'), false]
  ]
  for (const [what, auth, given, isCounted] of cases) {
    const bearer = bearerWith()
    const codes: string[] = []
    for (let i = 0; i < 9; i++) {
      try {
        codes.push((await bearer.authorise(auth, given)).role)
      } catch (error) {
        codes.push((error as Refusal).code)
      }
    }
    t.equal(codes[8] === 'locked_out', isCounted, what)
    t.not(codes[7], 'locked_out', what)
  }
})

t.test('a right bearer, ticket or subprotocol passes while wrong ones have locked its address', async t => {
  const { authorise } = bearerWith()
  const guess = async () => {
    try {
      return (await authorise('admin', credentials('Bearer wrong'))).role
    } catch (error) {
      return (error as Refusal).code
    }
  }
  for (let i = 0; i < 8; i++) t.equal(await guess(), 'unauthorized')
  t.equal(await guess(), 'locked_out')
  t.equal((await authorise('admin', credentials('Bearer admin-token'))).role, 'admin')
  t.equal((await authorise('upload', credentials('Bearer shop-token'))).role, 'project')
  t.equal((await authorise('download', credentials(undefined, { search: 'ticket=good-download' }))).role, 'admin')
  const terminal = { ...credentials(), headers: { 'sec-websocket-protocol': 'svc-admin-token, admin-token' } }
  t.equal((await authorise('terminal', terminal)).role, 'admin')
  t.equal((await authorise('admin', { ...credentials(), headers: { cookie: 'good' } })).role, 'admin')
  t.equal(await guess(), 'locked_out')
})

t.test('a session cookie gives the rights of the admin token, and allows uploads', async t => {
  const withCookie = (
    cookie: string,
    headers: Credentials['headers'] = {},
    method: Credentials['method'] = 'GET'
  ): Credentials => ({ ...credentials(), method, headers: { cookie, ...headers } })
  const csrf = { 'x-svc-csrf': 'the-csrf' }
  const cases: Array<[what: string, Auth, Credentials, Role | string]> = [
    ['reading', 'admin', withCookie('good'), 'admin'],
    ['HEAD', 'admin', withCookie('good', {}, 'HEAD'), 'admin'],
    ['the terminal', 'terminal', withCookie('good'), 'admin'],
    ['a download', 'admin_download', withCookie('good'), 'admin'],
    ['a change', 'admin', withCookie('good', csrf, 'POST'), 'admin'],
    ['an upload', 'upload', withCookie('good', csrf, 'POST'), 'admin'],
    ['a change without the header', 'admin', withCookie('good', {}, 'DELETE'), 'wrong_csrf'],
    ['a change with another header', 'admin', withCookie('good', { 'x-svc-csrf': 'another' }, 'PUT'), 'wrong_csrf'],
    ['an upload without the header', 'upload', withCookie('good', {}, 'POST'), 'wrong_csrf'],
    ['the local routes', 'local', withCookie('good', csrf, 'POST'), 'forbidden'],
    ['a page of the same origin', 'admin', withCookie('good', { 'sec-fetch-site': 'same-origin' }), 'admin'],
    ['the address bar', 'admin', withCookie('good', { 'sec-fetch-site': 'none' }), 'admin'],
    ['a page of another port', 'admin', withCookie('good', { 'sec-fetch-site': 'same-site' }), 'foreign_origin'],
    [
      'a page of another site',
      'admin',
      withCookie('good', { 'sec-fetch-site': 'cross-site', ...csrf }, 'POST'),
      'foreign_origin'
    ],
    ['a session that has ended', 'admin', withCookie('old'), 'unauthorized'],
    [
      'a bearer token takes precedence',
      'upload',
      withCookie('good', { authorization: 'Bearer shop-token' }, 'POST'),
      'project'
    ],
    [
      'a wrong bearer token with the cookie',
      'admin',
      withCookie('good', { authorization: 'Bearer wrong' }),
      'unauthorized'
    ],
    ["a proxy's own Basic beside it", 'admin', withCookie('good', { authorization: 'Basic YWRtaW4=' }), 'admin']
  ]
  for (const [what, auth, given, expected] of cases) {
    let answer: string
    try {
      answer = bearerWith().authorise(auth, given).role
    } catch (error) {
      answer = (error as Refusal).code
    }
    t.equal(answer, expected, what)
  }
  t.throws(() => bearerWith({ allowed: false }).authorise('upload', withCookie('good', csrf, 'POST')), {
    code: 'address_not_allowed'
  })
  const bearer = bearerWith()
  for (let n = 0; n < 20; n++)
    t.throws(() => bearer.authorise('admin', withCookie('old')), { message: /has ended/ }, 'it never locks the address')
})

const caller = { name: 'token:Zoë', role: 'viewer' as const, projects: ['proj_a'], seesScripts: false }

t.test('only requests with the secret of the process are relayed ones', async t => {
  const callerOf = createRelayedCallers('secret')
  t.strictSame(callerOf(relayedHeaders('secret', caller)), { ...caller, name: 'hub:token:Zoë' })
  t.equal(callerOf(relayedHeaders('other', caller)), null)
  t.equal(callerOf({}), null)
  t.throws(() => callerOf(relayedHeaders('secret', { ...caller, role: 'local' as never })), /unknown role/)
})
