import t from 'tap'
import { needsProof, param, type ApiRequest } from '../../lib/api/route.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { asksAgain } from '../support/access-rules.js'
import { setClock } from '../support/clock.js'
import { formOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { signIn } from '../support/session.js'
import { zipOf } from '../support/zip.js'

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

  /** Of each route whose power depends on the request: what needs a proof, and what does not. */
  const depending: Record<string, { refused: Sent[]; accepted: Sent[] }> = {
    'PUT /api/projects/:id': {
      refused: [
        { preDeployScript: 'id' },
        { postDeployScript: 'id' },
        { postDeployAsync: true },
        { policy: { gate } },
        { policy: { forceByDeployToken: true } },
        { deployPath: '/srv/elsewhere' },
        { allowClientScripts: true },
        { allowedEnv: ['A'] },
        { scriptShell: '/bin/bash' },
        { scriptDirectory: 'a' },
        { umask: '022' },
        { runAs: 'nobody' }
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
