import type * as http from 'node:http'
import t from 'tap'
import { checkUpload, listDeployments } from '../../../lib/cli/client/deployments.js'
import { whoami } from '../../../lib/cli/client/named-project.js'
import { followRun, type RunEvent, startRun } from '../../../lib/cli/client/runs.js'
import { Interrupted } from '../../../lib/cli/terminal/prompt.js'
import { clientOf } from '../../support/client-of.js'

/* Servers of the same interface that are not svc: each answers one way that the specification leaves open. */

async function shown(events: AsyncIterable<RunEvent>): Promise<string[]> {
  const list: string[] = []
  for await (const event of events) list.push(event.event === 'log' ? event.text : JSON.stringify(event))
  return list
}

const ended = '{"event":"status","status":"success","duration":"1.00s","deployId":null}'
const status = 'event: status\ndata: {"status":"success","duration":"1.00s"}\n\n'
const sse = { 'content-type': 'text/event-stream' }

t.test('reads lines that are JSON strings, texts of several lines, or plain', async t => {
  const client = await clientOf(t, (_, response) => {
    const log = (data: string): string => `event: log\ndata: ${data}\n\n`
    const logs = ['"one"', '"two\\nthree\\n"', 'plain [x]', '{"data":"four","at":"then"}', '"{\\"a\\":1}"'].map(log)
    response.writeHead(200, sse).end(logs.join('') + status)
  })
  t.strictSame(await shown(followRun(client, 'dep_1', {})), [
    'one',
    'two',
    'three',
    'plain [x]',
    'four',
    '{"a":1}',
    ended
  ])
})

t.test('repeats no line of a server whose events have no ids', async t => {
  let asked = 0
  const client = await clientOf(t, (_, response) => {
    response.writeHead(200, sse)
    const log = 'event: log\ndata: "one\\ntwo"\n\n'
    if (++asked === 1) response.write(log, () => response.destroy())
    else response.end(`${log}event: log\ndata: "three"\n\n${status}`)
  })
  t.strictSame(await shown(followRun(client, 'dep_1', {})), ['one', 'two', 'three', ended])
})

t.test('reads a rollback that is answered with one JSON object', async t => {
  const answers: Array<[answer: object, expected: string[]]> = [
    [{ success: true }, ['{"event":"status","status":"success","duration":"","deployId":null}']],
    [
      { success: false, message: 'no archive' },
      ['no archive', '{"event":"status","status":"failed","duration":"","deployId":null}']
    ],
    [
      { deployment: { id: 'dep_2', status: 'success', duration: '2s', output: 'a\nb\n' } },
      ['a', 'b', '{"event":"status","status":"success","duration":"2s","deployId":"dep_2"}']
    ],
    [{ deployId: 'dep_3', status: 'running' }, ['followed dep_3', ended]],
    [{ success: true, id: 'dep_4' }, ['followed dep_4', ended]]
  ]
  for (const [answer, expected] of answers) {
    const client = await clientOf(t, ({ url, method }, response) => {
      if (method === 'POST')
        return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
      const [, id] = /^\/api\/logs\/(dep_\d)\/stream/.exec(url ?? '') ?? []
      response.writeHead(200, sse).end(`event: log\ndata: "followed ${id}"\n\n${status}`)
    })
    const run = await startRun(client, 'POST /api/deployments/:id/rollback', { id: 'dep_1' })
    t.strictSame(await shown(run.events), expected, JSON.stringify(answer))
  }
  const client = await clientOf(t, (_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"hello":1}')
  )
  await t.rejects(startRun(client, 'POST /api/deployments/:id/rollback', { id: 'dep_1' }), { code: 'not_svc' })
})

t.test('takes 404, 405 and a page for a server without the route', async t => {
  const html = { 'content-type': 'text/html' }
  const json = { 'content-type': 'application/json' }
  const answers: Array<[number, Record<string, string>, string]> = [
    [404, json, '{"error":"Not found"}'],
    [404, html, '<p>'],
    [405, json, '{"error":"Method not allowed"}'],
    [405, html, '<p>'],
    [200, html, '<html>the panel</html>'],
    [200, json, '{"success":true}'],
    [200, json, '[]'],
    [200, json, 'null']
  ]
  for (const [code, headers, body] of answers) {
    const client = await clientOf(t, (_, response) => response.writeHead(code, headers).end(body))
    t.equal(await whoami(client), null, `${code} ${body}`)
    t.equal(await checkUpload(client, { projectId: 'p', scripts: [] }), null, `${code} ${body}`)
  }
})

t.test('lists only the deployments that are asked for, also if the server lists all', async t => {
  const rows = ['a', 'b', 'a', 'a'].map((projectId, at) => ({ id: `dep_${at}`, projectId, status: 'success' }))
  const client = await clientOf(t, (_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(rows))
  )
  const found = await listDeployments(client, { projectId: 'a', limit: 2 })
  t.strictSame(
    found.map(({ id }) => id),
    ['dep_0', 'dep_2']
  )
  t.strictSame(await listDeployments(client, { status: 'failed' }), [])
})

t.test('Ctrl-C while it waits to reconnect, or for a leader, ends with the reason of the signal', async t => {
  const noLeader = { 'content-type': 'application/json', 'retry-after': '5' }
  const waits: Array<[what: string, handle: http.RequestListener]> = [
    ['a lost stream', (_, response) => void response.writeHead(200, sse).end()],
    [
      'no leader',
      (_, response) => void response.writeHead(503, noLeader).end('{"error":"No leader","code":"no_leader"}')
    ]
  ]
  for (const [what, handle] of waits) {
    const stop = new AbortController()
    const client = await clientOf(t, (request, response) => {
      handle(request, response)
      response.on('close', () => setTimeout(() => stop.abort(new Interrupted()), 20))
    })
    await t.rejects(shown(followRun(client, 'dep_1', { signal: stop.signal })), { name: 'Interrupted' }, what)
  }
})
