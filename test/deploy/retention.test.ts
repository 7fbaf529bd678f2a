import t from 'tap'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readFile, rm } from 'node:fs/promises'
import { archivesToPrune, offeredBySource, refuseRollback, retentionOf, rolledOut } from '../../lib/deploy/retention.js'
import { createFiles } from '../../lib/deploy/files.js'
import type { DeploymentRow, DeploymentStatus } from '../../lib/model/deployment.js'
import { eventsOf } from '../support/client.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { startNode } from '../support/fake-node.js'
import { ana, aRollout, openFleet } from '../support/fleet-stage.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertRollout } from '../../lib/core/store/tables/rollouts.js'
import { aDeployment } from '../core/store/stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'

const statuses: Record<string, DeploymentStatus> = { s: 'success', f: 'failed', q: 'queued', r: 'running' }
/** Returns rows for a text like `'qsf'`: newest first, with their position as id. */
const rows = (text: string) =>
  [...text].map((letter, index) => ({
    id: `${letter}${index}`,
    status: statuses[letter] as DeploymentStatus
  }))

t.test('chooses the archives to remove', async t => {
  const cases: Array<{ rows: string; keep: number; pruned: string[] }> = [
    { rows: '', keep: 10, pruned: [] },
    { rows: 'ssss', keep: 10, pruned: [] },
    { rows: 'ssss', keep: 2, pruned: ['s2', 's3'] },
    { rows: 'ss', keep: 0, pruned: ['s1'] },
    { rows: 'fffffs', keep: 1, pruned: ['f3', 'f4'] },
    { rows: 'qrsfsfsfsf', keep: 2, pruned: ['s6', 's8', 'f9'] },
    { rows: 'qqqqqq', keep: 0, pruned: [] },
    { rows: 'ffffs', keep: 0, pruned: ['f3'] }
  ]
  for (const { rows: text, keep, pruned } of cases)
    t.strictSame(archivesToPrune(rows(text), keep), pruned, `${text}, keep ${keep}`)
})

t.test('updates pruned records, removes their archives and keeps their outputs', async t => {
  const stage = await deployStage(t)
  const files = createFiles(stage.home)
  stage.values.keep_archives = 2
  const project = await stage.addProject()
  const other = await stage.addProject()
  const kept = await stage.deploy(other, { 'a.txt': '0' })
  const ids: string[] = []
  for (const content of ['1', '2', '3', '4']) ids.push((await stage.deploy(project, { 'a.txt': content })).id)
  t.strictSame(
    ids.map(id => stage.row(id).hasArtifact),
    [false, false, true, true]
  )
  t.strictSame(
    ids.map(id => existsSync(files.archive(id))),
    [false, false, true, true]
  )
  t.ok(existsSync(files.archive(kept.id)), 'other projects are not affected')
  t.match(await stage.output(ids[0] as string), /success/)
  t.equal((await stage.deployer.manifest(ids[0] as string)).length, 1)
  await t.rejects(stage.deployer.rollback(ids[0] as string, { actor: { name: 'admin', ip: null } }), {
    kind: 'conflict',
    code: 'no_archive'
  })
})

t.test('keeps the archive of the live deployment, even if it failed', async t => {
  const stage = await deployStage(t)
  stage.values.keep_archives = 1
  const project = await stage.addProject({
    postDeployScript: 'echo "after [$SVC_PREVIOUS_DEPLOY_ID]"; test ! -e broken'
  })
  await stage.deploy(project, { 'a.txt': '1' })
  const live = await stage.deploy(project, { 'a.txt': '2', broken: '' })
  t.equal(live.status, 'failed')
  for (let count = 0; count < 5; count++) await stage.deploy(project, { 'a.txt': '3' }, { preDeploy: 'exit 1' })
  t.equal(stage.row(live.id).hasArtifact, true, 'five newer deployments have failed without changing files')
  t.ok(existsSync(createFiles(stage.home).archive(live.id)))
  const next = await stage.deploy(project, { 'a.txt': '4' })
  t.match(await stage.output(next.id), `after [${live.id}]`)
})

