import t from 'tap'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { NewToken } from '../../../lib/model/access.js'
import type { Deployment } from '../../../lib/model/deployment.js'
import type { Marks } from '../../../lib/model/marks.js'
import { startServe, startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'

const dayMs = 86_400_000
const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

t.test('a promotion with an approval inside a window, over a kill, from push to receipt', async t => {
  const cwd = t.testdir({ dist: { 'a.txt': 'one' } })
  let server = await startServeProcess(t, cwd)
  const target = join(cwd, 'production-files')
  const staging = await server.createProject({ name: 'staging', deployPath: join(cwd, 'staging-files') })
  const production = await server.createProject({ name: 'production', deployPath: target })
  const token = async (name: string, role: string): Promise<string> =>
    (await server.api<NewToken>('POST', '/api/tokens', { name, role, expiresAt: new Date(Date.now() + dayMs) })).token
  const [ana, ben, dan] = [
    await token('ana', 'operator'),
    await token('ben', 'operator'),
    await token('dan', 'deployer')
  ]
  const by = (secret: string) => ({
    cwd,
    env: { SVC_SERVER_URL: server.url, SVC_TOKEN: secret, SVC_DEPLOY_TOKEN: secret }
  })
  const windows = {
    allow: [{ days: 'mon-sun', from: '00:00', to: '24:00' }],
    freeze: [{ from: day(Date.now() + 9 * dayMs), to: day(Date.now() + 9 * dayMs), reason: 'audit' }],
    tz: 'UTC'
  }
  const policy = {
    approval: { count: 1, roles: ['operator'], notPusher: true, hours: 24 },
    promoteFrom: { projectId: staging.id, soakMinutes: 0 },
    windows
  }
  await server.changeProject(production.id, { policy })
  const push = ['push', '--out', 'dist', '--project', 'staging', '-m', 'New prices']
  t.match(await svc(push, by(ana)), { code: 0 })
  t.match(await svc([...push.slice(0, 4), 'production'], by(ana)), {
    code: 1,
    stderr: /takes releases of staging only/
  })

  const promoted = svc(['promote', 'staging', 'production', '--yes'], by(ana))
  const waiting = async (): Promise<Deployment | undefined> =>
    (await server.deployments(production.id)).find(({ heldFor }) => heldFor === 'approval')
  await until(async () => (await waiting()) !== undefined)
  const held = (await waiting()) as Deployment
  t.match(held, { status: 'queued', promotedFrom: /^dep_/, treeSha256: /^[0-9a-f]{64}$/ })
  t.match((await svc(['status', 'production'], by(ben))).stdout, /waits for approval until/)
  t.match((await svc(['list'], by(ben))).stdout, /production +waits for approval until/)
  const marks = await server.api<Marks>('GET', '/api/marks')
  t.match(marks.waiting, [{ for: 'approval', deployId: held.id, rolloutId: null, approval: { notPusher: true } }])

  await server.stop('SIGKILL')
  server = await startServeProcess(t, cwd, ['--port', new URL(server.url).port])
  t.notOk(existsSync(target), 'nothing is in place')
  t.match(await svc(['approve', held.id, '--yes'], by(ana)), { code: 1, stderr: /you have started it/ })
  t.match(await svc(['approve', held.id, '--yes'], by(dan)), { code: 1, stderr: /needs the role operator/ })
  const other = ['approve', held.id, '--yes', '--tree', '0'.repeat(64)]
  t.match(await svc(other, by(ben)), { code: 1, stderr: /those of tree [0-9a-f]{64}/ })
  const approved = await svc(['approve', '--project', 'production', '--yes', '--comment', 'tested'], by(ben))
  t.match(approved, { code: 0, stdout: `Approved ${held.id}\n` })
  t.match(approved.stderr, /New prices[^]*Tree [0-9a-f]{64}\n[^]*\+ a\.txt/, 'it was shown before')

  const followed = await promoted
  t.match(followed, { code: 0, stdout: /✔ success: promoted dep_\w+ to production/ }, 'the promotion was followed')
  t.match(followed.stdout, `svc approve ${held.id}`)
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'one')
  const record = (await server.deployments(production.id))[0] as Deployment
  t.match(record.approvals, [
    { decision: 'approved', name: 'token:ben', comment: 'tested', treeSha256: held.treeSha256 }
  ])
  const log = await svc(['audit', 'list', '--action', 'deployment.approve'], by(server.adminToken))
  t.match(log.stdout, new RegExp(`ben[^]*${held.id}`))
  t.match(await svc(['reject', held.id, '--yes'], by(ben)), { code: 1, stderr: /it was approved by ben/ })
})

