import t from 'tap'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks, maintenancePage } from '../../lib/deploy/locks.js'
import type { AuditEvent } from '../../lib/model/audit.js'
import { setClock } from '../support/clock.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { repetitions } from '../support/thorough.js'
import { until } from '../support/until.js'
import { findIdentity, maySwitchUser } from '../../lib/core/proc/identity.js'
import { findMaintenance } from '../../lib/core/store/tables/projects.js'
import type { Project } from '../../lib/model/project.js'
import { treeBody } from '../support/planned.js'
import { openDirectory } from '../support/open-directory.js'

const token = { name: 'project:proj_a', ip: null }

/** The locks of a stage, with the clock that its test moves, and what was audited. */
async function locksStage(t: Parameters<typeof deployStage>[0]) {
  const stage = await deployStage(t)
  const audits: AuditEvent[] = []
  const clock = setClock(Date.now())
  const audit = (event: AuditEvent): void => void audits.push(event)
  const project = await stage.addProject()
  const place = { projectId: project.id, kind: 'lock' } as const
  return { stage, locks: createLocks({ ...stage, clock, audit }), clock, audits, project, place }
}

t.test('of 100 concurrent locks on one project, one is placed', async t => {
  const { locks, audits, place } = await locksStage(t)
  const all = Array.from({ length: 100 }, (_, n) => {
    const actor = { name: `project:${n % 7}`, ip: null }
    return locks.lock({ ...place, reason: `audit ${n}`, seconds: 60, renew: false, actor })
  })
  const results = await Promise.allSettled(all)
  const [placed, ...others] = results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
  t.same(others, [])
  t.same(locks.list(), [placed])
  const refusals = results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
  t.equal(refusals.length, 99)
  for (const refusal of refusals) t.match(refusal, { code: 'locked', message: placed?.reason, retryAfterSeconds: 60 })
  t.equal(audits.length, 1)
})

t.test('a lock refuses uploads and rollbacks until it expires', async t => {
  const { stage, locks, clock, project, place } = await locksStage(t)
  const first = await stage.deploy(project, { 'a.txt': '1' })
  await locks.lock({ ...place, reason: 'audit', seconds: 3600, renew: false, actor: admin })
  const refusal = { kind: 'conflict', code: 'locked', message: matching(deploySays.lockedBy('Project Shop', 'admin')) }
  await t.rejects(stage.push(project, { 'a.txt': '2' }), refusal)
  await t.rejects(stage.deployer.rollback(first.id, { actor: admin }), refusal)
  t.throws(() => stage.deployer.checkArrival(project.id), refusal)

  await locks.unlock({ ...place, actor: admin, mayTakeOver: true, takeOver: null })
  t.match(await stage.deploy(project, { 'a.txt': '2' }), { status: 'success' })

  await locks.lock({ ...place, reason: 'audit', seconds: 3600, renew: false, actor: admin })
  clock.advance(3600 * 1000)
  t.same(locks.list(), [], 'it has expired')
  await locks.lock({ ...place, reason: 'another', seconds: 60, renew: false, actor: token })
  t.match(locks.list(), [{ reason: 'another', projectName: 'Shop' }])
})

t.test('a deployment that was queued before the lock fails when its turn comes', async t => {
  const { stage, locks, project, place } = await locksStage(t)
  await stage.change(project, { postDeployScript: 'while [ ! -e go ]; do sleep 0.05; done' })
  const running = await stage.push(project, { 'a.txt': '1' })
  const queued = await stage.push(project, { 'b.txt': '2', go: '' })
  t.equal(stage.deployer.countAhead(project.id), 2)
  await locks.lock({ ...place, reason: 'audit', seconds: 3600, renew: false, actor: admin })
  await stage.deployer.cancel(running.deployId, admin)
  t.match(await queued.finished, {
    status: 'failed',
    errorMessage: matching(deploySays.lockedBy('Project Shop', 'admin'))
  })
  t.notOk(existsSync(join(project.deployPath, 'b.txt')), 'and changes nothing')
})

