import t from 'tap'
import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findIdentity, maySwitchUser } from '../../../lib/core/proc/identity.js'
import {
  type Ended,
  interpreterOf,
  type RunOptions,
  runProcess,
  scriptCommand,
  scriptTextOf,
  textOptionOf,
  openPipe
} from '../../../lib/core/proc/run.js'
import { openFiles } from '../../support/descriptors.js'
import { until } from '../../support/until.js'
import { closeSync, existsSync, fstatSync, readdirSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'

const posix = process.platform === 'win32' ? 'the scripts of these tests are written for sh' : false
// Not the PATH of the user who runs the tests: an entry without permission makes a missing program look forbidden.
const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }

async function run(script: string, options: Partial<RunOptions> = {}): Promise<{ ended: Ended; lines: string[] }> {
  const lines: string[] = []
  const ended = await runProcess({
    command: scriptCommand(script),
    cwd: process.cwd(),
    env,
    stderr: 'joined',
    onLine: line => void lines.push(line),
    ...options
  })
  return { ended, lines }
}

t.test('a script can open its output again by name, as under ssh and cron', { skip: posix }, async t => {
  const words =
    'for way in /dev/stderr /dev/stdout /proc/self/fd/1 /proc/self/fd/2; do echo $way >$way; done; echo x | tee /dev/stderr'
  const { ended, lines } = await run(words)
  t.equal(ended.exitCode, 0)
  t.strictSame(lines, ['/dev/stderr', '/dev/stdout', '/proc/self/fd/1', '/proc/self/fd/2', 'x', 'x'])
  if (!maySwitchUser()) return t.comment('not with the rights of another user: this needs root')
  const rights = { identity: await findIdentity('nobody'), umask: null }
  const { lines: theirs } = await run('echo a >/dev/stderr', { rights, cwd: '/' })
  t.strictSame(theirs, ['a'], 'also without the rights of svc')
})

t.test('scripts with the line ends and the mark of Windows run as they are meant', { skip: posix }, async t => {
  const { lines } = await run('\ufeffif true; then\r\n  cd /tmp\r\nfi\r\npwd\r\n')
  t.strictSame(lines, ['/tmp'])
  t.strictSame((await run('echo a\rb | od -An -c')).lines, ['   a  \\r   b  \\n'], 'a CR within a line stays')
})

/** Time in which a script has started, even on a busy machine. */
const begunMs = 1_500

async function isGone(pid: number): Promise<boolean> {
  for (let tries = 0; tries < 1_000; tries++) {
    try {
      process.kill(pid, 0)
      // A zombie that is not reaped still exists.
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
      if (/\) Z /.test(stat)) return true
    } catch {
      return true
    }
    await sleep(20)
  }
  return false
}

t.test('reports how a script ended', { skip: posix }, async t => {
  const table: Array<[what: string, script: string, ended: Ended, lines: string[]]> = [
    ['nothing', '', { reason: 'exit', exitCode: 0, signal: null }, []],
    ['lines', 'echo a; echo b', { reason: 'exit', exitCode: 0, signal: null }, ['a', 'b']],
    ['a non-zero exit', 'echo no; exit 3', { reason: 'exit', exitCode: 3, signal: null }, ['no']],
    ['a signal', 'echo x; kill -9 $$', { reason: 'signal', exitCode: null, signal: 'SIGKILL' }, ['x']],
    ['no final newline', 'printf "a\\nb"', { reason: 'exit', exitCode: 0, signal: null }, ['a', 'b']],
    ['empty lines and CRLF', 'printf "\\n\\r\\na\\r\\n"', { reason: 'exit', exitCode: 0, signal: null }, ['', '', 'a']],
    [
      'invalid UTF-8',
      'printf "a\\377b\\303\\n\\303\\244"',
      { reason: 'exit', exitCode: 0, signal: null },
      ['a\ufffdb\ufffd', 'ä']
    ],
    ['stdin, at its end', 'cat; read x || echo "end $?"', { reason: 'exit', exitCode: 0, signal: null }, ['end 1']],
    [
      'a missing program',
      'svc-no-such-program',
      { reason: 'exit', exitCode: 127, signal: null },
      ['sh: 1: svc-no-such-program: not found']
    ]
  ]
  for (const [what, script, expected, lines] of table) {
    const result = await run(script)
    t.strictSame(result.ended, expected, what)
    if (what === 'a missing program') t.match(result.lines.join(), 'svc-no-such-program', what)
    else t.strictSame(result.lines, lines, what)
  }
})