t.test('a push that is rejected fails with the reason, and one with --at ends at once', async t => {
  const cwd = t.testdir({ dist: { 'a.txt': 'one' } })
  const server = await startServe(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'files') })
  const policy = { approval: { count: 1, roles: ['operator'], notPusher: true, hours: 24 } }
  await server.changeProject(shop.id, { policy })
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken, SVC_DEPLOY_TOKEN: shop.token }
  const options = { cwd, env }
  const push = ['push', '--out', 'dist', '--project', shop.id]
  const pushed = svc(push, options)
  await until(async () => (await server.deployments(shop.id)).some(({ heldFor }) => heldFor === 'approval'))
  t.match(await svc(['approve', '--project', shop.id], options), { code: 1, stderr: /--yes/ })
  const rejected = await svc(['reject', '--project', shop.id, '--yes', '--comment', 'not on a Friday'], options)
  t.match(rejected, { code: 0, stdout: /^Rejected dep_/ })
  t.match(await pushed, { code: 1, stdout: /waits for 1 approval[^]*Rejected by .*: not on a Friday/ })
  t.match(await svc(['approve', '--project', shop.id, '--yes'], options), {
    code: 1,
    stderr: /No deployment of .* waits/
  })

  await server.changeProject(shop.id, { policy: { approval: null } })
  const later = await svc([...push, '--at', '00:00', '--set-env', 'TEXT=geheim'], options)
  t.match(later, {
    code: 0,
    stdout: /✔ scheduled: dep_\w+ begins at \d{4}-\d\d-\d\d 00:00 \(.+\), \d{4}-\d\d-\d\d \d\d:\d\d UTC/
  })
  const [row] = await server.deployments(shop.id)
  t.match(row, { status: 'queued', heldFor: 'schedule' })
  t.match((await svc(['status', 'shop'], options)).stdout, /begins at/)
  const untimely = await svc(['approve', (row as Deployment).id, '--yes'], options)
  t.match(untimely, { code: 1, stderr: / \(queued\): it does not wait for an approval\n$/ })
  t.match(await svc([...push, '--at', 'tomorrow'], options), { code: 2, stderr: /it must be like 02:00/ })
  t.match(await svc([...push, '--at', '2020-01-01T00:00'], options), { code: 2, stderr: /that time has passed/ })
  t.match(await svc(['projects', 'delete', 'shop', '--yes'], options), {
    code: 1,
    stderr: /queued or running. .*cancel it/
  })
  t.match(await svc(['cancel', (row as Deployment).id], options), { code: 0 })
  t.notOk(existsSync(join(cwd, 'files')), 'nothing was put in place')
})

t.test('what begins later is judged by the windows of its time, and ends at once', async t => {
  const cwd = t.testdir({ dist: { 'a.txt': 'one' } })
  const server = await startServe(t, cwd)
  const staging = await server.createProject({ name: 'staging', deployPath: join(cwd, 'staging-files') })
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'files') })
  await (await server.upload(staging, { 'a.txt': 'one' })).finished
  const options = {
    cwd,
    env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken, SVC_DEPLOY_TOKEN: shop.token }
  }
  const push = ['push', '--out', 'dist', '--project', shop.id]
  const promote = ['promote', 'staging', 'shop']
  const freeze = (from: number, to: number) => [
    { from: day(Date.now() + from * dayMs), to: day(Date.now() + to * dayMs), reason: 'audit' }
  ]
  const windows = { allow: [{ days: 'mon-sun', from: '00:00', to: '24:00' }], tz: 'UTC' }
  const at = ['--at', `${day(Date.now() + 5 * dayMs)}T12:00Z`]

  await server.changeProject(shop.id, { policy: { windows: { ...windows, freeze: freeze(-1, 1) } } })
  for (const command of [push, promote]) {
    t.match(
      await svc([...command, '--dry-run'], options),
      { code: 1, stdout: /outside of its windows/ },
      String(command[0])
    )
    t.match(
      await svc([...command, '--dry-run', ...at], options),
      {
        code: 0,
        stdout: /Nothing was changed/,
        stderr: /It begins at \d{4}-\d\d-\d\d \d\d:\d\d \(.+\), \S+ 12:00 UTC/
      },
      String(command[0])
    )
  }
  await server.changeProject(shop.id, { policy: { windows: { ...windows, freeze: freeze(4, 6) } } })
  for (const command of [push, promote]) {
    t.match(await svc([...command, '--dry-run'], options), { code: 0 }, String(command[0]))
    const late = await svc([...command, '--dry-run', ...at], options)
    t.match(late, { code: 1, stdout: /outside of its windows: no deployments now \("audit"\)/ }, String(command[0]))
  }
  const reason = ['--override', 'agreed']
  t.match(await svc([...promote, '--dry-run', ...at, ...reason], options), { code: 0 })

  const approval = { count: 1, roles: ['operator'], notPusher: true, hours: 24 }
  await server.changeProject(shop.id, { policy: { windows: null, approval } })
  const scheduled = await svc([...promote, '--yes', ...at], options)
  t.match(scheduled, {
    code: 0,
    stdout: /✔ scheduled: dep_\w+ begins at [^]*It waits for an approval before: svc approve/
  })
  const [row] = (await server.deployments(shop.id)) as [Deployment]
  t.match(row, { status: 'queued', heldFor: 'approval', startAt: /T12:00/, promotedFrom: /^dep_/ })
  t.match(await svc(['cancel', row.id], options), { code: 0 })
  const json = JSON.parse((await svc([...promote, '--yes', '--json', ...at], options)).stdout)
  t.match(json, { deployId: /^dep_/, projectId: shop.id, status: 'queued', duration: null, url: String, error: null })
  t.notOk(existsSync(join(cwd, 'files')), 'nothing was put in place')
})
