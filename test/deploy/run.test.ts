import t from 'tap'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { setImmediate as turn } from 'node:timers/promises'
import { join } from 'node:path'
import type { Transaction } from '../../lib/core/store/database.js'
import { insertNode, insertPlacement } from '../../lib/core/store/tables/fleet.js'
import type { DeployRequest } from '../../lib/deploy/requests.js'
import { type DeploymentStep, listedDeployment } from '../../lib/model/deployment.js'
import type { PolicyChanges } from '../../lib/model/policy.js'
import { defaultRolloutPolicy, type RolloutPolicy } from '../../lib/model/rollout.js'
import { deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { treeBody } from '../support/planned.js'
import { until } from '../support/until.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { eventsOf } from '../support/client.js'
import { aNode, ana } from '../support/fleet-stage.js'
import { type FakeNode, startNode } from '../support/fake-node.js'
import { type Stage, startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import type { Project } from '../../lib/model/project.js'

const told = (stage: DeployStage): string[] =>
  stage.notices.map(({ trigger, event, errorMessage }) => `${trigger} ${event} ${errorMessage}`)

t.test('has the states of §3 and sends their notifications', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const good = await stage.deploy(project, { 'a.txt': '1' }, { postDeploy: 'true' })
  t.equal(good.status, 'success')
  const bad = await stage.deploy(project, { 'a.txt': '2' }, { postDeploy: 'exit 1' })
  t.equal(bad.status, 'failed')
  const error = deploySays.failedWith('post-deploy', 1)
  t.strictSame(told(stage), ['cli deploy_success null', `cli deploy_failure ${error}`])
  t.match(stage.notices[0], {
    project: { id: project.id, deployPath: project.deployPath },
    deployment: { id: good.id, status: 'success', duration: /s$/ }
  })
  t.strictSame(
    stage.audits.map(({ action, target }) => [action, target]),
    [
      ['deployment.upload', good.id],
      ['deployment.upload', bad.id]
    ]
  )
  t.equal(
    await readFile(join(project.deployPath, 'a.txt'), 'utf8'),
    '2',
    'a failed post-deploy script does not undo the files'
  )
})

t.test('a background script does not delay the success, and its output is recorded', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployAsync: true })
  const request = {
    postDeploy: 'echo begin; while [ ! -e go ]; do sleep 0.02; done; cat "$SVC_CHANGES"; echo end',
    postDeployAsync: false
  }
  const row = await stage.deploy(project, { 'a.txt': '1' }, request)
  t.equal(row.status, 'success')
  t.match(row.scripts, [{ step: 'postDeploy', source: 'client', async: true }])
  t.match(await stage.output(row.id), matching('in the background ', deploySays.forcedOverClient))
  t.notMatch(await stage.output(row.id), /^end$/m)
  t.notOk(stage.deployer.hasRunning(project.id), 'the deployment has finished')
  const step = (at: number): unknown => stage.row(row.id).steps[at]
  t.match(step(4), { name: 'postDeploy', status: 'running', endedAt: null, exitCode: null })

  const next = await stage.deploy(project, { go: '' })
  t.equal(next.status, 'success', 'the next deployment does not wait for it')
  const end = matching('\na.txt\nend\n→ ', deploySays.endedInBackground(0), '\n')
  await until(async () => end.test(await stage.output(row.id)))
  await until(async () => (await readdir(stage.home.tmp)).length === 0)
  t.equal(stage.row(row.id).status, 'success')
  await until(() => (stage.row(row.id).steps[4] as DeploymentStep).status !== 'running')
  t.match(step(4), { status: 'success', exitCode: 0, endedAt: String })
  t.strictSame(told(stage), ['cli deploy_success null', 'cli deploy_success null'])
})

