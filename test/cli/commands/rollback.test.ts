import t from 'tap'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Project } from '../../../lib/model/project.js'
import { startServe, type Serving } from '../../support/serve-process.js'
import { serveShop } from '../../support/shop.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import type { Context } from '../../../lib/cli/command.js'
import type { EffectiveConfig } from '../../../lib/base/config/precedence.js'
import type { Deployment } from '../../../lib/model/deployment.js'
import { stubClient } from '../../support/stub-client.js'
import { until } from '../../support/until.js'
import { heldDeploymentId } from '../../../lib/cli/commands/rollback.js'
import { randomBytes } from 'node:crypto'

async function deploy(
  server: Serving,
  project: Project,
  text: string,
  fields: Record<string, string> = {}
): Promise<string> {
  const { deployId, finished } = await server.upload(
    project,
    { 'a.txt': text },
    { message: `Version ${text}`, ...fields }
  )
  await finished
  return deployId
}

t.test('rollback', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const options = { cwd, env }
  let number = 0

  /** A project of its own for each case, and what its file says now. */
  async function fresh() {
    const deployPath = join(cwd, `www${++number}`)
    const project = await server.createProject({ name: `shop ${number}`, deployPath })
    return { project, live: () => readFileSync(join(deployPath, 'a.txt'), 'utf8') }
  }

  await t.test('goes back to the previous deployment if the last one succeeded', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    const { code, stdout, stderr } = await svc(['rollback', project.id, '--yes', '-m', 'Back'], options)
    t.equal(code, 0, stderr)
    t.match(stderr, `Chosen: ${first}, the success before the latest deployment (${second} succeeded).\n`)
    t.match(stderr, `Rolling back ${project.name} to ${first} (`)
    t.match(stdout, new RegExp(`✔ success: rolled back to ${first} in .* \\(dep_\\w+\\)\\n$`))
    t.equal(live(), 'one')
    t.match(await server.deployments(project.id), [
      { triggerSource: 'rollback', rollbackOf: first, message: 'Back' },
      {},
      {}
    ])
  })

  await t.test('a repair after the last deployment changes nothing in the choice', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    writeFileSync(join(project.deployPath, 'a.txt'), 'edited')
    t.match(await svc(['repair', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'two')
    for (const words of [[], ['--exact']]) {
      const asked = await svc(['rollback', project.id, '--dry-run', ...words], options)
      t.match(asked.stdout + asked.stderr, first)
      t.match(asked.stderr, `Chosen: ${first}, the success before the latest deployment (${second} succeeded).\n`)
    }
    t.match(await svc(['rollback', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'one')
  })

  await t.test('goes back to the latest success if the last deployment failed', async t => {
    const { project, live } = await fresh()
    await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    const third = await deploy(server, project, 'three', { postDeploy: 'exit 1' })
    t.match(await svc(['rollback', project.id, '--yes'], options), {
      code: 0,
      stdout: new RegExp(`rolled back to ${second}`),
      stderr: new RegExp(
        `^Chosen: ${second}, the latest success \\(the latest deployment, ${third}, failed\\)\\.$`,
        'm'
      )
    })
    t.equal(live(), 'two')
  })

  await t.test('each rollback steps back further, and fails at the end', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    const second = await deploy(server, project, 'two')
    await deploy(server, project, 'three')
    const back = (...words: string[]) => svc(['rollback', project.id, '--yes', ...words], options)
    t.match(await back(), { code: 0, stderr: `Chosen: ${second}, the success before the latest deployment (` })
    t.match(await back('--exact', '--dry-run'), {
      stderr: `Chosen: ${first}, the success before ${second}, which dep_`
    })
    t.match(await back(), { code: 0, stderr: `Chosen: ${first}, the success before ${second}, which dep_` })
    t.equal(live(), 'one')
    t.match(await back(), {
      code: 1,
      stderr: `cannot be rolled back: no archive of a success before ${first} is kept. Use --to to deploy another one again`
    })
    await deploy(server, project, 'four')
    t.match(await back(), { code: 0 })
    t.equal(live(), 'one', 'what was live before it')
  })

  await t.test('after an undo, goes back to what was live before that', async t => {
    const { project, live } = await fresh()
    for (const text of ['one', 'two', 'three']) await deploy(server, project, text)
    t.match(await svc(['undo', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'two')
    t.match(await svc(['rollback', project.id, '--yes'], options), { code: 0 })
    t.equal(live(), 'one')
  })

  await t.test('reports that there is no deployment', async t => {
    const { project } = await fresh()
    t.match(await svc(['rollback', project.id, '--yes'], options), {
      code: 1,
      stderr: /cannot be rolled back: nothing has been deployed yet/
    })
  })

  await t.test('--to selects a deployment of the named project', async t => {
    const { project, live } = await fresh()
    const first = await deploy(server, project, 'one')
    await deploy(server, project, 'two')
    await deploy(server, project, 'three')
    const { code, stdout, stderr } = await svc(['rollback', '--to', first, '--yes', '--json'], options)
    t.equal(code, 0, stderr)
    t.notMatch(stderr, 'Chosen')
    t.match(JSON.parse(stdout), { status: 'success', deployId: /^dep_/, duration: /s$/ })
    t.equal(live(), 'one')
    const other = await fresh()
    t.match(await svc(['rollback', other.project.id, '--to', first, '--yes'], options), {
      code: 1,
      stderr: /it belongs to the project/
    })
    t.match(await svc(['rollback', '--to', 'dep_unknown', '--yes'], options), {
      code: 1,
      stderr: /Deployment not found/
    })
  })

  await t.test('a failed rollback has exit code 1', async t => {
    const { project } = await fresh()
    for (const text of ['one', 'two']) await deploy(server, project, text)
    await server.changeProject(project.id, { postDeployScript: 'exit 7' })
    t.match(await svc(['rollback', project.id, '--yes'], options), { code: 1, stdout: /✘ failed after [\d.]+s: / })
  })

  await t.test('rollback needs --yes without a terminal', async t => {
    const { project, live } = await fresh()
    await deploy(server, project, 'one')
    await deploy(server, project, 'two')
    t.match(await svc(['rollback', project.id], options), { code: 1, stderr: /needs a confirmation.* use --yes/ })
    t.equal(live(), 'two')
    t.equal((await server.deployments(project.id)).length, 2)
  })

  await t.test('asks on a terminal', { skip: noTerminal }, async t => {
    const { project, live } = await fresh()
    await deploy(server, project, 'one')
    await deploy(server, project, 'two')
    const question = { see: 'Version one") [y/N]: ' }
    const no = await svcOnTerminal(['rollback', project.id], [{ ...question, type: '\r' }], options)
    t.equal(no.code, 1)
    t.equal(live(), 'two')
    const yes = await svcOnTerminal(['rollback', project.id], [{ ...question, type: 'y\r' }], options)
    t.equal(yes.code, 0, yes.text)
    t.equal(live(), 'one')
  })
})

t.test('undo', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const options = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  let number = 0

  /** A project with two deployments. */
  async function deployed() {
    const deployPath = join(cwd, `www${++number}`)
    const project = await server.createProject({ name: `shop ${number}`, deployPath })
    const ids: string[] = []
    const releases: Array<Record<string, string>> = [{ 'a.txt': 'one' }, { 'a.txt': 'two', 'b.txt': 'two' }]
    for (const files of releases) {
      const { deployId, finished } = await server.upload(project, files, { message: `Version ${ids.length + 1}` })
      await finished
      ids.push(deployId)
    }
    return { project, place: (name: string) => join(deployPath, name), ids: ids as [string, string] }
  }

  await t.test('shows what it would do, and does it', async t => {
    const { project, place, ids } = await deployed()
    const dry = await svc(['undo', project.id, '--dry-run'], options)
    t.equal(dry.code, 0, dry.stderr)
    t.match(dry.stdout, `Exactly to ${ids[0]} (`)
    t.match(
      dry.stdout,
      '"Version 1"), over 1 deployment\n  brings back 1 file · removes 1 that later deployments added\n'
    )
    t.match(dry.stdout, '  ~ a.txt\n  - b.txt\nNothing was changed.\n')
    t.ok(existsSync(place('b.txt')))

    const { code, stdout, stderr } = await svc(['undo', project.id, '--yes', '-m', 'Oops'], options)
    t.equal(code, 0, stderr)
    t.match(stdout, `exactly to ${ids[0]}, over 1 deployment: brings back 1 file, removes 1`)
    t.match(stdout, `the files are as after ${ids[0]}`)
    t.equal(readFileSync(place('a.txt'), 'utf8'), 'one')
    t.notOk(existsSync(place('b.txt')))
    t.match(await server.deployments(project.id), [{ undoOf: ids[1], message: 'Oops', exact: true }, {}, {}])
  })

  await t.test('keeps edited files unless it is forced', async t => {
    const { project, place } = await deployed()
    writeFileSync(place('a.txt'), 'by hand')
    const kept = await svc(['undo', project.id, '--yes'], options)
    t.match(kept.stderr, 'keeps 1 edited: a.txt (--force takes them back, too)')
    t.equal(readFileSync(place('a.txt'), 'utf8'), 'by hand')
    const again = await svc(['undo', project.id, '--yes', '--json'], options)
    t.match(JSON.parse(again.stdout), { status: 'success' })
    t.equal((await svc(['undo', project.id, '--yes', '--force'], options)).code, 0)
  })

  await t.test('asks on a terminal, and needs --yes without one', async t => {
    const { project, place } = await deployed()
    t.match(await svc(['undo', project.id], options), { code: 1, stderr: '--yes' })
    if (noTerminal !== false) return
    const asked = await svcOnTerminal(['undo', project.id], [{ see: 'Undo the last deployment', type: 'n\r' }], options)
    t.match(asked, { code: 1, text: 'Nothing was undone.' })
    t.ok(existsSync(place('b.txt')))
  })

  await t.test('says why it is not possible', async t => {
    const project = await server.createProject({ name: 'empty', deployPath: join(cwd, 'empty') })
    t.match(await svc(['undo', project.id, '--yes'], options), { code: 1, stderr: 'Nothing to undo' })
    t.match(await svc(['undo', project.id, '--dry-run'], options), { code: 1, stdout: '✗ Nothing to undo' })
  })

  await t.test('an exact rollback removes what came later', async t => {
    const { project, place, ids } = await deployed()
    const dry = await svc(['rollback', project.id, '--to', ids[0], '--exact', '--dry-run'], options)
    t.match(dry, { code: 0, stdout: `Exactly to ${ids[0]}` })
    const overlay = await svc(['rollback', project.id, '--to', ids[0], '--dry-run', '--json'], options)
    t.match(JSON.parse(overlay.stdout), { mode: 'overlay', counts: { changed: 1, pruned: 0 } })
    t.ok(existsSync(place('b.txt')))
    t.match(await svc(['rollback', project.id, '--exact', '--yes'], options), { code: 0 })
    t.notOk(existsSync(place('b.txt')))
    t.match(await svc(['rollback', '--to', ids[0], '--exact', '--overlay'], options), { code: 2 })
  })

  await t.test('what would fail is refused first, as an undo, and makes no failed deployment', async t => {
    const { project, ids } = await deployed()
    rmSync(project.deployPath, { recursive: true })
    for (const words of [['undo'], ['rollback', '--exact', '--to', ids[0]]]) {
      const [name = '', ...rest] = words
      t.match(await svc([name, project.id, ...rest, '--yes'], options), { code: 1, stderr: 'No file was changed' })
    }
    t.equal((await server.deployments(project.id)).length, ids.length)
    t.notOk(existsSync(project.deployPath))
  })
})

t.test('confirm settles a deployment, and push reports what became of it', async t => {
  const cwd = t.testdir({ out: { 'index.html': 'one' } })
  const server = await startServe(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token }
  const given = ['--project', project.id]
  const pushing = svc(['push', '--out', 'out', ...given, '--confirm', '60s'], { cwd, env })
  const confirmed = await until(async () => {
    const result = await svc(['confirm', ...given, '--json'], { cwd, env })
    return result.code === 0 && result
  })
  t.match(JSON.parse(confirmed.stdout), { success: true, deployment: { status: 'success' } })
  const pushed = await pushing
  t.equal(pushed.code, 0, pushed.stderr)
  t.match(pushed.stdout, /waiting for "svc confirm" until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/m)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
  t.match(await svc(['confirm', ...given], { cwd, env }), { code: 1, stdout: '', stderr: /No deployment of .* waits/ })
  t.match(await svc(['confirm', 'dep_unknown'], { cwd, env }), { code: 1, stdout: '' })
  t.match(await svc(['push', '--confirm', '5s', ...given], { cwd, env }), { code: 2, stderr: /--confirm cannot be/ })
})

t.test('push confirms by itself if the URL answers', async t => {
  const { cwd, server, shop: project } = await serveShop(t, { out: { 'index.html': 'one' } })
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token }
  const checked = ['--confirm', '60s', '--check-from-here', `${server.url}/api/health`]
  const pushed = await svc(['push', '--out', 'out', '--project', project.id, ...checked], { cwd, env })
  t.equal(pushed.code, 0, pushed.stderr)
  t.match(pushed.stderr, '/api/health: 200')
  t.match(pushed.stdout, '→ confirmed')
})

