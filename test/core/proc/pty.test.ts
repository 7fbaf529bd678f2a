import t, { type Test } from 'tap'
import { spawnSync } from 'node:child_process'
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { runHelper } from '../../../lib/core/proc/helper.js'
import { findIdentity, maySwitchUser } from '../../../lib/core/proc/identity.js'
import {
  createPtyInput,
  createPtyLoader,
  type Pty,
  type PtyOptions,
  type PtyStream,
  readPty
} from '../../../lib/core/proc/pty.js'
import { runProcess, scriptCommand } from '../../../lib/core/proc/run.js'
import type { Job } from '../../support/helper-fixture.js'
import { isRunning } from '../../support/processes.js'
import { until } from '../../support/until.js'

const module = await createPtyLoader()()
const skip = module.outcome === 'loaded' ? false : module.reason

function start(
  command: PtyOptions['command'],
  options: Partial<PtyOptions> = {}
): { pty: Pty; said: () => string; sees: (pattern: RegExp) => Promise<void> } {
  if (module.outcome !== 'loaded') throw new Error(module.reason)
  const env = { PATH: process.env['PATH'], TERM: 'xterm-256color', LANG: 'C.UTF-8' }
  const pty = module.spawn({ command, cwd: '/', env, cols: 80, rows: 24, ...options })
  const texts: string[] = []
  let wake = (): void => {}
  pty.onData(text => {
    texts.push(text)
    wake()
  })
  t.teardown(() => pty.end())
  const said = (): string => texts.join('')
  return {
    pty,
    said,
    async sees(pattern) {
      while (!pattern.test(said())) await new Promise<void>(resolve => (wake = resolve))
    }
  }
}

t.test('says how to install node-pty if it is missing', async t => {
  const absent = await createPtyLoader(() => import('node-' + 'pty-that-nobody-has'))()
  t.match(absent, { outcome: 'missing', reason: /npm install node-pty/ })
  const broken = await createPtyLoader(() =>
    Promise.reject(new Error('Failed to load native module: pty.node\nstack'))
  )()
  t.match(broken, {
    outcome: 'missing',
    reason: /\(Failed to load native module: pty.node\)\. Run "npm run install" in node_modules\/node-pty/
  })
  let loads = 0
  const load = createPtyLoader(async () => {
    loads++
    throw new Error('none')
  })
  await Promise.all([load(), load()])
  t.equal(loads, 1)
})

t.test('runs a program on its own terminal', { skip }, async t => {
  const { pty, said } = start(['sh', '-c', 'tty; stty size; echo "$TERM $ONE"; pwd; exit 3'], {
    cols: 132,
    rows: 43,
    cwd: '/tmp',
    env: { PATH: process.env['PATH'], TERM: 'xterm-256color', ONE: '1', TWO: undefined }
  })
  t.same(await pty.ended, { exitCode: 3, signal: null })
  t.match(said(), /^\/dev\/\S+\r\n43 132\r\nxterm-256color 1\r\n\/tmp\r\n$/)
  t.equal(pty.write('nobody'), true, 'later input is dropped')
  pty.resize({ cols: 1, rows: 1 })
})

t.test('sets UTF-8 in the kernel, and never cuts a character', { skip }, async t => {
  const { pty, said } = start([
    'sh',
    '-c',
    'stty -a | grep -o -- "-*iutf8"; i=0; while [ $i -lt 3000 ]; do printf "€😀é"; i=$((i+1)); done'
  ])
  await pty.ended
  t.equal(said(), `iutf8\r\n${'€😀é'.repeat(3000)}`)
})

t.test('reports a signal by its name', { skip }, async t => {
  const { pty } = start(['sh', '-c', 'kill -9 $$'])
  t.same(await pty.ended, { exitCode: null, signal: 'SIGKILL' })
})

t.test('blocks in a write while paused, and keeps all its output, however late it is read', { skip }, async t => {
  const directory = t.testdir({})
  const done = join(directory, 'done')
  const { pty, said, sees } = start(['sh', '-c', `echo begin; read go; seq 1 200000; echo done > ${done}`])
  await sees(/begin/)
  pty.pause()
  pty.write('go\n')
  await new Promise(resolve => setTimeout(resolve, 500))
  t.throws(() => readFileSync(done), 'it waits')
  pty.resume()
  await pty.ended
  t.equal(said().slice(said().indexOf('\n1\r') + 1), Array.from({ length: 200_000 }, (_, i) => `${i + 1}\r\n`).join(''))

  const late = start(['sh', '-c', 'echo begin; read go; seq 1 100'])
  await late.sees(/begin/)
  late.pty.pause()
  late.pty.write('go\n')
  await until(() => !isRunning(late.pty.pid))
  // node-pty would have stopped reading by now.
  await new Promise(resolve => setTimeout(resolve, 600))
  late.pty.resume()
  await late.pty.ended
  t.match(late.said(), /\n99\r\n100\r\n$/)
})