t.test('keeps the order of stdout and stderr', { skip: posix }, async t => {
  const { lines } = await run('i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done')
  t.strictSame(lines, Array.from({ length: 300 }, (_, i) => [`o${i}`, `e${i}`]).flat())
})

t.test('passes quotes, newlines and words of a script unchanged', { skip: posix }, async t => {
  const { lines } = await run(`x='a "b" $c'\necho "$x" # comment\necho '$0' "$#" '%s'`)
  t.strictSame(lines, ['a "b" $c', '$0 0 %s'])
})

t.test('runs with exactly the given environment and directory', { skip: posix }, async t => {
  const cwd = t.testdir({ 'here.txt': 'yes' })
  const { lines } = await run('cat here.txt; echo; echo "$A,$HOME"', {
    cwd,
    env: { ...env, A: 'ä b', NONE: undefined }
  })
  t.strictSame(lines, ['yes', 'ä b,'])
})

t.test('a command that is not a script has two outputs', { skip: posix }, async t => {
  const { ended, lines } = await run('', { command: ['sh', '-c', 'echo out; echo err >&2; exit 1'] })
  t.equal(ended.exitCode, 1)
  t.strictSame(lines.sort(), ['err', 'out'])
})

t.test('a failed start is an outcome with a reason', { skip: posix }, async t => {
  const cwd = t.testdir({ file: '' })
  const table: Array<[what: string, options: Partial<RunOptions>, error: RegExp]> = [
    [
      'no such directory',
      { cwd: join(cwd, 'none') },
      /^cannot start "sh": the working directory ".*none" does not exist$/
    ],
    ['a file', { cwd: join(cwd, 'file') }, /is not a directory$/],
    ['no such program', { command: ['svc-none'] }, /^cannot start "svc-none": command not found$/],
    ['no program at all', { command: [] }, /^cannot start ""/],
    ['a NUL byte', { command: scriptCommand('a\0b') }, /null byte/],
    ['too long', { command: scriptCommand('#'.repeat(3_000_000)) }, /: argument list too long: /]
  ]
  for (const [what, options, error] of table) {
    const { ended } = await run('', { cwd, ...options })
    t.equal(ended.reason, 'spawn_failed', what)
    t.match(ended.error, error, what)
  }
})

t.test('stops a script after its timeout, with everything it started', { skip: posix }, async t => {
  const { ended, lines } = await run('sleep 600 & echo $!; echo waiting; wait', { timeoutMs: begunMs })
  t.strictSame(ended, { reason: 'timeout', exitCode: null, signal: 'SIGTERM' })
  t.equal(lines[1], 'waiting')
  t.ok(await isGone(Number(lines[0])), 'the child of the script has ended')
})

t.test('kills a process that ignores SIGTERM after the grace period', { skip: posix }, async t => {
  const { ended, lines } = await run('trap "" TERM; echo $$; while :; do sleep 0.05; done', {
    timeoutMs: begunMs,
    graceMs: 200
  })
  t.strictSame(ended, { reason: 'timeout', exitCode: null, signal: 'SIGKILL' })
  t.ok(await isGone(Number(lines[0])))
})

t.test('kills a member of the group that ignores SIGTERM, even after the shell has ended', { skip: posix }, async t => {
  const script = '(trap "" TERM; while :; do sleep 0.05; done) & echo $!; wait'
  const { ended, lines } = await run(script, { timeoutMs: begunMs, graceMs: 200 })
  t.equal(ended.reason, 'timeout')
  t.ok(await isGone(Number(lines[0])))
})