t.test('revert puts the earlier files back, and push fails', async t => {
  const cwd = t.testdir({ out: { 'index.html': 'two' } })
  const server = await startServe(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  await (await server.upload(project, { 'index.html': 'one' })).finished
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token }
  const given = ['--project', project.id]
  const pushing = svc(['push', '--out', 'out', ...given, '--confirm', '60s'], { cwd, env })
  const reverted = await until(async () => {
    const result = await svc(['confirm', '--no', ...given], { cwd, env })
    return result.code === 0 && result
  })
  t.match(reverted.stdout, /^Reverted dep_\w+: Reverted by .*; the earlier files are back, dep_\w+ is live/)
  const pushed = await pushing
  t.equal(pushed.code, 1)
  t.match(pushed.stdout, /failed .*the earlier files are back, dep_\w+ is live/)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
  t.match(await svc(['revert', ...given], { cwd, env }), { code: 1, stdout: '' })
})

t.test('finds the deployment of the project that is held', async t => {
  let rows: Array<Partial<Deployment>> = [{ id: 'dep_a', heldFor: 'confirm' }]
  const client = stubClient({
    'GET /api/logs': ({ query }: { query: { projectId: string; status?: string } }) => {
      t.match(query, { projectId: 'proj_a' })
      const found: Array<Partial<Deployment>> = query.status === 'running' ? rows : [{ projectName: 'shop' }]
      return found.map(row => ({ ...row, projectId: 'proj_a', status: query.status ?? 'success' }))
    }
  })
  const config = { projectId: { value: 'proj_a' } } as EffectiveConfig
  const find = () => heldDeploymentId(client, { context: {} as Context, config })
  t.equal(await find(), 'dep_a')
  rows = [{ id: 'dep_a', heldFor: null }]
  await t.rejects(find(), { code: 'not_waiting', message: /No deployment of shop waits/ })
  rows = [{ id: 'dep_a' }]
  await t.rejects(find(), { code: 'not_waiting' }, 'an older server')
})

