import t from 'tap'
import { createServer } from 'node:http'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Project } from '../../../lib/model/project.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { startServer } from '../../support/server.js'
import { zipOf } from '../../support/zip.js'
import { urlOf } from '../../support/on-loopback.js'

t.test('list', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const flags = ['--server', server.url, '--token', '-']
  const options = { cwd, input: server.adminToken }

  t.match(await svc(['list', ...flags], options), { code: 0, stdout: '', stderr: /There are no projects yet/ })
  t.strictSame(JSON.parse((await svc(['list', '--json', ...flags], options)).stdout), [])

  const project = await server.createProject({ name: '漢字 shop', deployPath: join(cwd, 'www') })
  await server.createProject({ name: 'other', deployPath: join(cwd, 'www2') })

  await t.test('shows every project, aligned', async t => {
    const { code, stdout } = await svc(['list', ...flags], options)
    t.equal(code, 0)
    const [head, first, second] = stdout.split('\n')
    t.match(head, /^PROJECT +NAME +STATUS +ENV +LAST DEPLOYED +LAST MESSAGE +COMMIT +TARGET$/)
    t.match(first, /other +idle +production/)
    t.match(second, new RegExp(`^${project.id}  漢字 shop  idle`))
  })

  await t.test('shows the last deployment of each project', async t => {
    const commit = '0123456789abcdef0123456789abcdef01234567'
    for (const [message, branch] of [
      ['The first', 'main'],
      ['Prices', 'fix']
    ]) {
      await (
        await server.upload(
          project,
          { 'a.txt': 'a' },
          { message: message as string, provenance: JSON.stringify({ commit, branch }) }
        )
      ).finished
    }
    const { stdout } = await svc(['list', ...flags], options)
    t.match(stdout, /漢字 shop +success .* Prices +0123456 fix /)
    t.notMatch(stdout, 'The first')
    t.match(JSON.parse((await svc(['list', '--json', ...flags], options)).stdout), [
      { name: 'other', lastDeployment: null },
      { lastDeployment: { message: 'Prices', provenance: { branch: 'fix', commit } } }
    ])
  })

  await t.test('--json masks the deploy tokens', async t => {
    const { stdout } = await svc(['list', '--json', ...flags], options)
    t.match(JSON.parse(stdout), [{ name: 'other' }, { id: project.id, token: `****${project.token.slice(-4)}` }])
    t.notMatch(stdout, project.token)
  })

  await t.test('takes address and token from the environment, from .env.local, and from the global file', async t => {
    t.equal((await svc(['list'], { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } })).code, 0)
    const local = t.testdir({ '.env.local': `SVC_SERVER_URL=${server.url}\nSVC_TOKEN=${server.adminToken}\n` })
    t.equal((await svc(['list'], { cwd: local })).code, 0)
    const config = JSON.stringify({ serverUrl: server.url, token: server.adminToken })
    const global = t.testdir({ '.svc': { 'config.json': config } })
    t.equal((await svc(['list'], { cwd: global })).code, 0)
  })

  await t.test('names the source of a refused token without showing it', async t => {
    const { code, stderr } = await svc(['list', '--server', server.url], { cwd, env: { SVC_TOKEN: 'a-wrong-token' } })
    t.equal(code, 1)
    t.match(stderr, /^error: .*\(the token came from SVC_TOKEN\)/)
    t.notMatch(stderr, 'a-wrong-token')
  })

  await t.test('uses colours if they are requested', async t => {
    t.match((await svc(['list', ...flags], { ...options, env: { FORCE_COLOR: '1' } })).stdout, '\x1b[1m')
    t.notMatch((await svc(['list', ...flags], options)).stdout, '\x1b')
  })

  await t.test('works with a server behind a prefix and reports a missing prefix', async t => {
    const inner = t.testdir({})
    const prefixed = await startServe(t, inner, ['--base', 'a/b/'])
    t.match(prefixed.url, /\/a\/b$/)
    const env = { SVC_TOKEN: prefixed.adminToken }
    t.equal((await svc(['list', '--server', `${prefixed.url}/`], { cwd: inner, env })).code, 0)
    const { code, stderr } = await svc(['list', '--server', new URL(prefixed.url).origin], { cwd: inner, env })
    t.equal(code, 1)
    t.match(stderr, /^error: /)
  })
})