t.test('a lock of the server refuses deployments of every project', async t => {
  const { stage, locks, project } = await locksStage(t)
  const server = { projectId: null, kind: 'lock' } as const
  await locks.lock({ ...server, reason: 'move', seconds: 60, renew: false, actor: admin })
  await t.rejects(stage.push(project, { 'a.txt': '1' }), {
    code: 'locked',
    message: matching(deploySays.lockedBy('The server', 'admin'))
  })
  t.match(locks.list(project.id), [{ projectId: null, projectName: null }])
})

t.test('only its owner renews a lock, and taking one over requires a reason', async t => {
  const { locks, audits, project, place } = await locksStage(t)
  await locks.lock({ ...place, reason: 'audit', seconds: 60, renew: false, actor: token })
  await t.rejects(locks.lock({ ...place, reason: 'mine', seconds: 60, renew: true, actor: admin }), { code: 'locked' })
  const renewed = await locks.lock({ ...place, reason: 'longer', seconds: 600, renew: true, actor: token })
  t.same(locks.list(), [renewed])

  const asAdmin = { ...place, actor: admin, mayTakeOver: true }
  await t.rejects(locks.unlock({ ...asAdmin, takeOver: null }), { kind: 'forbidden', code: 'other_owner' })
  const other = { ...place, actor: { name: 'project:proj_b', ip: null } }
  await t.rejects(locks.unlock({ ...other, mayTakeOver: false, takeOver: 'now' }), { code: 'other_owner' })
  t.same(locks.list(), [renewed])

  await locks.unlock({ ...asAdmin, takeOver: 'urgent fix' })
  await t.rejects(locks.unlock({ ...asAdmin, takeOver: 'urgent fix' }), { code: 'not_found' })
  const of = { projectId: project.id, target: project.id }
  t.match(audits, [
    { action: 'project.lock', actor: token, ...of },
    {
      action: 'project.lock',
      actor: token,
      ...of,
      detail: /^renewed until .*: longer\nreason: audit → longer\nexpiresAt: .* → /
    },
    {
      action: 'project.unlock',
      actor: admin,
      detail: 'taken over from the deploy token of Shop ("longer"): urgent fix'
    }
  ])
  await t.rejects(locks.lock({ ...place, projectId: 'proj_x', reason: 'a', seconds: 60, renew: false, actor: admin }), {
    code: 'not_found'
  })
})