t.test('a failed background script is audited and notified, and the success stays', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' }, { postDeploy: 'echo oh; exit 4', postDeployAsync: true })
  t.equal(row.status, 'success')
  await until(() => stage.notices.length === 2)
  const error = deploySays.failedInBackground(4)
  t.strictSame(told(stage), ['cli deploy_success null', `async_post_deploy deploy_failure ${error}`])
  t.match(stage.notices[0]?.deployment, row, 'the notification contains the final record')
  t.match(stage.notices[1]?.deployment, { id: row.id, status: 'success', endTime: row.endTime })
  t.match(stage.audits.at(-1), {
    action: 'deploy.post_deploy_failed',
    actor: { name: 'system' },
    projectId: project.id,
    target: row.id,
    detail: error,
    ok: false
  })
  t.match(stage.row(row.id), { status: 'success', errorMessage: null })
  t.match(stage.row(row.id).steps[4], { name: 'postDeploy', status: 'failed', exitCode: 4, endedAt: String })
  t.ok(listedDeployment(stage.row(row.id)).backgroundFailed)
  t.match(await stage.output(row.id), matching(/\noh\n[^]*✗ /, error, /\n$/))
})

/** Program that prints 100 MB in lines of 71 bytes. */
const printer = `
  const block = Buffer.alloc(1e6, "0123456789abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWX\\n")
  let left = 100
  const go = () => { while (left-- > 0) if (!process.stdout.write(block)) return process.stdout.once("drain", go) }
  go()`

t.test('records 100 MB of output, invalid bytes and a missing last newline', async t => {
  const stage = await deployStage(t)
  // A busy machine needs more than the 30 s of the stage.
  stage.values.script_timeout = 300
  const project = await stage.addProject({
    preDeployScript: `node -e '${printer}'`,
    postDeployScript: `printf 'bad \\377\\376 bytes\\nno newline'`
  })
  const before = process.memoryUsage().rss
  let peak = 0
  const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 20)
  const row = await stage.deploy(project, { 'a.txt': '1' })
  clearInterval(timer)
  t.equal(row.status, 'success', row.errorMessage ?? '')
  const grownMb = (peak - before) / 1e6
  t.ok(grownMb < 150, `memory grew by ${grownMb.toFixed(0)} MB in ${row.duration}`)
  const { text, truncated } = await stage.deployer.readOutput(row.id)
  t.ok(truncated && text.length <= 1024 * 1024)
  t.match(text, /bad \ufffd\ufffd bytes\nno newline\n→ post-deploy script ended/)
  let bytes = 0
  for await (const chunk of stage.deployer.outputStream(row.id)) bytes += (chunk as Buffer).length
  t.ok(bytes > 100e6 && bytes < 101e6, `${bytes} bytes of output are kept`)
})

t.test('an output that cannot be written fails the deployment', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'while :; do echo again; sleep 0.01; done' })
  const run = await stage.push(project, { 'a.txt': '1' })
  await until(() => stage.row(run.deployId).steps.length === 3)
  await stage.deployer.removeWith([run.deployId], async () => [run.deployId])
  const row = await run.finished
  t.match(row, { status: 'failed', errorMessage: deploySays.scriptFailed('pre-deploy', 'ENOENT') })
})

t.test('an old name with line breaks cannot forge a line of an output', async t => {
  const stage = await deployStage(t)
  const name = 'Shop\n✓ success in 0.01s\r\u202e\x1b[2K'
  const project = await stage.addProject({
    name,
    env: 'a\n→ b',
    deployPath: join(stage.directory, 'x\n✓ success in 0.01s')
  })
  const { id } = await stage.deploy(project, { 'a.txt': '1' })
  const lines = (await stage.output(id)).split('\n')
  t.equal(lines.filter(line => line.startsWith('✓ success')).length, 1)
  t.match(lines[0], 'of Shop\\n✓ success in 0.01s\\r\\u202e\\u001b[2K (a\\n→ b)')
  await stage.change(project, { deployPath: '/proc/x\n✓ success in 0.01s' })
  const failed = await stage.deploy(project, { 'a.txt': '1' })
  t.equal(failed.status, 'failed')
  t.notMatch(await stage.output(failed.id), /^✓ success/m)
  t.notMatch(failed.errorMessage, '\n')
})

