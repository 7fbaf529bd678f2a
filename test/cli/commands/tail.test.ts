import t from 'tap'
import { appendFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { timeOption } from '../../../lib/cli/common-options.js'
import { startCutProxy } from '../../support/cut-proxy.js'
import { standInPm2 } from '../../support/pm2.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import type { LogApi, LogEvent, LogSearchRequest, NamedSource } from '../../../lib/cli/log-lines.js'
import { createPast, followLog, type PastNeeds } from '../../../lib/cli/commands/tail.js'

t.test('tail', async t => {
  const cwd = t.testdir({})
  const logs = join(cwd, 'logs')
  mkdirSync(logs)
  const server = await startServe(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const other = await server.createProject({ name: 'billing', deployPath: join(cwd, 'www2') })
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const options = { cwd, env }
  const at = (minute: number): string => new Date(Date.now() - minute * 60_000).toISOString()
  const file = (name: string, text = ''): string => {
    writeFileSync(join(logs, name), text)
    return join(logs, name)
  }
  const add = async (projectId: string, filePath: string): Promise<string> => {
    const response = await fetch(`${server.url}/api/projects/${projectId}/log-sources`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ items: [{ filePath }] })
    })
    return ((await response.json()) as { items: Array<{ id: string }> }).items[0]?.id as string
  }
  const levels = ['INFO', 'WARN', 'ERROR']
  const app = Array.from(
    { length: 1000 },
    (_, index) => `${at(1000 - index)} ${levels[index % 3]} app ${index}\n${index % 3 === 2 ? '    at frame\n' : ''}`
  ).join('')
  const appId = await add(project.id, file('app.log', app))
  const access = Array.from({ length: 1000 }, (_, index) => `${at(1000.5 - index)} access ${index}\n`).join('')
  await add(project.id, file('access.log', access))
  await add(other.id, file('app.log.1', 'a line without a time\n'))
  const words = (stdout: string): string[] =>
    stdout
      .trim()
      .split('\n')
      .map(line => line.split(' ').slice(-2).join(' '))

  await t.test('prints the last lines of a source by its label or id', async t => {
    const tail = await svc(['tail', 'app.log', '-n', '3'], options)
    t.match(tail, { code: 0, stderr: '' })
    t.same(words(tail.stdout), ['app 998', 'at frame', 'app 999'])
    t.equal((await svc(['tail', appId], options)).stdout, app.split('\n').slice(-11).join('\n'))
    t.equal((await svc(['tail', appId, '--lines', '0'], options)).stdout, '')
    t.match(await svc(['tail', 'app.lgo'], options), {
      code: 1,
      stdout: '',
      stderr: /^error: No log source and no project .*Did you mean "app\.log"/
    })
    t.match(await svc(['tail', 'app.log', '--level', 'loud'], options), { code: 2, stderr: /--level/ })
    t.match(await svc(['tail', 'app.log', '--grep', '('], options), {
      code: 2,
      stderr: /--grep is not a regular expression/
    })
    t.match(await svc(['tail', 'app.log', '--since', 'soon'], options), { code: 2, stderr: /--since cannot be "soon"/ })
    t.match(await svc(['tail', 'app.log'], { cwd, env: { ...env, SVC_TOKEN: 'another' } }), {
      code: 1,
      stdout: '',
      stderr: /^error: /
    })
  })

  await t.test('merges all sources of a project by time and names the source of each line', async t => {
    const { code, stdout } = await svc(['tail', 'shop', '-n', '4'], options)
    t.equal(code, 0)
    for (const line of stdout.trim().split('\n')) t.match(line, /^(access\.log|app\.log {3}) \| /)
    t.same(words(stdout).slice(-2), ['access 999', 'app 999'])
    const json = (await svc(['tail', 'shop', '-n', '2', '--json'], options)).stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as object)
    t.match(json, [
      { source: 'access.log', level: null, text: /access 999/ },
      { source: 'app.log', sourceId: appId, level: 'info', time: /Z$/, text: /app 999/ }
    ])
  })

  await t.test('filters by time, level and pattern', async t => {
    const since = await svc(['tail', 'app.log', '--since', '5.5m'], options)
    t.same(
      words(since.stdout).filter(word => word !== 'at frame'),
      ['app 995', 'app 996', 'app 997', 'app 998', 'app 999']
    )
    const errors = await svc(['tail', 'app.log', '--since', '5.5m', '--level', 'error'], options)
    t.same(words(errors.stdout), ['app 995', 'at frame', 'app 998', 'at frame'])
    t.same(words((await svc(['tail', 'shop', '--grep', 'APP 1.$', '-i', '-n', '3'], options)).stdout), [
      'app 17',
      'app 18',
      'app 19'
    ])
    t.same(words((await svc(['tail', 'app.log', '--grep', 'app', '--level', 'error', '-n', '1'], options)).stdout), [
      'app 998'
    ])
    t.match(await svc(['tail', 'app.log.1', '--since', '1h'], options), {
      code: 1,
      stderr: /Cannot search this log by time/
    })
    const both = await svc(['tail', 'app.log,app.log.1', '--since', '1.5m'], options)
    t.match(both, { code: 0, stdout: /app 999/, stderr: /warning: app\.log\.1: Cannot search this log by time/ })
  })

  await t.test('follows over a rotation and a broken connection without lost or repeated lines', async t => {
    const path = file('live.log', `${at(1)} line 0\n`)
    await add(project.id, path)
    const proxy = await startCutProxy(t, server.url)
    let written = 0
    const write = (): void => appendFileSync(path, `${at(0)} line ${++written}\n`)
    const steps: Array<[seen: RegExp, act: () => void]> = [
      [/line 0/, write],
      [
        /line 1\n/,
        () => {
          renameSync(path, `${path}.1`)
          writeFileSync(path, '')
          write()
        }
      ],
      [/was rotated[^]*line 2\n|line 2\n[^]*was rotated/, () => proxy.cut()],
      [
        /connection was lost/,
        () => {
          write()
          write()
          proxy.mend()
        }
      ],
      [/line 4\n/, write]
    ]
    const followed = await svc(['tail', '-f', 'live.log'], {
      cwd,
      env: { ...env, SVC_SERVER_URL: proxy.url },
      interruptAt: /line 5\n/,
      onOutput(text) {
        const [seen, act] = steps[0] ?? []
        if (seen === undefined || !seen.test(text)) return
        steps.shift()
        act?.()
      }
    })
    t.equal(followed.code, 130)
    t.same(
      words(followed.stdout),
      [0, 1, 2, 3, 4, 5].map(index => `line ${index}`)
    )
    t.match(followed.stderr, /^The file was rotated$/m)
    t.match(followed.stderr, /^The connection was lost, reconnecting…$/m)
  })

  await t.test('reports lost lines of a truncated file, and waits for a missing one', async t => {
    const path = file('cut.log', `${'x'.repeat(5000)}\nold\n`)
    await add(project.id, path)
    const cut = await svc(['tail', '-f', 'cut.log', '-n', '1'], {
      ...options,
      interruptAt: /fresh\n/,
      onOutput: text => {
        if (/old\n$/.test(text)) writeFileSync(path, 'fresh\n')
      }
    })
    t.equal(cut.stdout, 'old\nfresh\n')
    t.match(cut.stderr, /lost here/)
    const coming = join(logs, 'coming.log')
    await add(project.id, coming)
    t.match(await svc(['tail', 'coming.log'], options), { code: 1, stderr: /no such file or directory/ })
    let isWritten = false
    const waited = await svc(['tail', '-f', 'coming.log'], {
      ...options,
      interruptAt: /here now\n/,
      onOutput(text) {
        if (isWritten || !/no such file or directory/.test(text)) return
        isWritten = true
        writeFileSync(coming, 'here now\n')
      }
    })
    t.equal(waited.stdout, 'here now\n')
  })

  await t.test('filters also apply to followed lines', async t => {
    const path = file('filtered.log', 'INFO a\nERROR begin\n')
    await add(project.id, path)
    const coming = file('beside.log', 'nothing\n')
    await add(project.id, coming)
    let isWritten = false
    const followed = await svc(
      ['tail', '-f', 'filtered.log,beside.log', '--level', 'error', '--grep', 'want|begin', '--json'],
      {
        ...options,
        interruptAt: /last wanted/,
        onOutput(text) {
          if (isWritten || !/begin/.test(text)) return
          isWritten = true
          appendFileSync(
            path,
            'INFO wanted by nobody\nERROR wanted\nERROR not\n  at wanted\nWARN wanted\nERROR last wanted\n'
          )
        }
      }
    )
    t.same(
      followed.stdout
        .trim()
        .split('\n')
        .map(line => (JSON.parse(line) as { text: string }).text),
      ['ERROR begin', 'ERROR wanted', '  at wanted', 'ERROR last wanted']
    )
  })
})

