import t, { type Test } from 'tap'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { findIdentity, maySwitchUser, withRights } from '../../../lib/core/proc/identity.js'
import {
  killProcess,
  knownProcess,
  type KnownProcess,
  type Marker,
  membersOf,
  stopProcesses
} from '../../../lib/core/proc/stop.js'
import { isRunning } from '../../support/processes.js'

const skip = !existsSync('/proc/self/environ') && 'there is no /proc'
const graceMs = 300

/** A shell that leads its own group, with its own marker. It has printed `lines` lines, the numbers of processes. */
async function begin(t: Test, script: string, lines: number) {
  const marker: Marker = { name: 'SVC_SCRIPT', value: `dep_${t.name}:preDeploy` }
  const env = { PATH: process.env['PATH'], [marker.name]: marker.value }
  const child: ChildProcess = spawn('sh', ['-c', script], { detached: true, env, stdio: ['ignore', 'pipe', 'ignore'] })
  let said = ''
  child.stdout?.on('data', (text: Buffer) => (said += text.toString()))
  while (said.split('\n').length <= lines) await once(child.stdout as NodeJS.ReadableStream, 'data')
  const pids = said.trim().split('\n').map(Number)
  t.teardown(() => child.stdout?.destroy())
  t.teardown(() => [child.pid as number, ...pids].filter(isRunning).forEach(pid => process.kill(pid, 'SIGKILL')))
  return { group: child.pid as number, pids, marker }
}

t.test('stops the group, and the processes that have left it', { skip }, async t => {
  const { group, pids, marker } = await begin(t, "sleep 60 & echo $!; setsid sh -c 'echo $$; exec sleep 60' & wait", 2)
  t.strictSame(await stopProcesses({ group, marker, graceMs }), { endedCount: 3, left: [], isPartial: false })
  t.strictSame([group, ...pids].filter(isRunning), [])
})

t.test('stops only the group if there is no marker', { skip }, async t => {
  const { group, pids } = await begin(t, "setsid sh -c 'echo $$; exec sleep 60' & wait", 1)
  t.match(await stopProcesses({ group, graceMs }), { endedCount: 1, left: [] })
  t.strictSame([group, ...pids].filter(isRunning), pids)
})

t.test('stops only the processes with the marker if there is no group', { skip }, async t => {
  const { group, marker } = await begin(t, 'echo $$; exec sleep 60', 1)
  for (const value of [marker.value.slice(0, -1), `${marker.value}x`, marker.value.slice(1)]) {
    t.match(await stopProcesses({ group: null, marker: { ...marker, value }, graceMs }), { endedCount: 0 }, value)
  }
  t.ok(isRunning(group))
  t.match(await stopProcesses({ group: null, marker, graceMs }), { endedCount: 1 })
  t.notOk(isRunning(group))
})

t.test('stops processes that ignore SIGTERM, and one that forks repeatedly', { skip }, async t => {
  // Each lives for a moment, in a session of its own, and starts the next one.
  const endless =
    'trap "" TERM; SELF=\'trap "" TERM; sleep 0.01; setsid sh -c "$SELF" & exit\'; export SELF; echo $$; setsid sh -c "$SELF" & wait'
  const { group, marker } = await begin(t, endless, 1)
  t.match(await stopProcesses({ group, marker, graceMs }), { left: [] })
  t.match(await stopProcesses({ group: null, marker, graceMs }), { endedCount: 0 }, 'none is left')
})

t.test('a handler of SIGTERM can start processes to clean up, within the grace period', { skip }, async t => {
  const directory = t.testdir({})
  const { group, marker } = await begin(
    t,
    `trap 'sh -c "sleep 0.1; setsid sleep 0.1; echo done > ${directory}/done"; exit' TERM; echo $$; while :; do sleep 0.02; done`,
    1
  )
  await stopProcesses({ group, marker, graceMs: 60_000 })
  t.ok(existsSync(`${directory}/done`))
})