t.test('a daemon that keeps the terminal open does not delay the end', { skip }, async t => {
  const { pty, said } = start(['sh', '-c', 'trap "" HUP; (trap "" HUP; sleep 60) & echo pid=$!'])
  t.same(await pty.ended, { exitCode: 0, signal: null })
  const pid = Number(/pid=(\d+)/.exec(said())?.[1])
  t.ok(pid > 0)
  process.kill(pid, 'SIGKILL')
})

t.test('passes on input in order, also more than the terminal accepts at once, up to a limit', { skip }, async t => {
  const { pty, said, sees } = start([
    'sh',
    '-c',
    'stty raw -echo; echo ready; sleep 0.3; head -c 300000 | cksum; head -c 1 >/dev/null; stty sane'
  ])
  await sees(/ready/)
  const typed = Array.from({ length: 300 }, (_, i) => String.fromCharCode(97 + (i % 26)).repeat(1000)).join('')
  for (let at = 0; at < typed.length; at += 10_000) t.equal(pty.write(typed.slice(at, at + 10_000)), true)
  await sees(/\d+ 300000/)
  const directory = t.testdir({})
  writeFileSync(join(directory, 'typed'), typed)
  const expected = start(['cksum', join(directory, 'typed')])
  await expected.pty.ended
  t.equal(/(\d+) 300000/.exec(said())?.[1], /(\d+) 300000/.exec(expected.said())?.[1])

  const stubborn = start(['bash', '--norc', '-i'])
  stubborn.pty.write('nohup sleep 1000 >/dev/null 2>&1 & echo "pid=$!."\n')
  await stubborn.sees(/pid=\d+\./)
  const kept = Number(/pid=(\d+)\./.exec(stubborn.said())?.[1])
  await stubborn.pty.end({ isWhole: true })
  await until(() => !isRunning(kept))
  t.pass('a job that ignores the hangup, too')

  const deaf = start(['sh', '-c', 'stty raw -echo; echo ready; sleep 60'])
  await deaf.sees(/ready/)
  let taken = 0
  while (taken < 100 && deaf.pty.write('x'.repeat(100_000))) taken++
  t.ok(taken >= 9 && taken < 15, `${taken} times 100 kB wait`)
  const before = process.cpuUsage()
  await new Promise(resolve => setTimeout(resolve, 500))
  const { user, system } = process.cpuUsage(before)
  t.ok((user + system) / 1000 < 250, 'waiting costs no processor time')
})

t.test('end hangs up, and kills a program that ignores it', { skip }, async t => {
  const polite = start(['bash', '--norc', '-i'])
  polite.pty.write('sleep 1000 & echo "pid=$!."\n')
  await polite.sees(/pid=\d+\./)
  const job = Number(/pid=(\d+)\./.exec(polite.said())?.[1])
  await polite.pty.end({ graceMs: 60_000 })
  await until(() => !isRunning(job))
  t.pass('its jobs have ended, too')

  const deaf = start(['sh', '-c', 'trap "" HUP TERM; echo ready; while :; do sleep 1; done'])
  await deaf.sees(/ready/)
  await deaf.pty.end({ graceMs: 50 })
  t.same(await deaf.pty.ended, { exitCode: null, signal: 'SIGKILL' })

  const flooding = start(['sh', '-c', 'trap "" HUP; yes'])
  await flooding.sees(/y/)
  flooding.pty.pause()
  await flooding.pty.end({ graceMs: 50 })
  t.equal(isRunning(flooding.pty.pid), false, 'also if it is paused')
})

const noDescriptors = !existsSync('/proc/self/fd') && 'there is no /proc'

t.test(
  'no other program inherits the terminal, so it is hung up when svc ends',
  { skip: skip || noDescriptors },
  async t => {
    const terminals = [start(['sh']), start(['sh'])]
    const lines: string[] = []
    const script = 'ls -l /proc/self/fd'
    const ended = await runProcess({
      command: scriptCommand(script),
      cwd: '/',
      env: { PATH: process.env['PATH'] },
      onLine: line => void lines.push(line)
    })
    t.equal(ended.exitCode, 0)
    t.notMatch(lines.join('\n'), /ptmx/)
    await Promise.all(terminals.map(({ pty }) => pty.end()))
  }
)