t.test('a deployment whose files are in place continues after a restart although the project is locked', async t => {
  const { stage, locks, project, place } = await locksStage(t)
  const { deployId } = await stage.push(project, { 'a.txt': '1' }, { confirmSeconds: 60 })
  await until(() => stage.row(deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(deployId) !== null)
  await locks.lock({ ...place, reason: 'audit', seconds: 3600, renew: false, actor: admin })
  await stage.deployer.stop({ wait: true })
  const restarted = await stage.restart()
  await until(() => restarted.deployer.confirmUntil(deployId) !== null)
  t.match(await restarted.deployer.confirm(deployId, admin), { status: 'success' })
})

const program = fileURLToPath(new URL('../support/maintenance-child.js', import.meta.url))
const fileOf = (project: Project): string => join(project.deployPath, '.maintenance')
const request = (project: Project) => ({ projectId: project.id, actor: admin, force: false })
const on = (stage: DeployStage, project: Project) => stage.deployer.maintenance.on({ ...request(project), reason: 'a' })
const off = (stage: DeployStage, project: Project) =>
  stage.deployer.maintenance.off({ ...request(project), mayEndOthers: true })

/** Runs the program on the data directory of a closed stage until it is killed. */
async function runChild(stage: DeployStage, project: Project, killAt: string, afterMs?: number): Promise<string> {
  const words = [program, stage.directory, project.id, killAt]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  const ended = once(child, 'close')
  if (afterMs !== undefined) {
    await until(() => said.includes('off\n'))
    await sleep(afterMs)
    child.kill('SIGKILL')
  }
  const [, signal] = (await ended) as [number | null, string]
  if (signal !== 'SIGKILL') throw new Error('It was not killed')
  return said
}

t.test('after a kill between row and file, a start makes both agree', async t => {
  for (const killAt of ['1', 'after 1', '2']) {
    const before = await deployStage(t)
    const project = await before.addProject()
    await before.deploy(project, { 'index.html': '1' })
    await before.store.close()
    await runChild(before, project, killAt)
    const stage = await deployStage(t, before.directory)
    t.notOk(existsSync(fileOf(project)), killAt)
    t.equal(stage.deployer.maintenance.of(project.id), null, killAt)
    t.same(readdirSync(project.deployPath), ['index.html'], killAt)
    t.same(
      stage.audits.map(({ action }) => action),
      killAt === '1' ? [] : ['project.maintenance_off'],
      killAt
    )
    await on(stage, project)
    t.match(stage.deployer.maintenance.of(project.id), { by: 'admin' }, 'it can begin again')
    await stage.deployer.stop({ wait: true })
    await stage.store.close()
    const next = await deployStage(t, before.directory)
    t.ok(existsSync(fileOf(project)) && next.deployer.maintenance.of(project.id) !== null, 'a start keeps it')
    t.match(await off(next, project), { reason: 'a' })
  }
})

t.test('after a kill at any time, the row exists exactly if the file does', async t => {
  let stage = await deployStage(t)
  const project = await stage.addProject()
  const seen = { on: 0, off: 0 }
  const step = repetitions(3, 1)
  for (let round = 0; round < 12; round += step) {
    await stage.deployer.stop({ wait: true })
    await stage.store.close()
    await runChild(stage, project, '', round * 4)
    stage = await deployStage(t, stage.directory)
    const row = findMaintenance(stage.store, project.id)
    t.equal(existsSync(fileOf(project)), row !== undefined, `round ${round}`)
    t.same(
      readdirSync(project.deployPath).filter(name => name !== '.maintenance'),
      [],
      'nothing else is left in the target'
    )
    seen[row === undefined ? 'off' : 'on']++
    await off(stage, project)
    t.notOk(existsSync(fileOf(project)))
  }
  t.equal(seen.on + seen.off, 12 / step)
})

t.test('a target that cannot be reached keeps its maintenance', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  await on(before, project)
  const elsewhere = `${project.deployPath}-unmounted`
  renameSync(project.deployPath, elsewhere)
  await t.rejects(off(before, project), { code: 'target_missing' })
  t.notOk(existsSync(project.deployPath), 'it is not created')
  const stage = await before.restart()
  t.match(stage.deployer.maintenance.of(project.id), { reason: 'a' })
  renameSync(elsewhere, project.deployPath)
  t.match(await off(stage, project), { by: 'admin', reason: 'a' })
  t.notOk(existsSync(fileOf(project)))
})

t.test('a failed extraction leaves neither file nor row', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { maintenanceFile: 'index.html/down' } })
  await stage.deploy(project, { 'index.html': '1' })
  await t.rejects(on(stage, project))
  t.equal(stage.deployer.maintenance.of(project.id), null)
  t.equal(readFileSync(join(project.deployPath, 'index.html'), 'utf8'), '1')
  t.same(readdirSync(stage.home.tmp), [])
})

t.test('it waits for a deployment of the project', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'until [ -e go ]; do sleep 0.05; done' })
  const run = await stage.push(project, { 'index.html': '1' })
  await until(() => existsSync(join(project.deployPath, 'index.html')))
  const placing = on(stage, project)
  await sleep(50)
  t.equal(stage.deployer.maintenance.of(project.id), null)
  writeFileSync(join(project.deployPath, 'go'), '')
  t.match(await run.finished, { status: 'success' })
  t.match(await placing, { reason: 'a' })
  t.same(
    stage.deployer.maintenance.list(),
    stage.deployer.maintenance.list(project.id),
    'the list of one project contains it'
  )
  t.same(stage.deployer.maintenance.list('proj_other'), [])
})

t.test('prune, drift and the list of owned files ignore the maintenance file', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'index.html': '1' })
  await on(stage, project)
  await stage.deploy(project, { 'index.html': '2' })
  const owned = await stage.deployer.ownedTree(project.id)
  const paths: string[] = []
  if (owned.baseline === 'owned') for await (const { path } of owned.entries()) paths.push(path)
  t.same(paths, ['index.html'])
  const signal = new AbortController().signal
  t.match(await stage.deployer.drift({ projectId: project.id, isFull: true, signal }), { count: 0, problem: null })
  t.ok(existsSync(fileOf(project)))
})