/** Leaves a child in the script's group to a parent outside of the group, which never reaps it. */
const neglectful = `use POSIX; if (fork) { POSIX::setpgid(0, 0); $| = 1; print "$$\\n"; sleep 600 } else { sleep 600 }`
const noZombies =
  spawnSync('perl', ['-MPOSIX', '-e', '1']).status !== 0 && 'perl, which makes the zombie, is not on this machine'

t.test('does not wait for a zombie', { skip: posix || noZombies }, async t => {
  // Waiting for it would exceed the timeout of the test.
  const { ended, lines } = await run(`perl -e '${neglectful}' & wait`, { timeoutMs: begunMs, graceMs: 300_000 })
  const parent = Number(lines[0])
  t.teardown(() => process.kill(parent))
  t.equal(ended.reason, 'timeout')
  t.doesNotThrow(() => process.kill(parent, 0), 'a process that has left the group is not touched')
})

t.test('lets a script clean up in the grace period, and keeps the reason', { skip: posix }, async t => {
  const { ended, lines } = await run('trap "echo cleaned; exit 7" TERM; echo ready; while :; do sleep 0.02; done', {
    timeoutMs: begunMs
  })
  t.strictSame(ended, { reason: 'timeout', exitCode: 7, signal: null })
  t.strictSame([lines[0], lines.at(-1)], ['ready', 'cleaned'])
})

t.test('can be cancelled before it starts and while it runs', { skip: posix }, async t => {
  const before = await run('echo never', { signal: AbortSignal.abort() })
  t.strictSame(before.ended, { reason: 'cancelled', exitCode: null, signal: null })
  t.strictSame(before.lines, [])
  const control = new AbortController()
  const during = await run('echo on; sleep 600', {
    signal: control.signal,
    onLine: () => control.abort(),
    timeoutMs: 600_000
  })
  t.strictSame(during.ended, { reason: 'cancelled', exitCode: null, signal: 'SIGTERM' })
})

t.test('the first reason wins', { skip: posix }, async t => {
  const control = new AbortController()
  const onLine = () => control.abort()
  const script = 'trap "echo asked to end" TERM; while :; do sleep 0.05; done'
  const { ended } = await run(script, { timeoutMs: 500, graceMs: 400, signal: control.signal, onLine })
  t.equal(ended.reason, 'timeout')
  t.ok(control.signal.aborted, 'it was cancelled, too')
})

t.test('a daemon left behind neither delays the end nor dies', { skip: posix }, async t => {
  const cwd = t.testdir({})
  const script = '(while :; do echo tick; echo x >> alive; sleep 0.05; done) & echo $! > pid; echo started'
  const { ended, lines } = await run(script, { cwd })
  const pid = Number(await readFile(join(cwd, 'pid'), 'utf8'))
  t.teardown(() => process.kill(pid, 'SIGKILL'))
  t.strictSame(ended, { reason: 'exit', exitCode: 0, signal: null })
  t.ok(lines.includes('started'))
  const given = lines.length
  const written = async (): Promise<number> => (await readFile(join(cwd, 'alive')).catch(() => '')).length
  const size = await written()
  await until(async () => (await written()) >= size + 10)
  t.equal(lines.length, given, 'it lives on, and its later output is nobody’s')
})

t.test('a silent daemon does not delay the end', { skip: posix }, async t => {
  const { lines } = await run('sleep 600 & echo $!')
  t.doesNotThrow(() => process.kill(Number(lines[0]), 'SIGKILL'), 'its end was not waited for')
})

t.test('drops the output of a busy daemon', { skip: posix }, async t => {
  const { lines } = await run('yes & echo $!')
  t.doesNotThrow(() => process.kill(Number(lines.find(line => line !== 'y')), 'SIGKILL'), 'its end was not waited for')
})