t.test('projects pm2-logs adds the log files of the PM2 application', async t => {
  const cwd = t.testdir({ 'shop.log': '' })
  const pm2 = standInPm2(t)
  pm2.install([{ name: 'shop', pm_id: 0, pm2_env: { pm_out_log_path: join(cwd, 'shop.log') } }])
  const server = await startServe(t, cwd, [], pm2.env)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const run = (...words: string[]) => svc(['projects', 'pm2-logs', 'shop', ...words], { cwd, env })
  t.match(await run(), { code: 1, stdout: '', stderr: /not linked to a PM2 application/ })
  await server.changeProject(project.id, { pm2AppName: 'shop' })
  t.match(await run(), { code: 0, stdout: `shop.log  ${join(cwd, 'shop.log')}\n`, stderr: /Added 1 log source to/ })
  t.match(await run('--json'), { code: 0, stdout: /"items": \[\]/ })
})

const now = new Date(2026, 10, 21, 12, 0, 0).getTime()

t.test('understands durations and times', async t => {
  for (const [text, expected] of [
    ['90s', now - 90_000],
    ['10m', now - 600_000],
    ['2h', now - 7_200_000],
    ['1.5h', now - 5_400_000],
    ['1d', now - 86_400_000],
    ['1w', now - 604_800_000],
    ['08:30', new Date(2026, 10, 21, 8, 30).getTime()],
    ['08:30:15', new Date(2026, 10, 21, 8, 30, 15).getTime()],
    ['2026-11-20', new Date(2026, 10, 20).getTime()],
    ['2026-11-20T10:00', new Date(2026, 10, 20, 10).getTime()],
    ['2026-11-20 10:00', new Date(2026, 10, 20, 10).getTime()],
    ['2026-11-20T10:00:00Z', Date.UTC(2026, 10, 20, 10)],
    ['2026-11-20T10:00:00+02:00', Date.UTC(2026, 10, 20, 8)]
  ] as const) {
    t.equal(timeOption('--since', text, now), expected, text)
  }
})

