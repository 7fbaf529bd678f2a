import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { logHandlers } from '../../lib/api/logs.js'
import type { ApiServices } from '../../lib/api/services.js'
import type { ApiRequest } from '../../lib/api/route.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { eventsOf, formOf, sentEventsOf, type FormFields } from '../support/client.js'
import { insertDeployments } from '../support/many-deployments.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'

t.test('records', async t => {
  const stage = await startServer(t)
  const { client, as } = stage
  const shop = await stage.createProject('shop')
  const blog = await stage.createProject('blog')
  const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'hello' }) }
  const push = async (project: { id: string; token: string }, more: FormFields = []) =>
    eventsOf(await as(project.token).upload([['projectId', project.id], ['file', file], ...more])).at(-1)
      .deployId as string

  const first = await push(shop)
  const failed = await push(shop, [['postDeploy', 'printf "no final newline"; exit 1']])
  const long = await push(blog, [
    ['postDeploy', 'for i in $(seq 1 30000); do echo "line $i of a long output, padded to be longer"; done']
  ])
  const idsOf = (reply: { body: Array<{ id: string }> }) => reply.body.map(({ id }) => id)

  t.test('lists records newest first, filtered and paged', async t => {
    const all = await client.get('/api/logs')
    t.same(idsOf(all), [long, failed, first])
    t.equal(all.headers['x-total-count'], '3')
    const ofShop = await client.get(`/api/logs?projectId=${shop.id}&limit=1`)
    t.same(idsOf(ofShop), [failed])
    t.equal(ofShop.headers['x-total-count'], '2', 'counts all matching records, not the page')
    t.same(idsOf(await client.get(`/api/logs?projectId=${shop.id}&before=${failed}`)), [first])
    t.same(idsOf(await client.get('/api/logs?status=failed')), [failed])
    t.same(idsOf(await client.get('/api/logs?status=running')), [])
    t.same(idsOf(await client.get('/api/logs?projectId=proj_unknown')), [])
    t.equal((await client.get('/api/logs?limit=100000')).status, 200)
    for (const query of ['limit=0', 'limit=x', 'status=done', 'limit=-1']) {
      t.equal((await client.get(`/api/logs?${query}`)).status, 400, query)
    }
    t.equal((await client.get('/api/logs?before=dep_unknown')).status, 404)
  })

  t.test('the list contains the last 4 KiB of each output', async t => {
    const [record] = (await client.get('/api/logs?limit=1')).body
    t.ok(Buffer.byteLength(record.output) <= 4096)
    t.match(record.output, /line 30000 of/)
  })

  t.test('a record contains up to 1 MiB of its output', async t => {
    const { status, body } = await client.get(`/api/logs/${first}`)
    t.equal(status, 200)
    t.match(body, {
      id: first,
      projectId: shop.id,
      projectName: 'shop',
      status: 'success',
      triggerSource: 'cli',
      rollbackOf: null,
      startTime: /Z$/,
      endTime: /Z$/,
      duration: /^\d+\.\d+s$/,
      output: String,
      hasArtifact: true,
      message: null,
      archiveBytes: file.bytes.length,
      archiveSha256: /^[0-9a-f]{64}$/,
      fileCount: 1,
      errorMessage: null,
      actorIp: '127.0.0.1',
      steps: Array,
      scripts: []
    })
    t.notOk('outputTruncated' in body)
    const cut = (await client.get(`/api/logs/${long}`)).body
    t.equal(cut.outputTruncated, true)
    t.ok(Buffer.byteLength(cut.output) <= 1024 * 1024)
    t.match((await client.get(`/api/logs/${failed}`)).body, { status: 'failed', errorMessage: String })
    t.match(await client.get('/api/logs/dep_unknown'), { status: 404, body: { success: false, code: 'not_found' } })
  })

  t.test('timestamps=1 puts the time before each line', async t => {
    const { output } = (await client.get(`/api/logs/${first}?timestamps=1`)).body
    for (const line of output.split('\n').filter(Boolean)) t.match(line, /^\d{4}-\d\d-\d\dT[\d:.]+Z /)
    t.notMatch((await client.get(`/api/logs/${first}`)).body.output, /^\d{4}-\d\d-\d\dT/)
    t.equal((await client.get(`/api/logs/${first}?timestamps=maybe`)).status, 400)
  })

  t.test('/output streams the whole output as text', async t => {
    const whole = await client.get(`/api/logs/${long}/output`)
    t.match(whole.headers['content-type'], /^text\/plain/)
    t.match(whole.text, /line 1 of/)
    t.match(whole.text, /line 30000 of/)
    const timed = await client.get(`/api/logs/${first}/output?timestamps=1`)
    t.match(timed.text, /^\d{4}-\d\d-\d\dT[\d:.]+Z /)
    t.equal((await client.get('/api/logs/dep_unknown/output')).status, 404)
    const { ticket } = (await client.post('/api/tickets', { purpose: 'download' })).body
    const downloaded = await as(null).get(`/api/logs/${first}/output?ticket=${ticket}`)
    t.equal(downloaded.status, 200)
    t.match(downloaded.headers['content-disposition'], `${first}.log`)
  })

  t.test('/output returns parts: the end, the part before it and the part after it', async t => {
    const whole = (await client.get(`/api/logs/${long}/output`)).text
    const windowOf = async (query: string) => {
      const { status, text, headers } = await client.get(`/api/logs/${long}/output?${query}`)
      return { status, text, from: Number(headers['x-svc-output-from']), to: Number(headers['x-svc-output-to']) }
    }
    const end = await windowOf('bytes=100000')
    t.equal(end.status, 200)
    t.ok(end.text.length > 50_000 && whole.endsWith(end.text))
    const before = await windowOf(`before=${end.from}&bytes=100000`)
    t.equal(before.to, end.from)
    t.ok(whole.endsWith(before.text + end.text))
    t.same(await windowOf(`from=${before.from}&bytes=${before.to - before.from}`), before)
    t.match((await windowOf(`from=${before.from}&timestamps=1`)).text, /^\d{4}-\d\d-\d\dT[\d:.]+Z /)
    t.match(await windowOf(`from=${end.to}`), { text: '', from: end.to, to: end.to })
    for (const query of ['from=-1', 'before=x', 'bytes=0']) t.equal((await windowOf(query)).status, 400, query)
  })

  t.test('output=end returns the record with the last 4 KiB of its output', async t => {
    const { body } = await client.get(`/api/logs/${long}?output=end`)
    t.ok(Buffer.byteLength(body.output) <= 4096)
    t.match(body, { id: long, outputTruncated: true, steps: Array })
    t.equal((await client.get(`/api/logs/${long}?output=none`)).status, 400)
  })

  t.test(
    'the stream of a finished deployment sends its output as a JSON string, then the status, then ends',
    async t => {
      const reply = await client.get(`/api/logs/${failed}/stream`)
      t.match(reply.headers, {
        'content-type': /^text\/event-stream/,
        'cache-control': 'no-store',
        'x-accel-buffering': 'no'
      })
      const [stored, status, ...others] = sentEventsOf(reply.text)
      const { output } = (await client.get(`/api/logs/${failed}`)).body
      t.match(stored, { event: 'log', id: /^\d+$/, data: output.trimEnd() })
      t.match(status, { event: 'status', data: { status: 'failed', duration: /s$/ } })
      t.same(others, [])
    }
  )

  t.test('the first event of a long output is limited, and each later one is a line', async t => {
    const [stored, ...later] = sentEventsOf((await client.get(`/api/logs/${long}/stream`)).text)
    later.pop()
    t.ok(stored?.data.length > 64 * 1024 && stored?.data.length < 512 * 1024)
    for (const { data } of later) if (typeof data !== 'string' || data.includes('\n')) t.fail(JSON.stringify(data))
    const { text } = await client.get(`/api/logs/${long}/output`)
    t.equal([stored, ...later].map(event => event?.data).join('\n'), text.trimEnd())
  })

  t.test('with timestamps=1, the stream sends every line as an object with its time', async t => {
    const events = sentEventsOf((await client.get(`/api/logs/${failed}/stream?timestamps=1`)).text)
    t.match(events.pop(), { event: 'status', data: { status: 'failed', duration: /s$/ } })
    for (const { event, id, data } of events) {
      t.equal(event, 'log')
      t.match(id, /^\d+$/)
      t.match(data, { data: String, at: /Z$/ })
    }
    const plain = (await client.get(`/api/logs/${failed}`)).body.output.split('\n').filter(Boolean)
    t.same(
      events.map(({ data }) => data.data),
      plain
    )
    t.equal((await client.get(`/api/logs/${failed}/stream?timestamps=often`)).status, 400)
  })

  t.test('Last-Event-ID continues after that line', async t => {
    for (const query of ['?timestamps=1', '']) {
      const path = `/api/logs/${failed}/stream${query}`
      const events = sentEventsOf((await client.get(`/api/logs/${failed}/stream?timestamps=1`)).text)
      const { id } = events[1] as { id: string }
      const rest = sentEventsOf((await client.get(path, { 'last-event-id': id })).text)
      const bare = events.map(event => (event.event === 'log' ? { ...event, data: event.data.data } : event))
      t.same(rest, (query === '' ? bare : events).slice(2), query)
      const whole = sentEventsOf((await client.get(path)).text)
      for (const odd of ['x', '-5', '99999999999999999999', '']) {
        const all = sentEventsOf((await client.get(path, { 'last-event-id': odd })).text)
        t.same(all, whole, `"${odd}" is no offset: from the start`)
      }
    }
    t.equal((await client.get('/api/logs/dep_unknown/stream')).status, 404)
  })

  t.test("a project's token reads its own, and nothing else", async t => {
    const reader = as(shop.token)
    const listed = await reader.get('/api/logs')
    t.same(idsOf(listed), [failed, first])
    t.equal(listed.headers['x-total-count'], '2')
    t.equal((await reader.get(`/api/logs?projectId=${blog.id}`)).status, 403)
    for (const tail of ['', '/stream', '/output']) {
      t.equal((await reader.get(`/api/logs/${first}${tail}`)).status, 200, tail)
      t.equal((await reader.get(`/api/logs/${long}${tail}`)).status, 403, tail)
    }
    t.equal((await reader.get(`/api/logs?before=${long}`)).status, 403)
  })

  t.test('a running deployment is listed and can be followed', async t => {
    const { contentType, body } = formOf([
      ['projectId', blog.id],
      ['file', file],
      ['postDeploy', 'echo begun; until [ -e go ]; do sleep 0.02; done; echo ended']
    ])
    const pushing = as(blog.token).send('POST', '/api/deploy/upload', {
      headers: { 'content-type': contentType },
      body
    })
    const running = await until(async () => (await client.get('/api/logs?status=running')).body[0])
    t.match(running, { projectId: blog.id, status: 'running', endTime: null, duration: null })
    t.equal((await client.get(`/api/projects/${blog.id}`)).body.status, 'running')
    mkdirSync(blog.deployPath, { recursive: true })
    writeFileSync(join(blog.deployPath, 'go'), '')
    const events = sentEventsOf((await client.get(`/api/logs/${running.id}/stream?timestamps=1`)).text)
    t.same(
      events.filter(({ data }) => ['begun', 'ended'].includes(data.data)).map(({ data }) => data.data),
      ['begun', 'ended']
    )
    t.match(events.at(-1), { event: 'status', data: { status: 'success' } })
    t.match(eventsOf(await pushing).at(-1), { status: 'success', deployId: running.id })
  })
})