t.test('a deployment that prunes leaves the file, even if an earlier one shipped the same', async t => {
  const stage = await deployStage(t)
  const policy = { prune: 'managed', maintenancePage: 'page.html' } as const
  const project = await stage.addProject({ policy })
  const shipped = { 'page.html': 'same', '.maintenance': 'same', old: '1' }
  await stage.deploy(project, { ...shipped, a: '1', b: '2', c: '3' })
  await stage.deployer.maintenance.on({ ...request(project), force: true, reason: null })
  const row = await stage.deploy(project, { 'page.html': 'same', a: '1', b: '2', c: '3' })
  t.equal(row.status, 'success', await stage.output(row.id))
  t.notOk(existsSync(join(project.deployPath, 'old')), 'another file of the earlier deployment is removed')
  t.equal(readFileSync(fileOf(project), 'utf8'), 'same')
  t.match(await off(stage, project), { by: 'admin' })
})

t.test('a plan says that the archive touches the maintenance file, and that it is not removed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { prune: 'managed', maintenancePage: 'page.html' } })
  const files = { 'page.html': 'same', '.maintenance': 'same', a: '1', b: '2' }
  await stage.deploy(project, files)
  await stage.deployer.maintenance.on({ ...request(project), force: true, reason: null })
  const planOf = async (name: string, given: Record<string, string>) => {
    const site = join(stage.directory, name)
    mkdirSync(site)
    for (const [path, contents] of Object.entries(given)) writeFileSync(join(site, path), contents)
    const asks = { prune: undefined, force: false }
    const rest = { listed: 10, scripts: {}, mayUpload: true, clientTimeMs: null, noSpace: null, maxUploadBytes: 5 }
    const asked = { projectId: project.id, tree: await treeBody(site), signal: never, asks, ...rest }
    return stage.deployer.plan(asked)
  }
  const touching = await planOf('same', files)
  t.match(touching.paths.conflicts, [{ path: '.maintenance', code: 'reserved_path' }])
  t.equal(touching.counts.conflicts, 1)
  const { '.maintenance': _left, ...others } = files
  const without = await planOf('others', others)
  t.match(without.counts, { conflicts: 0, pruned: 0, kept: 1 })
})

t.test(
  'the file has the rights of the project',
  maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' },
  async t => {
    const stage = await deployStage(t)
    const { uid } = await findIdentity('nobody')
    const open = openDirectory(t)
    const deployPath = join(open, 'site')
    mkdirSync(deployPath)
    chmodSync(deployPath, 0o777)
    const project = await stage.addProject({ deployPath, runAs: 'nobody', umask: '027' })
    await on(stage, project)
    t.match(statSync(fileOf(project)), { uid, mode: 0o100640 })
    t.match(await off(stage, project), { reason: 'a' })
    t.notOk(existsSync(fileOf(project)))
  }
)

t.test('the page is complete HTML, loads nothing, and escapes name and reason', async t => {
  const page = maintenancePage({ name: '<b>Shop</b>', reason: '"new" <script>alert(1)</script> & more' })
  t.match(page, /^<!doctype html>\n<html lang="en">[^]*<\/html>\n$/)
  t.match(page, '<h1>&lt;b&gt;Shop&lt;/b&gt; is in maintenance</h1>')
  t.match(page, '<p>&quot;new&quot; &lt;script&gt;alert(1)&lt;/script&gt; &amp; more</p>')
  t.notMatch(page, /<script|<b>|(src|href)=|url\(|@import/)
  const opened = [...page.matchAll(/<([a-z0-9]+)[ >]/g)].map(([, name]) => name as string)
  const closed = [...page.matchAll(/<\/([a-z0-9]+)>/g)].map(([, name]) => name as string)
  t.same(opened.filter(name => name !== 'meta').sort(), closed.sort(), 'every element that needs an end has one')
})

t.test('without a reason, the page has no paragraph for it', async t => {
  t.same(maintenancePage({ name: 'Shop', reason: null }).match(/<p>[^<]*<\/p>/g), ['<p>Please try again later.</p>'])
})
