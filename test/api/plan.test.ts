import t from 'tap'
import { buffer } from 'node:stream/consumers'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  watch,
  writeFileSync
} from 'node:fs'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { Readable } from 'node:stream'
import { tmpdir } from 'node:os'
import { treeMediaType } from '../../lib/core/archive/tree-wire.js'
import type { PlanAnswer } from '../../lib/model/plan.js'
import { type ClientReply, eventsOf, type FormFields } from '../support/client.js'
import { changesOf } from '../support/sent-changes.js'
import { makeZip } from '../support/make-zip.js'
import { patchOf, sumsOf } from '../support/patched.js'
import { treeBody, zipBytes } from '../support/planned.js'
import { zipOf } from '../support/zip.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { adminToken, startServer } from '../support/server.js'
import { snapshot } from '../support/tree.js'
import { receiveTree } from '../../lib/api/plan.js'
import { createBudget, createSpool } from '../../lib/base/budget.js'
import { Refusal } from '../../lib/base/errors.js'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

t.test('plan', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token' } })
  const { sites, as, client, home } = stage
  let number = 0

  /** A project with a site to deploy. */
  async function shop(files: Record<string, string> = { 'index.html': 'hello', 'css/a.css': 'a {}' }) {
    const name = `shop${++number}`
    const project = await stage.createProject(name)
    const site = join(sites, `${name}-site`)
    const write = (path: string, contents: string): void => {
      const place = join(site, path)
      mkdirSync(join(place, '..'), { recursive: true })
      writeFileSync(place, contents)
      utimesSync(place, 1_700_000_000, 1_700_000_000)
    }
    for (const [path, contents] of Object.entries(files)) write(path, contents)
    const target = join(sites, name)
    const post = async ({
      query = '',
      headers = {},
      token = project.token,
      body = null as Buffer | string | null
    } = {}): Promise<ClientReply> =>
      as(token).send('POST', `/api/deploy/plan?projectId=${project.id}${query}`, {
        headers: { 'content-type': treeMediaType, ...headers },
        body: body ?? (await treeBody(site))
      })
    const plan = async (): Promise<PlanAnswer> => {
      const reply = await post()
      t.equal(reply.status, 200, reply.text)
      return reply.body as PlanAnswer
    }
    const push = async (planId?: string) => {
      const file = { filename: 'site.zip', bytes: await zipBytes(site) }
      const reply = await as(project.token).upload([
        ['projectId', project.id],
        ...(planId === undefined ? [] : [['planId', planId] as [string, string]]),
        ['file', file]
      ])
      return reply.status === 200 ? { ...eventsOf(reply).at(-1), reply } : { status: reply.body.code, reply }
    }
    const failure = async (deployId: string): Promise<string> =>
      (await client.get(`/api/logs/${deployId}`)).body.errorMessage
    return { project, site, target, write, post, plan, push, failure }
  }

  t.test('says what a deployment would do, and writes nothing', async t => {
    const { project, write, plan, push, target } = await shop()
    t.match(await plan(), {
      success: true,
      planId: /^plan_/,
      partial: false,
      live: null,
      counts: { added: 2, changed: 0, timeOnly: 0, unchanged: 0, conflicts: 0 },
      paths: { added: ['css/a.css', 'index.html'], truncated: false },
      bytes: { changed: 9, extracted: 9 },
      queue: { running: null, waiting: 0 },
      scripts: []
    })
    t.notOk(existsSync(target), 'the target is not created')
    const pushed = await push()
    t.match(await plan(), { live: { deployId: pushed.deployId, status: 'success' }, counts: { unchanged: 2 } })
    write('index.html', 'hullo')
    write('new', 'x')
    utimesSync(join(target, 'css/a.css'), 1_600_000_000, 1_600_000_000)
    const answer = await plan()
    t.match(answer, {
      counts: { added: 1, changed: 1, timeOnly: 1, unchanged: 0 },
      paths: { added: ['new'], changed: ['index.html'], timeOnly: ['css/a.css'] },
      bytes: { changed: 6, extracted: 10 }
    })
    t.ok(
      answer.checks.every(({ ok }) => ok),
      'every check passes'
    )
    t.equal(new Set(answer.checks.map(({ name }) => name)).size, answer.checks.length)
    t.ok(answer.bytes.diskNeeded >= 6 && (answer.bytes.diskFree as number) > 0)
    t.equal((await client.get(`/api/logs?projectId=${project.id}`)).body.length, 1, 'no deployment was recorded')
  })

  t.test('a hundred plans change no file, neither in the target nor in the data directory', async t => {
    const { plan, push, target, write } = await shop()
    await push()
    write('index.html', 'other')
    await plan()
    const events: string[] = []
    const watched = [target, join(target, 'css'), home.directory, home.tmp, home.deployments]
    const watchers = watched.map(path => watch(path, (event, name) => void events.push(`${event} ${path}/${name}`)))
    const before = [...snapshot(target), ...snapshot(home.deployments)]
    for (let i = 0; i < 100; i++) await plan()
    for (const watcher of watchers) watcher.close()
    t.strictSame(events, [])
    t.strictSame([...snapshot(target), ...snapshot(home.deployments)], before)
  })

  t.test('an upload is held to its plan', async t => {
    const { plan, push, write, target, failure } = await shop()
    await push()
    write('index.html', 'second')
    const first = await plan()
    writeFileSync(join(target, 'index.html'), 'edited')
    const before = snapshot(target)
    const outdated = await push(first.planId as string)
    t.equal(outdated.status, 'failed')
    t.match(await failure(outdated.deployId), /"index\.html" was changed at .* UTC, after the plan of .* UTC/)
    t.strictSame(snapshot(target), before, 'the target is untouched')
    const second = await plan()
    write('index.html', 'third')
    const other = await push(second.planId as string)
    t.equal(other.status, 'failed')
    t.match(await failure(other.deployId), /the archive does not contain the files of the plan/)
    t.strictSame(snapshot(target), before, 'the target is untouched')
    t.match(await push((await plan()).planId as string), { status: 'success' })
  })

  t.test('an upload whose plan is older than another deployment fails before its scripts run', async t => {
    const { plan, push, failure } = await shop()
    const { planId } = await plan()
    const { deployId } = await push()
    const late = await push(planId as string)
    t.equal(late.status, 'failed')
    t.match(await failure(late.deployId), new RegExp(`deployment ${deployId} was made after the plan`))
  })

  t.test('refuses a plan that the server does not know, or that belongs to another project', async t => {
    const { plan, push } = await shop()
    const other = await shop()
    t.equal((await push('plan_unknownunknown')).status, 'plan_unknown')
    const { planId } = await plan()
    t.equal((await other.push(planId as string)).status, 'plan_unknown')
    await stage.restart()
    const { reply } = await push(planId as string)
    t.match(reply, { status: 409, body: { code: 'plan_unknown', field: 'planId' } })
  })

  t.test('lists as many paths as asked for, and streams all of them', async t => {
    const files = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`f${i}`, 'x']))
    const { post } = await shop(files)
    const lists = async (query: string): Promise<[number, boolean]> => {
      const { counts, paths } = (await post({ query })).body as PlanAnswer
      t.equal(counts.added, 300)
      return [paths.added.length, paths.truncated]
    }
    t.strictSame(await lists(''), [200, true])
    t.strictSame(await lists('&list=0'), [0, true])
    t.strictSame(await lists('&list=1000'), [300, false])
    t.match(await post({ query: '&list=10001' }), { status: 400, body: { code: 'invalid_field', field: 'list' } })
    t.match(await post({ query: '&list=x' }), { status: 400, body: { code: 'invalid_field', field: 'list' } })
    const events = eventsOf(await post({ headers: { accept: 'application/x-ndjson' } }))
    t.match(events[0], { event: 'plan', counts: { added: 300 }, planId: /^plan_/ })
    t.strictSame(
      events
        .slice(1, -1)
        .map(({ path }) => path)
        .sort(),
      Object.keys(files).sort()
    )
    t.strictSame(events.at(-1), { event: 'end' })
  })

  t.test('lists the entries in the way, with the code of the deployment', async t => {
    const { plan, push, failure, target } = await shop({ 'a/b': 'x', c: 'x', 'd/e': 'x' })
    mkdirSync(join(target, 'c'), { recursive: true })
    writeFileSync(join(target, 'c', 'of-others'), '')
    writeFileSync(join(target, 'a'), 'a file')
    symlinkSync('elsewhere', join(target, 'd'))
    const { counts, paths } = await plan()
    t.equal(counts.conflicts, 3)
    t.strictSame(paths.conflicts.map(({ path, code }) => [path, code]).sort(), [
      ['a', 'file_in_the_way'],
      ['c', 'directory_in_the_way'],
      ['d', 'written_through_link']
    ])
    const { deployId } = await push()
    const said = await failure(deployId)
    t.ok(
      paths.conflicts.some(({ message }) => said.endsWith(message)),
      said
    )
  })

  t.test('a target that cannot be used fails its check with the code of the deployment', async t => {
    const { plan, push, failure, target } = await shop()
    writeFileSync(target, 'a file')
    const { checks, partial, planId } = await plan()
    t.strictSame([partial, planId], [true, null])
    const check = checks.find(({ name }) => name === 'target_writable')
    t.match(check, { ok: false, code: 'target_is_a_file' })
    t.ok((await failure((await push()).deployId)).endsWith(check?.message as string))
  })

  t.test('says which scripts would run, and whether the client may send any', async t => {
    const { project, post } = await shop()
    const headers = { 'x-svc-scripts': `pre=${sha256('echo a')},post=${sha256('echo b')}` }
    t.match((await post({ headers })).body.scripts, [
      { step: 'preDeploy', source: 'client', sha256: sha256('echo a'), clientIgnored: false },
      { step: 'postDeploy', source: 'client', sha256: sha256('echo b'), async: false }
    ])
    await client.put(`/api/projects/${project.id}`, {
      preDeployScript: 'echo own',
      allowClientScripts: false,
      policy: { onFailureScript: 'echo failed' }
    })
    const { scripts, checks } = (await post({ headers })).body as PlanAnswer
    const failure = { step: 'onFailure', source: 'platform', async: false, sha256: sha256('echo failed') }
    t.strictSame(scripts.slice(2), [{ ...failure, clientIgnored: false }])
    t.match(scripts[0], { step: 'preDeploy', source: 'platform', sha256: sha256('echo own'), clientIgnored: true })
    t.match(
      checks.find(({ name }) => name === 'client_scripts_allowed'),
      { ok: false, code: 'client_scripts_off' }
    )
    const wrong = await post({ headers: { 'x-svc-scripts': 'pre=abc' } })
    t.match(wrong, { status: 400, body: { code: 'invalid_field', field: 'x-svc-scripts' } })
  })

  t.test('names the lock that would refuse the push', async t => {
    const { project, plan } = await shop()
    const lockCheck = async () => (await plan()).checks.find(({ name }) => name === 'not_locked')
    t.match(await lockCheck(), { ok: true })
    await client.put(`/api/projects/${project.id}/lock`, { reason: 'audit' })
    t.match(await lockCheck(), {
      ok: false,
      code: 'locked',
      message: matching(deploySays.lockedBy(`Project ${project.name}`, 'admin'))
    })
  })

  t.test('checks the size, the token and the clock', async t => {
    const { post, site } = await shop()
    const check = async (name: string, options: Parameters<typeof post>[0] = {}) =>
      ((await post(options)).body as PlanAnswer).checks.find(each => each.name === name)
    t.match(await check('clock', { headers: { 'x-svc-time': String(Date.now()) } }), { ok: true, message: undefined })
    const late = { headers: { 'x-svc-time': String(Date.now() - 3_600_000) } }
    t.match(await check('clock', late), { ok: true, message: /differ by 60 minutes/ })
    t.match(await check('token'), { ok: true })
    const asAdmin = { token: stage.server.adminToken.current() }
    t.match(await check('token', asAdmin), { ok: false, code: 'deploy_token_needed' })
    await client.put('/api/settings', { max_extracted_size: '1' })
    t.match(await check('upload_limit'), { ok: true })
    writeFileSync(join(site, 'large'), Buffer.alloc(2 * 1024 * 1024))
    t.match(await check('upload_limit'), { ok: false, code: 'extracted_too_large' })
    await client.put('/api/settings', { max_extracted_size: '2048' })
  })

  t.test('reads a compressed body, and refuses what is not a tree', async t => {
    const { post, site } = await shop()
    const tree = await treeBody(site)
    const gzip = { 'content-encoding': 'gzip' }
    t.match(await post({ headers: gzip, body: gzipSync(tree) }), { status: 200, body: { counts: { added: 2 } } })
    const refused = async (options: Parameters<typeof post>[0], status: number, code: string): Promise<void> =>
      void t.match(await post(options), { status, body: { code } }, code)
    await refused({ headers: gzip, body: tree }, 400, 'broken_gzip')
    await refused({ headers: gzip, body: gzipSync(tree).subarray(0, -10) }, 400, 'broken_gzip')
    await refused({ headers: { 'content-encoding': 'br' }, body: tree }, 415, 'unsupported_type')
    await refused({ headers: { 'content-type': 'text/plain' }, body: tree }, 415, 'unsupported_type')
    await refused({ body: tree.subarray(0, -5) }, 400, 'invalid_tree')
    await refused({ body: '' }, 400, 'invalid_tree')
    const bomb = gzipSync(Buffer.alloc(80 * 1024 * 1024, 'x'))
    await refused({ headers: gzip, body: bomb }, 413, 'tree_too_large')
    await refused({ body: Buffer.alloc(64 * 1024 * 1024 + 1, 'x') }, 413, 'tree_too_large')
  })

  t.test('answers a deploy token about its own project only', async t => {
    const { post } = await shop()
    const other = await shop()
    t.match(await post({ token: other.project.token }), { status: 403, body: { code: 'other_project' } })
    t.match(await post({ token: 'wrong' }), { status: 401 })
    t.match(await post({ token: 'global-deploy-token' }), { status: 200 })
    const headers = { 'content-type': treeMediaType }
    const unknown = await as('global-deploy-token').send('POST', '/api/deploy/plan?projectId=proj_x', { headers })
    t.match(unknown, { status: 404, body: { code: 'no_such_project' } })
    const nameless = await as('global-deploy-token').send('POST', '/api/deploy/plan', { headers })
    t.match(nameless, { status: 400, body: { code: 'invalid_field', field: 'projectId' } })
  })

  t.test('a project has one comparison at a time', async t => {
    const files = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`f${i}`, `x${i}`]))
    const { post, site } = await shop(files)
    const body = await treeBody(site)
    const replies = await Promise.all(Array.from({ length: 9 }, () => post({ body })))
    const statuses = replies.map(({ status }) => status)
    t.ok(statuses.filter(status => status === 200).length >= 5, statuses.join())
    t.match(replies.find(({ status }) => status === 409)?.body, { code: 'plan_busy' })
    t.equal((await post({ body })).status, 200)
    rmSync(site, { recursive: true })
  })
})