t.test('promote', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const options = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const target = join(cwd, 'production')
  const staging = await server.createProject({ name: 'staging', deployPath: join(cwd, 'staging') })
  const production = await server.createProject({ name: 'production', deployPath: target })
  t.match(await svc(['promote', 'staging', 'production', '--yes'], options), {
    code: 1,
    stderr: /Nothing is live in "staging": deploy to it first/
  })
  const { deployId, finished } = await server.upload(staging, { 'a.txt': 'one' }, { message: 'New prices' })
  await finished

  const dry = await svc(['promote', 'staging', 'production', '--dry-run'], options)
  t.match(dry, { code: 0, stdout: /puts in place 1 file\n {2}\+ a\.txt\nNothing was changed\.\n$/ })
  t.match(await svc(['promote', 'staging', 'nowhere', '--yes'], options), {
    code: 1,
    stderr: /Project not found: "nowhere"/
  })
  const done = await svc(['promote', 'staging', production.id, '--yes', '-m', 'Release'], options)
  t.match(done, { code: 0, stderr: `Promoting ${deployId} (New prices) of staging to production\n` })
  t.match(done.stdout, new RegExp(`✔ success: promoted ${deployId} to production in `))
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'one')
  const [record] = await server.deployments(production.id)
  t.match(record, { triggerSource: 'promotion', promotedFrom: deployId, message: 'Release' })
  t.match((await svc(['status', 'production'], options)).stdout, `promotion of ${deployId}`)

  await t.test('with a policy, a deploy token promotes from that project only', async t => {
    const policy = { promoteFrom: { projectId: staging.id, soakMinutes: 0 } }
    await server.changeProject(production.id, { policy })
    const promote = async (from: string, token = production.token) => {
      const address = `${server.url}/api/projects/${production.id}/promote`
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      const answer = await fetch(address, { method: 'POST', headers, body: JSON.stringify({ from }) })
      return { status: answer.status, body: await answer.json() }
    }
    t.match(await promote(deployId), { status: 200, body: { success: true, promotedFrom: deployId } })
    const elsewhere = await server.createProject({ name: 'elsewhere', deployPath: join(cwd, 'elsewhere') })
    const other = await server.upload(elsewhere, { 'a.txt': 'other' })
    await other.finished
    t.match(
      await promote(other.deployId),
      { status: 403, body: { code: 'other_project' } },
      'it may not see that project'
    )
    t.match(await promote(deployId, elsewhere.token), { status: 403, body: { code: 'other_project' } })
    t.match(await promote(other.deployId, server.adminToken), { status: 409, body: { code: 'only_promotion' } })
  })

  await t.test('asks on a terminal, after it has shown the plan', { skip: noTerminal }, async t => {
    const steps = [{ see: '[y/N]', type: 'n\r' }]
    const { text } = await svcOnTerminal(['promote', 'staging', 'production'], steps, options)
    t.match(text, /Promote dep_\w+ \(New prices\) of staging to production/)
  })
})