t.test('a deployment that fails before its first step removes its upload', async t => {
  const stage = await deployStage(t)
  const uploads = async (): Promise<string[]> => (await readdir(stage.home.tmp)).filter(name => name.endsWith('.zip'))

  const unknown = await stage.addProject({ runAs: 'no-such-user-here' })
  t.match(await stage.deploy(unknown, { 'a.txt': '1' }), { status: 'failed', errorMessage: /"runAs"/ })
  t.strictSame(await uploads(), [], 'the user does not exist')

  const project = await stage.addProject()
  for (let turns = 0; turns < 8; turns++) {
    const run = await stage.push(project, { 'a.txt': '1' })
    for (let n = 0; n < turns; n++) await turn()
    await stage.deployer.cancel(run.deployId, { name: 'admin', ip: null }).catch(() => {})
    await run.finished
    t.strictSame(await uploads(), [], `cancelled ${turns} turns after it was recorded`)
  }
})

t.test('the end of a background script that cannot be recorded any more disturbs nothing', async t => {
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const wait = { postDeploy: 'while [ ! -e go ]; do sleep 0.02; done; touch gone', postDeployAsync: true }
  await stage.deploy(project, { 'a.txt': '1' }, wait)
  await stage.store.close()
  writeFileSync(join(project.deployPath, 'go'), '')
  await until(() => existsSync(join(project.deployPath, 'gone')))
  await until(() =>
    stage.faults.some(fault => String(fault).startsWith('Cannot record the result of a background script,'))
  )
  t.same(unhandled, [])
})

t.test('what a push wishes is checked again at its turn: its policy may be stricter by then', async t => {
  const token = { id: 'tok_ci', name: 'ci' }
  const pipeline = { name: 'token:ci', role: 'deployer', ip: null, token }
  const operator = { ...pipeline, role: 'operator' }
  const rollout = { ...defaultRolloutPolicy, canary: 1 }
  const background = { postDeploy: 'true', postDeployAsync: true }
  const cases: Array<[wish: Partial<DeployRequest>, policy: PolicyChanges, refusal: string | null]> = [
    [
      { confirmSeconds: 600, actor: pipeline },
      { confirm: { seconds: 300 } },
      'The token "ci" may not wait 600 s to be confirmed. The policy "confirm" of the project is stricter'
    ],
    [
      { ...background, actor: { name: 'global-deploy', role: 'global', ip: null } },
      { onPostFailure: 'revert' },
      'The global deploy token may not run the post-deploy script in the background. The policy "onPostFailure" of the project is stricter'
    ],
    [
      { rollout: { canary: 2 }, actor: { name: 'project:x', role: 'project', ip: null } },
      { rollout },
      'The deploy token of the project may not roll out with "canary": 2. The policy "rollout.canary" of the project is stricter'
    ],
    [{ postDeploy: 'true', actor: pipeline }, { onPostFailure: 'revert' }, null],
    [{ ...background, actor: operator }, { onPostFailure: 'revert' }, null]
  ]
  for (const [wish, policy, refusal] of cases) {
    const stage = await deployStage(t)
    const project = await stage.addProject({ preDeployScript: 'while [ ! -e go ]; do sleep 0.05; done' })
    const first = await stage.push(project, { 'first.txt': '1' })
    await until(() => existsSync(project.deployPath))
    // Only a project on nodes takes a wish about waves.
    if (wish.rollout !== undefined) await stage.store.write(tx => placeOnNode(tx, project.id))
    const queued = await stage.push(project, { 'queued.txt': '2' }, wish)
    t.equal(stage.deployer.countAhead(project.id), 2)
    await stage.change(project, { policy })
    await writeFile(join(project.deployPath, 'go'), '')
    t.match(await first.finished, { status: 'success' })
    t.match(await queued.finished, { status: refusal === null ? 'success' : 'failed', errorMessage: refusal })
    t.equal(existsSync(join(project.deployPath, 'queued.txt')), refusal === null, 'a refused one changes nothing')
  }
})

function placeOnNode(tx: Transaction, projectId: string): void {
  insertNode(tx, aNode('a'))
  const nothing = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
  insertPlacement(tx, { projectId, nodeId: 'node_a', deployPath: '/srv/a', ...nothing })
}