t.test('refuses any other text', async t => {
  for (const text of [
    '',
    '10',
    'm',
    '-5m',
    '10 m',
    '1y',
    'yesterday',
    '25:00',
    '2026-13-01',
    '2026-11-21T99:00',
    '12'
  ]) {
    t.throws(() => timeOption('--since', text, now), { code: 'usage', message: /--since cannot be/ }, text)
  }
})

const all = { pattern: null, isRaw: false, least: undefined }
const { signal } = new AbortController()
const named = (id: string): NamedSource => ({
  source: {
    id,
    projectId: 'p1',
    label: id,
    filePath: `/${id}`,
    kind: 'plain',
    sortOrder: 0,
    createdAt: '',
    updatedAt: ''
  },
  name: id
})

/** A server with one file; windows are of 30 bytes whatever is asked for. */
function serverOf(text: string, times: Record<string, number> = {}) {
  const asked: LogSearchRequest[] = []
  let running = 0
  let most = 0
  const linesOf = (part: string): string[] => part.split('\n').slice(0, -1)
  const api: Pick<LogApi, 'window' | 'lines' | 'search'> = {
    async window(_id, query) {
      if (query['time'] !== undefined) return { startOffset: times[query['time']] ?? text.length } as never
      const end = Number(query['offset'])
      const start = end <= 30 ? 0 : text.indexOf('\n', end - 30) + 1
      return { startOffset: start, endOffset: end, lines: linesOf(text.slice(start, end)) } as never
    },
    async *lines(_id, { from, to }) {
      yield linesOf(text.slice(from, to))
    },
    async search(_id, request) {
      asked.push(request)
      most = Math.max(most, ++running)
      await new Promise(resolve => setTimeout(resolve, 1))
      running--
      return ['newest', 'older'].map(text => ({ offset: 0, text, before: [], after: [] }))
    }
  }
  const past = (needs: Partial<PastNeeds>) =>
    createPast({ api: api as LogApi, filter: all, sinceMs: undefined, count: 10, signal, ...needs })
  return { past, asked, most: () => most }
}

const text = Array.from({ length: 20 }, (_, index) => `line ${index}\n`).join('')

t.test('reads the last lines in as many windows as needed', async t => {
  const { past } = serverOf(text)
  const read = async (count: number, to = text.length) =>
    (await past({ count })(named('s1'), to)).map(line => line.text)
  t.same(await read(3), ['line 17', 'line 18', 'line 19'])
  t.same(
    await read(12),
    Array.from({ length: 12 }, (_, index) => `line ${index + 8}`)
  )
  t.same(
    await read(100),
    Array.from({ length: 20 }, (_, index) => `line ${index}`)
  )
  t.same(await read(2, text.indexOf('line 5')), ['line 3', 'line 4'], 'what was written before a byte')
  t.same(await read(0), [])
  t.same(await read(5, 0), [])
})

