import t from 'tap'
import {
  type ApiRequest,
  checkProject,
  checkScope,
  needsProof,
  param,
  queryChoice,
  queryLimit,
  queryOffset,
  queryPath,
  type Scope,
  signedBytes,
  signedJson,
  switchText
} from '../../lib/api/route.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { asksAgain } from '../support/access-rules.js'
import { setClock } from '../support/clock.js'
import { eventsOf, formOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { exampleFields, exampleValues } from '../support/project-examples.js'
import { signIn } from '../support/session.js'
import { zipOf } from '../support/zip.js'
import type { Caller } from '../../lib/access/bearer.js'
import { notFound, type Refusal } from '../../lib/base/errors.js'
import { sha256 } from '../../lib/base/digests.js'

t.test('a parameter that the path does not contain is a bug, not a refusal', async t => {
  const request = { params: { id: 'proj_a' } } as unknown as ApiRequest
  t.equal(param(request, 'id'), 'proj_a')
  t.throws(() => param(request, 'deployId'), /no parameter "deployId"/)
})

/** The unlocked computer of an administrator: a session whose token was given hours ago. */
t.test('a session past its proof runs no command, reads no secret and changes no right', async t => {
  const clock = setClock(Date.now())
  const settings = { global_deploy_token: 'the-global-token', metrics_token: 'the-metrics-token' }
  const stage = await startServer(t, { clock, settings })
  const plain = await stage.createProject('plain')
  const scripted = await stage.createProject('scripted', { postDeployScript: 'true' })
  const file = async () => ({ filename: 'a.zip', bytes: await zipOf({ a: 'a' }) })
  const push = async (project: { id: string; token: string }): Promise<string> => {
    const reply = await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', await file()]
    ])
    return /dep_\w+/.exec(reply.text)?.[0] as string
  }
  const [ofPlain, ofScripted] = [await push(plain), await push(scripted)]
  await push(plain)
  const session = await signIn(stage.as(null))
  clock.advance(2 * 60 * 60_000)

  const send = async (method: string, path: string, body?: unknown) => {
    const options = body === undefined ? {} : { body: JSON.stringify(body) }
    const headers = { ...session.headers, 'content-type': 'application/json' }
    return stage.as(null).send(method, path, { headers, ...options })
  }
  const upload = async (projectId: string, fields: Record<string, string>) => {
    const form = formOf([['projectId', projectId], ...Object.entries(fields), ['file', await file()]])
    const headers = { ...session.headers, 'content-type': form.contentType }
    return stage.as(null).send('POST', '/api/deploy/upload', { headers, body: form.body })
  }
  const project = (id: string) => `/api/projects/${id}`
  const gate = { after: [{ command: 'id' }] }
  const bulk = (action: object) => send('POST', '/api/projects/bulk', { ids: [plain.id], ...action })
  type Sent = () => Promise<{ status: number; body: { code?: string } }>

  // Any other field decides what runs, where, as whom, or what a deploy token may do.
  const harmless: readonly string[] = [
    ...['name', 'description', 'env', 'categoryId', 'tagIds'],
    ...['scriptTimeoutSeconds', 'maxDiskMb', 'pinned']
  ]

  /** Of each route whose power depends on the request: what needs a proof, and what does not. */
  const depending: Record<string, { refused: Sent[]; accepted: Sent[] }> = {
    'PUT /api/projects/:id': {
      refused: [
        ...exampleFields.filter(field => !harmless.includes(field)).map(field => exampleValues([field])),
        { policy: { gate } },
        { policy: { forceByDeployToken: true } }
      ].map(change => () => send('PUT', project(plain.id), change)),
      accepted: [{ description: 'Shop' }, { name: 'plain', postDeployScript: '', policy: {} }].map(
        change => () => send('PUT', project(plain.id), change)
      )
    },
    'POST /api/projects/bulk': {
      refused: [() => bulk({ action: 'setClientScripts', allowClientScripts: true })],
      accepted: [() => bulk({ action: 'setCategory' })]
    },
    'POST /api/deploy/upload': {
      refused: [
        () => upload(plain.id, { postDeploy: 'id' }),
        () => upload(plain.id, { preDeploy: 'id' }),
        () => upload(scripted.id, {})
      ],
      accepted: [() => upload(plain.id, {})]
    },
    'POST /api/deployments/:id/rollback': {
      refused: [() => send('POST', `/api/deployments/${ofScripted}/rollback`, {})],
      accepted: [() => send('POST', `/api/deployments/${ofPlain}/rollback`, {})]
    },
    'POST /api/projects/:id/promote': {
      refused: [() => send('POST', `${project(scripted.id)}/promote`, { from: ofPlain })],
      accepted: [() => send('POST', `${project(plain.id)}/promote`, { from: ofScripted })]
    },
    'POST /api/projects/:id/undo': {
      refused: [() => send('POST', `${project(scripted.id)}/undo`, {})],
      accepted: [() => send('POST', `${project(plain.id)}/undo`, {})]
    },
    'POST /api/projects/:id/repair': {
      refused: [() => send('POST', `${project(scripted.id)}/repair`, { runScripts: true })],
      accepted: [() => send('POST', `${project(plain.id)}/repair`, {})]
    },
    'POST /api/deployments/:id/revert': {
      refused: [() => send('POST', `/api/deployments/${ofScripted}/revert`, {})],
      accepted: [() => send('POST', `/api/deployments/${ofPlain}/revert`, {})]
    },
    'POST /api/tickets': {
      refused: [() => send('POST', '/api/tickets', { purpose: 'terminal' })],
      accepted: [() => send('POST', '/api/tickets', { purpose: 'download' })]
    }
  }
  /** Routes that answer in any case, without their secrets. */
  const masked: Record<string, string> = {
    'GET /api/projects': '/api/projects',
    'GET /api/projects/:id': project(plain.id),
    'GET /api/overview': '/api/overview',
    'GET /api/settings': '/api/settings',
    // The node masks what it answers, too; the rows that need a proof are refused before it is asked.
    'GET /api/nodes/:node/at/*path': '/api/nodes/none/at/projects'
  }
  const secrets = [plain.token, scripted.token, ...Object.values(settings)]
  const routes = apiRoutes(stage.server.services.api)

  t.test('the routes that need it are those of the document', async t => {
    const always = routes.filter(({ power }) => needsProof(power)).map(({ method, path }) => `${method} ${path}`)
    const byTicketOrSocket = ['POST /api/auth/reset', 'POST /api/audit/key', 'POST /api/cluster/key', 'GET /api/backup']
    t.same(always.sort(), [...asksAgain, ...byTicketOrSocket].sort())
    const byRequest = routes.filter(({ power }) => power === 'depends').map(({ method, path }) => `${method} ${path}`)
    t.same(byRequest.sort(), [...Object.keys(depending), ...Object.keys(masked)].sort())
  })

  for (const { method, path, power, auth } of routes) {
    if (['public', 'local', 'agent', 'metrics'].includes(auth) || /\/(stream|events|ws)$/.test(path)) continue
    if (power === 'depends' || path === '/api/auth/session') continue
    const { body } = await send(method, path.replace(/[:*]\w+/g, 'unknown_id'), method === 'GET' ? undefined : [])
    t.equal(body?.code === 'proof_required', needsProof(power), `${method} ${path} (${power})`)
  }
  for (const [route, { refused, accepted }] of Object.entries(depending)) {
    for (const [at, sent] of refused.entries()) {
      t.match(await sent(), { status: 403, body: { code: 'proof_required' } }, `${route}, refused ${at}`)
    }
    for (const [at, sent] of accepted.entries()) {
      t.not((await sent()).body?.code, 'proof_required', `${route}, accepted ${at}`)
    }
  }
  const answers: string[] = []
  for (const path of Object.values(masked)) answers.push((await send('GET', path)).text)
  answers.push((await send('PUT', `${project(plain.id)}/pin`, { pinned: true })).text)
  for (const secret of secrets)
    t.notOk(
      answers.some(text => text.includes(secret)),
      secret
    )

  // The tags of these answers must not make those from after the proof out of date.
  await stage.as(null).post('/api/auth/prove', { token: stage.environment['ADMIN_TOKEN'] }, session.headers)
  for (const path of [project(plain.id), '/api/settings']) {
    const { text } = await send('GET', path)
    t.ok(
      secrets.some(secret => text.includes(secret)),
      path
    )
  }
})

