import t from 'tap'
import type { Test } from 'tap'
import { once } from 'node:events'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import {
  appsOf,
  bindingOf,
  commonPlaces,
  createPm2,
  findPm2,
  parseJlist,
  pm2Environment,
  type Pm2Process
} from '../../lib/operate/pm2.js'
import { setClock } from '../support/clock.js'
import { listenAsDaemon } from '../support/pm2.js'

const online: Pm2Process = {
  name: 'shop',
  pmId: 0,
  pid: 10,
  status: 'online',
  startedAtMs: 1000,
  restarts: 1,
  unstableRestarts: 0,
  cpuPercent: 1.1,
  memoryBytes: 100,
  execMode: 'cluster_mode',
  errorLogPath: '/e',
  outLogPath: '/o',
  createdAt: 500
}
const cluster = [
  { ...online, pmId: 2, pid: 12, startedAtMs: 4000, restarts: 3, cpuPercent: 2.2, memoryBytes: 50 },
  online,
  { ...online, name: 'other', pmId: 1, status: 'stopped', pid: null, startedAtMs: null }
]

t.test('shows a cluster as one application (§2.12)', async t => {
  t.same(bindingOf('shop', cluster, 11_000), {
    bound: true,
    found: true,
    name: 'shop',
    pmId: 0,
    pid: 10,
    status: 'online',
    uptimeMs: 10_000,
    restarts: 4,
    unstableRestarts: 0,
    cpuPercent: 3.3,
    memoryBytes: 150,
    execMode: 'cluster_mode',
    instances: 2,
    errorLogPath: '/e',
    outLogPath: '/o',
    createdAt: 500
  })
  t.match(bindingOf('other', cluster, 11_000), { status: 'stopped', uptimeMs: 0, pid: null, instances: 1 })
  t.same(bindingOf('missing', cluster, 11_000), { bound: true, found: false, name: 'missing' })
  t.same(appsOf(cluster), [
    { name: 'shop', pmId: 0, status: 'online' },
    { name: 'other', pmId: 1, status: 'stopped' }
  ])
  const [first, second] = cluster as [Pm2Process, Pm2Process]
  t.match(appsOf([first, { ...second, status: 'errored' }]), [{ status: 'errored' }], 'an errored instance is told')
})

/** A program in pm2's place, which counts its starts in `starts`. */
function standIn(t: Test, script: string, limitMs = 30_000) {
  const directory = t.testdir({ starts: '' })
  const program = join(directory, 'pm2')
  writeFileSync(program, `#!/bin/sh\necho x >> '${directory}/starts'\n${script}\n`)
  chmodSync(program, 0o755)
  const clock = setClock()
  const { daemon, directory: home } = listenAsDaemon(t)
  const environment = { PATH: process.env['PATH'], PM2_HOME: home }
  const pm2 = createPm2({ clock, environment, find: async () => program, limitMs })
  return { daemon, pm2, clock, starts: () => readFileSync(join(directory, 'starts'), 'utf8').length / 2 }
}

t.test('simultaneous calls share one child process, and its answer is cached for 1.5 s (§8)', async t => {
  const { pm2, clock, starts } = standIn(t, `sleep 0.1; echo '[{"name":"a","pm_id":0}]'; echo noise >&2`)
  const [first, second] = await Promise.all([pm2.list(), pm2.list(), pm2.apps()])
  t.equal(first, second)
  t.match(first, { outcome: 'listed', processes: [{ name: 'a' }] })
  clock.advance(1499)
  await pm2.list()
  t.equal(starts(), 1)
  clock.advance(1)
  await pm2.list()
  t.equal(starts(), 2)
})

t.test('reads a list that is longer than the limit of a line', async t => {
  const { pm2 } = standIn(
    t,
    `node -e 'process.stdout.write(JSON.stringify(Array.from({length: 40}, (_, i) => ({name: "a" + i, pm_id: i, pm2_env: {x: "é".repeat(20000)}}))))'`
  )
  t.equal((await pm2.apps()).apps.length, 40)
})

t.test('reports each failure of pm2 and never hangs', async t => {
  const cases: Array<[script: string, message: RegExp, limitMs?: number]> = [
    ['sleep 60', /did not answer within 1 s/, 1_000],
    ['exit 3', /ended with exit code 3/],
    ['echo nothing', /printed no list/],
    ['exec yes', /printed more than|did not answer/, 1_000]
  ]
  for (const [script, message, limitMs] of cases) {
    const { pm2, clock, starts } = standIn(t, script, limitMs)
    t.match(await pm2.list(), { outcome: 'failed', message }, script)
    t.match(await pm2.apps(), { apps: [], reason: 'failed', message })
    t.match(await pm2.binding('shop'), { bound: true, found: null, name: 'shop', reason: 'failed', message })
    t.equal(starts(), 1, 'a failure is kept as well')
    clock.advance(2000)
  }
})