t.test('keeps the archives that a way back needs', async t => {
  t.strictSame(archivesToPrune(rows('sfsfff'), 1, new Set(['s2', 'f5'])), [], 'a success, and a fourth failure')
  const settings = (keepUndo: number) => ({ number: (key: string) => (key === 'keep_undo' ? keepUndo : 4) })
  t.strictSame(retentionOf(settings(9)), { archives: 4, steps: 3 }, 'one archive more than steps')
  t.strictSame(retentionOf(settings(1)), { archives: 4, steps: 1 })
  t.strictSame(retentionOf(settings(9), 1), { archives: 1, steps: 0 })

  const stage = await deployStage(t)
  const files = createFiles(stage.home)
  stage.values.keep_archives = 2
  const project = await stage.addProject()
  const first = await stage.deploy(project, { rare: '1', a: '1' })
  for (const a of ['2', '3']) await stage.deploy(project, { a })
  t.notOk(existsSync(files.archive(first.id)))
  const other = await stage.addProject()
  const second = await stage.deploy(other, { rare: '1', a: '1' })
  await stage.deploy(other, { a: '2' })
  const last = await stage.deploy(other, { a: '3', rare: '3' })
  t.ok(existsSync(files.archive(second.id)), 'the last deployment replaced a file of the first one')
  t.match(stage.deployer.exactWindow(other.id), { undo: { deployId: last.id } })
  await stage.deploy(other, { a: '4' })
  t.notOk(existsSync(files.archive(second.id)), 'its way back needs it no longer')
})

t.test('removes the before-images of deployments that cannot be undone any more', async t => {
  const stage = await deployStage(t)
  const files = createFiles(stage.home)
  stage.values.keep_archives = 3
  const project = await stage.addProject()
  mkdirSync(project.deployPath, { recursive: true })
  writeFileSync(join(project.deployPath, 'a'), 'by hand')
  const first = await stage.deploy(project, { a: '1' })
  const { size } = statSync(files.before(first.id))
  t.strictSame(
    stage.kept.filter(([, bytes]) => bytes === size),
    [[project.id, size]]
  )
  await stage.deploy(project, { a: '2' })
  t.ok(existsSync(files.before(first.id)))
  t.match(stage.deployer.exactWindow(project.id), { exactBackTo: { deployId: null, steps: 2 } })
  await stage.deploy(project, { a: '3' })
  t.notOk(existsSync(files.before(first.id)))
  t.match(stage.kept.at(-1), [project.id, -size])
  t.match(stage.deployer.exactWindow(project.id), { exactBackTo: { deployId: first.id, steps: 2 } })
})

t.test('keeps the archive of the last rollout for nodes that come late', async t => {
  const stage = await startServer(t, { settings: { keep_archives: '1', keep_undo: '0' } })
  const hub = await stage.server.services.fleet.hub()
  const project = await stage.createProject('shop')
  const [first, second, late] = [
    await startNode({ url: stage.url, hub }, 'n1'),
    await startNode({ url: stage.url, hub }, 'n2'),
    await startNode({ url: stage.url, hub }, 'late')
  ]
  t.teardown(() => [first, second, late].forEach(node => node.close()))
  await hub.placements.change(project.id, { add: [{ node: 'n1' }, { node: 'n2' }], remove: [] }, ana)
  const push = async (text: string): Promise<string> => {
    const file = { filename: 'a.zip', bytes: await zipOf({ 'a.txt': text }) }
    const pushed = await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', file]
    ])
    return eventsOf(pushed).at(-1).deployId
  }
  // The rollout is halted, so its deployment has failed. Later ones fail before a rollout begins.
  second.answering = ({ action }) => (action === 'swap' ? { answer: 'failed', error: 'check failed' } : undefined)
  const wanted = await push('wanted')
  const [rollout] = hub.rollouts.list({ limit: 1 })
  t.match(rollout, { state: 'halted', deployId: wanted })
  for (const name of ['n1', 'n2']) await hub.nodes.drain(name, true, ana)
  const others: string[] = []
  for (let n = 0; n < 5; n++) others.push(await push(`other ${n}`))
  const archiveOf = (id: string): string => join(stage.home.deployments, `${id}.zip`)
  t.ok(
    others.some(id => !existsSync(archiveOf(id))),
    'old archives are removed'
  )
  t.ok(existsSync(archiveOf(wanted)))
  t.equal((await stage.client.post('/api/storage/clean', { keep: 1 })).status, 200)
  t.ok(existsSync(archiveOf(wanted)), 'also when a user removes archives')

  second.answering = null
  for (const name of ['n1', 'n2']) await hub.nodes.drain(name, false, ana)
  await hub.rollouts.resume(rollout?.id as string, ana)
  for await (const event of hub.rollouts.follow(rollout?.id as string, new AbortController().signal))
    if (event.type === 'end') t.equal(event.rollout.state, 'done')
  await hub.placements.change(project.id, { add: [{ node: 'late' }], remove: [] }, ana)
  await until(() => late.orders.some(({ action }) => action === 'swap'))
  const { archiveSha256 } = late.orders.at(-1) as { archiveSha256: string }
  const reply = await late.agent.request('GET', `/api/agent/blobs/${archiveSha256}`)
  t.equal(reply.status, 200)
  t.ok(reply.body.equals(readFileSync(archiveOf(wanted))))
})