t.test('sums are for the tokens of an upload to the project, and differences make an upload', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token' } })
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  const { as } = stage
  const [before, after] = ['text '.repeat(1000), `more ${'text '.repeat(1000)}`]
  const entryOf = (data: string) => ({ name: 'a', data, mode: 0o100644, mtimeMs: 1_700_000_000_000 })
  const first = await as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: before }) }]
  ])
  const { deployId } = eventsOf(first).at(-1) as { deployId: string }
  const path = (projectId = shop.id, base = deployId) => `/api/deploy/sums?projectId=${projectId}&deployId=${base}`
  const answer = await as(shop.token).post(path(), { lines: [0] })
  t.match(answer, { status: 200, headers: { 'content-type': 'application/octet-stream' } })
  t.equal(answer.headers['content-length'], `${sumsOf(Buffer.from(before)).length}`)
  t.match(await as('global-deploy-token').post(path(), { lines: [0] }), { status: 200 })
  t.match(await as(forum.token).post(path(), { lines: [0] }), { status: 403, body: { code: 'other_project' } })
  t.match(await as(forum.token).post(path(forum.id), { lines: [0] }), { status: 409, body: { code: 'base_gone' } })
  t.match(await as(shop.token).post(path(shop.id, ''), { lines: [0] }), { status: 409, body: { code: 'base_gone' } })
  for (const lines of [[], [1], [-1], ['0'], [0.5], Array(10_001).fill(0)]) {
    const reply = await as(shop.token).post(path(), { lines })
    t.match(reply, { status: 400, body: { code: 'invalid_field' } }, JSON.stringify(lines).slice(0, 20))
  }

  const tree = await buffer(
    await as(shop.token).open('GET', `/api/deploy/base?projectId=${shop.id}&deployId=${deployId}`)
  )
  const { treeSha256, delta } = changesOf([entryOf(after)], tree)
  const patch = patchOf(Buffer.from(before), Buffer.from(after)) as Buffer
  const ofBase: FormFields = [
    ['base', deployId],
    ['treeSha256', treeSha256],
    ['tree', { filename: 'tree', bytes: delta }]
  ]
  const upload = (patches: string, bytes: Buffer, isOfBase = true) =>
    as(shop.token).upload([
      ['projectId', shop.id],
      ['patches', patches],
      ...(isOfBase ? ofBase : []),
      ['file', { filename: 'a.zip', bytes }]
    ])
  const zip = makeZip([{ name: 'p', data: patch }])
  t.match(await upload('p', zip, false), { status: 400, body: { code: 'invalid_field', field: 'base' } })
  t.match(await upload('other', zip), { status: 400, body: { code: 'invalid_patch', field: 'patches' } })
  t.match(await upload('x'.repeat(101), zip), { status: 400, body: { code: 'invalid_field', field: 'patches' } })
  t.match(eventsOf(await upload('p', zip)).at(-1), { status: 'success' })
  t.equal(readFileSync(join(shop.deployPath, 'a'), 'utf8'), after)
})

