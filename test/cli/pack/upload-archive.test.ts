import t from 'tap'
import { once } from 'node:events'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import type { Run } from '../../../lib/cli/client/runs.js'
import type { Context } from '../../../lib/cli/command.js'
import type { PackedArchive } from '../../../lib/cli/pack/pack.js'
import { askAgain, tokenEndLine, uploadArchive, waitUntilFree } from '../../../lib/cli/pack/upload-archive.js'
import type { UploadPermit } from '../../../lib/model/access.js'
import { makeCertificate } from '../../support/certificates.js'
import { serveShop } from '../../support/shop.js'
import { stubClient } from '../../support/stub-client.js'
import { svc } from '../../support/svc.js'
import { urlOf } from '../../support/on-loopback.js'

const archive = { bytes: 10, sha256: 'ours' } as PackedArchive
const { signal } = new AbortController()
const proxy = (status: number): Refusal => new Refusal('unavailable', `http_${status}`, `A proxy answered ${status}`)
const reset = (code = 'ECONNRESET'): Refusal =>
  new Refusal('unavailable', 'unreachable', 'reset', { cause: Object.assign(new Error(), { code }) })

interface Given {
  /** The result of each try; an upload that fails has sent `sentBytes`. */
  tries: Array<Refusal | 'accepted'>
  sentBytes?: number
  /** What the server lists, newest first; absent: it does not answer. */
  listed?: Array<{ id: string; archiveSha256: string | null }>
  newest?: string | null | undefined
}

/** Uploads to a server that answers as given. Returns the deployment, or the code of the error. */
async function upload({ tries, sentBytes = 10, listed, ...given }: Given) {
  const newest = 'newest' in given ? given.newest : 'dep_0'
  let uploads = 0
  const notes: string[] = []
  const send = async (_: unknown, { onProgress }: { onProgress(bytes: number): void }): Promise<Run> => {
    const result = tries[uploads++] ?? 'accepted'
    onProgress(result === 'accepted' ? 10 : sentBytes)
    if (result !== 'accepted') throw result
    return { deployId: 'dep_new' } as Run
  }
  const client = stubClient({
    'GET /api/logs': () => {
      if (listed === undefined) throw reset()
      return listed.map(row => ({ ...row, projectId: 'p' }))
    }
  })
  const bar = { update() {}, end() {}, clear() {} }
  const context = {
    output: { note: (line: string) => void notes.push(line), progress: () => bar }
  } as unknown as Context
  const asked = { client, send, projectId: 'p', archive, fields: {}, newest, given: {}, signal }
  const result = await uploadArchive(asked, context).then(
    ({ deployId }) => deployId,
    (error: Refusal) => error.code
  )
  return { result, uploads, notes }
}

const before = [{ id: 'dep_0', archiveSha256: 'ours' }]

t.test('sends again what a proxy or a reset kept from the server', async t => {
  for (const failure of [proxy(502), proxy(503), proxy(504), reset(), reset('EPIPE'), reset('ECONNREFUSED')]) {
    const { result, uploads, notes } = await upload({ tries: [failure], listed: before })
    t.match({ result, uploads }, { result: 'dep_new', uploads: 2 }, failure.message)
    t.match(notes, [/\. Trying again in/])
  }
  t.match(await upload({ tries: [reset()], sentBytes: 9 }), { result: 'dep_new', uploads: 2 }, 'it was incomplete')
})

t.test('never deploys twice: follows a deployment that began', async t => {
  const listed = [{ id: 'dep_x', archiveSha256: 'theirs' }, { id: 'dep_1', archiveSha256: 'ours' }, ...before]
  t.match(await upload({ tries: [proxy(504)], listed }), { result: 'dep_1', uploads: 1 })
  t.match(await upload({ tries: [reset()], listed: listed.slice(1, 2), newest: null }), { result: 'dep_1', uploads: 1 })
})

