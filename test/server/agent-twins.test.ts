import t from 'tap'
import { execFileSync } from 'node:child_process'
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ListedNode } from '../../lib/model/node.js'
import { blocksOf } from '../documents/document.js'
import { startAgentProcess } from '../support/agent-process.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'

/* A real hub, a real agent, and a copy of its data directory that runs, too. */

t.test('a copied agent is found, gets no orders, and becomes a node of its own as the documents say', async t => {
  const cwd = t.testdir({ copy: {}, sites: {} })
  const hub = await startServe(t, cwd)
  const nodes = async (): Promise<ListedNode[]> => (await hub.api<{ nodes: ListedNode[] }>('GET', '/api/nodes')).nodes
  const enrol = async () => (await hub.api<{ token: string }>('POST', '/api/enrollments', {})).token
  const site = join(cwd, 'sites', 'a')
  const words = ['--hub', hub.url, '--name', 'web']
  const first = await startAgentProcess(t, cwd, words, { env: { SVC_ENROLL_TOKEN: await enrol() } })
  await first.says(/Connected to the hub/)
  const project = await hub.createProject({ name: 'shop', deployPath: join(cwd, 'sites', 'hub') })
  const placements = `/api/projects/${project.id}/placements`
  await hub.api('PATCH', placements, { add: [{ node: 'web', deployPath: site }] })
  await (await hub.upload(project, { a: 'first' })).finished
  await first.stop()
  const copyHome = join(cwd, 'copy', 'agent-home')
  cpSync(first.home, copyHome, { recursive: true })

  let original = await startAgentProcess(t, cwd)
  await original.says(/Connected to the hub/)
  await original.stop('SIGKILL')
  original = await startAgentProcess(t, cwd)
  await original.says(/Connected to the hub/)
  t.match(await nodes(), [{ name: 'web', sharedSince: null }], 'an agent that starts again is the same machine')

  const copy = await startAgentProcess(t, join(cwd, 'copy'))
  await until(async () => (await nodes())[0]?.sharedSince)
  const env = { SVC_SERVER_URL: hub.url, SVC_TOKEN: hub.adminToken }
  t.match((await svc(['fleet', 'nodes'], { cwd, env })).stdout, /two machines use its identity/)
  t.match((await svc(['doctor'], { cwd, env })).stdout, /two machines use the identity of one node.*: web/)
  t.match(await hub.api('GET', '/api/health/detail'), { fleet: { shared: 1 } })
  await (await hub.upload(project, { a: 'second' })).finished
  const { rollouts } = await hub.api<{ rollouts: Array<{ state: string; haltedReason: string }> }>(
    'GET',
    '/api/rollouts'
  )
  t.match(rollouts[0], { state: 'halted', haltedReason: /1 node unreachable/ })
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'first', 'neither machine got the order')

  await copy.stop()
  const [block] = blocksOf('docs/fleet.md').filter(({ mark }) => mark === 'sh copy')
  const removed = block?.text.split('\n')[0]?.replaceAll('/var/lib/svc-agent', copyHome) as string
  execFileSync('sh', ['-c', removed])
  const own = await startAgentProcess(t, join(cwd, 'copy'), ['--hub', hub.url, '--name', 'web-copy'], {
    env: { SVC_ENROLL_TOKEN: await enrol() }
  })
  await own.says(/Connected to the hub/)
  t.match(
    (await nodes()).map(({ name }) => name),
    ['web', 'web-copy']
  )
  await hub.api('PATCH', placements, { add: [{ node: 'web-copy', deployPath: join(cwd, 'sites', 'b') }] })
  const copied = (await nodes()).find(({ name }) => name === 'web-copy')
  t.match(copied, { isConnected: true, sharedSince: null, placements: [{ projectName: 'shop', liveDeployId: null }] })
  t.equal(readFileSync(join(site, 'a'), 'utf8'), 'first')
})