t.test('deploy/check fails with the same errors as the upload', async t => {
  const stage = await startServer(t, {
    settings: { global_deploy_token: 'global-deploy-token', max_upload_size: '7', max_extracted_size: '11' }
  })
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  const check = (token: string, query: string) => stage.as(token).get(`/api/deploy/check?${query}`)

  for (const token of [shop.token, 'global-deploy-token']) {
    const { status, body } = await check(token, `projectId=${shop.id}&scripts=preDeploy`)
    t.equal(status, 200)
    t.strictSame(body, {
      success: true,
      project: { id: shop.id, name: 'shop', env: 'production' },
      deploymentsAhead: 0,
      newest: null,
      maxUploadBytes: 7 * 1024 * 1024,
      maxExtractedBytes: 11 * 1024 * 1024,
      features: ['confirm', 'startAt', 'pieces', 'signatures', 'patches'],
      signatures: { require: 'off', threshold: 1, sbom: 'off', by: 'project', keys: [] },
      rollout: null,
      base: null
    })
  }
  await stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: '1' }) }]
  ])
  const [{ id: newest }] = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body
  t.match((await check(shop.token, `projectId=${shop.id}`)).body, { newest })
  const { token, record } = (await stage.client.post('/api/tokens', { name: 'ci', role: 'deployer' })).body
  t.match(await check(token, `projectId=${shop.id}`), {
    status: 200,
    body: { token: { name: 'ci', expiresAt: record.expiresAt } }
  })
  t.match(await check('a-wrong-token', `projectId=${shop.id}`), { status: 401 })
  t.match(await check(forum.token, `projectId=${shop.id}`), { status: 403, body: { code: 'other_project' } })
  t.match(
    await check(forum.token, 'projectId=proj_unknown'),
    { status: 403, body: { code: 'other_project' } },
    'no token learns which ids exist'
  )
  t.match(await check('global-deploy-token', 'projectId=proj_unknown'), {
    status: 404,
    body: { code: 'no_such_project' }
  })
  t.match(await check(adminToken, `projectId=${shop.id}`), {
    status: 403,
    body: { code: 'deploy_token_needed', error: /deploy token/ }
  })
  t.match(await check(shop.token, ''), { status: 400, body: { field: 'projectId' } })

  await stage.client.put('/api/settings', { allow_client_scripts: 'false' })
  t.match(await check(shop.token, `projectId=${shop.id}&scripts=postDeploy`), {
    status: 403,
    body: { code: 'client_scripts_off', error: /postDeploy/ }
  })
  t.match(await check(shop.token, `projectId=${shop.id}`), { status: 200 }, 'without a script')

  await stage.client.put('/api/settings', { max_home_size: '1' })
  t.match(await check(shop.token, `projectId=${shop.id}`), { status: 413, body: { code: 'home_full' } })
})