t.test('sends nothing again if it cannot know', async t => {
  const unsure = [{ id: 'dep_1', archiveSha256: null }, ...before]
  t.match(await upload({ tries: [proxy(502)], newest: undefined, listed: before }), { result: 'http_502', uploads: 1 })
  t.match(await upload({ tries: [proxy(502)], listed: unsure }), { result: 'stream_broken', uploads: 1 })
  for (const failure of [
    new Refusal('conflict', 'locked', 'locked'),
    new Refusal('unavailable', 'leader_lost', 'lost'),
    reset('ENOTFOUND')
  ])
    t.match(await upload({ tries: [failure], listed: before }), { result: failure.code, uploads: 1 }, failure.code)
})

t.test('asks again before the upload, but not a server that is down', async t => {
  for (const [failure, times] of [
    [proxy(503), 2],
    [reset(), 2],
    [reset('ECONNREFUSED'), 1],
    [new Refusal('unauthorized', 'unauthorized', 'no'), 1]
  ] as const) {
    let asked = 0
    const ask = async (): Promise<string> => {
      if (++asked === 1) throw failure
      return 'yes'
    }
    const answer = await askAgain(ask, signal, () => {}).catch((error: Refusal) => error.code)
    t.strictSame([asked, answer], [times, times === 2 ? 'yes' : failure.code])
  }
})

t.test('reports a refusal before anything is packed', async t => {
  const { cwd, server, shop } = await serveShop(t)
  const forum = await server.createProject({ name: 'forum', deployPath: join(cwd, 'forum') })
  const site = join(cwd, 'site')
  mkdirSync(site)
  writeFileSync(join(site, 'index.html'), 'x')
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: server.url }))

  const cases: Array<[what: string, token: string, words: string[], stderr: RegExp]> = [
    [
      'a wrong token',
      'not-the-token-of-anything',
      [],
      /The token is not valid here \(the token came from SVC_DEPLOY_TOKEN\).*svc projects token proj_/
    ],
    [
      'another project',
      forum.token,
      [],
      /belongs to project forum \(proj_\w+\), not to proj_\w+ \(from \S*svc\.config\.json\)/
    ],
    [
      'the admin token',
      server.adminToken,
      [],
      /The token from SVC_DEPLOY_TOKEN is the admin token, but a push needs the deploy token of the project/
    ]
  ]
  for (const [what, token, words, stderr] of cases) {
    const ended = await svc(['push', ...words], { cwd: site, env: { SVC_DEPLOY_TOKEN: token } })
    t.match(ended, { code: 1, stdout: '', stderr }, what)
    t.notMatch(ended.stderr, 'Packing', what)
    t.notMatch(ended.stderr, token, what)
  }

  await server.api('PUT', '/api/settings', { allow_client_scripts: 'false', max_extracted_size: '1' })
  const env = { SVC_DEPLOY_TOKEN: shop.token }
  const scripts = await svc(['push', '--post', 'true'], { cwd: site, env })
  t.match(scripts, { code: 1, stderr: /^error: Cannot run --post of the upload: .* disables client scripts/ })
  t.notMatch(scripts.stderr, 'Packing')

  writeFileSync(join(site, 'large.bin'), '')
  truncateSync(join(site, 'large.bin'), 3 * 1024 * 1024)
  const large = await svc(['push'], { cwd: site, env })
  t.match(large, {
    code: 1,
    stderr: /its files have 3\.0 MB, and the server accepts at most 1\.0 MB \(setting max_extracted_size\)/
  })
  t.notMatch(large.stderr, 'Packed')
  t.same(await server.deployments(shop.id), [])
})

