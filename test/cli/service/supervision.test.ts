import t, { type Test } from 'tap'
import { EventEmitter, once } from 'node:events'
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { systemClock } from '../../../lib/base/clock.js'
import { runWith } from '../../../lib/cli/service/supervision.js'
import { createPm2, findPm2 } from '../../../lib/operate/pm2.js'
import { listenAsDaemon, realPm2 } from '../../support/pm2.js'
import { standIn } from '../../support/stand-in.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'
import type { Host } from '../../../lib/cli/terminal/output.js'

t.test(
  'without pm2 there is a hint',
  { skip: (await findPm2({ PATH: '' })) !== null && 'pm2 is installed on this machine' },
  async t => {
    for (const words of [
      ['serve', '--pm2'],
      ['serve', '--pm2', 'stop']
    ]) {
      t.match(await svc(words, { cwd: t.testdir({}), env: { PATH: '/nowhere' } }), {
        code: 1,
        stdout: '',
        stderr: /npm install -g pm2/
      })
    }
  }
)

t.test('"stop" is only accepted with --pm2', async t => {
  t.match(await svc(['serve', 'stop'], { cwd: t.testdir({}) }), { code: 2, stderr: /Unexpected argument "stop"/ })
  t.match(await svc(['serve', '--pm2', 'start'], { cwd: t.testdir({}) }), {
    code: 2,
    stderr: /Unexpected argument "start"/
  })
})

interface StandIn {
  cwd: string
  /** A command after which the list has these entries. */
  list(...entries: object[]): string
}

/** A pm2 that does as the test says: `start` runs a script, where "$logs" is the directory of the server's logs. */
function standInPm2(t: Test, start: (pm2: StandIn) => string) {
  const { daemon, directory } = listenAsDaemon(t)
  const cwd = t.testdir({ 'list.json': '[]', '.svc': { pm2: {} } })
  const logs = join(cwd, '.svc/pm2')
  writeFileSync(join(logs, 'out.log'), '')
  const list = (...entries: object[]): string => `echo '${JSON.stringify(entries)}' > '${cwd}/list.json'`
  const path = standIn(
    t,
    'pm2',
    `
    logs='${logs}'
    echo "$1" >> '${cwd}/asked'
    case "$1" in
      jlist) cat '${cwd}/list.json' ;;
      delete) ${list()} ;;
      start) ${start({ cwd, list })} ;;
    esac`
  )
  const asked = () => readFileSync(join(cwd, 'asked'), 'utf8').trim().split('\n')
  return {
    daemon,
    logs,
    asked,
    run: (...words: string[]) =>
      svc(['serve', '--pm2', ...words], { cwd, env: { PM2_HOME: directory, PATH: `${path}:${process.env['PATH']}` } })
  }
}

/** As `jlist` has it. */
const entryOf = (status: string, restarts: number) => ({
  name: 'svc-server',
  pm_id: 0,
  pm2_env: { status, restart_time: restarts }
})

t.test('serve --pm2 waits for the output of this start, not of an earlier one', async t => {
  const { logs, asked, run } = standInPm2(t, () => 'echo "svc listens on http://new/" >> "$logs/out.log"')
  writeFileSync(join(logs, 'out.log'), 'svc listens on http://old/\n')
  t.match(await run(), { code: 0, stdout: /^svc listens on http:\/\/new\/, under pm2/ })
  t.strictSame(asked(), ['jlist', 'start'], 'there was none to be deleted')
})

t.test('serve --pm2 gives up if pm2 gives up or restarts the server again and again', async t => {
  for (const entries of [[], [entryOf('errored', 0)], [entryOf('online', 2)]]) {
    const { run } = standInPm2(t, ({ list }) => `${list(...entries)}; echo 'it broke' >> "$logs/error.log"`)
    t.match(
      await run(),
      { code: 1, stderr: /did not start under pm2: it broke\n.*"svc serve --pm2 stop"/s },
      JSON.stringify(entries)
    )
  }
})

