import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { formOf } from '../support/client.js'
import { setClock, type SetClock } from '../support/clock.js'
import { holdIntervals } from '../support/intervals.js'
import { startReceiver } from '../support/receiver.js'
import { adminToken, startServer, type Stage, type StageOptions } from '../support/server.js'
import { openStream } from '../support/sse.js'
import { standIn } from '../support/stand-in.js'
import { svc } from '../support/svc.js'
import { zipOf } from '../support/zip.js'

/** The rows of section 8 of the specification. Each needs a test below. */
const limits = [
  'file preview size',
  'log source batch',
  'range window size',
  'stream tailLines',
  'stream batching, keep-alive, fallback poll',
  'search maxHits',
  'search context',
  'login / token-change failures',
  'webhook',
  'PM2 status cache',
  'new admin token',
  'admin token policy',
  'status --limit',
  'pm2 restart policy',
  'telemetry timeout',
  'upload size'
] as const

/** Tests of each limit at its value and beyond it. */
interface Row {
  limit: (typeof limits)[number]
  /** Rows that wait for real seconds run in parallel. */
  takesSeconds?: true
  options?(t: Test): StageOptions
  /** Requests in order, with the expected answers. */
  asks(stage: Stage, clock: SetClock, t: Test): AsyncGenerator<[what: string, actual: unknown, expected: unknown]>
}

const mebibyte = 1024 * 1024