t.test('a project is created, shown, changed and deleted', async t => {
  const cwd = t.testdir({ www: { 'kept.txt': '' } })
  const server = await startServe(t, cwd)
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const run = (words: string[], input?: string) => svc(words, { cwd, env, ...(input !== undefined && { input }) })

  t.match(await run(['projects', 'create', 'shop']), { code: 2, stderr: /--path is missing/ })
  t.match(await run(['projects', 'create', 'shop', '--path', 'relative']), { code: 1, stderr: /^error: / })
  const path = join(cwd, 'www')
  const created = await run([
    'projects',
    'create',
    'shop',
    '--path',
    path,
    '--label',
    'staging',
    '--post',
    'true',
    '--json'
  ])
  t.equal(created.code, 0, created.stderr)
  const project = JSON.parse(created.stdout) as Project
  t.match(project, { name: 'shop', deployPath: path, env: 'staging', postDeployScript: 'true', token: /^\*\*\*\*/ })
  t.match(created.stderr, `svc init --project ${project.id}`)

  for (const words of [['projects', 'list'], ['list'], ['ls']])
    t.match((await run(words)).stdout, project.id, words.join(' '))
  t.match(await run(['projects']), { code: 0, stdout: /projects create/ })
  const shown = await run(['projects', 'show', 'shop'])
  t.match(shown.stdout, new RegExp(`^id +${project.id}$`, 'm'))
  t.match(shown.stdout, /^token +\*\*\*\*/m)

  t.match(await run(['projects', 'set', 'shop']), { code: 2, stderr: /Nothing to change/ })
  const strict = await run(['projects', 'set', 'shop', '--policy', 'drift=refuse', '--json'])
  t.same(JSON.parse(strict.stdout).policy, { drift: 'refuse' })
  t.match(await run(['projects', 'show', 'shop']), { stdout: /^policy +\{"drift":"refuse"\}$/m })
  t.match(await run(['projects', 'set', 'shop', '--policy', 'colour=red']), { code: 1, stderr: /policy\.colour/ })
  t.match(await run(['projects', 'set', 'shop', '--policy', 'drift=']), { code: 0 })
  const words = [
    'projects',
    'set',
    project.id,
    '--name',
    'store',
    '--post',
    '',
    '--client-scripts',
    'false',
    '--max-disk-mb',
    '7'
  ]
  t.match(await run(words), {
    code: 0,
    stdout: /^Changed name, postDeployScript, allowClientScripts, maxDiskMb of store /
  })
  t.match(await server.api('GET', `/api/projects/${project.id}`), {
    name: 'store',
    postDeployScript: '',
    allowClientScripts: false,
    maxDiskMb: 7
  })
  t.match(await run(['projects', 'set', 'store', '--client-scripts', 'default', '--max-disk-mb', '0']), { code: 0 })
  t.match(await server.api('GET', `/api/projects/${project.id}`), { allowClientScripts: null, maxDiskMb: null })
  const toAll = (...more: string[]) => run(['projects', 'set', '--all', '--client-scripts', 'false', ...more])
  t.match(await toAll('store'), { code: 2, stderr: /leave out "store"/ })
  t.match(await toAll('--post', 'true'), { code: 2, stderr: /no other setting/ })
  t.match(await run(['projects', 'set', '--client-scripts', 'false']), { code: 2, stderr: /The project is missing/ })
  t.match(await toAll(), { code: 1, stderr: /use --yes/ })
  t.match(await toAll('--yes'), { code: 0, stdout: /^Changed allowClientScripts of 1 project$/m })
  t.match(await server.api('GET', `/api/projects/${project.id}`), { allowClientScripts: false })
  t.match(await run(['projects', 'show', 'shop']), { code: 1, stderr: /Project not found: "shop"/ })

  const { stdout: first } = await run(['projects', 'token', 'store'])
  t.match(await run(['projects', 'token', 'store', '--new']), { code: 1, stderr: /no terminal to ask on: use --yes/ })
  const { stdout: second } = await run(['projects', 'token', 'store', '--new', '--yes'])
  t.not(first, second)
  t.equal((await server.api<Project>('GET', `/api/projects/${project.id}`)).token, second.trim())
  t.match(
    await run(['projects', 'show', 'store', '--token', '-'], second.trim()),
    { code: 1, stderr: /this request requires the admin/ },
    'a deploy token does not manage'
  )

  t.match(await run(['projects', 'delete', 'store']), { code: 1, stderr: /[Uu]se --yes/ })
  await t.test('delete asks on a terminal', { skip: noTerminal }, async t => {
    const no = await svcOnTerminal(['projects', 'delete', 'store'], [{ see: '[y/N]: ', type: 'n\r' }], { cwd, env })
    t.match(no, { code: 1, text: /Delete store \(proj_\w+\)[^]*Nothing was deleted/ })
  })
  t.match(await run(['projects', 'delete', 'store', '--yes']), { code: 0, stdout: /^Deleted store / })
  t.match(await server.api('GET', '/api/projects'), [])
  t.ok(existsSync(join(path, 'kept.txt')), 'the files stay')
})

t.test('svc list names the nodes of a project, not a directory of the hub', async t => {
  const { stage, shop, run } = await startFleet(t, ['web-1', 'web-2'])
  await stage.createProject('wiki')
  t.match(await run('list'), { code: 0, stdout: /shop .* on web-1 and 1 other node *$/m })
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { remove: ['web-1'] })
  const { stdout } = await run('list')
  t.match(stdout, / on web-2 *$/m)
  t.match(stdout, /sites\/wiki *$/m)
})

