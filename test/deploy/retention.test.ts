import t from 'tap'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { archivesToPrune, retentionOf } from '../../lib/deploy/retention.js'
import { createFiles } from '../../lib/deploy/files.js'
import type { DeploymentStatus } from '../../lib/model/deployment.js'
import { eventsOf } from '../support/client.js'
import { deployStage } from '../support/deploy-stage.js'
import { startNode } from '../support/fake-node.js'
import { ana } from '../support/fleet-stage.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

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
