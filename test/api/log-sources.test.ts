import { appendFileSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { holdIntervals } from '../support/intervals.js'
import { openStream } from '../support/sse.js'
import { startServer } from '../support/server.js'

t.test('log sources', async t => {
  const { client, as, createProject, home, sites } = await startServer(t)
  const project = await createProject('shop')
  const logs = join(sites, '..', 'logs')
  mkdirSync(logs)
  const address = `/api/projects/${project.id}/log-sources`
  const file = (name: string, text: string | Buffer = ''): string => {
    writeFileSync(join(logs, name), text)
    return join(logs, name)
  }
  const add = async (filePath: string, more: object = {}): Promise<string> => {
    const { body } = await client.post(address, { items: [{ filePath, ...more }] })
    return `/api/log-sources/${body.items[0].id}`
  }

  t.test('are created with defaults, and listed in order', async t => {
    const { status, body } = await client.post(address, {
      items: [{ filePath: file('a.log') }, { filePath: join(logs, 'later.log'), label: 'Later', kind: 'json' }]
    })
    t.equal(status, 200)
    t.match(body, {
      success: true,
      items: [
        {
          id: /^lsrc_[a-z2-7]{16}$/,
          projectId: project.id,
          label: 'a.log',
          kind: 'plain',
          sortOrder: 0,
          createdAt: /Z$/
        },
        { label: 'Later', kind: 'json', sortOrder: 1 }
      ]
    })
    t.same((await client.get(address)).body, { items: body.items })
    t.same((await client.get('/api/log-sources')).body, { items: body.items }, 'of all projects')
  })

  t.test('creates all items of a batch or none, and names the invalid item', async t => {
    const before = (await client.get(address)).body.items.length
    const good = { filePath: file('b.log') }
    mkdirSync(join(logs, 'directory'))
    symlinkSync(home.configFile, join(logs, 'innocent.log'))
    const socket = createServer().listen(join(logs, 'socket'))
    t.teardown(() => socket.close())
    const cases: Array<[item: unknown, status: number, field: string]> = [
      [{ filePath: 'relative.log' }, 400, 'items[2].filePath'],
      [{}, 400, 'items[2].filePath'],
      [{ filePath: 7 }, 400, 'items[2].filePath'],
      ['text', 400, 'items[2]'],
      [{ filePath: good.filePath, kind: 'xml' }, 400, 'items[2].kind'],
      [{ filePath: good.filePath, label: 7 }, 400, 'items[2].label'],
      [{ filePath: join(logs, 'directory') }, 400, 'items[2].filePath'],
      [{ filePath: join(logs, 'socket') }, 400, 'items[2].filePath'],
      [{ filePath: '/dev/null' }, 403, 'items[2].filePath'],
      [{ filePath: '/etc/shadow' }, 403, 'items[2].filePath'],
      [{ filePath: home.database }, 403, 'items[2].filePath'],
      [{ filePath: join(logs, 'innocent.log') }, 403, 'items[2].filePath']
    ]
    for (const [item, status, field] of cases) {
      const reply = await client.post(address, { items: [good, good, item] })
      t.match(reply, { status, body: { success: false, field } }, JSON.stringify(item))
    }
    const many = (count: number) => Array.from({ length: count }, () => good)
    t.match(await client.post(address, { items: many(51) }), { status: 400, body: { field: 'items' } })
    t.match(await client.post(address, { items: [] }), { status: 400, body: { field: 'items' } })
    t.match(await client.post(address, {}), { status: 400, body: { field: 'items' } })
    t.equal((await client.get(address)).body.items.length, before)
    t.equal((await client.post(address, { items: many(50) })).body.items.length, 50)
  })

  t.test('label, kind and sortOrder can be changed, the path cannot', async t => {
    const source = await add(file('c.log'))
    t.match((await client.patch(source, { label: 'C', kind: 'ansi', sortOrder: -1 })).body, {
      success: true,
      source: { label: 'C', kind: 'ansi', sortOrder: -1 }
    })
    t.equal((await client.get(address)).body.items[0].label, 'C', 'the list follows sortOrder')
    const updates = async () => (await client.get('/api/audit?action=log_source.update')).body.items.length
    const before = await updates()
    t.match((await client.patch(source, {})).body, { success: true, source: { label: 'C' } })
    t.match((await client.patch(source, { label: 'C', sortOrder: -1 })).body, { success: true, source: { label: 'C' } })
    t.equal(await updates(), before, 'nothing was changed, and nothing is in the audit log')
    t.match(await client.patch(source, { filePath: '/var/log/x' }), { status: 400, body: { field: 'filePath' } })
    t.match(await client.patch(source, { label: '' }), { status: 400, body: { field: 'label' } })
    t.match(await client.patch(source, { kind: 'xml' }), { status: 400, body: { field: 'kind' } })
    t.match(await client.patch(source, { sortOrder: '1' }), { status: 400, body: { field: 'sortOrder' } })
  })

  t.test('deleting removes the association, one or many', async t => {
    const source = await add(file('d.log', 'kept\n'))
    t.match((await client.delete(source)).body, { success: true, message: String })
    t.equal((await client.get(`${source}/meta`)).status, 404)
    const again = await add(join(logs, 'd.log'))
    t.same((await client.get(`${again}/range`)).body.lines, ['kept'])
    const id = again.split('/').pop()
    const { body } = await client.post('/api/log-sources/bulk', { ids: [id, 'lsrc_unknown'], action: 'delete' })
    t.match(body, { success: true, done: 1, failed: [{ id: 'lsrc_unknown', error: String }] })
  })

  t.test('are deleted with their project', async t => {
    const other = await createProject('other')
    const { body } = await client.post(`/api/projects/${other.id}/log-sources`, {
      items: [{ filePath: file('e.log') }]
    })
    t.equal((await client.delete(`/api/projects/${other.id}`)).status, 200)
    t.equal((await client.get(`/api/log-sources/${body.items[0].id}/meta`)).status, 404)
    t.equal((await client.get(`/api/projects/${other.id}/log-sources`)).status, 404)
  })

  t.test('meta and range follow links and check the deny list on every request', async t => {
    const link = join(logs, 'link.log')
    symlinkSync(file('target.log', 'one\ntwo\n'), link)
    const source = await add(link)
    t.match((await client.get(`${source}/meta`)).body, {
      filePath: link,
      kind: 'plain',
      size: 8,
      resolvedPath: /target\.log$/
    })
    t.same((await client.get(`${source}/range`)).body, {
      startOffset: 0,
      endOffset: 8,
      fileSize: 8,
      lines: ['one', 'two'],
      truncatedHead: false,
      truncatedTail: false,
      binary: false
    })
    const { unlinkSync } = await import('node:fs')
    unlinkSync(link)
    t.match(await client.get(`${source}/range`), { status: 404, body: { code: 'file_missing' } })
    symlinkSync(home.configFile, link)
    for (const what of ['meta', 'range', 'stream', 'search?q=a']) {
      t.match(await client.get(`${source}/${what}`), { status: 403, body: { code: 'denied_path' } }, what)
    }
  })

  t.test('range pages in both directions', async t => {
    const text = Array.from({ length: 100 }, (_, index) => `line ${index} äöü\n`).join('')
    const source = await add(file('pages.log', text))
    const { body: tail } = await client.get(`${source}/range?size=100`)
    t.match(tail, { endOffset: Buffer.byteLength(text), truncatedHead: true, truncatedTail: false })
    let read = ''
    for (let offset = 0; offset < tail.fileSize; ) {
      const { body } = await client.get(`${source}/range?offset=${offset}&size=200`)
      read += body.lines.map((line: string) => `${line}\n`).join('')
      t.ok(body.endOffset > offset && body.endOffset - body.startOffset <= 200)
      offset = body.endOffset
    }
    t.equal(read, text)
    t.match(await client.get(`${source}/range?offset=-1`), { status: 400, body: { field: 'offset' } })
    t.match(await client.get(`${source}/range?direction=up`), { status: 400, body: { field: 'direction' } })
    t.match(await client.get(`${source}/range?size=x`), { status: 400, body: { field: 'size' } })
    t.equal((await client.get(`${source}/range?size=99999999`)).status, 200, 'a size above the limit becomes the limit')
  })

  t.test('a compressed log is paged and searched by its uncompressed content', async t => {
    const text = Array.from({ length: 1000 }, (_, index) => `line ${index}\n`).join('')
    const source = await add(file('old.log.gz', gzipSync(text)))
    t.equal((await client.get(`${source}/meta`)).body.size, text.length)
    t.same((await client.get(`${source}/range?size=20`)).body.lines, ['line 998', 'line 999'])
    const search = await openStream(client, `${source}/search?q=line 99&context=0&maxHits=2`.replace(' ', '%20'))
    t.match((await search.next('hit')).data, {
      offset: text.indexOf('line 99\n'),
      text: 'line 99',
      before: [],
      after: []
    })
    t.same((await search.next('truncated')).data, { maxHits: 2 })
    await search.next('done')
    const broken = await add(file('broken.log.gz', gzipSync(text).subarray(0, 1000)))
    t.match(await client.get(`${broken}/range`), { status: 400, body: { code: 'broken_gzip' } })
    const stream = await openStream(client, `${source}/stream?tailLines=1`)
    t.same((await stream.next('snapshot')).data.lines, ['line 999'])
    stream.close()
  })

  t.test('downloads the whole file, also with a ticket, and decompresses a compressed one', async t => {
    const text = 'line\n'.repeat(100_000)
    const source = await add(file('whole (ä).log', text))
    const {
      body: { ticket }
    } = await client.post('/api/tickets', { purpose: 'download' })
    const reply = await as(null).get(`${source}/download?ticket=${ticket}`)
    t.equal(reply.text, text)
    t.match(reply.headers['content-disposition'], /^attachment; filename\*=UTF-8''whole%20%28%C3%A4%29\.log$/)
    const compressed = await add(file('old.log.gz', gzipSync(text)))
    const inflated = await client.get(`${compressed}/download`)
    t.equal(inflated.text, text)
    t.match(inflated.headers['content-disposition'], /''old\.log$/)
    t.match(await client.get(`${await add(join(logs, 'never.log'))}/download`), {
      status: 404,
      body: { code: 'file_missing' }
    })
  })

  t.test('stream: every event contains its position in the file', async t => {
    const path = file('places.log', 'one\n')
    const stream = await openStream(client, `${await add(path)}/stream`)
    const first = await stream.next('snapshot')
    t.match(first.id, /^4@\d+:\d+;/)
    appendFileSync(path, 'zwei ä\r\nunfinished')
    const lines = await stream.next('lines')
    t.equal(lines.id.replace(/@.*/, ''), String(Buffer.byteLength('one\nzwei ä\r\n')))
    renameSync(path, `${path}.1`)
    writeFileSync(path, 'new\n')
    const second = await stream.next('snapshot')
    t.match(second.id, /^4@\d+:\d+;/)
    t.not(second.id, first.id, 'another file of the same length')
    stream.close()
  })

  t.test('stream: continues after an id in the header or the query, and ignores any other text', async t => {
    const path = file('again.log', 'one\n')
    const address = `${await add(path)}/stream?tailLines=0`
    const stream = await openStream(client, address)
    const { id } = await stream.next('snapshot')
    stream.close()
    appendFileSync(path, 'two\n')
    const doors: Array<[string, Record<string, string>]> = [
      [`${address}&lastEventId=${encodeURIComponent(id)}`, {}],
      [address, { 'last-event-id': id }]
    ]
    for (const [path, headers] of doors) {
      const again = await openStream(client, path, headers)
      t.same((await again.next('lines')).data, { lines: ['two'] })
      t.same(
        again.events.map(({ event }) => event),
        ['resumed', 'lines']
      )
      again.close()
    }
    for (const odd of ['4', '4@1:1', `${id},${id},${id}`, id.replace(/^4/, '9'.repeat(400)), '../../etc/passwd']) {
      const again = await openStream(client, address, { 'last-event-id': odd })
      await again.next('snapshot')
      t.same(
        again.events.map(({ event }) => event),
        ['snapshot'],
        odd.slice(0, 40)
      )
      again.close()
    }
  })

  t.test('search: finds hits in a compressed log before a damaged part', async t => {
    const gzip = gzipSync(Array.from({ length: 1_000_000 }, (_, index) => `a long line ${index}\n`).join(''), {
      level: 1
    })
    const source = await add(file('damaged.log.gz', gzip.subarray(0, -1000)))
    const search = await openStream(client, `${source}/search?q=line%20777&context=0&maxHits=5000`)
    t.match((await search.next('hit')).data, { text: 'a long line 777' })
    t.match((await search.next('error')).data.message, /gzip file is incomplete/)
    await search.ended
  })

  t.test('stream: sends a snapshot, then new lines', async t => {
    const path = file('live.log', 'one\ntwo\nthree\n')
    const source = await add(path)
    const stream = await openStream(client, `${source}/stream?tailLines=2`)
    t.equal(stream.status, 200)
    t.match(stream.headers['content-type'], /^text\/event-stream/)
    t.same((await stream.next('snapshot')).data, { lines: ['two', 'three'], size: 14, binary: false })
    appendFileSync(path, 'four\n')
    t.same((await stream.next('lines')).data, { lines: ['four'] }, 'the first line of a quiet file is sent at once')
    // The server runs nothing between these two. test/api/spec-limits checks the delay of the lines.
    appendFileSync(path, 'five\n')
    appendFileSync(path, 'six\n')
    t.same(
      (await stream.next('lines')).data,
      { lines: ['five', 'six'] },
      'the next batch contains the lines that arrived meanwhile'
    )
    stream.close()
    t.match(await client.get(`${source}/stream?tailLines=x`), { status: 400, body: { field: 'tailLines' } })
  })

  t.test('stream: waits for a missing file', async t => {
    const path = join(logs, 'soon.log')
    const source = await add(path)
    const stream = await openStream(client, `${source}/stream`)
    t.match((await stream.next('error')).data.message, /no such file or directory\. The stream starts/)
    writeFileSync(path, 'here\n')
    t.same((await stream.next('snapshot')).data.lines, ['here'])
    stream.close()
  })

  t.test('search: returns hits in order with their context', async t => {
    const text = 'a\nb\nError one\nc\nd\ne\nerror two\n'
    const source = await add(file('search.log', text))
    const search = async (query: string) => {
      const stream = await openStream(client, `${source}/search?${query}`)
      await stream.ended
      return stream.events.map(({ event, data }) => ({ event, data }))
    }
    t.same(await search('q=error&caseInsensitive=1'), [
      { event: 'hit', data: { offset: 4, text: 'Error one', before: ['a', 'b'], after: ['c', 'd'] } },
      { event: 'hit', data: { offset: 20, text: 'error two', before: ['d', 'e'], after: [] } },
      { event: 'done', data: { scannedBytes: text.length } }
    ])
    t.same(
      (await search('q=%5Ee.*o%24&regex=true&context=0')).map(({ data }) => data.text),
      ['error two', undefined]
    )
    t.same(await search('q=error&fromOffset=21'), [{ event: 'done', data: { scannedBytes: text.length - 21 } }])
    t.match(await client.get(`${source}/search`), { status: 400, body: { field: 'q' } })
    t.match(await client.get(`${source}/search?q=(&regex=1`), { status: 400, body: { field: 'q' } })
    t.match(await client.get(`${source}/search?q=a&regex=maybe`), { status: 400, body: { field: 'regex' } })
    t.match(await client.get(`${source}/search?q=a&context=-1`), { status: 400, body: { field: 'context' } })
    t.match(await client.get(`${source}/search?q=a&maxHits=0`), { status: 400, body: { field: 'maxHits' } })
  })

  t.test('search: returns the newest hits first, continues from the oldest of them, and filters by level', async t => {
    const text = Array.from(
      { length: 100 },
      (_, index) => `${index % 10 === 0 ? 'ERROR' : 'INFO'} line ${index}\n`
    ).join('')
    const search = async (source: string, query: string) => {
      const stream = await openStream(client, `${source}/search?context=0&${query}`)
      await stream.ended
      return stream.events.map(({ event, data }) => (event === 'hit' ? data.text.split(' ')[2] : event)).join(' ')
    }
    for (const source of [await add(file('levels.log', text)), await add(file('levels.log.gz', gzipSync(text)))]) {
      t.equal(await search(source, 'q=line&order=newest&maxHits=3'), '99 98 97 truncated done')
      t.equal(
        await search(source, `q=line&order=newest&maxHits=2&toOffset=${text.indexOf('INFO line 97')}`),
        '96 95 truncated done'
      )
      t.equal(await search(source, 'q=line&order=newest&level=error&maxHits=2'), '90 80 truncated done')
      t.equal(await search(source, 'q=line%20.5&regex=1&order=oldest&level=info&maxHits=2'), '15 25 truncated done')
    }
    const source = await add(file('levels.log', text))
    t.match(await client.get(`${source}/search?q=a&order=random`), { status: 400, body: { field: 'order' } })
    t.match(await client.get(`${source}/search?q=a&level=loud`), { status: 400, body: { field: 'level' } })
  })

  t.test('range and search by time read lines without a zone in the requested zone', async t => {
    const lineAt = (minute: number): string => `2026-11-21 10:${String(minute).padStart(2, '0')}:00 line ${minute}`
    const text = Array.from({ length: 60 }, (_, minute) => `${lineAt(minute)}\n  more of it\n`).join('')
    const source = await add(file('times.log', text))
    const search = async (query: string) => {
      const stream = await openStream(client, `${source}/search?q=line&context=0&${query}`)
      await stream.ended
      return stream.events.map(({ event, data }) => (event === 'hit' ? data.text.split(' ')[3] : event)).join(' ')
    }
    t.equal(await search('since=2026-11-21T10:10:00Z&until=2026-11-21T10:13:00Z&zone=0'), '10 11 12 done')
    t.equal(await search('since=2026-11-21T09:57:30Z&zone=60'), '58 59 done')
    t.equal(
      await search('since=2026-11-21T10:57:30%2B02:00&zone=120'),
      '58 59 done',
      'the zone of the question is another matter'
    )
    t.equal(await search('until=2026-11-21T10:02:00Z&zone=0&order=newest'), '1 0 done')
    t.equal(await search('since=2027-01-01T00:00:00Z&zone=0'), 'done')
    const window = (await client.get(`${source}/range?time=2026-11-21T10:30:00Z&zone=0&size=200`)).body
    t.match(window, { startOffset: text.indexOf(lineAt(30)), truncatedHead: true })
    t.equal(window.lines[0], lineAt(30))
    t.match((await client.get(`${source}/range?time=2027-01-01T00:00:00Z`)).body, {
      startOffset: text.length,
      lines: []
    })
    const untimed = await add(file('untimed.log', 'a\nb\n'))
    t.match(await client.get(`${untimed}/range?time=2027-01-01T00:00:00Z`), { status: 400, body: { code: 'no_times' } })
    const stream = await openStream(client, `${untimed}/search?q=a&since=2027-01-01T00:00:00Z`)
    await stream.ended
    t.match(stream.events, [{ event: 'error', data: { message: /its lines have no timestamps/ } }])
    t.match(await client.get(`${source}/range?time=yesterday`), { status: 400, body: { field: 'time' } })
    t.match(await client.get(`${source}/search?q=a&since=2026-11-21T10:00:00`), {
      status: 400,
      body: { field: 'since' }
    })
    t.match(await client.get(`${source}/search?q=a&until=2026-99-21T10:00:00Z`), {
      status: 400,
      body: { field: 'until' }
    })
    t.match(await client.get(`${source}/search?q=a&since=2026-11-21T10:00:00Z&zone=999`), {
      status: 400,
      body: { field: 'zone' }
    })
  })

  t.test('search: stops an expression that would run forever, without delaying other requests', async t => {
    const source = await add(file('evil.log', `${'a'.repeat(5000)}!\n`))
    // Holds the checks for the timeout: meanwhile nothing stops the search, and it does not end by itself.
    const looks = holdIntervals(t, 500)
    const stream = await openStream(client, `${source}/search?q=(a%2B)%2B%24&regex=1`)
    for (let count = 0; count < 50; count++) t.equal((await client.get('/api/health')).status, 200)
    t.same(stream.events, [], 'other requests were answered meanwhile')
    while (stream.events.length === 0) {
      looks.pass()
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    t.match(stream.events, [{ event: 'error', data: { message: /stopped/ } }])
    await stream.ended
  })

  t.test('every change is in the audit log', async t => {
    const { items } = (await client.get('/api/audit?limit=500')).body
    const actions = new Set(items.map(({ action }: { action: string }) => action))
    for (const verb of ['create', 'update', 'delete']) t.ok(actions.has(`log_source.${verb}`), verb)
  })
})