t.test('search-components says where a component is, and of which projects nothing is known', async t => {
  const stage = await startServer(t)
  const [shop, wiki] = [await stage.createProject('shop'), await stage.createProject('wiki')]
  for (const { id, token } of [shop, wiki])
    await stage.as(token).upload([
      ['projectId', id],
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': id }) }]
    ])
  const [{ id }] = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body as [{ id: string }]
  const components = [{ group: 'org.apache', name: 'log4j', version: '2.14.1' }]
  const list = JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components })
  writeFileSync(join(stage.home.deployments, `${id}.sbom.json`), list)
  const run = (line: string, token = 'test-admin-token-0123456789') =>
    svc(line.split(' '), { cwd: stage.sites, env: { SVC_SERVER_URL: stage.url, SVC_TOKEN: token } })

  const found = await run('search-components log4j')
  t.equal(found.code, 0, found.stderr)
  t.match(found.stdout, /PROJECT +COMPONENT +VERSION[^]*shop +org\.apache\/log4j +2\.14\.1 +dep_/)
  t.match(found.stderr, /Without a list of components: wiki/)
  t.match(JSON.parse((await run('search-components log4j --version 2 --json')).stdout), {
    components: [{ deployId: id }]
  })
  const none = await run('search-components left-pad')
  t.match(none, { code: 1, stdout: '', stderr: /Not found in the list of components of what is in place/ })
  t.match(await run('search-components'), { code: 2 })
})

/* svc list --matrix, with a real server: three environments of one application. */

t.test('list --matrix', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const flags = ['--matrix', '--server', server.url, '--token', '-']
  const list = (...more: string[]) => svc(['list', ...flags, ...more], { cwd, input: server.adminToken })
  const create = (name: string) => server.createProject({ name, deployPath: join(cwd, name) })
  const push = async (project: Awaited<ReturnType<typeof create>>, text: string) =>
    (await server.upload(project, { 'index.html': text }, { message: `Release ${text}` })).finished

  const [live, staging] = [await create('shop'), await create('shop-staging')]
  for (const text of ['1', '2', '3']) await push(staging, text)
  await push(live, '1')

  const { code, stdout, stderr } = await list()
  const [head = '', ...rows] = stdout.trimEnd().split('\n')
  t.equal(code, 0)
  t.match(head, /^APPLICATION +ENV +PROJECT +RELEASE +TREE +SINCE +DIFFERENCE$/)
  t.match(rows, [
    /^shop +staging +shop-staging +Release 3 /,
    /^ +production +shop +Release 1 .* 2 releases behind staging$/
  ])
  t.equal(rows.length, 2)
  t.match(stderr, 'Next: svc promote shop-staging shop')
  t.match(JSON.parse((await list('--json')).stdout), [{ name: 'shop', members: [{ projectName: 'shop-staging' }, {}] }])

  await push(live, '3')
  const same = await list()
  t.match(same.stdout, 'same files as staging')
  t.notMatch(same.stderr, 'svc promote', 'nothing is proposed that changes nothing')
})

t.test('without families', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  await server.createProject({ name: 'alone', deployPath: join(cwd, 'alone') })
  const found = await svc(['list', '--matrix', '--server', server.url, '--token', '-'], {
    cwd,
    input: server.adminToken
  })
  t.match(found, { code: 0, stdout: '', stderr: /No two projects are of one application/ })
})

t.test('a server of 1.0, which knows less', async t => {
  const project = { id: 'proj_a', name: 'shop', env: 'production', deployPath: '/srv/shop', status: 'idle', token: 'x' }
  const entry = {
    at: '2026-11-22T10:00:00.000Z',
    actor: 'admin',
    ip: null,
    action: 'auth.login',
    ok: true,
    projectId: null
  }
  const answers: Record<string, unknown> = {
    '/api/health': { status: 'ok' },
    '/api/projects': [project],
    '/api/projects/proj_a': project,
    '/api/projects/proj_a/overview': { live: null },
    '/api/logs': [],
    '/api/audit': { items: [entry], total: 1 }
  }
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0] as string
    const isKnown = path in answers
    const missing = { success: false, error: `There is no such address: GET ${path}`, code: 'not_found' }
    const answer = request.method === 'PUT' ? { success: true, project } : isKnown ? answers[path] : missing
    response.writeHead(isKnown ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  })
  const env = { SVC_SERVER_URL: await urlOf(t, server), SVC_TOKEN: 'token' }
  const run = (...words: string[]) => svc(words, { cwd: t.testdir({}), env })
  t.match(await run('status', 'proj_a'), { code: 0, stdout: /Nothing has been deployed yet/ })
  const audited = await run('audit', 'list')
  t.match(audited, { code: 0, stdout: /^- +2026-11-22/m })
  t.notMatch(audited.stdout, 'undefined')
  const dropped = await run('projects', 'set', 'proj_a', '--name', 'shop', '--policy', 'prune=managed')
  t.match(dropped, { code: 1, stderr: /does not know policy: it is older than this svc\. The rest was changed/ })
  t.match(await run('projects', 'set', 'proj_a', '--name', 'shop'), { code: 0 })
  t.match(await run('locks'), { code: 1, stderr: /The server does not know GET \/api\/locks: it may be older/ })
})