const rows: Row[] = [
  {
    limit: 'file preview size',
    async *asks({ client, createProject, sites }) {
      const { id } = await createProject('shop')
      mkdirSync(join(sites, 'shop'), { recursive: true })
      for (const [name, bytes] of [
        ['at', mebibyte],
        ['over', mebibyte + 1]
      ] as const) {
        writeFileSync(join(sites, 'shop', `${name}.txt`), 'x'.repeat(bytes))
      }
      const preview = async (name: string) => (await client.get(`/api/projects/${id}/file?path=${name}.txt`)).body
      yield ['at 1 MB', (await preview('at')).type, 'text']
      const { type, size, content } = await preview('over')
      yield ['over it', { type, size, content }, { type: 'binary', size: mebibyte + 1, content: undefined }]
    }
  },
  {
    limit: 'log source batch',
    async *asks({ client, createProject, sites }) {
      const { id } = await createProject('shop')
      const add = async (count: number) => {
        const items = Array.from({ length: count }, () => ({ filePath: join(sites, 'app.log') }))
        return (await client.post(`/api/projects/${id}/log-sources`, { items })).status
      }
      yield ['51', await add(51), 400]
      yield ['none of them is there', (await client.get(`/api/projects/${id}/log-sources`)).body.items.length, 0]
      yield ['50', await add(50), 200]
      yield ['none', await add(0), 400]
    }
  },
  {
    limit: 'range window size',
    async *asks(stage) {
      const source = await addLog(stage, 'a line of 16 by\n'.repeat(131_072))
      const read = async (query: string) => {
        const { startOffset, endOffset } = (await stage.client.get(`${source}/range${query}`)).body
        return endOffset - startOffset
      }
      yield ['by itself', await read(''), 65_536]
      yield ['at the maximum', await read('?size=1048576'), 1_048_576]
      yield ['above it', await read('?size=1048592'), 1_048_576]
      yield ['below it', await read('?size=16'), 16]
    }
  },
  {
    limit: 'stream tailLines',
    async *asks(stage) {
      const source = await addLog(stage, 'line\n'.repeat(6000))
      const tail = async (query: string) => {
        const stream = await openStream(stage.client, `${source}/stream${query}`)
        const { lines } = (await stream.next('snapshot', 20_000)).data
        stream.close()
        return lines.length
      }
      yield ['by itself', await tail(''), 200]
      yield ['at the maximum', await tail('?tailLines=5000'), 5000]
      yield ['above it', await tail('?tailLines=5001'), 5000]
    }
  },
  {
    limit: 'stream batching, keep-alive, fallback poll',
    async *asks(stage, _clock, t) {
      const keepAlive = holdIntervals(t, 15_000)
      const poll = holdIntervals(t, 1_500)
      const source = await addLog(stage, 'one\n')
      const path = join(stage.sites, 'app.log')
      const stream = await openStream(stage.client, `${source}/stream`)
      await stream.next('snapshot', 20_000)

      const fromMs = performance.now()
      appendFileSync(path, 'two\n')
      yield ['the first line of a quiet file', (await stream.next('lines', 20_000)).data, { lines: ['two'] }]
      appendFileSync(path, 'three\nfour\n')
      const batch = await stream.next('lines', 20_000)
      yield ['those after it, together', batch.data, { lines: ['three', 'four'] }]
      // Timers of Node may fire a millisecond early.
      yield ['and 500 ms later', batch.atMs - fromMs >= 499, true]

      yield ['sends no sign of life before 15 s', stream.comments.includes(':keep-alive'), false]
      keepAlive.pass()
      while (!stream.comments.includes(':keep-alive')) await stream.changed()
      yield ['sends :keep-alive then', stream.comments.at(-1), ':keep-alive']
      stream.close()

      // A missing directory cannot be watched, so only polling finds the file.
      const later = join(stage.sites, 'later', 'app.log')
      const other = await openStream(stage.client, `${await addLog(stage, null, later)}/stream`)
      await other.next('error', 20_000)
      // The first checks of the watcher and of the stream: one call each, alternating with these.
      for (let looks = 0; looks < 50; looks++) await stat(stage.sites)
      mkdirSync(join(stage.sites, 'later'))
      writeFileSync(later, 'here\n')
      await stage.client.get('/api/health')
      yield ['nothing is sent before the poll', other.events.length, 1]
      yield ['one poll for all', poll.count(), 1]
      poll.pass()
      yield ['after 1.5 s', (await other.next('snapshot', 20_000)).data.lines, ['here']]
      other.close()
    }
  },
  {
    limit: 'search maxHits',
    async *asks(stage) {
      const source = await addLog(stage, 'hit\n'.repeat(5002))
      const search = async (query: string) => {
        const events = await searched(stage, `${source}/search?q=hit&context=0${query}`)
        const truncated = events.find(({ event }) => event === 'truncated')
        return { hits: events.filter(({ event }) => event === 'hit').length, truncated: truncated?.data }
      }
      yield ['by itself', await search(''), { hits: 500, truncated: { maxHits: 500 } }]
      yield ['at the maximum', await search('&maxHits=5000'), { hits: 5000, truncated: { maxHits: 5000 } }]
      yield ['above it', await search('&maxHits=5001'), { hits: 5000, truncated: { maxHits: 5000 } }]
    }
  },
  {
    limit: 'search context',
    async *asks(stage) {
      const source = await addLog(stage, `${'line\n'.repeat(30)}hit\n${'line\n'.repeat(30)}`)
      const search = async (query: string) => {
        const [hit] = await searched(stage, `${source}/search?q=hit${query}`)
        return [hit?.data.before.length, hit?.data.after.length]
      }
      yield ['by itself', await search(''), [2, 2]]
      yield ['none', await search('&context=0'), [0, 0]]
      yield ['at the maximum', await search('&context=20'), [20, 20]]
      yield ['above it', await search('&context=21'), [20, 20]]
    }
  },
  {
    limit: 'login / token-change failures',
    async *asks({ as, server }, clock) {
      const login = async (token: string) => (await as(null).post('/api/auth/login', { token })).status
      const right = server.adminToken.current()
      for (let i = 1; i <= 7; i++) yield [`failure ${i}`, await login('wrong'), 401]
      clock.advance(10 * 60_000)
      for (let i = 1; i <= 8; i++) yield [`failure ${i}, ten minutes later`, await login('wrong'), 401]
      yield ['locked', await login(right), 429]
      clock.advance(5 * 60_000 - 1000)
      yield ['still', await login(right), 429]
      clock.advance(1000)
      yield ['no more', await login(right), 200]
    }
  },
  {
    limit: 'webhook',
    takesSeconds: true,
    async *asks({ client }, _clock, t) {
      const receiver = await startReceiver(t)
      receiver.behave('hang', 500)
      await client.put('/api/settings', { webhook_url: receiver.url })
      const { body } = await client.post('/api/settings/webhook-test')
      yield ['2 attempts, the first without an answer', body, { ...body, success: false, statusCode: 500, attempts: 2 }]
      yield ['that one took 5 s', body.durationMs >= 4_999, true]
      yield ['no third', receiver.requests.length, 2]
    }
  },
  {
    limit: 'PM2 status cache',
    options: t => {
      const pm2 = standIn(t, 'pm2', 'echo x >> "$0.calls"; echo "[]"')
      const home = mkdtempSync(join(tmpdir(), 'svc-pm2-'))
      const daemon = createServer().listen(join(home, 'rpc.sock'))
      t.teardown(() => {
        daemon.close()
        rmSync(home, { recursive: true, force: true })
      })
      return { environment: { PATH: `${pm2}:${process.env['PATH']}`, PM2_HOME: home } }
    },
    async *asks({ client, environment }, clock) {
      const calls = join((environment['PATH'] as string).split(':')[0] as string, 'pm2.calls')
      const ask = async () => {
        await client.get('/api/pm2/apps')
        return readFileSync(calls, 'utf8').length / 2
      }
      yield ['asked', await ask(), 1]
      clock.advance(1_499)
      yield ['1.499 s later', await ask(), 1]
      clock.advance(1)
      yield ['1.5 s later', await ask(), 2]
    }
  },
  {
    limit: 'new admin token',
    async *asks({ client, as, server }) {
      const change = (oldToken: string, newToken: string) =>
        as(oldToken).post('/api/settings/token', { oldToken, newToken })
      const token = server.adminToken.current()
      yield ['7', (await change(token, '1234567')).status, 400]
      yield ['8', (await change(token, '12345678')).status, 200]
      yield ['the old token is not valid', (await client.get('/api/projects')).status, 401]
    }
  },
  {
    limit: 'admin token policy',
    async *asks({ sites, told, restart }) {
      const warning = async (token: string) => {
        writeFileSync(join(sites, '../.env.local'), `ADMIN_TOKEN=${token}\n`)
        told.warn.length = 0
        await restart()
        return told.warn.find(line => line.includes('token is weak'))?.replace(/.*weak: /, '') ?? 'none'
      }
      yield ['24 characters, 8 of them distinct', await warning('abcdefg1abcdefg1abcdefg1'), 'none']
      yield ['23', await warning('abcdefg1abcdefg1abcdefg'), 'it has 23 characters; at least 24 are required']
      yield [
        '7 distinct',
        await warning('abcdef1abcdef1abcdef1abc'),
        'it has 7 different characters; at least 8 are required'
      ]
      yield ['no digit', await warning('abcdefghabcdefghabcdefgh'), 'it contains no digit']
      yield ['no letter', await warning('123456781234567812345678'), 'it contains no letter']
    }
  },
  {
    limit: 'status --limit',
    async *asks(stage) {
      await importDeployments(stage, 51)
      const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
      const status = (...words: string[]) => svc(['status', 'proj_many', '--json', ...words], { cwd: stage.sites, env })
      const shown = async (...words: string[]) => JSON.parse((await status(...words)).stdout).deployments.length
      yield ['by itself', await shown(), 5]
      yield ['at the maximum', await shown('--limit', '50'), 50]
      yield ['above it', (await status('--limit', '51')).code, 2]
    }
  },
  {
    limit: 'pm2 restart policy',
    async *asks({ sites }, _clock, t) {
      const home = join(sites, 'home')
      const list = JSON.stringify([{ name: 'svc-server', pm_id: 0, pm2_env: { status: 'online' } }])
      const bin = standIn(
        t,
        'pm2',
        `case $1 in jlist) echo '${list}' ;; start) echo 'svc listens on http://127.0.0.1/' >> '${home}/pm2/out.log' ;; esac`
      )
      const { code } = await svc(['serve', '--pm2'], {
        cwd: sites,
        env: { SVC_HOME: home, PATH: `${bin}:${process.env['PATH']}` }
      })
      yield ['it started', code, 0]
      const { apps } = createRequire(import.meta.url)(join(home, 'pm2/ecosystem.config.cjs'))
      yield ['restarts', apps[0].max_restarts, 5]
      yield ['uptime', apps[0].min_uptime, '10s']
    }
  },
  {
    limit: 'telemetry timeout',
    takesSeconds: true,
    async *asks({ client, home, restart }, _clock, t) {
      const receiver = await startReceiver(t)
      receiver.behave('hang')
      writeFileSync(home.configFile, JSON.stringify({ telemetryEndpoint: receiver.url }))
      const fromMs = performance.now()
      await restart()
      const [report] = await receiver.received(1)
      yield ['the server goes on meanwhile', (await client.get('/api/health')).status, 200]
      await report?.closed
      yield ['given up after 3 s', performance.now() - fromMs >= 2_999, true]
    }
  },
  {
    limit: 'upload size',
    async *asks({ client, as, createProject }) {
      const project = await createProject('shop')
      await client.put('/api/settings', { max_upload_size: '1' })
      const upload = async (contentBytes: number) => {
        const file = { filename: 'a.zip', bytes: await zipOf({ 'a.bin': randomBytes(contentBytes) }) }
        return (
          await as(project.token).upload([
            ['projectId', project.id],
            ['file', file]
          ])
        ).status
      }
      yield ['almost 1 MB', await upload(mebibyte - 4096), 200]
      yield ['more', await upload(mebibyte + 64 * 1024), 413]
      await client.put('/api/settings', { max_upload_size: '2' })
      yield ['what the setting allows now', await upload(mebibyte + 64 * 1024), 200]
    }
  }
]