t.test('needs bounded memory for 100 MB of output', { skip: posix }, async t => {
  let lines = 0
  let characters = 0
  let peak = 0
  const before = process.memoryUsage().rss
  const { ended } = await run('head -c 100000000 /dev/zero | tr "\\0" x | fold -w 999', {
    onLine: line => {
      lines++
      characters += line.length
      if (lines % 1000 === 0) peak = Math.max(peak, process.memoryUsage().rss)
    }
  })
  t.equal(ended.exitCode, 0)
  t.equal(characters, 100_000_000)
  t.equal(lines, Math.ceil(100_000_000 / 999))
  t.ok(peak - before < 100 * 1024 * 1024, `${Math.round((peak - before) / 1048576)} MB`)
})

t.test('passes on one line of 10 MB in pieces', { skip: posix }, async t => {
  const { lines } = await run('head -c 10000000 /dev/zero | tr "\\0" x')
  t.equal(lines.join('').length, 10_000_000)
  t.ok(lines.every(line => line.length <= 64 * 1024))
})

t.test('a slow consumer slows down the child', { skip: posix }, async t => {
  const cwd = t.testdir({})
  let release = (): void => {}
  const gate = new Promise<void>(resolve => (release = resolve))
  let lines = 0
  const done = run('yes abcdefg | head -n 1000000; echo done > done', {
    cwd,
    onLine: () => {
      lines++
      return gate
    }
  })
  await until(() => lines > 0)
  await sleep(300)
  const held = lines
  t.ok(held > 0 && held < 100_000, `${held} lines before the pause`)
  await t.rejects(readFile(join(cwd, 'done')), 'the child waits in its write')
  release()
  t.equal((await done).ended.exitCode, 0)
  t.equal(lines, 1_000_000)
})

t.test('passes on output that a slow consumer has not processed at the exit', { skip: posix }, async t => {
  const lines: string[] = []
  const { ended } = await run('seq 1 3000', {
    onLine: async line => {
      lines.push(line)
      await sleep(500)
    }
  })
  t.equal(ended.exitCode, 0)
  t.equal(lines.length, 3000)
})

t.test('a failing consumer stops the script and rejects with its error', { skip: posix }, async t => {
  const full = new Error('disk full')
  const thrown = run('echo a; sleep 60', {
    onLine: () => {
      throw full
    }
  })
  await t.rejects(thrown, full)
  const rejected = run('echo a; sleep 60', { onLine: () => Promise.reject(full) })
  await t.rejects(rejected, full)
})

t.test('a command that is left to itself lets this process exit', { skip: posix }, async t => {
  const directory = t.testdir({})
  const program = join(directory, 'program.mjs')
  const source = new URL('../../../lib/core/proc/run.js', import.meta.url).href
  await writeFile(
    program,
    `import { runProcess, scriptCommand } from '${source}'
    await runProcess({ command: scriptCommand('sleep 600 & echo $!'), cwd: '/', env: process.env, onLine: l => console.log(l) })`
  )
  const { ended, lines } = await run('', { command: [process.execPath, program] })
  t.doesNotThrow(() => process.kill(Number(lines[0]), 'SIGKILL'), 'its end was not waited for')
  t.equal(ended.exitCode, 0)
})

t.test('a consumer that is slower than the script gets all output', { skip: posix }, async t => {
  for (const [what, takesMs, every] of [
    ['long pauses', 700, 1000],
    ['short pauses', 20, 100]
  ] as const) {
    const lines: string[] = []
    const { ended } = await run('seq -f "line %g of a script that is quicker than the disk" 5000; sleep 30 & exit 0', {
      onLine(line) {
        lines.push(line)
        return lines.length % every === 0 ? sleep(takesMs) : undefined
      }
    })
    t.strictSame(ended, { reason: 'exit', exitCode: 0, signal: null })
    t.equal(lines.length, 5000, `${what}: a daemon holds the pipe, so its end does not come`)
    t.equal(lines.at(-1), 'line 5000 of a script that is quicker than the disk')
  }
})

const asRoot = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }

