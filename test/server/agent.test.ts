import t from 'tap'
import type { Test } from 'tap'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Deployment } from '../../lib/model/deployment.js'
import type { ListedNode } from '../../lib/model/node.js'
import type { RolloutDetail } from '../../lib/model/rollout.js'
import { type AgentProcess, startAgentProcess } from '../support/agent-process.js'
import { exactTree } from '../support/exact-tree.js'
import { type FakeHub, startFakeHub } from '../support/fake-hub.js'
import { startServeProcess } from '../support/serve-process.js'
import { repetitions } from '../support/thorough.js'
import { until } from '../support/until.js'
import { locateHome } from '../../lib/base/config/home.js'
import { startAgent } from '../../lib/server/agent.js'
import { layDatabase } from '../support/new-database.js'
import { type Stage, startServer } from '../support/server.js'
import { isRunning } from '../support/processes.js'
import { noPty, openTerminal } from '../support/web-terminal.js'
import { zipOf } from '../support/zip.js'

/** Starts an agent, and again with the same words after each kill. */
function lives(t: Test, hub: FakeHub, cwd: string) {
  let agent: AgentProcess | undefined
  return {
    async start(words: string[] = []): Promise<AgentProcess> {
      agent = await startAgentProcess(t, cwd, words)
      await agent.says(/Connected to the hub/)
      return agent
    },
    async kill(): Promise<void> {
      await agent?.stop('SIGKILL')
    },
    enroll: ['--hub', hub.url, '--enroll', hub.token()]
  }
}

t.test('an agent that is killed at any point of a rollout ends where the hub wants it', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startFakeHub(t)
  const { start, kill, enroll } = lives(t, hub, cwd)
  await start(enroll)
  const site = join(cwd, 'sites', 'a')
  const textOf = (): string => readFileSync(join(site, 'a'), 'utf8')
  const first = await hub.release('proj_a', { a: 'first' }, { deployPath: site })
  await hub.answer(hub.order(first, 'swap'), 'good')

  for (let round = 1; round <= 4; round += repetitions(3, 1)) {
    const files: Record<string, string> = { a: `round ${round}` }
    for (let at = 0; at < 200; at++) files[`d/${at}`] = `${round} ${at}`.repeat(100)
    const release = await hub.release('proj_a', files, { deployPath: site })
    const number = round + 1
    hub.order(release, 'prepare', { number })
    await sleep(round * 15)
    await kill()
    await start()
    await hub.answer(hub.order(release, 'prepare', { number }), 'prepared')
    const before = textOf()
    const swap = hub.order(release, 'swap', { number })
    await sleep(round * 25)
    await kill()
    await start()
    const { answer } = await until(() =>
      hub.reports
        .flatMap(({ answers }) => answers)
        .find(each => each.attempt === swap.attempt && each.answer !== 'begun')
    )
    t.ok(['good', 'failed', 'stuck'].includes(answer), `round ${round}: ${answer}`)
    t.equal(textOf(), answer === 'failed' ? before : `round ${round}`)
    if (answer !== 'good') await hub.answer(hub.order(release, 'swap', { number }), 'good')
    t.equal(textOf(), `round ${round}`)
    if (round % 2 === 0) continue
    const revert = hub.order(release, 'revert', { number })
    await sleep(round * 25)
    await kill()
    await start()
    await hub.answer(revert, 'reverted').catch(() => hub.answer(hub.order(release, 'revert', { number }), 'reverted'))
    t.equal(textOf(), before)
  }
})

const killable = fileURLToPath(new URL('../support/killed-agent.js', import.meta.url))