t.test('so is what its plan wishes', async t => {
  const pipeline = { name: 'token:ci', role: 'deployer', ip: null, token: { id: 'tok_ci', name: 'ci' } }
  const cases = [
    [{ prune: 'force', force: false }, { pruneByDeployToken: true }, 'remove files. Set "pruneByDeployToken"'],
    [{ prune: undefined, force: true }, { forceByDeployToken: true }, 'replace edited files. Set "forceByDeployToken"']
  ] as const
  for (const [asks, policy, refusal] of cases) {
    for (const role of ['deployer', 'operator']) {
      const stage = await deployStage(t)
      const project = await stage.addProject({ policy })
      await stage.deploy(project, { a: '1' })
      const site = t.testdir({ a: '2' })
      const limits = { listed: 0, mayUpload: true, clientTimeMs: null, noSpace: null, maxUploadBytes: 5 }
      const asked = { projectId: project.id, tree: await treeBody(site), asks, scripts: {}, signal: never, ...limits }
      const planId = (await stage.deployer.plan(asked)).planId as string
      await stage.change(project, { preDeployScript: 'while [ ! -e go ]; do sleep 0.05; done; rm go; exit 1' })
      const first = await stage.push(project, { a: 'none of this' })
      const queued = await stage.push(project, { a: '2' }, { planId, actor: { ...pipeline, role } })
      await stage.change(project, { policy: {}, preDeployScript: '' })
      await writeFile(join(project.deployPath, 'go'), '')
      await first.finished
      const { status, errorMessage } = await queued.finished
      if (role === 'operator') t.equal(status, 'success', errorMessage ?? '')
      else t.match({ status, errorMessage }, { status: 'failed', errorMessage: `The token "ci" may not ${refusal}` })
      t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), role === 'operator' ? '2' : '1')
    }
  }
})

async function openPlaced(t: Parameters<typeof startServer>[0], names: string[], policy: Partial<RolloutPolicy> = {}) {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const project = await stage.createProject('shop')
  const nodes: FakeNode[] = []
  for (const name of names) nodes.push(await startNode({ url: stage.url, hub }, name))
  t.teardown(() => nodes.forEach(node => node.close()))
  await hub.placements.change(project.id, { add: names.map(node => ({ node })), remove: [] }, ana)
  await stage.client.put(`/api/projects/${project.id}`, { policy: { rollout: policy } })
  return { stage, hub, project, nodes }
}

const push = async (stage: Stage, project: Project, fields: Array<[string, string]> = []) =>
  stage
    .as(project.token)
    .upload([
      ['projectId', project.id],
      ...fields,
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'a.txt': 'a', 'd/b.txt': 'b' }) }]
    ])

const textOf = async (stage: Stage, deployId: string): Promise<string> =>
  (await stage.server.services.deployer.readOutput(deployId)).text

