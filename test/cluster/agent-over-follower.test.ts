import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { defaultApproval } from '../../lib/model/policy.js'
import type { ListedNode } from '../../lib/model/node.js'
import { createClient } from '../support/client.js'
import { startCluster } from '../support/cluster-stage.js'
import { withoutEtcd } from '../support/etcd.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { noPty, openTerminal } from '../support/web-terminal.js'

/* Agent, client and panel reach only the hub that follows: everything crosses it. */

t.test('the whole life of a node over a follower', { skip: withoutEtcd() }, async t => {
  const stage = await startCluster(t, ['n1'], { known: [1] })
  const { cwd, urls, hubs } = stage
  const [agent] = stage.agents
  const [, follower] = hubs
  const { adminToken } = follower
  t.match(agent?.said(), new RegExp(`Connected to the hub ${urls[1]}`))
  const project = await stage.placedProject('Shop', {})
  const { id } = project
  const target = join(cwd, 'n1', 'www')
  const client = createClient(() => urls[1], adminToken)
  const server = ['--server', urls[1]]
  const push = () => svc(['push', '--out', 'site', '--project', id, '--token', project.token, ...server], { cwd })
  const node = async () => (await follower.api<{ node: ListedNode }>('GET', '/api/nodes/n1')).node
  const at = (path: string): string => `/api/nodes/n1/at/${path}`

  const site = join(cwd, 'site')
  mkdirSync(site)
  for (let file = 0; file < 40; file++) writeFileSync(join(site, `${file}.bin`), randomBytes(100_000))
  const pushed = await push()
  t.equal(pushed.code, 0, pushed.stderr)
  writeFileSync(join(site, '7.bin'), randomBytes(100_000))
  const again = await push()
  t.equal(again.code, 0, again.stderr)
  for (const file of ['7.bin', '39.bin'])
    t.strictSame(readFileSync(join(target, file)), readFileSync(join(site, file)), file)

  await t.test('what waits for an approval', async t => {
    await follower.changeProject(id, { policy: { approval: defaultApproval } })
    for (const decision of ['approve', 'reject']) {
      const before = readFileSync(join(target, '7.bin'))
      writeFileSync(join(site, '7.bin'), randomBytes(1000))
      const pushing = push()
      const waiting = async () => (await follower.deployments(id)).find(({ heldFor }) => heldFor === 'approval')?.id
      await until(waiting, { what: 'the deployment that waits' })
      t.strictSame(readFileSync(join(target, '7.bin')), before, 'nothing is rolled out before')
      const decided = await svc([decision, '--project', id, '--yes', '--token', adminToken, ...server], { cwd })
      t.equal(decided.code, 0, decided.stderr)
      t.match(await pushing, { code: decision === 'approve' ? 0 : 1 })
      const [newest] = await hubs[0].deployments(id)
      t.match(newest?.approvals, [{ decision: decision === 'approve' ? 'approved' : 'rejected' }], 'the leader has it')
      const wanted = decision === 'approve' ? readFileSync(join(site, '7.bin')) : before
      t.strictSame(readFileSync(join(target, '7.bin')), wanted, decision)
    }
    await follower.changeProject(id, { policy: { approval: null } })
    t.equal((await push()).code, 0)
  })

  await t.test('the node reports', async t => {
    const [newest] = await follower.deployments(id)
    await until(async () => JSON.stringify(await node()).includes(newest?.id as string), { what: 'the report' })
    t.match(await node(), { isConnected: true, name: 'n1' })
  })

  await t.test('its pages, files and logs', async t => {
    t.match((await client.get(at('projects'))).body, [{ id }])
    const path = at(`projects/${id}/download?path=7.bin`)
    const [whole, part] = await Promise.all(
      ['bytes=0-', 'bytes=10-19'].map(range =>
        fetch(urls[1] + path, { headers: { range, authorization: `Bearer ${adminToken}` } })
      )
    )
    const contents = readFileSync(join(site, '7.bin'))
    t.strictSame(Buffer.from(await (whole as Response).arrayBuffer()), contents)
    t.match(part, { status: 206 })
    t.strictSame(Buffer.from(await (part as Response).arrayBuffer()), contents.subarray(10, 20))
    const [newest] = await follower.deployments(id)
    const stream = await client.get(`/api/logs/${newest?.id}/stream`)
    t.match(stream, { status: 200, headers: { 'content-type': /^text\/event-stream/ }, text: /success/ })
  })

  await t.test('its terminal', { skip: noPty }, async t => {
    const path = '/api/nodes/n1/terminal'
    const terminal = await openTerminal({ url: urls[1], client }, { path, query: { projectId: id } })
    terminal.type('echo from-$((40+2))\r')
    await terminal.sees(/from-42/)
    terminal.say({ type: 'resize', cols: 101, rows: 30 })
    terminal.type('stty size\r')
    await terminal.sees(/30 101/)
    // More than one part of the relay, and the end right after it.
    terminal.type('seq 1 100000; exit\r')
    await terminal.sees(/\b99999\r\n100000\r\n/)
    t.match(await terminal.hears(), { type: 'exit', exitCode: 0 })
    t.equal(await terminal.closed(), 1000)
  })

  const back = await svc(['rollback', id, '--yes', ...server, '--token', adminToken], { cwd })
  t.equal(back.code, 0, back.stderr)
  t.notOk(readFileSync(join(target, '7.bin')).equals(readFileSync(join(site, '7.bin'))))
  t.notMatch(agent?.said(), new RegExp(`Connected to the hub ${urls[0]}`), 'it never left the follower')
})