t.test('deletes one archive, and says so in the record, the audit log and a rollback', async t => {
  const stage = await deployStage(t)
  const files = createFiles(stage.home)
  stage.values.keep_undo = 1
  const project = await stage.addProject()
  const ids: string[] = []
  for (const a of ['1', '2', '3']) ids.push((await stage.deploy(project, { a })).id)
  const [first, second, third] = ids as [string, string, string]
  const remove = (id: string, force = false) => stage.deployer.deleteArchive(id, { force, actor: admin })
  const needed = (message: RegExp) => ({ kind: 'conflict', code: 'archive_needed', message })

  await t.rejects(remove('dep_unknown'), { code: 'not_found' })
  await t.rejects(remove(third, true), needed(/its files are in the target/), 'it is live')
  await t.rejects(remove(second), needed(new RegExp(`exact undo of deployment ${third} needs it`)))
  const { row, freedBytes } = await remove(first)
  t.match(row, { id: first, hasArtifact: false })
  t.ok(freedBytes > 0)
  t.ok(stage.kept.some(([id, bytes]) => id === project.id && bytes === -freedBytes))
  t.equal(stage.row(first).hasArtifact, false)
  t.notOk(existsSync(files.archive(first)))
  t.ok(existsSync(files.output(first)))
  t.match(stage.audits.at(-1), { action: 'deployment.delete_archive', target: first, actor: admin, detail: null })
  await t.rejects(stage.deployer.rollback(first, { actor: admin }), { code: 'no_archive', message: /Cannot roll back/ })
  await t.rejects(remove(first), { code: 'no_archive', message: /Cannot delete/ })

  t.match(stage.deployer.exactWindow(project.id), { undo: { deployId: third } })
  await remove(second, true)
  t.match(stage.audits.at(-1), { detail: 'forced' })
  t.match(stage.deployer.exactWindow(project.id), { undo: null }, 'the way back is given up')
})

t.test('keeps the archive of a deployment that is in progress', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'sleep 300' })
  const run = await stage.push(project, { a: '1' })
  await t.rejects(stage.deployer.deleteArchive(run.deployId, { force: true, actor: admin }), { code: 'not_finished' })
  await stage.deployer.cancel(run.deployId, admin)
  await stage.deployer.deleteArchive(run.deployId, { force: false, actor: admin })
  t.equal(stage.row(run.deployId).hasArtifact, false)
})

t.test('nodes still get the last rollout, and after its revert the one before', async t => {
  const { store } = await openFleet(t)
  t.same([...rolledOut(store, 'proj_a')], [])
  const add = (number: number, state: 'done' | 'reverted') =>
    store.write(tx => {
      insertDeployment(tx, { ...aDeployment({ id: `dep_${number}`, projectId: 'proj_a' }), hasArtifact: true })
      insertRollout(tx, aRollout({ id: `ro_${number}`, number, deployId: `dep_${number}`, state }))
    })
  await add(1, 'done')
  await add(2, 'done')
  t.same([...rolledOut(store, 'proj_a')], ['dep_2'])
  await add(3, 'reverted')
  t.same([...rolledOut(store, 'proj_a')], ['dep_3', 'dep_2'])
})

