import t from 'tap'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ListedNode } from '../../lib/model/node.js'
import { blocksOf } from '../documents/document.js'
import { startAgentProcess } from '../support/agent-process.js'
import { startCutProxy } from '../support/cut-proxy.js'
import { startServe, startServeProcess, type Serving } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'

/* A real hub, and real agents as processes. */

const nodesOf = async (hub: Serving): Promise<ListedNode[]> =>
  (await hub.api<{ nodes: ListedNode[] }>('GET', '/api/nodes')).nodes

const tokenOf = async (hub: Serving): Promise<string> =>
  (await hub.api<{ token: string }>('POST', '/api/enrollments', {})).token

t.test('a machine that did not get the answer to its enrollment enrolls again with the same token', async t => {
  const cwd = t.testdir({ other: {} })
  const hub = await startServe(t, cwd)
  const proxy = await startCutProxy(t, hub.url)
  const token = await tokenOf(hub)
  proxy.loseAnswers()
  const words = ['--hub', proxy.url, '--name', 'plant-a']
  const env = { SVC_ENROLL_TOKEN: token, SVC_HOME: join(cwd, 'agent-home') }
  t.match(await svc(['agent', ...words], { cwd, env }), { code: 1, stderr: /Cannot reach the hub/ })
  t.match(await nodesOf(hub), [{ name: 'plant-a', isConnected: false }], 'the hub has made it a node')

  proxy.mend()
  const agent = await startAgentProcess(t, cwd, words, { env })
  await agent.says(/Connected to the hub/)
  const [node, ...more] = await nodesOf(hub)
  t.match(node, { name: 'plant-a', isConnected: true })
  t.equal(more.length, 0)
  t.match(JSON.parse(readFileSync(join(agent.home, 'agent.json'), 'utf8')), { nodeId: node?.id })

  const other = join(cwd, 'other')
  t.match(await svc(['agent', ...words], { cwd: other, env: { ...env, SVC_HOME: join(other, 'home') } }), {
    code: 1,
    stderr: /enrollment token is not valid/
  })
  t.equal((await nodesOf(hub)).length, 1)
})

t.test('a node that was forgotten enrolls again as a new node, with a new key', async t => {
  const cwd = t.testdir()
  const hub = await startServe(t, cwd)
  const words = ['--hub', hub.url, '--name', 'plant-a']
  const start = async (token: string) => startAgentProcess(t, cwd, words, { env: { SVC_ENROLL_TOKEN: token } })
  const first = await tokenOf(hub)
  let agent = await start(first)
  await agent.says(/Connected to the hub/)
  const idOf = (): string =>
    (JSON.parse(readFileSync(join(agent.home, 'agent.json'), 'utf8')) as { nodeId: string }).nodeId
  const keyOf = (): string => readFileSync(join(agent.home, 'keys', 'agent.ed25519'), 'utf8')
  const before = { id: idOf(), key: keyOf() }
  await agent.stop()

  agent = await start(await tokenOf(hub))
  await agent.says(/--enroll is ignored/)
  t.equal(idOf(), before.id, 'a node that the hub knows stays what it is')
  await agent.stop()

  await hub.api('DELETE', `/api/nodes/${before.id}`)
  agent = await start(first)
  await agent.says(/did not enroll it again/)
  t.equal(idOf(), before.id, 'a used token changes nothing')
  await agent.stop()

  agent = await start(await tokenOf(hub))
  await agent.says(/Connected to the hub/)
  t.not(idOf(), before.id)
  t.not(keyOf(), before.key)
  t.match(await nodesOf(hub), [{ id: idOf(), name: 'plant-a', isConnected: true }])
})