t.test('after a kill just before or after a commit, the answer, the record and the files of a node agree', async t => {
  const cwd = t.testdir()
  const hub = await startServeProcess(t, cwd)
  const { token } = await hub.api<{ token: string }>('POST', '/api/enrollments', {})
  const order = join(cwd, 'order')
  let agent: AgentProcess
  const start = async (words: string[] = []): Promise<void> => {
    agent = await startAgentProcess(t, cwd, words, { env: { SVC_ENROLL_TOKEN: token }, nodeWords: [killable, order] })
    await agent.says(/Connected to the hub/)
  }
  await start(['--hub', hub.url, '--name', 'node'])
  const site = join(cwd, 'site')
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'hub-site') })
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'node', deployPath: site }] })
  const newest = async (): Promise<RolloutDetail> => {
    const { rollouts } = await hub.api<{ rollouts: RolloutDetail[] }>('GET', '/api/rollouts?limit=1')
    return (await hub.api<{ rollout: RolloutDetail }>('GET', `/api/rollouts/${rollouts[0]?.id}`)).rollout
  }
  const liveOnHub = async () =>
    (await hub.api<{ node: ListedNode }>('GET', '/api/nodes/node')).node.placements[0]?.liveDeployId ?? null
  await (await hub.upload(project, { a: 'first', 'b/c': 'first', gone: 'first' })).finished
  const first = exactTree(site)
  const firstId = (await newest()).deployId

  /** Orders a kill, begins something, and starts the agent again. Returns whether it was killed. */
  async function killed(when: string, begin: () => Promise<unknown>): Promise<boolean> {
    writeFileSync(order, when)
    const ended = once(agent.child, 'close').then(() => true)
    const isKilled = await Promise.race([ended, begin().then(() => false)])
    rmSync(order)
    if (isKilled) await start()
    return isKilled
  }

  /** Checks that hub, node and record say the same about the files. */
  async function agree(text: string, { nodes, deployId }: RolloutDetail): Promise<void> {
    const phase = nodes[0]?.phase as string
    const isPlaced = phase === 'good' || phase === 'stuck'
    t.ok(isPlaced || phase === 'failed', `${text}: ${phase}`)
    if (isPlaced)
      t.match(exactTree(site), { a: new RegExp(text), 'b/c': new RegExp(text), 'new/one': new RegExp(text) })
    else t.strictSame(exactTree(site), first)
    const [record] = await agent.api<Deployment[]>('GET', `/api/logs?projectId=${project.id}`)
    t.equal(record?.placed !== null, isPlaced, `${text}: its record says what is in place`)
    t.equal(record?.status === 'success', phase === 'good')
    await until(async () => (await liveOnHub()) === (isPlaced ? deployId : firstId))
  }

  // Before the first rename, and before each record of the node from the end of the commit to the end of its duty.
  const step = repetitions(5, 1)
  for (let nth = 0, isKilled = true; isKilled; nth += nth === 0 ? 1 : step) {
    const when = nth === 0 ? 'ready 0' : `done ${nth}`
    let going: Promise<unknown> = Promise.resolve()
    isKilled = await killed(when, async () => {
      going = hub.upload(project, { a: when, 'b/c': when, 'new/one': when }).then(({ finished }) => finished)
      await going
    })
    await going
    const rollout = await newest()
    if (nth === 0) t.match(rollout.nodes, [{ phase: 'failed' }])
    if (nth <= 1) t.ok(isKilled, `${when}: the agent was killed`)
    await agree(when, rollout)
    // Its count of records goes on from the upload, which had fewer: the kill would come before the way back begins.
    await killed(isKilled ? when : 'never 0', async () => {
      going = hub.api('POST', `/api/rollouts/${rollout.id}/revert`, {})
      await going
      await until(async () => (await newest()).state === 'reverted')
    })
    await until(async () => (await newest()).state === 'reverted')
    t.strictSame(exactTree(site), first, `${when}: the earlier files are back`)
  }

  // A deployment whose turn never came is made again, and a way back is begun again.
  t.ok(await killed('turn 0', async () => (await hub.upload(project, { a: 'last', 'new/one': 'last' })).finished))
  await until(async () => (await newest()).state === 'done')
  t.match((await newest()).nodes, [{ phase: 'good' }])
  for (const when of ['turn 0', 'ready 0']) {
    const { id } = await newest()
    const isKilled = await killed(when, async () => {
      await hub.api('POST', `/api/rollouts/${id}/revert`, {})
      await until(async () => (await newest()).state === 'reverted')
    })
    t.ok(isKilled, `${when}: the agent was killed on the way back`)
    await until(async () => (await newest()).state === 'reverted')
    t.match((await newest()).nodes, [{ phase: 'reverted' }])
    t.strictSame(exactTree(site), first)
    if (when === 'ready 0') break
    await (await hub.upload(project, { a: 'again', 'new/one': 'again' })).finished
    t.match((await newest()).nodes, [{ phase: 'good' }])
  }
})

