import t from 'tap'
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import { sha256 } from '../../../lib/base/digests.js'
import { Duties, createHistories } from '../../../lib/fleet/agent/duties.js'
import { systemActor } from '../../../lib/model/audit.js'
import type { Store } from '../../../lib/core/store/database.js'
import { placements } from '../../../lib/core/store/tables/deployments.js'
import { listDuties } from '../../../lib/core/store/tables/fleet.js'
import { deployStage } from '../../support/deploy-stage.js'
import { zipOf } from '../../support/zip.js'
import { startAgentStage } from '../../support/agent-stage.js'
import { until } from '../../support/until.js'
import { openStage } from '../../support/store.js'

t.test('an order is answered again, and an older one ignored', async t => {
  const { hub, sites } = await startAgentStage(t)
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: join(sites, 'a') })
  const prepare = hub.order(release, 'prepare')
  await hub.answer(prepare, 'prepared')
  await hub.answer(hub.order(release, 'swap'), 'good')
  const before = hub.reports.length
  hub.send(prepare)
  await until(() => hub.reports.length > before)
  t.match(hub.reports.at(-1)?.answers, [{ answer: 'good' }])
})

t.test('a node that was told to hold begins nothing', async t => {
  const { hub, sites } = await startAgentStage(t)
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: join(sites, 'a') })
  await hub.answer(hub.order(release, 'hold'), 'held')
  t.notOk(existsSync(join(sites, 'a')))
  t.notOk(hub.seen.some(line => /blobs/.test(line)))
})

t.test('a target that cannot be used is refused before anything changes', async t => {
  const { hub, sites } = await startAgentStage(t)
  writeFileSync(join(sites, 'file'), 'x')
  const file = await hub.release('proj_a', { a: '1' }, { deployPath: join(sites, 'file') })
  t.match(await hub.answer(hub.order(file, 'prepare'), 'refused'), { error: /is not a directory/ })
  const system = await hub.release('proj_b', { a: '1' }, { deployPath: '/etc/site' })
  t.match(await hub.answer(hub.order(system, 'prepare'), 'refused'), { error: /\/etc/ })
  const script = { deployPath: join(sites, 'c'), offered: { origin: 'upload' as const, postDeploy: 'true' } }
  const off = await hub.release('proj_c', { a: '1' }, { ...script, project: { allowClientScripts: false } })
  t.match(await hub.answer(hub.order(off, 'prepare'), 'refused'), { error: /scripts/ })
})

t.test('a new rollout replaces one whose release cannot be fetched', async t => {
  const { hub, sites } = await startAgentStage(t)
  const deployPath = join(sites, 'a')
  const [old, next] = [
    await hub.release('proj_a', { a: '1' }, { deployPath }),
    await hub.release('proj_a', { a: '2' }, { deployPath })
  ]
  hub.intercept = (request, response) =>
    Boolean(request.url?.endsWith(`/blobs/${old.archiveSha256}`) && response.writeHead(503).end())
  hub.order(old, 'prepare')
  await until(() => hub.seen.some(line => line.endsWith(old.archiveSha256)))
  await hub.answer(hub.order(next, 'prepare', { number: 2 }), 'prepared')
  await hub.answer(hub.order(next, 'swap', { number: 2 }), 'good')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '2')
})

t.test('a project that is no longer placed is forgotten; its files stay', async t => {
  const { hub, sites, agent } = await startAgentStage(t)
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: join(sites, 'a') })
  await hub.answer(hub.order(release, 'swap'), 'good')
  hub.send({ type: 'unplaced', projectId: 'proj_a' })
  await until(() => agent.services.agent.projects.list().length === 0)
  t.ok(existsSync(join(sites, 'a', 'a')))
})

t.test('a local push and an edited file are drift, and are not undone', async t => {
  const stage = await startAgentStage(t, { times: { driftEveryMs: 100 } })
  const { hub, sites, agent } = stage
  const deployPath = join(sites, 'a')
  const release = await hub.release('proj_a', { a: '1' }, { deployPath })
  await hub.answer(hub.order(release, 'swap'), 'good')
  await hub.reported(({ placements }) => placements[0]?.isDrifted === false && placements[0].liveTree !== null)
  appendFileSync(join(deployPath, 'a'), 'edited')
  await hub.reported(({ placements }) => placements[0]?.isDrifted === true)

  mkdirSync(join(sites, 'x'))
  const project = agent.services.agent.projects.get('proj_a')
  const form = new FormData()
  form.set('projectId', 'proj_a')
  form.set('file', new Blob([(await hub.release('x', { a: 'local' })).archive]), 'a.zip')
  const headers = { authorization: `Bearer ${project.token}` }
  await (await fetch(`${agent.url}/api/deploy/upload`, { method: 'POST', headers, body: form })).text()
  await hub.reported(({ placements }) => placements[0]?.isDrifted === true && placements[0].liveDeployId === null)
  const stuck = await hub.answer(hub.order(release, 'revert'), 'stuck')
  t.match(stuck.error, /was made on the node/)
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), 'local')
})