t.test('runs a script with the rights of another user', asRoot, async t => {
  const rights = { identity: await findIdentity('nobody'), umask: 0o077 }
  const facts = await run('id -u; umask; pwd; ls /proc/self/fd', { rights, cwd: '/usr' })
  t.strictSame(facts.ended, { reason: 'exit', exitCode: 0, signal: null })
  t.strictSame(facts.lines.slice(0, 3), ['65534', '0077', '/usr'])
  t.strictSame(facts.lines.slice(3), (await run('ls /proc/self/fd')).lines, 'it has no more open files than any script')

  const closed = await run('echo ran', { rights, cwd: '/root' })
  t.match(closed.ended, { reason: 'exit', exitCode: 126 })
  t.notOk(closed.lines.includes('ran'), 'it does not run in a directory that the user cannot enter')

  const signals = await run(`kill -0 ${process.pid}`, { rights, cwd: '/' })
  t.match(signals.ended, { exitCode: 1 }, 'it cannot signal svc')

  const aborter = new AbortController()
  const sleeping = run('sleep 60 & echo begun; wait', {
    rights,
    cwd: '/',
    signal: aborter.signal,
    onLine: () => aborter.abort()
  })
  t.match((await sleeping).ended, { reason: 'cancelled' }, 'svc stops it, with all that it started')
})

t.test('normalises what editors on Windows write, and nothing else', t => {
  t.equal(scriptTextOf('\ufeffa\r\nb\r'), 'a\nb')
  t.equal(scriptTextOf('a\rb\n\n'), 'a\rb\n\n')
  t.end()
})

t.test('reads the line that names the interpreter', t => {
  t.strictSame(interpreterOf('#!/bin/bash -e -u\nx'), { program: '/bin/bash', words: ['-e', '-u'] })
  t.strictSame(interpreterOf('#!/usr/bin/env A=1 bash'), { program: '/usr/bin/env', words: ['A=1', 'bash'] })
  t.equal(interpreterOf('echo #!/bin/bash'), null)
  t.strictSame(['/bin/zsh', 'python3.11', 'perl', '/usr/bin/awk'].map(textOptionOf), ['-c', '-c', '-e', null])
  t.end()
})

const names = (): string[] => readdirSync(tmpdir()).filter(name => name.startsWith('svc-pipe-'))

t.test(
  'opens pipes without names, each for one use, and starts a process for several of them',
  { skip: process.platform === 'win32' && 'Windows has no such pipes' },
  async t => {
    const before = new Set(names())
    const pipes = await Promise.all(Array.from({ length: 20 }, openPipe))
    t.same(
      names().filter(name => !before.has(name)),
      []
    )
    for (const [index, pipe] of pipes.entries()) {
      if (pipe === null) throw new Error('There is no pipe')
      t.ok(fstatSync(pipe.writer).isFIFO())
      writeSync(pipe.writer, `${index}\n`)
      closeSync(pipe.writer)
    }
    for (const [index, pipe] of pipes.entries()) {
      let text = ''
      for await (const chunk of (pipe as NonNullable<typeof pipe>).reader) text += String(chunk)
      t.equal(text, `${index}\n`)
    }
  }
)

t.test('keeps no pipe open that nothing asks for', { skip: !existsSync('/proc/self/fd') && 'no /proc' }, async t => {
  const held = (): string[] => openFiles().filter(path => path.includes('svc-pipe-'))
  const pipe = await openPipe()
  if (pipe === null) throw new Error('There is no pipe')
  t.ok(held().length > 2, 'others wait for the next script')
  pipe.reader.destroy()
  closeSync(pipe.writer)
  await until(() => held().length === 0)
})

t.test('does without where none can be made', async t => {
  const { TMPDIR } = process.env
  process.env['TMPDIR'] = '/no/such/directory'
  t.teardown(() => void (TMPDIR === undefined ? delete process.env['TMPDIR'] : (process.env['TMPDIR'] = TMPDIR)))
  const left: Array<NonNullable<Awaited<ReturnType<typeof openPipe>>>> = []
  for (let pipe = await openPipe(); pipe !== null; pipe = await openPipe()) left.push(pipe)
  t.ok(left.length < 8, 'only what was made before')
  for (const { reader, writer } of left) {
    reader.destroy()
    closeSync(writer)
  }
})