async function check(t: Test, { asks, options = () => ({}) }: Row): Promise<void> {
  const clock = setClock(Date.now())
  for await (const [what, actual, expected] of asks(await startServer(t, { clock, ...options(t) }), clock, t))
    t.same(actual, expected, what)
}

/** Returns the URL of a log source of a new project. */
async function addLog(
  { client, createProject, sites }: Stage,
  text: string | null,
  path = join(sites, 'app.log')
): Promise<string> {
  if (text !== null) writeFileSync(path, text)
  const { id } = await createProject(`project-${existsSync(path)}`)
  const { body } = await client.post(`/api/projects/${id}/log-sources`, { items: [{ filePath: path }] })
  return `/api/log-sources/${body.items[0].id}`
}

async function searched({ client }: Stage, path: string) {
  const stream = await openStream(client, path)
  await stream.ended
  return stream.events
}

/** Imports a project `proj_many` with this number of deployments. */
async function importDeployments({ client, sites }: Stage, count: number): Promise<void> {
  const records = Array.from({ length: count }, (_, n) => {
    return { id: `dep_${n}`, projectId: 'proj_many', status: 'success', startTime: new Date(n * 1000).toISOString() }
  })
  const bytes = await zipOf({
    'svc-export/manifest.json': '{"schemaVersion":1}',
    'svc-export/projects.json': JSON.stringify([{ id: 'proj_many', name: 'Many', deployPath: join(sites, 'many') }]),
    'svc-export/deployments.json': JSON.stringify(records)
  })
  const { contentType, body } = formOf([['file', { filename: 'package.zip', bytes }]])
  const { status, text } = await client.send('POST', '/api/migration/import', {
    headers: { 'content-type': contentType },
    body
  })
  if (status !== 200) throw new Error(text)
}

void t.test('§8', { jobs: 2 }, async t => {
  const run = (title: string, chosen: Row[], jobs: number): void => {
    void t.test(title, { jobs }, async t => {
      for (const row of chosen) void t.test(row.limit, t => check(t, row))
    })
  }
  run(
    'what takes its seconds, side by side',
    rows.filter(({ takesSeconds }) => takesSeconds),
    rows.length
  )
  run(
    'the others, one after the other',
    rows.filter(({ takesSeconds }) => !takesSeconds),
    1
  )
})

t.test('every row of §8 has a test', async t => {
  t.same(
    rows.map(({ limit }) => limit),
    limits
  )
})