t.test('pushes to an older server without the check', async t => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url?.split('?')[0]}`)
    request.resume()
    request.on('end', () => {
      const unknown = { success: false, error: 'Not found', code: 'not_found' }
      const status = { event: 'status', status: 'success', duration: '0.10s', deployId: 'dep_1' }
      if (request.method === 'GET')
        response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(unknown))
      else response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end(`${JSON.stringify(status)}\n`)
    })
  })
  const url = await urlOf(t, server)
  const cwd = t.testdir({
    'index.html': 'x',
    'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: url })
  })
  t.match(await svc(['push'], { cwd, env: { SVC_DEPLOY_TOKEN: 'x' } }), { code: 0 })
  t.same(asked, [
    'GET /api/deploy/check',
    'GET /api/logs',
    'POST /api/deploy/upload',
    'GET /api/logs/dep_1',
    'GET /api/audit/checkpoint'
  ])
})

t.test('explains a wrong protocol and a refusing proxy', async t => {
  const plain = createServer((_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  ).listen(0, '127.0.0.1')
  const identity = makeCertificate({ names: ['127.0.0.1'] })
  const secure = createSecureServer({ cert: identity.cert, key: identity.key }, (_, response) => response.end()).listen(
    0,
    '127.0.0.1'
  )
  const proxy = createServer((request, response) => {
    request.resume()
    const { status, headers = {} } = proxied as Answer
    response.writeHead(status, { 'content-type': 'text/html', ...headers }).end('<h1>No</h1>')
  }).listen(0, '127.0.0.1')
  type Answer = { status: number; headers?: Record<string, string>; cure: RegExp }
  const answers: Answer[] = [
    {
      status: 401,
      headers: { 'www-authenticate': 'Basic realm="staging"' },
      cure: /answered 401 \(Unauthorized\)\. It requires its own user name and password\. Turn off its login for paths below \/api/
    },
    { status: 413, cure: /answered 413 \(Payload Too Large\)\. It refuses uploads of this size\. Raise its limit/ },
    { status: 502, cure: /answered 502 \(Bad Gateway\)\. It cannot reach svc\. Check that the svc server is running/ }
  ]
  /** What the proxy answers now: a push asks again after some of them. */
  let proxied: Answer | undefined
  await Promise.all(
    [plain, secure, proxy].map(async server => {
      t.teardown(() => server.close())
      await once(server, 'listening')
    })
  )
  const [plainPort, securePort, proxyPort] = [plain, secure, proxy].map(
    server => (server.address() as AddressInfo).port
  )
  const cwd = t.testdir({ 'index.html': 'x', 'svc.config.json': JSON.stringify({ projectId: 'proj_1' }) })
  const push = (server: string) => svc(['push', '--server', server], { cwd, env: { SVC_DEPLOY_TOKEN: 'x' } })

  const cases: Array<[server: string, cure: RegExp]> = [
    [
      `https://127.0.0.1:${plainPort}`,
      new RegExp(`does not speak TLS on that port. For plain HTTP, use "http://127.0.0.1:${plainPort}"`)
    ],
    [`http://127.0.0.1:${securePort}`, /expects TLS, use an address with https:\/\//],
    ...answers.map(({ cure }) => [`http://127.0.0.1:${proxyPort}`, cure] as [string, RegExp])
  ]
  for (const [server, cure] of cases) {
    proxied = answers.find(answer => answer.cure === cure)
    const ended = await push(server)
    t.match(ended, { code: 1, stdout: '', stderr: cure }, server)
    t.notMatch(ended.stderr, /Packing|may have begun|were sent/, server)
  }
})

const permit = (deploymentsAhead?: number): UploadPermit => ({
  success: true,
  features: [],
  project: { id: 'proj_a', name: 'shop', env: 'production' },
  ...(deploymentsAhead !== undefined && { deploymentsAhead }),
  maxUploadBytes: 1,
  maxExtractedBytes: 1
})
const locked = new Refusal('conflict', 'locked', 'Project shop is locked')

/** Waits for these answers of the server, with a clock that only the pauses move. */
async function waitFor(answers: Array<UploadPermit | Refusal | null>, limitMs = 60_000) {
  const [notes, pauses]: [string[], number[]] = [[], []]
  let nowMs = 0
  const result = await waitUntilFree({
    async check() {
      const answer = answers.shift()
      if (answer instanceof Refusal) throw answer
      return answer ?? null
    },
    limitMs,
    signal: new AbortController().signal,
    note: line => void notes.push(line),
    now: () => nowMs,
    async sleep(ms) {
      pauses.push(ms)
      nowMs += ms
    }
  }).catch((error: unknown) => error)
  return { result, notes, pauses }
}

