import t from 'tap'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { locateHome } from '../../lib/config/home.js'
import { startAgent } from '../../lib/server/agent.js'
import { startServer, type Stage } from '../support/server.js'
import { until } from '../support/until.js'
import { noPty, openTerminal } from '../support/web-terminal.js'
import { zipOf } from '../support/zip.js'

const actor = { name: 'hub', ip: null }

async function isConnected({ client }: Stage): Promise<boolean> {
  return ((await client.get('/api/nodes/plant')).body as { node: { isConnected: boolean } }).node.isConnected
}

async function startNode(t: Parameters<typeof startServer>[0], stage: Stage, options: { relay?: boolean } = {}) {
  const directory = join(stage.sites, `node-${Math.random().toString(36).slice(2)}`)
  mkdirSync(directory)
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
  const { sources } = agent.services.api.logSources
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
    Number(/^svc_followers\{of="log[^"]*"\} (\d+)$/m.exec(await agent.services.api.metrics.metrics.text())?.[1])
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
})