t.test('an agent that was away while the key of the hub was replaced twice follows', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startServe(t, cwd)
  const agent = await startAgentProcess(t, cwd, ['--hub', hub.url, '--name', 'plant-a'], {
    env: { SVC_ENROLL_TOKEN: await tokenOf(hub) }
  })
  await agent.says(/Connected to the hub/)
  const keyOf = (): string =>
    (JSON.parse(readFileSync(join(agent.home, 'agent.json'), 'utf8')) as { hubKey: string }).hubKey
  const first = keyOf()
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'sites', 'hub') })
  const site = join(cwd, 'sites', 'a')
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'plant-a', deployPath: site }] })
  await (await hub.upload(project, { a: 'first' })).finished
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'first')
  t.equal(await agent.stop(), 0)

  const env = { SVC_HOME: hub.home }
  for (let round = 0; round < 2; round++)
    t.match(await svc(['keys', 'rotate'], { cwd, env }), { code: 0 }, `rotation ${round + 1}`)
  const again = await startAgentProcess(t, cwd)
  await again.says(/Connected to the hub/)
  await (await hub.upload(project, { a: 'second' })).finished
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'second')
  t.notMatch(again.said(), /signature is not valid/)
  await until(() => keyOf() !== first)
  const third = keyOf()
  t.equal(await again.stop(), 0)

  // The hub starts again, and the agent with the key that it has now.
  await hub.stop()
  const hubAgain = await startServe(t, cwd, ['--port', new URL(hub.url).port])
  const last = await startAgentProcess(t, cwd)
  await last.says(/Connected to the hub/)
  await (await hubAgain.upload(project, { a: 'third' })).finished
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'third')
  t.equal(keyOf(), third)
})

t.test('a pushed change travels to a node as the bytes that changed', async t => {
  const cwd = t.testdir({ sites: {}, 'site/assets': {} })
  const hub = await startServe(t, cwd)
  const proxy = await startCutProxy(t, hub.url)
  const agent = await startAgentProcess(t, cwd, ['--hub', proxy.url, '--name', 'plant-a'], {
    env: { SVC_ENROLL_TOKEN: await tokenOf(hub) }
  })
  await agent.says(/Connected to the hub/)
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'sites/hub') })
  const target = join(cwd, 'sites/a')
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'plant-a', deployPath: target }] })
  const site = join(cwd, 'site')
  const words = ['push', '--server', hub.url, '--project', project.id, '--token', project.token, '--out', 'site']
  const push = async (): Promise<number> => {
    const before = proxy.received()
    t.match(await svc(words, { cwd }), { code: 0 })
    return proxy.received() - before
  }
  for (let at = 0; at < 60; at++) writeFileSync(join(site, 'assets', `${at}.bin`), randomBytes(20_000))
  const first = await push()
  t.ok(first > 1_200_000, `${first} bytes`)
  writeFileSync(join(site, 'assets/31.bin'), randomBytes(20_000))
  writeFileSync(join(site, 'index.html'), '<p>new')
  const second = await push()
  t.ok(second < 150_000, `${second} bytes`)
  for (const path of ['assets/0.bin', 'assets/31.bin', 'assets/59.bin', 'index.html']) {
    t.strictSame(readFileSync(join(target, path)), readFileSync(join(site, path)), path)
  }
})