t.test('serve --pm2 continues to wait after one restart', async t => {
  const late = (cwd: string): string =>
    `(while [ "$(grep -c jlist '${cwd}/asked')" -lt 2 ]; do sleep 0.05; done; echo "svc listens on http://late/" >> "$logs/out.log") > /dev/null 2>&1 &`
  const { asked, run } = standInPm2(t, ({ cwd, list }) => `${list(entryOf('online', 1))}; ${late(cwd)}`)
  t.match(await run(), { code: 0, stdout: /http:\/\/late\// })
  t.match(await run('stop'), { code: 0, stdout: /Stopped svc-server/ })
  t.equal(asked().at(-1), 'delete')
  t.match(await run('stop'), { code: 0, stderr: /not running under pm2/ })
})

t.test('stopping starts no daemon of pm2', async t => {
  const { daemon, asked, run } = standInPm2(t, () => 'true')
  daemon.close()
  await once(daemon, 'close')
  t.match(await run('stop'), { code: 0, stderr: /not running under pm2/ })
  t.throws(asked, { code: 'ENOENT' }, 'pm2 was not run')
})

t.test('serve --pm2 quotes the error of pm2', async t => {
  const { run } = standInPm2(t, () => 'echo "no daemon"; exit 3')
  t.match(await run(), { code: 1, stderr: /"pm2 start .*" failed \(3\): no daemon/ })
})

const pm2 = await realPm2(t)

t.test('serve --pm2 with a real PM2', { skip: pm2 === null && 'npm could not install pm2' }, async t => {
  if (pm2 === null) return
  const cwd = t.testdir({ 'app.cjs': 'setInterval(() => {}, 1000)' })
  const run = (...words: string[]) => svc(words, { cwd, env: pm2.env })
  const files = join(cwd, '.svc/pm2')
  const list = () => createPm2({ clock: systemClock, environment: { ...process.env, ...pm2.env } })
  const server = async () => {
    const listing = await list().list()
    return listing.outcome === 'listed' ? listing.processes.filter(({ name }) => name === 'svc-server') : listing
  }

  t.test('starts the server and prints its URL', async t => {
    const { code, stdout, stderr } = await run('serve', '--pm2', '--port', '0', '--base', 'x')
    t.equal(code, 0, stderr)
    const url = /listens on (http:\S+),/.exec(stdout)?.[1] as string
    const token = /^Admin token: (\S+)$/m.exec(stdout)?.[1] as string
    t.equal((await fetch(`${url}api/health`)).status, 200)
    const asAdmin = { headers: { authorization: `Bearer ${token}` } }
    t.equal((await fetch(`${url}api/health/detail`, asAdmin)).status, 200)
    t.match(await (await fetch(`${url}api/pm2/apps`, asAdmin)).json(), {
      apps: [{ name: 'svc-server', status: 'online' }]
    })
    t.notMatch(readFileSync(join(files, 'out.log'), 'utf8'), token, 'the token is in no log')
    t.ok(existsSync(join(files, 'error.log')))
    t.equal(statSync(join(files, 'ecosystem.config.cjs')).mode & 0o077, 0)
    const { apps } = createRequire(import.meta.url)(join(files, 'ecosystem.config.cjs')) as { apps: object[] }
    t.match(apps, [
      { name: 'svc-server', exec_mode: 'fork', max_restarts: 5, min_uptime: '10s', out_file: join(files, 'out.log') }
    ])
    t.match(await server(), [{ status: 'online', execMode: 'fork_mode' }])
  })

  t.test('a second start deletes the old instance first', async t => {
    const [before] = (await server()) as Array<{ pid: number }>
    t.match(await run('serve', '--pm2', '--port', '0'), { code: 0 })
    const after = (await server()) as Array<{ pid: number }>
    t.equal(after.length, 1)
    t.not(after[0]?.pid, before?.pid)
  })

  t.test('ADMIN_TOKEN of the environment applies, and PM2 does not see it', async t => {
    const token = 'of-the-environment-0123456789'
    const { code, stdout } = await svc(['serve', '--pm2', '--port', '0'], {
      cwd,
      env: { ...pm2.env, ADMIN_TOKEN: token, SVC_TOKEN: token }
    })
    t.equal(code, 0)
    const url = /listens on (http:\S+),/.exec(stdout)?.[1] as string
    t.equal((await fetch(`${url}api/health/detail`, { headers: { authorization: `Bearer ${token}` } })).status, 200)
    t.notMatch(pm2.run('jlist').stdout, token)
    pm2.run('save')
    t.notMatch(readFileSync(join(pm2.env.PM2_HOME, 'dump.pm2'), 'utf8'), token)
    t.notMatch(readFileSync(join(files, 'ecosystem.config.cjs'), 'utf8'), token)
    t.match(await run('serve', '--pm2', '--port', '0'), { code: 0 })
    t.notMatch(readFileSync(join(cwd, '.svc/config.json'), 'utf8'), token, 'nor does svc keep it longer')
  })

  t.test('a cluster appears as one application', async t => {
    pm2.run('start', join(cwd, 'app.cjs'), '--name', 'shop', '-i', '2')
    const isOnline = async () => {
      const { processes = [] } = (await list().list()) as { processes?: Array<{ name: string; status: string }> }
      return processes.filter(({ name, status }) => name === 'shop' && status === 'online').length === 2
    }
    await until(isOnline)
    t.match(await list().binding('shop'), {
      bound: true,
      found: true,
      name: 'shop',
      status: 'online',
      execMode: 'cluster_mode',
      instances: 2,
      pid: Number,
      memoryBytes: Number,
      errorLogPath: /shop-error/,
      outLogPath: /shop-out/,
      createdAt: Number
    })
    t.same(await list().binding('gone'), { bound: true, found: false, name: 'gone' })
    pm2.run('stop', 'shop')
    t.match(await list().binding('shop'), { status: 'stopped', uptimeMs: 0, pid: null })
  })

  t.test('--pm2 stop removes the server, and a second stop succeeds', async t => {
    t.match(await run('serve', '--pm2', 'stop'), { code: 0, stdout: /Stopped svc-server/ })
    t.same(await server(), [])
    t.match(await run('serve', '--pm2', 'stop'), { code: 0, stderr: /not running under pm2/ })
  })

  t.test('a server that cannot start reports the reason', async t => {
    writeFileSync(join(cwd, '.svc/svc.db'), 'no database')
    const { code, stderr } = await run('serve', '--pm2', '--port', '0')
    t.equal(code, 1)
    t.match(stderr, /did not start under pm2: .*svc\.db/s)
  })
})

/** A `bun` that is this shell script, and the host that finds it. */
function hostWith(directory: string, script: string | null): Host & EventEmitter {
  const path = join(directory, 'bun')
  if (script !== null) {
    writeFileSync(path, `#!/bin/sh\n${script}\n`)
    chmodSync(path, 0o755)
  }
  const env = { PATH: `${directory}:/usr/bin:/bin`, HERE: directory }
  return Object.assign(new EventEmitter(), { env, stdin: { isTTY: false } }) as unknown as Host & EventEmitter
}

t.test('svc runs with the named runtime and returns its exit code', async t => {
  const directory = t.testdir({})
  const host = hostWith(directory, 'echo "$@" >"$HERE/words"; exit 7')
  t.equal(await runWith('bun', ['serve', '--port', '0'], host), 7)
  t.match(readFileSync(join(directory, 'words'), 'utf8'), /bin\/svc\.js serve --port 0\n$/)
  t.same(host.eventNames(), [], 'nobody listens for signals any more')
})

t.test('forwards signals', async t => {
  const directory = t.testdir({})
  const host = hostWith(directory, 'trap "exit 9" TERM; : >"$HERE/ready"; while :; do sleep 0.05; done')
  const code = runWith('bun', [], host)
  await until(() => {
    try {
      return readFileSync(join(directory, 'ready')) !== null
    } catch {
      return false
    }
  })
  host.emit('SIGTERM')
  t.equal(await code, 9)
})

t.test('refuses a missing runtime', async t => {
  const host = hostWith(t.testdir({}), null)
  host.env = { PATH: t.testdirName }
  await t.rejects(runWith('bun', [], host), { code: 'no_bun' })
})