t.test('an agent that is stopped during a swap waits for it', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startFakeHub(t)
  const { start, enroll } = lives(t, hub, cwd)
  const agent = await start(enroll)
  const site = join(cwd, 'sites', 'a')
  const script = 'touch ../began; while [ ! -e ../go ]; do sleep 0.05; done'
  const release = await hub.release('proj_a', { a: '1' }, { deployPath: site, project: { postDeployScript: script } })
  const swap = hub.order(release, 'swap')
  await until(() => existsSync(join(cwd, 'sites', 'began')))
  const stopped = agent.stop()
  await agent.says(/Stopping: waiting/)
  writeFileSync(join(cwd, 'sites', 'go'), '')
  t.equal(await stopped, 0)
  await start()
  await hub.answer(swap, 'good')
})

const actor = { name: 'hub', ip: null }

async function isConnected({ client }: Stage): Promise<boolean> {
  return ((await client.get('/api/nodes/plant')).body as { node: { isConnected: boolean } }).node.isConnected
}

async function startNode(t: Parameters<typeof startServer>[0], stage: Stage, options: { relay?: boolean } = {}) {
  const directory = join(stage.sites, `node-${Math.random().toString(36).slice(2)}`)
  mkdirSync(directory)
  await layDatabase(join(directory, 'home'))
  const created = await stage.client.post('/api/enrollments', { name: 'plant' })
  const { token } = created.body as { token: string }
  const agent = await startAgent({
    home: locateHome({ SVC_HOME: join(directory, 'home') }, directory),
    hubs: [stage.url],
    enroll: token,
    environment: { PATH: process.env['PATH'], SHELL: '/bin/sh' },
    cwd: directory,
    report: { info: () => {}, warn: () => {} },
    times: { waits: { jitterMs: 20, firstMs: 10, longestMs: 100 } },
    ...options
  })
  t.teardown(() => agent.stop({ wait: false }))
  await until(() => isConnected(stage))
  const target = join(directory, 'site')
  const { projects } = agent.services.agent
  await projects.adopt('proj_shop', { name: 'Shop', deployPath: target }, actor)
  await projects.adopt('proj_other', { name: 'Other', deployPath: join(directory, 'other') }, actor)
  const form = new FormData()
  form.set('projectId', 'proj_shop')
  form.set('file', new Blob([await zipOf({ 'index.html': 'hello', big: 'x'.repeat(3_000_000) })]), 'a.zip')
  const headers = { authorization: `Bearer ${projects.get('proj_shop').token}` }
  const pushed = await fetch(`${agent.url}/api/deploy/upload`, { method: 'POST', headers, body: form })
  await pushed.text()
  return { agent, target, directory, deployId: pushed.headers.get('x-svc-deploy-id') as string }
}