t.test('a promotion waits for a window, and for the end of a lock', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const options = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const staging = await server.createProject({ name: 'staging', deployPath: join(cwd, 'staging') })
  const production = await server.createProject({ name: 'production', deployPath: join(cwd, 'production') })
  await (await server.upload(staging, { 'a.txt': 'one' })).finished
  const path = `/api/projects/${production.id}/lock`
  const windows = { allow: [], freeze: [{ from: '2020-01-01', to: '2100-01-01', reason: 'audit' }], tz: 'UTC' }
  const words = ['promote', 'staging', 'production', '--yes']
  const obstacles = [
    {
      says: /Waiting: .*locked by/,
      close: () => server.api('PUT', path, { reason: 'audit' }),
      open: () => server.api('DELETE', path)
    },
    {
      says: /Waiting: .*no deployments now \("audit"\)/,
      close: () => server.changeProject(production.id, { policy: { windows } }),
      open: () => server.changeProject(production.id, { policy: { windows: null } })
    }
  ]
  for (const { says, close, open } of obstacles) {
    await close()
    t.match(await svc(words, options), { code: 1 })
    let opened: Promise<unknown> | null = null
    const onOutput = (text: string): void => {
      if (says.test(text)) opened ??= open()
    }
    const ended = await svc([...words, '--wait=5m'], { ...options, onOutput })
    t.match(ended, { code: 0, stdout: /success: promoted/ }, ended.stderr)
    t.not(opened, null, 'it has waited')
    await opened
  }
})