t.test('kills one process by its number and start time', { skip }, async t => {
  const { group } = await begin(t, 'trap "" TERM; echo $$; while :; do sleep 0.02; done', 1)
  const known = knownProcess(group) as KnownProcess
  const expected = { uids: [process.getuid?.() ?? 0], program: '-c' }
  await killProcess({ ...known, startedAt: '7' }, expected)
  await killProcess(known, { ...expected, uids: [65534] })
  await killProcess(known, { ...expected, program: 'another' })
  t.ok(isRunning(group), 'another process has the number, it is of another user, or another program')
  await killProcess(known, expected)
  t.notOk(isRunning(group))
  await killProcess(known, expected)
})

t.test('never stops this process or its ancestors', { skip }, async t => {
  const module = new URL('../../../lib/core/proc/stop.js', import.meta.url).href
  const program = `import { stopProcesses } from '${module}'
    const marker = { name: 'SVC_SCRIPT', value: 'dep_self:preDeploy' }
    const stopped = await stopProcesses({ group: process.ppid, marker, graceMs: 50 })
    console.log(JSON.stringify(stopped))`
  const env = { PATH: process.env['PATH'], SVC_SCRIPT: 'dep_self:preDeploy' }
  // As if a script restarts svc: the shell leads the group to be stopped, and svc belongs to it.
  const words = ['-c', 'sleep 60 & "$0" --input-type=module -e "$1"; echo lives', process.execPath, program]
  const shell = spawn('sh', words, { detached: true, env, stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  shell.stdout.on('data', (text: Buffer) => (said += text.toString()))
  await once(shell, 'close')
  t.equal(said, '{"endedCount":1,"left":[],"isPartial":false}\nlives\n')
})

t.test(
  'reports it if the system hides environments from root',
  { skip: skip || (!maySwitchUser() && 'this is not root') },
  async t => {
    const rights = { identity: await findIdentity('nobody'), umask: null }
    const marker = { name: 'SVC_SCRIPT', value: 'dep_hidden:preDeploy' }
    const [program = '', ...words] = withRights(['sleep', '60'], rights, '/')
    const env = { PATH: process.env['PATH'], [marker.name]: marker.value }
    const hidden = spawn(program, words, { detached: true, env, stdio: 'ignore' })
    t.teardown(() => hidden.kill('SIGKILL'))
    while (!readFileSync(`/proc/${hidden.pid}/cmdline`, 'latin1').startsWith('sleep')) await turn()
    const module = new URL('../../../lib/core/proc/stop.js', import.meta.url).href
    const look = `import { stopProcesses } from '${module}'
    console.log(JSON.stringify(await stopProcesses({ group: null, marker: ${JSON.stringify(marker)}, graceMs: 50 })))`
    const ask = [
      'setpriv',
      '--bounding-set=-all',
      '--inh-caps=-all',
      process.execPath,
      '--input-type=module',
      '-e',
      look
    ] as const
    t.equal(
      spawnSync(ask[0], ask.slice(1), { encoding: 'utf8' }).stdout,
      '{"endedCount":0,"left":[],"isPartial":true}\n'
    )
    t.match(await stopProcesses({ group: null, marker, graceMs: 50 }), { endedCount: 1, isPartial: false })
  }
)

t.test(
  'a session contains its leader, and jobs in groups of their own',
  { skip: !existsSync('/proc/self/stat') && 'there is no /proc' },
  async t => {
    // `set -m` gives each job a process group.
    const shell = spawn('sh', ['-c', 'set -m; sleep 1000 & echo $!; wait'], {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore']
    })
    t.teardown(() => membersOf(shell.pid as number).forEach(pid => process.kill(pid, 'SIGKILL')))
    const [line] = await once(shell.stdout, 'data')
    t.same(membersOf(shell.pid as number).sort(), [shell.pid, Number(line)].sort())
    t.notOk(membersOf(shell.pid as number).includes(process.pid), 'this process is in another session')
  }
)

t.test('a session that does not exist is empty', async t => {
  t.same(membersOf(2 ** 30), [])
})