t.test('a list without a query contains some records of every project', async t => {
  const stage = await startServer(t)
  const quiet = await stage.createProject('quiet')
  const busy = await stage.createProject('busy')
  const zip = await zipOf({ 'index.html': 'hello' })
  await stage.as(quiet.token).upload([
    ['projectId', quiet.id],
    ['file', { filename: 'a.zip', bytes: zip }]
  ])
  await stage.server.stop({ wait: true })
  const store = await openStore(stage.home)
  await store.write(tx => tx.run("UPDATE deployments SET orderedAt = '2000', startTime = '2000-01-01T00:00:00.000Z'"))
  await insertDeployments(store, { count: 600, projectId: busy.id, projectName: 'busy' })
  await store.close()
  await stage.restart()
  const { status, body, headers } = await stage.client.get('/api/logs')
  t.equal(status, 200)
  t.match(headers, { 'content-type': /^application\/json/, 'x-total-count': '601' })
  t.equal(body.length, 501)
  t.match(body[0], { projectId: busy.id, message: 'change 599', outputLost: true })
  t.match(body.at(-1), { projectId: quiet.id, output: /Extract/i })
  t.equal((await stage.as(busy.token).get('/api/logs')).body.length, 500)
  t.match((await stage.as(quiet.token).get('/api/logs')).body, [{ projectId: quiet.id }])
  t.equal((await stage.client.get('/api/logs?status=success')).body.length, 100)
  t.same((await stage.client.send('HEAD', '/api/logs', {})).text, '')
})