const lookup = {
  ofDeployment: (id: string) => (id === 'dep_shop' ? 'proj_shop' : id === 'dep_blog' ? 'proj_blog' : undefined),
  ofLogSource: (id: string) => (id === 'lsrc_blog' ? 'proj_blog' : undefined),
  ofRollout: (id: string) => (id === 'ro_shop' ? 'proj_shop' : id === 'ro_blog' ? 'proj_blog' : undefined)
}
const all = { role: 'viewer', projects: null } as unknown as Caller
const shop = { role: 'viewer', projects: ['proj_shop'], token: { id: 'tok_a', name: 'ci' } } as unknown as Caller
const deployToken = { role: 'project', projects: ['proj_shop'] } as unknown as Caller

function codeOf(scope: Scope, actor: Caller, params: Record<string, string> = {}): string {
  try {
    checkScope(scope, { actor, params }, lookup)
    return 'in'
  } catch (error) {
    return (error as Refusal).code
  }
}

t.test('a caller without a scope may ask for everything', async t => {
  for (const scope of ['none', 'server', 'filtered', 'given', 'project', 'deployment', 'logSource', 'rollout'] as const)
    t.equal(codeOf(scope, all, { id: 'unknown' }), 'in', scope)
})

t.test('a limited caller gets its own projects, and 404 for all others', async t => {
  const cases: Array<[Scope, Record<string, string>, string]> = [
    ['none', {}, 'in'],
    ['filtered', {}, 'in'],
    ['given', {}, 'in'],
    ['server', {}, 'scope_too_narrow'],
    ['project', { id: 'proj_shop' }, 'in'],
    ['project', { id: 'proj_blog' }, 'not_found'],
    ['project', { id: 'proj_none' }, 'not_found'],
    ['deployment', { id: 'dep_shop' }, 'in'],
    ['deployment', { deployId: 'dep_blog' }, 'not_found'],
    ['deployment', { id: 'dep_none' }, 'not_found'],
    ['logSource', { sourceId: 'lsrc_blog' }, 'not_found'],
    ['logSource', { sourceId: 'lsrc_none' }, 'not_found'],
    ['rollout', { rolloutId: 'ro_shop' }, 'in'],
    ['rollout', { rolloutId: 'ro_blog' }, 'not_found'],
    ['rollout', { rolloutId: 'ro_none' }, 'not_found']
  ]
  for (const [scope, params, code] of cases)
    t.equal(codeOf(scope, shop, params), code, `${scope} ${JSON.stringify(params)}`)
  t.equal(codeOf('project', deployToken, { id: 'proj_blog' }), 'other_project')
  t.equal(codeOf('deployment', deployToken, { id: 'dep_none' }), 'in', 'the handler answers')
  t.equal(codeOf('rollout', deployToken, { rolloutId: 'ro_blog' }), 'other_project')
})