t.test('a promotion needs room in the project that gets it', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const options = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const staging = await server.createProject({ name: 'staging', deployPath: join(cwd, 'staging') })
  const production = await server.createProject({ name: 'production', deployPath: join(cwd, 'production') })
  await server.changeProject(production.id, { maxDiskMb: 1 })
  const { finished } = await server.upload(staging, { 'a.bin': randomBytes(700_000).toString('hex') })
  await finished
  t.match(await svc(['promote', 'staging', 'production', '--yes'], options), { code: 0 })
  t.match(await svc(['promote', 'staging', 'production', '--yes'], options), {
    code: 1,
    stderr: /the archives and outputs of "production" take .* would exceed its limit/
  })
})

t.test('a reason opens the windows for a plan and for a push that asks for more', async t => {
  const cwd = t.testdir({ dist: { 'index.html': 'one' } })
  const server = await startServe(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'shop') })
  const { token } = await server.api<{ token: string }>('POST', '/api/tokens', { name: 'ana', role: 'operator' })
  const day = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)
  const windows = { allow: [], freeze: [{ from: day(-1), to: day(1), reason: 'audit' }], tz: 'UTC' }
  await server.changeProject(shop.id, { policy: { windows, pruneByDeployToken: true } })
  const push = (words: string[], as = token) =>
    svc(['push', '--project', 'shop', '--out', 'dist', ...words], {
      cwd,
      env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: as }
    })
  const reason = ['--override', 'the site is down']
  t.match(await push(['--dry-run']), { code: 1, stdout: /no deployments now \("audit"\)/ })
  t.match(await push(['--dry-run', ...reason]), { code: 0 })
  t.match(await push([]), { code: 1, stderr: /no deployments now \("audit"\)[^]*--override gives the reason/ })
  t.match(await push(reason, shop.token), { code: 1, stderr: /may not deploy outside of the windows/ })
  t.match(await push(['--prune', ...reason]), { code: 0 })
  t.match(await server.deployments(shop.id), [{ override: 'the site is down', status: 'success' }])
})