t.test('a stream reports a result that is not recorded yet', async t => {
  const row = {
    id: 'dep_a',
    projectId: 'proj_a',
    status: 'success',
    duration: '1.00s',
    endTime: '2030-01-01T00:00:00.000Z'
  } as DeploymentRow
  const never = (): never => {
    throw new Error('not asked')
  }
  const handlers = logHandlers({
    records: { find: () => row, own: never, row: () => row, complete: never, listed: never, bare: never },
    deployer: {
      async *follow() {},
      rolloutAhead: () => null,
      unrecorded: () => 'the end is not recorded yet',
      confirmUntil: () => null,
      outputStream: never,
      outputWindow: never
    },
    deployments: { list: never, find: never, newestOfEvery: never, count: never }
  } as unknown as ApiServices)
  const request = {
    params: { deployId: 'dep_a' },
    headers: {},
    query: new URLSearchParams({ timestamps: '1' })
  } as unknown as ApiRequest
  const reply = handlers.stream(request)
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  const written: string[] = []
  await reply.run({
    signal: new AbortController().signal,
    write: async chunk => void written.push(String(chunk)),
    sendHead: () => {}
  })
  t.match(
    written.join(''),
    /event: log\ndata: {"data":"→ the end is not recorded yet","at":"2030-01-01T00:00:00\.000Z"}\n\nevent: status\ndata: {"status":"success","duration":"1\.00s"}\n\n$/
  )
})