t.test(
  'a process with the rights of another user does not inherit it either',
  { skip: skip || noDescriptors || (!maySwitchUser() && 'this is not root') },
  async t => {
    const { pty } = start(['sh'])
    const call = {
      module: new URL('../../support/helper-fixture.js', import.meta.url),
      rights: { identity: await findIdentity('nobody'), umask: null },
      job: { do: 'facts' } satisfies Job,
      read: (value: unknown) => value
    }
    // After the answer: while Node starts, it opens and closes files.
    const links = await runHelper(call, (_facts, { pid }) =>
      readdirSync(`/proc/${pid}/fd`).map(fd => readlinkSync(`/proc/${pid}/fd/${fd}`))
    )
    t.ok(links.length > 3)
    t.strictSame(
      links.filter(link => /ptmx/.test(link)),
      []
    )
    await pty.end()
  }
)

const skipForPtyInput = process.platform === 'win32' && 'there are no named pipes'

/** Both ends of a pipe that does not block, like the descriptor of a terminal. */
function pipe(t: Test): { reader: number; writer: number } {
  const path = join(t.testdir(), 'pipe')
  spawnSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
  t.teardown(() => {
    closeSync(reader)
    closeSync(writer)
  })
  return { reader, writer }
}

function readSome(fd: number): string {
  const bytes = Buffer.alloc(1024 * 1024)
  try {
    return bytes.toString('utf8', 0, readSync(fd, bytes))
  } catch {
    return ''
  }
}

t.test('queues input in order, and takes nothing above the limit', { skip: skipForPtyInput }, async t => {
  const { reader, writer } = pipe(t)
  const input = createPtyInput({ fd: writer, stream: { destroyed: false } })
  t.ok(input.write('first '))
  t.equal(readSome(reader), 'first ', 'written at once')
  const pieces = Array.from({ length: 10 }, (_, index) => String(index).repeat(100_000))
  for (const piece of pieces) t.ok(input.write(piece))
  t.notOk(input.write('x'.repeat(200_000)), 'more than a megabyte would be queued')
  let text = ''
  while (text.length < 1_000_000) {
    text += readSome(reader)
    await sleep(5)
  }
  t.ok(text === pieces.join(''))
  input.stop()
})

t.test(
  'writes nothing after the stream is closed: the descriptor may be another file then',
  { skip: skipForPtyInput },
  async t => {
    const { reader, writer } = pipe(t)
    const stream = { destroyed: false }
    const input = createPtyInput({ fd: writer, stream })
    stream.destroyed = true
    input.write('late')
    t.equal(readSome(reader), '')
  }
)

/** A terminal with `held` in its stream and `rest` in the kernel, and the output that is passed on. */
function stageOf(t: Test, { held, rest }: { held: Buffer; rest: Buffer }) {
  const path = join(t.testdir({}), 'rest')
  writeFileSync(path, rest)
  const fd = openSync(path, 'r')
  t.teardown(() => closeSync(fd))
  const stream = new PassThrough()
  const output = readPty({ fd, stream: stream as unknown as PtyStream })
  let text = ''
  output.onData(more => (text += more))
  output.pause()
  stream.write(held)
  return { stream, output, text: () => text }
}

t.test('at the end, passes on the data of the stream before that of the kernel', async t => {
  const { stream, output, text } = stageOf(t, { held: Buffer.from('first '), rest: Buffer.from('second') })
  stream.destroy()
  t.strictSame([text(), stream.destroyed], ['', false], 'a pause delays the end')
  output.resume()
  t.strictSame([text(), stream.destroyed], ['first second', true])
})

t.test('keeps a character that is split between the stream and the kernel', async t => {
  const bytes = Buffer.from('€')
  for (let at = 1; at < bytes.length; at++) {
    const { stream, output, text } = stageOf(t, { held: bytes.subarray(0, at), rest: bytes.subarray(at) })
    stream.destroy()
    output.resume()
    t.equal(text(), '€', `after ${at} bytes`)
  }
})

t.test('does not read output that was given up', async t => {
  const { stream, output, text } = stageOf(t, { held: Buffer.from('first '), rest: Buffer.from('second') })
  stream.destroy()
  output.giveUp()
  t.strictSame([text(), stream.destroyed], ['', true])
})