t.test('reads the lines since a time', async t => {
  const time = '2026-11-21T12:00:00.000Z'
  const { past } = serverOf(text, { [time]: text.indexOf('line 17') })
  const read = async (atMs: number) => (await past({ sinceMs: atMs })(named('s1'), text.length)).map(line => line.text)
  t.same(await read(Date.parse(time)), ['line 17', 'line 18', 'line 19'])
  t.same(await read(Date.parse(time) + 1), [], 'none was written then')
})

t.test('a line without a time has the time of the line before it, even if that line is filtered out', async t => {
  const { past } = serverOf('2026-11-21T12:00:00Z a\n  b\n')
  t.match(await past({ count: 1 })(named('s1'), 28), [{ text: '  b', timeMs: Date.parse('2026-11-21T12:00:00Z') }])
})

t.test('the server searches filtered sources, two at a time', async t => {
  const { past, asked, most } = serverOf(text)
  const pastOf = past({ filter: { pattern: /a.b/i, isRaw: false, least: 'warn' }, count: 7 })
  const found = await Promise.all(Array.from({ length: 9 }, (_, index) => pastOf(named(`s${index}`), 99)))
  t.same(
    found[8]?.map(line => line.text),
    ['older', 'newest']
  )
  t.equal(most(), 2)
  t.match(asked[0], { q: 'a.b', ignoresCase: true, level: 'warn', toOffset: 99, maxHits: 7 })
  await past({ filter: { pattern: null, isRaw: false, least: 'error' } })(named('s1'), 99)
  t.match(asked.at(-1), { q: '^', level: 'error' })
})

type Told = LogEvent | 'broken'

/** What is printed of a stream that tells this, of files that have these lines, each of two bytes. */
async function followed(told: readonly Told[], bytes = 'a\nb\nc\nd\ne\nf\n'): Promise<string[]> {
  const said: string[] = []
  const api: Pick<LogApi, 'follow' | 'lines'> = {
    async *follow(_id, { onBroken }) {
      for (const event of told) {
        if (event === 'broken') onBroken()
        else yield event
      }
    },
    async *lines(_id, { from, to }) {
      yield bytes.slice(from, to).split('\n').slice(0, -1)
    }
  }
  await followLog({
    api: api as LogApi,
    id: 's1',
    signal: new AbortController().signal,
    onBegin: async offset => void said.push(`past ${offset}`),
    onLines: async lines => void said.push(...lines),
    onNote: words => said.push(`(${words.split(/[:,]/)[0]})`)
  })
  return said
}

const snapshot = (offset: number, file = '1', lines: string[] = []): LogEvent => ({
  event: 'snapshot',
  place: { offset, file },
  lines,
  binary: false
})
const lines = (offset: number, ...words: string[]): LogEvent => ({
  event: 'lines',
  place: { offset, file: '1' },
  lines: words
})

t.test('reports new lines only; earlier lines are read by the caller', async t => {
  t.same(await followed([snapshot(4), lines(6, 'c'), lines(8, 'd')]), ['past 4', 'c', 'd'])
})

t.test('after a broken connection, exactly the missed lines are read', async t => {
  t.same(await followed([snapshot(2), lines(4, 'b'), 'broken', snapshot(8), lines(10, 'e')]), [
    'past 2',
    'b',
    '(the connection was lost)',
    'c',
    'd',
    'e'
  ])
  t.same(await followed([snapshot(2), 'broken', snapshot(2)]), ['past 2', '(the connection was lost)'])
})

t.test('reports a rotated file and reads it from its start', async t => {
  const note = '(the file was rotated meanwhile)'
  t.same(await followed([snapshot(8), 'broken', snapshot(4, '2')]), [
    'past 8',
    '(the connection was lost)',
    note,
    'a',
    'b'
  ])
  t.same(
    await followed([snapshot(8), 'broken', snapshot(2)]),
    ['past 8', '(the connection was lost)', note, 'a'],
    'truncated'
  )
})

t.test('a reported rotation is followed by the lines of the new file', async t => {
  t.same(
    await followed([
      snapshot(4),
      { event: 'rotated' },
      snapshot(2, '2', ['new']),
      { event: 'gap', bytes: 7 },
      { event: 'gap', bytes: 0 }
    ]),
    ['past 4', '(the file was rotated)', 'new', '(at least 7 bytes were lost here)', '(lines may have been lost here)']
  )
})

t.test('a missing file has no earlier lines and is read from its start when it appears', async t => {
  const missing: LogEvent = { event: 'error', message: 'It does not exist' }
  t.same(await followed([missing, snapshot(4)]), ['(It does not exist)', 'past 0', 'a', 'b'])
})