const refuse = (): Refusal => new Refusal('too_many', 'too_much_at_once', 'Too much')
const budget = createBudget({ all: 100 * 1024 * 1024, each: { caller: 70 * 1024 * 1024 }, refuse })
const spool = createSpool({ directory: mkdtempSync(join(tmpdir(), 'svc-tree-')), budget })

async function read(bytes: Buffer | Readable, headers: Record<string, string> = {}): Promise<Buffer> {
  const chunks: Buffer[] = []
  if (Buffer.isBuffer(bytes)) for (let at = 0; at < bytes.length; at += 1000) chunks.push(bytes.subarray(at, at + 1000))
  const body = Buffer.isBuffer(bytes) ? Readable.from(chunks) : bytes
  const request = { headers: { 'content-type': 'text/vnd.svc-tree', ...headers }, body, caller: 'me', hold() {} }
  const tree = await receiveTree(request, spool)
  try {
    return await tree.read()
  } finally {
    await tree.discard()
  }
}

const gzip = { 'content-encoding': 'gzip' }
const text = Buffer.from(Array.from({ length: 10_000 }, (_, i) => `line ${i * 7919}\n`).join(''))

t.test('reads a body, compressed or not', async t => {
  t.ok((await read(text)).equals(text))
  t.ok((await read(gzipSync(text), gzip)).equals(gzipSync(text)), 'as it was sent')
  t.ok((await read(text, { 'content-type': 'Text/VND.svc-tree; charset=utf-8' })).equals(text))
  t.equal(budget.held(), 0, 'everything is given back')
})

t.test('refuses other types and codings, and too much data', async t => {
  await t.rejects(read(text, { 'content-type': 'text/plain' }), { code: 'unsupported_type' })
  await t.rejects(read(text, { 'content-encoding': 'deflate' }), { code: 'unsupported_type' })
  await t.rejects(read(text, gzip), { code: 'broken_gzip' })
  const piece = Buffer.alloc(1024 * 1024)
  const large = Readable.from(Array.from({ length: 65 }, () => piece))
  await t.rejects(read(large), { code: 'tree_too_large', message: '64 MB' })
  t.equal(budget.held(), 0, 'everything is given back')
})

t.test('a body that fails fails the reading with its error', async t => {
  const lost = new Refusal('invalid', 'aborted', 'The connection was closed')
  for (const headers of [gzip, {}]) {
    const body = new Readable({ read: () => {} })
    const reading = read(body, headers)
    body.push(gzipSync(text).subarray(0, 100))
    setImmediate(() => body.destroy(lost))
    await t.rejects(reading, lost)
  }
  t.equal(budget.held(), 0, 'everything is given back')
})
