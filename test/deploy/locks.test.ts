import t from 'tap'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createLocks } from '../../lib/deploy/locks.js'
import type { AuditEvent } from '../../lib/model/audit.js'
import { setClock } from '../support/clock.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { until } from '../support/until.js'

const token = { name: 'project:proj_a', ip: null }

/** The locks of a stage, with the clock that its test moves, and what was audited. */
async function locksStage(t: Parameters<typeof deployStage>[0]) {
  const stage = await deployStage(t)
  const audits: AuditEvent[] = []
  const clock = setClock(Date.now())
  const audit = { within: (_: unknown, event: AuditEvent) => void audits.push(event) }
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
  t.throws(() => stage.deployer.checkLocks(project.id), refusal)

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
    { action: 'project.lock', actor: token, ...of, detail: /^renewed until .*: longer$/ },
    { action: 'project.unlock', actor: admin, detail: 'taken over from project:proj_a ("longer"): urgent fix' }
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