t.test('rolls a push out to the nodes, and shows what happens', async t => {
  const { stage, hub, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2', 'plant-a3'], { then: '2' })
  const pushed = await push(stage, project)
  const { deployId, status } = eventsOf(pushed).at(-1)
  t.equal(status, 'success')
  const [rollout] = hub.rollouts.list({ deployId, limit: 1 })
  t.match(rollout, { state: 'done', wave: 2, counts: { good: 3 } })
  const text = await textOf(stage, deployId)
  t.match(text, `Rollout ${rollout?.id} of tree ${rollout?.treeSha256.slice(0, 8)}…: 3 nodes, 2 waves`)
  t.match(text, /prepare {3}3\/3 ready \(\d+ B each, [\d.]+s\)/)
  t.match(text, /wave 1\/2 {2}plant-a1 {12}✓ good 0\.01s/)
  t.match(text, /wave 2\/2 {2}plant-a2, plant-a3 {2}✓✓/)
  const { body } = await stage.client.get(`/api/logs/${deployId}`)
  t.same(
    body.steps.map(({ name, status }: { name: string; status: string }) => [name, status]),
    ['store', 'rollout', 'cleanup'].map(name => [name, 'success'])
  )
  t.match(body, { status: 'success', treeSha256: rollout?.treeSha256, fileCount: 2 })
  const local = await stage.createProject('local')
  const { deployId: localId } = eventsOf(await push(stage, local)).at(-1)
  const { body: record } = await stage.client.get(`/api/logs/${localId}`)
  t.equal(record.treeSha256, rollout?.treeSha256, 'the tree that an extraction has')
  t.notOk(existsSync(project.deployPath), 'the server puts nothing in place itself')
  t.match(hub.placements.ofProject(project.id)[0], { liveDeployId: deployId, liveTree: rollout?.treeSha256 })
  t.same(
    nodes.map(({ orders }) => orders.map(({ action }) => action).filter(action => action !== 'none')),
    [1, 2, 3].map(() => ['prepare', 'swap'])
  )
})

t.test('fails when a node fails, and corrects the record when the rollout is resumed to its end', async t => {
  const { stage, hub, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2'])
  const [, second] = nodes as [FakeNode, FakeNode]
  second.answering = ({ action }) =>
    action === 'swap' ? { answer: 'failed', error: 'check /up answered 502', output: 'the end' } : undefined
  const { deployId, status } = eventsOf(await push(stage, project)).at(-1)
  t.equal(status, 'failed')
  const id = hub.rollouts.list({ deployId, limit: 1 })[0]?.id as string
  const text = await textOf(stage, deployId)
  t.match(text, /wave 2\/2 {2}plant-a2 {12}✗ {3}plant-a2: check \/up answered 502/)
  t.match(text, 'halted: 1 failed (allowed: 0). plant-a1 has')
  t.match(text, `next: svc rollout revert ${id}   or   svc rollout resume ${id}`)
  const record = async () => (await stage.client.get(`/api/logs/${deployId}`)).body
  t.match(await record(), { status: 'failed', errorMessage: `The rollout ${id} was halted: 1 failed (allowed: 0)` })
  t.match(hub.rollouts.node(id, 'plant-a2'), { phase: 'failed', output: 'the end' })
  second.answering = null
  await hub.rollouts.resume(id, ana)
  for await (const event of hub.rollouts.follow(id, new AbortController().signal))
    if (event.type === 'end') t.equal(event.rollout.state, 'done')
  while ((await record()).status !== 'success') await new Promise(resolve => setImmediate(resolve))
  t.match(await record(), { status: 'success', errorMessage: null })
})

t.test('a deployment that waits behind a rollout says which, since when, and what to do', async t => {
  const { stage, hub, project } = await openPlaced(t, ['plant-a1', 'plant-a2'], { pause: 600 })
  const pushes = [push(stage, project)]
  const list = () => hub.rollouts.list({ limit: 1 })[0]
  const { id } = await until(() => list()?.state === 'pausing' && list())
  const newest = async () => (await stage.client.get('/api/logs?limit=1')).body[0]
  pushes.push(push(stage, project))
  const { id: deployId } = await until(async () => (await newest()).status === 'queued' && newest())
  const record = async () => (await stage.client.get(`/api/logs/${deployId}`)).body
  const { since, until: end } = (await record()).rolloutAhead
  t.match((await record()).rolloutAhead, { id, state: 'pausing', since: hub.rollouts.node(id, 'plant-a1').updatedAt })
  const permit = (await stage.as(project.token).get(`/api/deploy/check?projectId=${project.id}`)).body
  t.match(permit, { deploymentsAhead: 2, rolloutAhead: { id, since } })
  t.match(
    await textOf(stage, deployId),
    `→ waits: rollout ${id} has paused since ${since}, until ${end}. "svc rollout approve ${id}" begins the next wave`
  )
  await stage.client.put(`/api/projects/${project.id}`, { policy: { rollout: { pause: 'approve' } } })
  await hub.rollouts.approve(id, ana)
  await until(async () => list()?.id !== id && list()?.state === 'approval')
  t.notOk('rolloutAhead' in (await record()), 'it does not wait any more')
  const last = push(stage, project)
  const waiting = await until(async () => (await newest()).status === 'queued' && newest())
  await until(async () => /for an approval since .*"svc rollout approve/.test(await textOf(stage, waiting.id)))
  await hub.rollouts.approve(list()?.id as string, ana)
  await Promise.all(pushes)
  await until(async () => list()?.deployId === waiting.id && list()?.state === 'approval')
  await hub.rollouts.approve(list()?.id as string, ana)
  t.match(eventsOf(await last).at(-1), { status: 'success' })
})

t.test('a cancel halts the rollout', async t => {
  const { stage, hub, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2'])
  const reached = new Promise<string>(resolve => {
    ;(nodes[1] as FakeNode).answering = ({ action, deployId }) => {
      if (action !== 'swap') return undefined
      resolve(deployId)
      return null
    }
  })
  const pushed = push(stage, project)
  const deployId = await reached
  t.equal((await stage.client.post(`/api/deployments/${deployId}/cancel`)).status, 200)
  t.match(eventsOf(await pushed).at(-1), { status: 'failed' })
  t.match(hub.rollouts.list({ limit: 1 })[0], { state: 'halted', haltedReason: 'Cancelled by admin' })
})

t.test('continues after a restart, and says the rest', async t => {
  const { stage, project, nodes } = await openPlaced(t, ['plant-a1', 'plant-a2'], { pause: 'approve' })
  void push(stage, project).catch(() => {})
  const { fleet } = stage.server.services
  const list = () => stage.server.services.fleet.running()?.rollouts.list({ limit: 1 })[0]
  while (list()?.state !== 'approval') await new Promise(resolve => setTimeout(resolve, 10))
  const { id, deployId } = list() as { id: string; deployId: string }
  while (!(await textOf(stage, deployId)).includes('approval')) await new Promise(resolve => setTimeout(resolve, 10))
  await stage.restart()
  t.not(stage.server.services.fleet, fleet)
  const hub = await stage.server.services.fleet.hub()
  t.match((await stage.client.get(`/api/logs/${deployId}`)).body, { status: 'running' })
  for (const node of nodes) await node.connect(stage.url)
  await hub.rollouts.approve(id, ana)
  const { client } = stage
  while ((await client.get(`/api/logs/${deployId}`)).body.status === 'running')
    await new Promise(resolve => setTimeout(resolve, 10))
  t.match((await client.get(`/api/logs/${deployId}`)).body, { status: 'success' })
  const text = await textOf(stage, deployId)
  t.match(text, 'the server was restarted; the deployment continues')
  t.equal(text.match(/wave 1\/2 {2}plant-a1/g)?.length, 1, 'what was said is not repeated')
  t.match(text, /wave 2\/2 {2}plant-a2 {12}✓ good/)
})

t.test('rolls back with the archive of an earlier deployment, and refuses what needs a target here', async t => {
  const { stage, hub, project } = await openPlaced(t, ['plant-a1'])
  const { deployId } = eventsOf(await push(stage, project)).at(-1)
  const reply = await stage.client.post(`/api/deployments/${deployId}/rollback`)
  t.equal(reply.status, 200)
  while (stage.server.services.deployer.hasRunning(project.id)) await new Promise(resolve => setImmediate(resolve))
  t.match(hub.rollouts.list({ limit: 1 })[0], { deployId: reply.body.deployId, number: 2, state: 'done' })
  const place = `/api/projects/${project.id}`
  const refused = [
    await stage.client.get(`${place}/drift`),
    await stage.client.get(`${place}/verify`),
    await stage.client.get(`${place}/files`),
    await stage.client.get(`${place}/download?path=a.txt`),
    await stage.client.post(`${place}/undo`, {}),
    await stage.client.post(`${place}/repair`, {}),
    await stage.client.put(`${place}/maintenance`, { on: true }),
    await stage.client.post(`/api/deployments/${deployId}/rollback`, { mode: 'exact' })
  ]
  t.same(
    refused.map(({ status, body }) => [status, body.code]),
    refused.map(() => [409, 'project_is_placed'])
  )
  t.ok(existsSync(join(stage.home.deployments, `${reply.body.deployId}.zip`)))
})

t.test('refuses a deployment if all nodes are drained', async t => {
  const { stage, hub, project } = await openPlaced(t, ['plant-a1'])
  await hub.nodes.drain('plant-a1', true, ana)
  const { deployId, status } = eventsOf(await push(stage, project)).at(-1)
  t.equal(status, 'failed')
  t.match(await textOf(stage, deployId), 'all nodes of the project are drained')
})
