import t from 'tap'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

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
  t.match(await push([]), { code: 1, stderr: /no deployments now \("audit"\)/ })
  t.match(await push(reason, shop.token), { code: 1, stderr: /may not deploy outside of the windows/ })
  t.match(await push(['--prune', ...reason]), { code: 0 })
  t.match(await server.deployments(shop.id), [{ override: 'the site is down', status: 'success' }])
})