t.test('an order or a result that cannot be stored is stored later, and nothing is done twice', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const archivePath = join(stage.directory, 'a.zip')
  writeFileSync(archivePath, await zipOf({ a: '1' }))
  const said: string[] = []
  let [failures, prepared, begun] = [0, 0, 0]
  const store: Store = {
    ...stage.store,
    write: work =>
      failures-- > 0 ? Promise.reject(new Refusal('unavailable', 'disk_full', 'No room')) : stage.store.write(work)
  }
  const duties = new Duties({
    store,
    nodeId: 'node_1',
    clock: stage.clock,
    ids: stage.ids,
    deployer: stage.deployer as never,
    prepare: async () => {
      if (prepared++ === 0) failures = 2
      return {
        document: { offered: { origin: 'upload' }, clientEnv: {}, message: null } as never,
        archivePath
      }
    },
    done: () => {},
    changed(_, options) {
      // The deployment has begun: its result cannot be stored.
      if (options?.soon && begun++ === 0) failures = 1
    },
    removed: async () => {},
    retriesMs: [5],
    log: message => void said.push(message)
  })
  t.teardown(() => duties.stop())
  failures = 2
  const about = { epoch: 'e', projectId: project.id, rolloutId: 'ro_1', number: 1, attempt: 1, action: 'swap' as const }
  const archive = {
    deployId: 'dep_hub',
    treeSha256: '',
    archiveSha256: sha256(readFileSync(archivePath)).toString('hex')
  }
  const archiveBytes = readFileSync(archivePath).length
  duties.take({ type: 'order', ...about, ...archive, archiveBytes })
  await until(() => duties.find(project.id)?.state.outcome === 'good')
  await until(() => listDuties(stage.store)[0]?.state.outcome === 'good')
  t.equal(begun, 1)
  t.equal(said.length, 2, 'once for the order, once for the work')
  t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), '1')
  t.equal(placements(stage.store, project.id).length, 1)
})

t.test('a project that is removed and placed again obeys no order of before, also after a start', async t => {
  const stage = await startAgentStage(t)
  const { hub, sites } = stage
  const deployPath = `${sites}/a`
  const [first, second] = [
    await hub.release('proj_a', { a: '1' }, { deployPath }),
    await hub.release('proj_a', { a: '2' }, { deployPath })
  ]
  hub.heartbeatMs = 50
  await hub.answer(hub.order(first, 'swap'), 'good')
  await hub.answer(hub.order(second, 'swap', { number: 2 }), 'good')
  const { projects } = stage.agent.services.agent
  hub.send({ type: 'unplaced', projectId: 'proj_a' })
  await until(() => projects.list({}).length === 0)
  const ignored = hub.order(first, 'swap', { number: 1 })
  t.match((await hub.answer(ignored, 'ignored')).error, /later rollout ro_2 \(number 2, not 1\)/)
  await stage.restart()
  await hub.answer(hub.order(first, 'swap', { number: 1 }), 'ignored')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '2')
  await hub.answer(hub.order(second, 'hold', { number: 2 }), 'held')
  await hub.answer(hub.order(second, 'swap', { number: 2 }), 'good')
  hub.epoch = 'epoch_2'
  await hub.answer(hub.order(first, 'swap', { number: 1 }), 'good')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1', 'a hub that was restored decides again')
  hub.epoch = 'epoch_1'
  t.match((await hub.answer(hub.order(second, 'swap', { number: 3 }), 'ignored')).error, /restored after this one/)
})

t.test('what the hub did not place stays', async t => {
  const stage = await startAgentStage(t)
  const { hub, sites } = stage
  const { projects } = stage.agent.services.agent
  await projects.adopt(
    'proj_own',
    { name: 'own', deployPath: `${sites}/own`, env: 'production', policy: {} },
    systemActor
  )
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: `${sites}/a` })
  await hub.answer(hub.order(release, 'swap'), 'good')
  for (const projectId of ['proj_own', 'proj_a']) hub.send({ type: 'unplaced', projectId })
  await until(() => projects.list({}).length === 1)
  t.match(projects.list({}), [{ id: 'proj_own' }])
})

t.test('the histories of a hub are remembered over a start, and one that was replaced stays so', async t => {
  const { store } = await openStage(t)
  const before = createHistories(store)
  t.equal(before.first('a'), 'a', 'what was ordered before histories had names is of the first one')
  for (const epoch of ['a', 'b', 'b']) {
    t.notOk(before.isReplaced(epoch))
    const write = before.follow(epoch)
    t.notOk(before.isReplaced(epoch), 'at once')
    await store.write(write)
  }
  for (const histories of [before, createHistories(store)]) {
    t.same(['a', 'b', 'c'].map(histories.isReplaced), [true, false, false])
    t.equal(histories.first('c'), 'a')
  }
})
