import t from 'tap'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ListedNode } from '../../lib/model/node.js'
import { startAgentProcess } from '../support/agent-process.js'
import { startCutProxy } from '../support/cut-proxy.js'
import { startServeProcess, type ServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'

/* A real hub and real agents, each a process of its own. */

t.setTimeout(180_000)

const nodesOf = async (hub: ServeProcess): Promise<ListedNode[]> =>
  (await hub.api<{ nodes: ListedNode[] }>('GET', '/api/nodes')).nodes

const tokenOf = async (hub: ServeProcess): Promise<string> =>
  (await hub.api<{ token: string }>('POST', '/api/enrollments', {})).token

t.test('a machine that did not get the answer to its enrollment enrolls again with the same token', async t => {
  const cwd = t.testdir({ other: {} })
  const hub = await startServeProcess(t, cwd)
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

t.test('an agent that was away while the key of the hub was replaced twice follows', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startServeProcess(t, cwd)
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
  const hubAgain = await startServeProcess(t, cwd, ['--port', new URL(hub.url).port])
  const last = await startAgentProcess(t, cwd)
  await last.says(/Connected to the hub/)
  await (await hubAgain.upload(project, { a: 'third' })).finished
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'third')
  t.equal(keyOf(), third)
})

t.test('a pushed change travels to a node as the bytes that changed', async t => {
  const cwd = t.testdir({ sites: {}, 'site/assets': {} })
  const hub = await startServeProcess(t, cwd)
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