t.test('the refusal is that of an unknown id', async t => {
  t.throws(() => checkProject(shop, 'proj_blog', () => notFound('Project', 'proj_blog')), {
    message: 'Project not found: "proj_blog"'
  })
})

t.test('query parameters', async t => {
  const query = new URLSearchParams('limit=7&big=9999&zero=0&word=x&status=failed&empty=')
  const limits = { fallback: 100, max: 500 }
  t.equal(queryLimit(query, 'limit', limits), 7)
  t.equal(queryLimit(query, 'big', limits), 500, 'a value above the maximum becomes the maximum')
  t.equal(queryLimit(query, 'absent', limits), 100)
  t.equal(queryLimit(query, 'empty', limits), 100)
  t.throws(() => queryLimit(query, 'zero', limits), { code: 'invalid_field', field: 'zero' })
  t.throws(() => queryLimit(query, 'word', limits), { code: 'invalid_field', field: 'word' })
  t.equal(queryChoice(query, 'status', ['failed', 'success']), 'failed')
  t.equal(queryChoice(query, 'empty', ['failed']), undefined)
  t.throws(() => queryChoice(query, 'word', ['failed']), { code: 'invalid_field', field: 'word' })
})

t.test('a parameter of the query that comes twice is refused, on every route', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop')
  const admin = stage.client
  for (const [method, path] of [
    ['GET', '/api/logs?limit=1&limit=2'],
    ['GET', '/api/logs?output=none&%6Futput=end'],
    ['GET', '/api/projects?limit=1&limit=1'],
    ['POST', `/api/projects/${project.id}/undo?x=1&x=2`]
  ] as const) {
    const field = /[?&](\w+)/.exec(path)?.[1]
    const { status, body } = await admin.send(method, path)
    t.match({ status, body }, { status: 400, body: { code: 'invalid_request', field } }, path)
  }
  const { status, headers } = await admin.get('/api/projects')
  t.equal(status, 200)
  const tagged = { headers: { 'if-none-match': headers['etag'] as string } }
  t.equal((await admin.send('GET', '/api/projects?a=1&a=2', tagged)).status, 400, 'also if the answer is known')
  t.equal((await admin.send('GET', '/api/migration/export?ignore=a&ignore=b')).status, 200, 'a list')
})

t.test('switches in text', async t => {
  for (const [given, meant] of [
    ['true', true],
    ['1', true],
    ['false', false],
    ['0', false],
    ['', undefined],
    [null, undefined]
  ]) {
    t.equal(switchText(given as string | null, 'postDeployAsync'), meant)
  }
  t.throws(() => switchText('yes', 'postDeployAsync'), { code: 'invalid_field', field: 'postDeployAsync' })
})