t.test('a rollback is a new deployment with the earlier content', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    postDeployScript: 'echo "$SVC_DEPLOY_MODE of [$SVC_ROLLBACK_OF] after [$SVC_PREVIOUS_DEPLOY_ID]"'
  })
  const first = await stage.deploy(project, { 'index.html': 'one', 'only-first.txt': '1' })
  const second = await stage.deploy(project, { 'index.html': 'two' })
  t.match(await stage.output(first.id), /deploy of \[\] after \[\]/)

  const run = await stage.deployer.rollback(first.id, { message: 'back', actor: admin })
  const row = await run.finished
  t.match(row, {
    status: 'success',
    triggerSource: 'rollback',
    rollbackOf: first.id,
    message: 'back',
    archiveSha256: first.archiveSha256,
    archiveBytes: first.archiveBytes,
    hasArtifact: true,
    fileCount: 2
  })
  t.equal(await readFile(join(project.deployPath, 'index.html'), 'utf8'), 'one')
  t.match(await stage.output(row.id), new RegExp(`rollback of \\[${first.id}\\] after \\[${second.id}\\]`))
  t.match(stage.notices.at(-1), { trigger: 'rollback', event: 'deploy_success', deployment: { rollbackOf: first.id } })
  t.match(stage.audits.at(-1), { action: 'deployment.rollback', target: row.id, detail: `to ${first.id}` })
  t.strictSame(await stage.deployer.changes(row.id, second.id), {
    added: ['only-first.txt'],
    changed: ['index.html'],
    removed: []
  })
  t.strictSame(await stage.deployer.changes(second.id, row.id), {
    added: [],
    changed: ['index.html'],
    removed: ['only-first.txt']
  })

  await rm(createFiles(stage.home).archive(first.id))
  const again = await (await stage.deployer.rollback(row.id, { actor: admin })).finished
  t.match(again, { status: 'success', rollbackOf: row.id }, 'a rollback has its own archive')
})

t.test('a failed rollback is kept and notified', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  await stage.change(project, { preDeployScript: 'exit 7' })
  const row = await (await stage.deployer.rollback(first.id, { actor: admin })).finished
  t.match(row, {
    status: 'failed',
    triggerSource: 'rollback',
    rollbackOf: first.id,
    errorMessage: deploySays.failedWith('pre-deploy', 7)
  })
  t.match(stage.notices.at(-1), {
    trigger: 'rollback',
    event: 'deploy_failure',
    errorMessage: deploySays.failedWith('pre-deploy', 7)
  })
  t.equal(stage.row(row.id).status, 'failed')
})

t.test('runs the client scripts of the source again, unless they are disabled now', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const source = await stage.deploy(
    project,
    { 'a.txt': '1' },
    { preDeploy: 'echo client-pre', postDeploy: 'echo client-post' }
  )
  const again = await (await stage.deployer.rollback(source.id, { actor: admin })).finished
  t.match(await stage.output(again.id), matching(deploySays.asInSource('pre-deploy'), /\nclient-pre[^]*client-post/))
  t.equal(again.scripts.length, 2)
  await stage.change(project, { allowClientScripts: false })
  const without = await (await stage.deployer.rollback(source.id, { actor: admin })).finished
  t.match(without, { status: 'success', scripts: [] })
  t.match(await stage.output(without.id), deploySays.leftOut('preDeploy'))
})

t.test('refuses a deployment that cannot be rolled back to', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 5' })
  await t.rejects(stage.deployer.rollback('dep_none', { actor: admin }), { code: 'not_found' })
  const run = await stage.push(project, { 'a.txt': '1' })
  await t.rejects(stage.deployer.rollback(run.deployId, { actor: admin }), { kind: 'conflict', code: 'not_finished' })
  await stage.deployer.cancel(run.deployId, admin)
  await rm(createFiles(stage.home).archive(run.deployId))
  await t.rejects(stage.deployer.rollback(run.deployId, { actor: admin }), { kind: 'conflict', code: 'no_archive' })
  t.notOk(existsSync(`${project.deployPath}/a.txt`))
})

t.test('offers the client scripts that ran', async t => {
  const source = {
    id: 'dep_1',
    status: 'success',
    hasArtifact: true,
    scripts: [
      { step: 'preDeploy', source: 'platform', script: 'p', async: false },
      { step: 'postDeploy', source: 'client', script: 'c', async: true }
    ]
  } as unknown as DeploymentRow
  t.strictSame(offeredBySource(source), {
    origin: 'source deployment',
    preDeploy: undefined,
    postDeploy: 'c',
    postDeployAsync: true
  })
  t.doesNotThrow(() => refuseRollback(source))
  t.throws(() => refuseRollback({ ...source, hasArtifact: false }), { code: 'no_archive' })
})