t.test('users of the hub read the pages of a node, with their own rights', async t => {
  const stage = await startServer(t)
  const { target, directory, deployId } = await startNode(t, stage)
  const at = (path: string): string => `/api/nodes/plant/at/${path}`
  const { client } = stage
  t.match((await client.get(at('projects'))).body, { length: 2 })
  t.match((await client.get(at('projects/proj_shop'))).body, { name: 'Shop' })
  t.match((await client.get(at(`logs/${deployId}`))).body, { id: deployId, status: 'success' })
  t.equal((await client.get(at('projects/proj_none'))).status, 404)
  t.match(await client.get(at('settings')), { status: 404, body: { code: 'not_relayed' } })
  t.match(await client.get(at('migration/export')), { status: 404, body: { code: 'not_relayed' } })
  t.match(await client.get('/api/nodes/other/at/projects'), { status: 404 })

  const file = await client.get(at('projects/proj_shop/download?path=big'))
  t.equal(file.text.length, 3_000_000)
  const url = `${stage.url}${at('projects/proj_shop/download?path=big')}`
  const authorization = `Bearer ${stage.server.adminToken.current()}`
  const part = await fetch(url, { headers: { authorization, range: 'bytes=10-14' } })
  t.equal(await part.text(), 'xxxxx')
  t.equal(part.headers.get('content-range'), 'bytes 10-14/3000000')
  t.equal((await fetch(url, { method: 'HEAD', headers: { authorization } })).status, 200)

  const made = await client.post('/api/tokens', { name: 'v', role: 'viewer' })
  const viewer = stage.as((made.body as { token: string }).token)
  t.equal((await viewer.get(at('projects'))).status, 200)
  t.match(await viewer.get(at('projects/proj_shop/files')), { status: 403, body: { code: 'role_too_low' } })
  t.equal((await stage.as('no such token').get(at('projects'))).status, 401)

  // An id with a slash is an id, here and on the node.
  for (const path of ['projects/proj_shop%2Ffiles', 'projects/proj_shop%252Ffiles', 'logs/..%2F..%2Fprojects'])
    t.match(await viewer.get(at(path)), { status: 404, body: { code: 'not_found', error: /not found: "/ } }, path)

  const log = join(directory, 'app.log')
  writeFileSync(log, 'first\n')
  const tail = await fetch(`${stage.url}${at(`logs/${deployId}/stream`)}`, { headers: { authorization } })
  t.match(tail.headers.get('content-type'), 'text/event-stream')
  t.match(await tail.text(), /success/)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'hello')
})

t.test('a stream that its reader leaves ends on the node, too', async t => {
  const stage = await startServer(t)
  const { agent, directory } = await startNode(t, stage)
  const log = join(directory, 'app.log')
  writeFileSync(log, 'first\n')
  const { sources } = await agent.services.api.logs()
  const [source] = await sources.create('proj_shop', [{ filePath: log }], actor)
  const authorization = `Bearer ${stage.server.adminToken.current()}`
  const leaving = new AbortController()
  const url = `${stage.url}/api/nodes/plant/at/log-sources/${source?.id}/stream`
  const stream = await fetch(url, { headers: { authorization }, signal: leaving.signal })
  const reader = (stream.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  const read = async (wanted: RegExp): Promise<void> => {
    while (!wanted.test(text)) text += (await reader.read()).value ?? ''
  }
  await read(/first/)
  writeFileSync(log, 'first\nsecond\n')
  await read(/second/)
  const followers = async (): Promise<number> =>
    Number(/^svc_followers\{of="log[^"]*"\} (\d+)$/m.exec(await agent.services.api.metrics.text())?.[1])
  t.equal(await followers(), 1)
  leaving.abort()
  await until(async () => (await followers()) === 0)
})

t.test('an agent with --no-relay and a node that is away are refusals', async t => {
  const stage = await startServer(t)
  const { agent } = await startNode(t, stage, { relay: false })
  const path = '/api/nodes/plant/at/projects'
  t.match(await stage.client.get(path), { status: 403, body: { code: 'relay_off' } })
  await agent.stop({ wait: false })
  await until(async () => !(await isConnected(stage)))
  t.match(await stage.client.get(path), { status: 503, body: { code: 'node_away' } })
})

t.test('a terminal on a node goes through the hub, and ends with its client', { skip: noPty }, async t => {
  const stage = await startServer(t)
  const { directory } = await startNode(t, stage)
  const path = '/api/nodes/plant/terminal'
  const terminal = await openTerminal(stage, { path, query: { projectId: 'proj_shop', cols: '90', rows: '20' } })
  t.equal(terminal.ready.cols, 90)
  t.equal(terminal.ready.cwd, join(directory, 'site'))
  terminal.type('echo from-$((40+2)); stty size\r')
  await terminal.sees(/from-42[^]*20 90/)
  terminal.say({ type: 'resize', cols: 100, rows: 30 })
  terminal.type('stty size\r')
  await terminal.sees(/30 100/)
  terminal.type('exit\r')
  t.match(await terminal.hears(), { type: 'exit', exitCode: 0 })
  t.equal(await terminal.closed(), 1000)

  const { token, record } = (await stage.client.post('/api/tokens', { name: 'ana', role: 'admin' })).body
  const headers = { authorization: `Bearer ${token}` }
  const { ready } = await openTerminal(stage, { path, ticket: '', headers })
  await stage.client.delete(`/api/tokens/${record.id}`)
  await until(() => !isRunning(ready.pid))
  t.pass('it ends with the right of its user on the hub')
})
