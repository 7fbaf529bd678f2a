import t from 'tap'
import { createServer, type IncomingMessage } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { treeOf } from '../../../lib/archive/tree.js'
import { readTree } from '../../../lib/archive/tree-wire.js'
import { createClient } from '../../../lib/cli/client/client.js'
import { requestPlan } from '../../../lib/cli/client/plan-request.js'
import { aPlan } from '../../support/a-plan.js'

interface Asked {
  request: IncomingMessage
  body: Buffer
}

const noWishes = { prune: undefined, force: false }
const memory = (path: string, text: string) =>
  ({ path, kind: 'file', source: Buffer.from(text), bytes: text.length, mode: 0o644, mtimeMs: 1000 }) as const

t.test('sends the tree compressed, with the digests of the scripts, and reads the answer', async t => {
  const asked: Asked[] = []
  let answer: { status: number; type: string; text: string }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    asked.push({ request, body: Buffer.concat(chunks) })
    response.writeHead(answer.status, { 'content-type': answer.type }).end(answer.text)
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const serverUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createClient({ serverUrl, token: null, env: {} })
  const tree = await treeOf([memory('b', 'x'), memory('a', 'y')])
  const scripts = { preDeploy: 'echo secret', postDeploy: ' ' }
  const query = {
    projectId: 'proj_1',
    tree,
    wishes: noWishes,
    all: false,
    scripts,
    signal: new AbortController().signal
  }

  const plan = aPlan()
  answer = { status: 200, type: 'application/json', text: JSON.stringify(plan) }
  t.strictSame(await requestPlan(client, query), plan)
  const [{ request, body }] = asked as [Asked]
  t.equal(request.url, '/api/deploy/plan?projectId=proj_1')
  t.match(request.headers, { 'content-type': 'text/vnd.svc-tree', 'content-encoding': 'gzip', 'x-svc-time': /^\d+$/ })
  t.equal(request.headers['x-svc-scripts'], `pre=${createHash('sha256').update('echo secret').digest('hex')}`)
  t.notOk(JSON.stringify(request.headers).includes('secret'))
  const { digits, treeSha256, entries } = readTree(gunzipSync(body))
  t.strictSame({ digits, treeSha256 }, { digits: 16, treeSha256: tree.treeSha256 })
  t.strictSame(
    [...entries()],
    tree.entries.map(each => ({ ...each, sha256: each.sha256.slice(0, 16) }))
  )

  await requestPlan(client, { ...query, wishes: { prune: 'force', force: true } })
  t.equal(asked.at(-1)?.request.url, '/api/deploy/plan?projectId=proj_1&prune=force&force=1')

  const { paths: _, ...head } = plan
  const conflict = { path: 'c', code: 'file_in_the_way', message: 'in the way' }
  const lines = [
    { event: 'plan', ...head },
    { kind: 'added', path: 'a' },
    { kind: 'conflicts', ...conflict }
  ]
  const text = [...lines, { event: 'end' }].map(line => `${JSON.stringify(line)}\n`)
  answer = { status: 200, type: 'application/x-ndjson', text: text.join('') }
  const all = await requestPlan(client, { ...query, all: true })
  t.match(all, { planId: 'plan_1', paths: { added: ['a'], conflicts: [conflict], changed: [], truncated: false } })
  answer = { ...answer, text: text.slice(0, -1).join('') }
  await t.rejects(requestPlan(client, { ...query, all: true }), { code: 'stream_broken' })

  const refused = (code: string): void => {
    answer = { status: 404, type: 'application/json', text: JSON.stringify({ error: 'Not found', code }) }
  }
  refused('not_found')
  await t.rejects(requestPlan(client, query), { code: 'server_too_old' })
  refused('no_such_project')
  await t.rejects(requestPlan(client, query), { code: 'no_such_project' })
})