t.test('break-glass: a push to the node itself while the hub is gone, until the next rollout replaces it', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startServeProcess(t, cwd)
  const env = { SVC_ENROLL_TOKEN: await tokenOf(hub) }
  const agent = await startAgentProcess(t, cwd, ['--hub', hub.url, '--name', 'web-1'], { env })
  await agent.says(/Connected to the hub/)
  const project = await hub.createProject({ name: 'site', deployPath: join(cwd, 'sites', 'hub') })
  const site = join(cwd, 'sites', 'a')
  const textOf = (): string => readFileSync(join(site, 'a'), 'utf8')
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'web-1', deployPath: site }] })
  await (await hub.upload(project, { a: 'first' })).finished
  t.equal(textOf(), 'first')
  await hub.stop('SIGKILL')

  // As docs/fleet.md says it.
  const { adminToken } = JSON.parse(readFileSync(join(agent.home, 'config.json'), 'utf8')) as { adminToken: string }
  const [block, ...others] = blocksOf('docs/fleet.md').filter(({ mark }) => mark === 'sh break-glass')
  t.strictSame(others, [])
  const [server, token, push] = (block?.text ?? '').trim().split('\n')
  t.equal(server, 'export SVC_SERVER_URL=http://127.0.0.1:5431')
  const run = (line: string | undefined, secret: string) => {
    const [, name = '', words = ''] = /^(\w+)=… svc (.+)$/.exec(line ?? '') ?? []
    return svc(words.split(' '), { cwd: join(cwd, 'work'), env: { SVC_SERVER_URL: agent.url, [name]: secret } })
  }
  mkdirSync(join(cwd, 'work'))
  writeFileSync(join(cwd, 'work', 'a'), 'the fix')
  writeFileSync(join(cwd, 'work', 'svc.config.json'), JSON.stringify({ projectId: project.id, files: ['a'] }))
  const printed = await run(token, adminToken)
  t.match(printed, { code: 0, stdout: /^\S+\n$/ })
  const pushed = await run(push, printed.stdout.trim())
  t.match(pushed, { code: 0 }, pushed.stderr)
  t.equal(textOf(), 'the fix')

  const again = await startServe(t, cwd, ['--port', new URL(hub.url).port])
  const isDrifted = (): Promise<boolean> =>
    nodesOf(again).then(([node]) => node?.isConnected === true && node.placements[0]?.isDrifted === true)
  await until(isDrifted)
  const admin = { cwd, env: { SVC_SERVER_URL: again.url, SVC_TOKEN: again.adminToken } }
  t.match(await svc(['fleet', 'nodes'], admin), { code: 0, stdout: /web-1 +connected +site \(drifted\)/ })
  t.match(await svc(['fleet', 'node', 'web-1'], admin), { code: 0, stdout: /a deployment of its own/ })
  t.equal(textOf(), 'the fix', 'nothing is undone by itself')
  await (await again.upload(project, { a: 'second' })).finished
  t.equal(textOf(), 'second')
  t.match(await nodesOf(again), [{ placements: [{ isDrifted: false, liveDeployId: String }] }])
})

t.test('the record of a deployment says what became of its rollout after it', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startServeProcess(t, cwd)
  const agent = await startAgentProcess(t, cwd, ['--hub', hub.url, '--name', 'plant-a'], {
    env: { SVC_ENROLL_TOKEN: await tokenOf(hub) }
  })
  await agent.says(/Connected to the hub/)
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'sites/hub') })
  const target = join(cwd, 'sites/a')
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'plant-a', deployPath: target }] })
  for (const text of ['one', 'two']) await (await hub.upload(project, { a: text })).finished
  const { rollouts } = await hub.api<{ rollouts: Array<{ id: string; deployId: string }> }>('GET', '/api/rollouts')
  const [{ id, deployId }] = rollouts as [{ id: string; deployId: string }]
  const record = () => hub.api<{ status: string; errorMessage: string | null }>('GET', `/api/logs/${deployId}`)
  const output = async () =>
    (
      await fetch(`${hub.url}/api/logs/${deployId}/output`, { headers: { authorization: `Bearer ${hub.adminToken}` } })
    ).text()
  t.match(await record(), { status: 'success', errorMessage: null })

  await hub.api('POST', `/api/rollouts/${id}/revert`, {})
  await until(async () => (await record()).status === 'failed')
  t.equal(readFileSync(join(target, 'a'), 'utf8'), 'one')
  t.equal((await record()).errorMessage, `The rollout ${id} was reverted`)
  t.match(await output(), new RegExp(`The rollout ${id} was reverted \\(it was success\\)`))
  const { items } = await hub.api<{ items: object[] }>('GET', '/api/audit?action=deployment.mark_status')
  t.match(items, [{ actor: 'system', target: deployId, detail: new RegExp(`success → failed: .*${id}`) }])

  await hub.api('POST', `/api/rollouts/${id}/resume`, {})
  await until(async () => (await record()).status === 'success')
  t.equal((await record()).errorMessage, null)
  t.match(await output(), new RegExp(`The rollout ${id} is done \\(it was failed\\)`))
})