t.test('a byte offset', async t => {
  const read = (text: string): number | undefined => queryOffset(new URLSearchParams(text), 'at')
  t.strictSame(['', 'at=', 'at=0', 'at=123456789012345'].map(read), [undefined, undefined, 0, 123456789012345])
  for (const text of ['at=-1', 'at=1.5', 'at=x', 'at=1234567890123456'])
    t.throws(() => read(text), { code: 'invalid_field', message: /expected a byte offset/ })
})

t.test('a path has no control characters', async t => {
  const read = (path: string): string | undefined => queryPath(new URLSearchParams({ path }), 'path')
  t.strictSame(['', 'a b/\u00e9'].map(read), [undefined, 'a b/\u00e9'])
  t.throws(() => read('a\nb'), { code: 'invalid_field', message: /must not contain control characters/ })
})

t.test('accepts a request without an optional body, but refuses a broken body', async t => {
  const { client, createProject } = await startServer(t)
  const { id } = await createProject('shop')
  await client.put(`/api/projects/${id}/lock`, { reason: 'audit' })
  const headers = { 'content-type': 'application/json' }
  t.match(await client.send('DELETE', `/api/projects/${id}/lock`, { headers, body: '{' }), { status: 400 })
  t.match(await client.send('DELETE', `/api/projects/${id}/lock`), { status: 200 })
})

function requestOf(text: string, signed = text): ApiRequest {
  const bodySha256 = sha256(Buffer.from(signed)).toString('hex')
  const bytes = async (): Promise<Buffer> => Buffer.from(text)
  return {
    bytes,
    actor: { node: { id: 'node_a', name: 'plant-a', session: 's', bodySha256 } }
  } as unknown as ApiRequest
}

t.test('reads the body that was signed', async t => {
  t.equal((await signedBytes(requestOf('a body'))).toString(), 'a body')
  t.same(await signedJson(requestOf('{"a":1}')), { a: 1 })
  await t.rejects(signedBytes(requestOf('a body', 'another one')), { code: 'wrong_digest' })
  await t.rejects(signedJson(requestOf('{"a":')), { code: 'invalid_body' })
})

t.test('the id that a client gives its request finds the deployment', async t => {
  const stage = await startServer(t)
  const { client, as } = stage
  const shop = await stage.createProject('shop')
  const blog = await stage.createProject('blog')
  const push = async ({ id, token }: { id: string; token: string }, traceId: string) => {
    const { contentType, body } = formOf([
      ['projectId', id],
      ['file', { filename: 'a.zip', bytes: await zipOf({ a: id }) }]
    ])
    const headers = { 'content-type': contentType, 'x-svc-trace-id': traceId }
    return await as(token).send('POST', '/api/deploy/upload', { headers, body })
  }
  const found = async (traceId: string, reader = client) => {
    const { body } = await reader.get(`/api/logs?traceId=${encodeURIComponent(traceId)}`)
    return body.map(({ id }: { id: string }) => id)
  }
  const idOf = (reply: Awaited<ReturnType<typeof push>>) => eventsOf(reply).at(-1).deployId as string

  const first = idOf(await push(shop, 'run-7/a:1'))
  const second = idOf(await push(shop, ''))
  const third = idOf(await push(blog, 'run-7/a:1'))
  t.same(await found('run-7/a:1'), [third, first])
  t.same(await found('run-7/a:1', as(shop.token)), [first], 'only what the caller may see')
  t.same(await found('run-7'), [])
  t.equal((await client.get(`/api/logs/${first}`)).body.traceId, 'run-7/a:1')
  t.equal((await client.get(`/api/logs/${second}`)).body.traceId, null)

  const headers = { 'x-svc-trace-id': 'back' }
  const path = `/api/deployments/${first}/rollback`
  const rollback = await client.send('POST', path, { headers })
  t.same(await found('back'), [rollback.body.deployId])
  const undo = await client.send('POST', `/api/projects/${shop.id}/undo`, { headers })
  t.same(await found('back'), [undo.body.deployId, rollback.body.deployId])

  for (const odd of ['two words', 'x'.repeat(201), 'ü']) {
    const refused = { status: 400, body: { code: 'invalid_field', field: 'X-Svc-Trace-Id' } }
    t.match(await push(shop, odd), refused)
    t.match(await client.send('POST', path, { headers: { 'x-svc-trace-id': odd } }), refused)
  }
  t.equal((await client.get('/api/logs')).body.length, 5)
})