t.test('looking starts no daemon: without one, pm2 is not run', async t => {
  const { pm2, daemon, starts } = standIn(t, `echo '[]'`)
  daemon.close()
  await once(daemon, 'close')
  t.match(await pm2.list(), { outcome: 'idle', message: /^The PM2 daemon of this user is not running/ })
  t.match(await pm2.apps(), { apps: [], reason: 'idle', message: /not running/ })
  t.match(await pm2.available(), { available: false, reason: 'idle', message: /not running/ })
  const unknown = { bound: true, found: null, name: 'shop', reason: 'idle', message: /not running/ }
  t.match(await pm2.binding('shop'), unknown)
  t.equal(starts(), 0)
})

t.test('reports a missing pm2 and a project without an application', async t => {
  const pm2 = createPm2({ clock: setClock(), environment: {}, find: async () => null })
  t.match(await pm2.binding('shop'), { bound: false, message: /npm install -g pm2/ })
  t.match(await pm2.binding(null), { bound: false, message: /not linked/ })
  t.equal((await pm2.list()).outcome, 'missing')
})

const shop = {
  name: 'shop',
  pm_id: 3,
  pid: 1234,
  monit: { memory: 1000, cpu: 1.5 },
  pm2_env: {
    status: 'online',
    pm_uptime: 5000,
    restart_time: 2,
    unstable_restarts: 1,
    exec_mode: 'fork_mode',
    created_at: 4000,
    pm_err_log_path: '/e',
    pm_out_log_path: '/o',
    SECRET: 'never "]" told',
    args: ['[', '{']
  }
}
const read = {
  name: 'shop',
  pmId: 3,
  pid: 1234,
  status: 'online',
  startedAtMs: 5000,
  restarts: 2,
  unstableRestarts: 1,
  cpuPercent: 1.5,
  memoryBytes: 1000,
  execMode: 'fork_mode',
  errorLogPath: '/e',
  outLogPath: '/o',
  createdAt: 4000
}
const json = JSON.stringify([shop])

t.test('finds the list in the output of pm2', async t => {
  const cases: Array<[what: string, text: string, expected: unknown]> = [
    ['nothing else', json, [read]],
    ['nothing runs', '[]', []],
    [
      'the daemon was started',
      `[PM2] Spawning PM2 daemon with pm2_home=/x\n[PM2] PM2 Successfully daemonized\n${json}`,
      [read]
    ],
    ['the daemon is out of date', `>>>> In-memory PM2 is out-of-date, do:\n>>>> $ pm2 update\n${json}`, [read]],
    ['noise without a line end', `[PM2][WARN] x${json}`, [read]],
    ['noise after it', `${json}\n[PM2] done []\n[]`, [read]],
    ['other arrays before it', `[1] [{"a":1}] [] ${json}`, [read]],
    ['several lines', JSON.stringify([shop], null, 2), [read]],
    ['cut off', json.slice(0, -5), null],
    ['no list', 'command not found', null],
    ['nothing', '', null]
  ]
  for (const [what, text, expected] of cases) t.same(parseJlist(text), expected, what)
})

t.test('reads an entry with missing fields', async t => {
  t.match(parseJlist('[{"name":"x","pm_id":0}]'), [
    { name: 'x', pmId: 0, pid: null, status: 'unknown', memoryBytes: 0 }
  ])
  t.match(parseJlist('[{"name":"x","pm_id":0,"pid":0,"pm2_env":{"status":"stopped","pm_uptime":9}}]'), [
    { pid: null, startedAtMs: null }
  ])
})

t.test('gives up on many unclosed brackets instead of reading the text for each of them', async t => {
  t.equal(parseJlist('[{'.repeat(200_000)), null)
})

t.test('searches pm2 on PATH, then in common directories', async t => {
  const root = t.testdir({ path: { pm2: '' }, place: { pm2: '' }, folder: { pm2: {} }, plain: { pm2: '' } })
  for (const name of ['path', 'place']) chmodSync(join(root, name, 'pm2'), 0o755)
  chmodSync(join(root, 'plain/pm2'), 0o644)
  const find = (path: string[], places: string[]) =>
    findPm2(
      { PATH: path.map(name => join(root, name)).join(delimiter) },
      places.map(name => join(root, name))
    )
  t.equal(await find(['path'], ['place']), join(root, 'path/pm2'))
  t.equal(await find(['nowhere'], ['place']), join(root, 'place/pm2'))
  t.equal(
    await find(['folder', 'plain'], ['place']),
    join(root, 'place/pm2'),
    'neither a directory nor a file that cannot be run'
  )
  t.equal(await find([], []), null)
})

t.test('the common directories are those of npm, pnpm and others', async t => {
  const places = commonPlaces({ HOME: '/home/x', NPM_CONFIG_PREFIX: '/opt/npm', NVM_BIN: '/nvm/bin' })
  for (const place of ['/usr/local/bin', '/opt/homebrew/bin', '/home/x/.npm-global/bin', '/opt/npm/bin', '/nvm/bin']) {
    t.ok(places.includes(place), place)
  }
})

t.test('pm2 gets no secret of the server, and a PATH with Node', async t => {
  const environment = pm2Environment({ PATH: '/bin', ADMIN_TOKEN: 'x', SVC_TOKEN: 'y', PM2_HOME: '/pm2' })
  t.match(environment, { PM2_HOME: '/pm2', PATH: /^\/bin.+/ })
  t.notOk('ADMIN_TOKEN' in environment || 'SVC_TOKEN' in environment)
})