t.test('a push waits for locks and for deployments, and notes each change once', async t => {
  const free = permit(0)
  const { result, notes, pauses } = await waitFor([locked, locked, permit(2), permit(1), free])
  t.equal(result, free)
  t.same(notes, [
    'Waiting: Project shop is locked',
    'Waiting: 2 deployments of this project ahead',
    'Waiting: 1 deployment of this project ahead'
  ])
  t.equal(pauses.length, 4)
  for (const ms of pauses) t.ok(ms >= 4000 && ms <= 6000, `${ms} ms`)
})

t.test('a push that waits for a rollout names it, and what to do', async t => {
  const since = '2030-01-01T00:00:00.000Z'
  const waits = { ...permit(1), rolloutAhead: { id: 'ro_a', state: 'approval' as const, since, until: null } }
  const { notes } = await waitFor([waits, permit(0)])
  t.match(notes, [
    /1 deployment of this project ahead: rollout ro_a has waited for an approval since 2030-.*approve ro_a"/
  ])
  t.equal(notes.length, 1)
})

t.test('a server that does not know the queue is not waited for', async t => {
  t.equal((await waitFor([null])).result, null)
  t.match((await waitFor([permit()])).pauses, [])
})

t.test('the time limit ends the wait with what it waited for', async t => {
  const first = await waitFor(Array(10).fill(locked), 12_000)
  t.equal(first.result, locked)
  t.equal(Math.round(first.pauses.reduce((a, b) => a + b)), 12_000)
  t.match((await waitFor(Array(10).fill(permit(3)), 5000)).result, { code: 'still_busy', message: /3 deployments/ })
})

t.test('a push that waits already waits for a restart and for an election, too', async t => {
  const away = new Refusal('unavailable', 'unreachable', 'Cannot reach the server')
  const electing = new Refusal('unavailable', 'no_leader', 'No hub leads', { retryAfterSeconds: 5 })
  const free = permit(0)
  const { result, notes } = await waitFor([locked, away, electing, free])
  t.equal(result, free)
  t.same(notes.slice(1), ['Waiting: Cannot reach the server', 'Waiting: No hub leads'])
  t.match(await waitFor([away]), { result: away, pauses: [] }, 'a server that is down is reported at once')
})

t.test('any other refusal ends the wait at once', async t => {
  const refusal = new Refusal('unauthorized', 'unauthorized', 'The token is not valid')
  t.match(await waitFor([locked, refusal]), { result: refusal, pauses: { length: 1 } })
})

t.test('an abort ends the wait with its reason', async t => {
  const controller = new AbortController()
  const reason = new Error('Ctrl-C')
  const note = () => controller.abort(reason)
  const check = async () => permit(1)
  await t.rejects(waitUntilFree({ check, limitMs: 60_000, signal: controller.signal, note }), reason)
})

const ending: UploadPermit = {
  success: true,
  project: { id: 'proj_1', name: 'shop', env: 'production' },
  maxUploadBytes: 1,
  maxExtractedBytes: 1,
  features: []
}
const nowMs = Date.parse('2030-01-01T00:00:00Z')

const cases: Array<[what: string, expiresAt: string, days: string | null]> = [
  ['in 14 days', '2030-01-15T00:00:00.000Z', '14 days, on 2030-01-15'],
  ['in a day', '2030-01-01T08:00:00.000Z', '1 day, on 2030-01-01'],
  ['in 15 days', '2030-01-15T00:00:00.001Z', null]
]

for (const [what, expiresAt, days] of cases) {
  t.test(`a token that ends ${what}`, async t => {
    const line = tokenEndLine({ ...ending, token: { name: 'ci-shop', expiresAt } }, nowMs)
    if (days === null) t.equal(line, null)
    else t.match(line, `The token "ci-shop" expires in ${days}. `)
  })
}

t.test('says nothing about a token without an end, and for an older server', async t => {
  t.equal(tokenEndLine(ending, nowMs), null)
  t.equal(tokenEndLine(null, nowMs), null)
})
