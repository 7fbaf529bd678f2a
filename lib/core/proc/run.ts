/*
 * Runs a child process in its own process group, passes on its lines in order of arrival, and records one reason for
 * its end.
 *
 * Order. With two pipes, the order between them is lost: which one is read first is chance. So a script (see
 * scriptCommand) joins stderr to stdout itself before its first line runs: one pipe, exact order. Any other command has
 * two pipes: each in order, and lines are never mixed. The pipe of a script is a real one.
 *
 * Backpressure. While a promise that onLine returned is pending, the pipe is not read. It fills up, and the child waits
 * in its write. Memory stays at one chunk however much is printed.
 *
 * The end. A command has finished when its own process exits, not when its pipe closes: a daemon that it left behind
 * may keep the pipe open for years. Everything written before the exit is in the pipe by then. The pipe is read until
 * it is empty, and then released: it is still read, so that the daemon does not die of SIGPIPE, but the data is
 * dropped, and the pipe no longer keeps the process running.
 *
 * Stopping (timeout, cancel) stops the whole group, and with a marker also the processes that have left it (stop.ts).
 * The first reason wins. A daemon left behind by a command that ended by itself is not touched.
 */
import { type ChildProcess, spawn, execFile } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { createLineSplitter, withoutMark } from '../../base/text.js'
import { hasCode, reasonOf } from '../../base/errors.js'
import { formatUmask, type Rights, withRights } from './identity.js'
import { withoutKept } from './environment.js'
import { defaultGraceMs, type Marker, mayRemain, socketBufferBytes, type Stopped, stopProcesses } from './stop.js'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { bunVersion, ownMark } from '../../base/runtime.js'

/** Why a child process ended. */
type EndReason = 'exit' | 'signal' | 'timeout' | 'cancelled' | 'spawn_failed'

/** How a child ended. For a stopped child, `exitCode` and `signal` are its actual result. */
export interface Ended {
  reason: EndReason
  exitCode: number | null
  signal: string | null
  /** For `spawn_failed`: the command that could not be started, and why. */
  error?: string
  /** For a stopped child: the processes that may remain. */
  remains?: Stopped
}

/** A command, and how to run it. */
export interface RunOptions {
  /** The program and its arguments; see scriptCommand. */
  command: readonly string[]
  cwd: string
  /** The rights of the command, applied before it enters `cwd`; absent: those of svc. */
  rights?: Rights | undefined
  /** The whole environment; nothing is inherited. */
  env: Readonly<Record<string, string | undefined>>
  /**
   * Added to `env`. It identifies processes that have left the group when the command is stopped. If absent, only the
   * group is stopped.
   */
  marker?: Marker | undefined
  /** Called once the child runs: from then on it can only end. Its process leads its group. */
  onStart?(pid: number): void
  /** Called for each line of stdout and stderr, without its newline. A returned promise pauses the child's output. */
  onLine(line: string): void | Promise<void>
  /**
   * With `lines`, the default, the lines are passed on like those of stdout. With `joined` it is the same pipe, which
   * the command can open again by its name (/dev/stderr).
   */
  stderr?: 'lines' | 'ignored' | 'joined'
  /** The only choice: a read of stdin finds its end at once. */
  stdin?: 'none'
  /** 0 or absent: no limit. */
  timeoutMs?: number
  /** Time between SIGTERM and SIGKILL. */
  graceMs?: number
  /** On abort, the group is stopped and the reason is `cancelled`. */
  signal?: AbortSignal | undefined
  /**
   * On abort, the command continues on its own, without a time limit. Its output is dropped, and it no longer keeps
   * this process running.
   */
  leaving?: AbortSignal | undefined
}

/** Maximum delay of a Node timer. */
const maxTimerMs = 2 ** 31 - 1
/**
 * After the exit, a pipe that returns nothing for this number of turns of the event loop is empty; each turn asks the
 * system.
 */
const emptyTurns = 3
/** Maximum size of a pipe in the kernel. */
const maxPipeBytes = 1024 * 1024
/** Maximum size of data that the stream has already read. */
const maxStreamBytes = 128 * 1024

const isWindows = process.platform === 'win32'

/** How a script is run. `interpreter: null` means `sh -c`, and `umask: null` the umask of svc. */
interface ScriptOptions {
  /** A program, and its words before the script. */
  interpreter: readonly string[] | null
  /** Ignored on Windows. */
  umask: number | null
}

/** The outer shell joins stderr to stdout, and then becomes the interpreter. */
const becomeInterpreter = '[ -z "$0" ] || umask "$0"; exec "$@" 2>&1'

/**
 * Returns the command for the user's own script: `sh -c`, or another interpreter. On Windows `cmd /c`,
 * where only the first line runs.
 */
export function scriptCommand(
  script: string,
  { interpreter, umask }: ScriptOptions = { interpreter: null, umask: null }
): string[] {
  const text = scriptTextOf(script)
  if (isWindows) return interpreter === null ? ['cmd', '/d', '/s', '/c', `"${script}"`] : [...interpreter, text]
  return [
    'sh',
    '-c',
    becomeInterpreter,
    umask === null ? '' : formatUmask(umask),
    ...(interpreter ?? ['sh', '-c']),
    text
  ]
}

/**
 * Runs a command to its end; every outcome is a value. Rejects only with the error of onLine, after the group was
 * stopped.
 */
export async function runProcess(options: RunOptions): Promise<Ended> {
  if (options.signal?.aborted) return { reason: 'cancelled', exitCode: null, signal: null }
  const started = await start(options)
  if (typeof started === 'string') return { reason: 'spawn_failed', exitCode: null, signal: null, error: started }
  options.onStart?.(started.child.pid as number)
  return supervise(started, options)
}

/** A running child, and where its output arrives. */
interface Started {
  child: ChildProcess
  streams: Readable[]
}

async function start({ command, rights, cwd, env, marker, stderr }: RunOptions): Promise<Started | string> {
  const [program = '', ...words] = rights === undefined ? command : withRights(command, rights, cwd)
  const pipe = stderr === 'joined' ? await openPipe() : null
  try {
    const outputs = [
      'ignore',
      pipe?.writer ?? 'pipe',
      pipe?.writer ?? (stderr === 'ignored' ? 'ignore' : 'pipe')
    ] as const
    const child = withoutKept(outputs, stdio =>
      spawn(program, words, {
        cwd: rights === undefined ? cwd : '/',
        env: marker === undefined ? env : { ...env, [marker.name]: marker.value },
        detached: !isWindows,
        windowsHide: true,
        windowsVerbatimArguments: isWindows && program === 'cmd',
        stdio
      })
    )
    await new Promise((resolve, reject) => void child.once('spawn', resolve).once('error', reject))
    const streams = pipe === null ? [child.stdout, child.stderr] : [pipe.reader]
    return { child, streams: streams.filter((stream): stream is Readable => stream !== null) }
  } catch (error) {
    pipe?.reader.destroy()
    return explain(program, cwd, error)
  } finally {
    if (pipe !== null) closeSync(pipe.writer)
  }
}

async function explain(program: string, cwd: string, error: unknown): Promise<string> {
  // A missing working directory also gives ENOENT.
  const directory = await stat(cwd).catch(() => null)
  const message = (why: string): string => `cannot start "${program}": ${why}`
  if (directory === null) return message(`the working directory "${cwd}" does not exist`)
  if (!directory.isDirectory()) return message(`the working directory "${cwd}" is not a directory`)
  if (hasCode(error, 'ENOENT')) return message('command not found')
  if (hasCode(error, 'E2BIG')) return message(`${reasonOf(error)}: the script or its environment is too large`)
  return message(reasonOf(error))
}

type StopReason = 'timeout' | 'cancelled' | 'consumer failed'

async function supervise({ child, streams }: Started, options: RunOptions): Promise<Ended> {
  const exited = new Promise<Pick<Ended, 'exitCode' | 'signal'>>(resolve => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
  })
  let why: StopReason | 'over' | null = null
  let stopped: Promise<Stopped> | null = null
  const stop = (reason: StopReason): void => {
    if (why !== null) return
    why = reason
    stopped = stopProcesses({
      group: child.pid as number,
      marker: options.marker,
      graceMs: options.graceMs ?? defaultGraceMs
    })
  }
  const output = readOutput(streams, options.onLine, () => stop('consumer failed'))
  const timer = options.timeoutMs ? setTimeout(stop, Math.min(options.timeoutMs, maxTimerMs), 'timeout') : undefined
  const cancel = (): void => stop('cancelled')
  const leave = (): void => {
    clearTimeout(timer)
    child.unref()
    output.letGo()
  }
  options.leaving?.addEventListener('abort', leave)
  options.signal?.addEventListener('abort', cancel)
  if (options.signal?.aborted) cancel()
  try {
    const { exitCode, signal } = await exited
    const reason = (why as EndReason | null) ?? (signal === null ? 'exit' : 'signal')
    why ??= 'over'
    const remains = await (stopped as Promise<Stopped> | null)
    await output.drain()
    return { reason, exitCode, signal, ...(remains !== null && mayRemain(remains) && { remains }) }
  } finally {
    clearTimeout(timer)
    options.signal?.removeEventListener('abort', cancel)
    options.leaving?.removeEventListener('abort', leave)
  }
}

interface Output {
  /** Must be called after the exit. Resolves when all earlier output has been passed on and processed. */
  drain(): Promise<void>
  /** Drops all output from now on, without waiting for it. */
  letGo(): void
}

function readOutput(streams: readonly Readable[], onLine: RunOptions['onLine'], onFailure: () => void): Output {
  const readers = streams.map(stream => readLines(stream, onLine, onFailure))
  const closed = Promise.all(readers.map(reader => reader.closed))

  async function drain(): Promise<void> {
    const maxBytes = maxDrainBytes()
    for (const reader of readers) reader.limit(maxBytes)
    for (let before = -1; before !== sum(readers); ) {
      before = sum(readers)
      // While the consumer is busy, the pipe is not read, so silence would not mean that it is empty.
      await Promise.all(readers.map(reader => reader.taken()))
      await Promise.race([closed, turns()])
      await Promise.all(readers.map(reader => reader.taken()))
    }
    letGo()
    await Promise.all(readers.map(reader => reader.taken()))
  }
  const letGo = (): void => readers.forEach(reader => reader.letGo())
  return { drain, letGo }
}

/**
 * Returns the maximum size of the output that can be unread after the exit. The pipes of `spawn` are sockets, whose
 * size can be raised on a machine.
 */
function maxDrainBytes(): number {
  return Math.max(maxPipeBytes, socketBufferBytes()) + maxStreamBytes
}

async function turns(): Promise<void> {
  for (let n = 0; n < emptyTurns; n++) await turn()
}

function sum(readers: readonly LineReader[]): number {
  return readers.reduce((total, reader) => total + reader.readBytes(), 0)
}

interface LineReader {
  closed: Promise<void>
  readBytes(): number
  /** Resolves when the consumer has processed everything it was given. Rejects with the error that it threw. */
  taken(): Promise<void>
  /** Releases the pipe after this number of further bytes. */
  limit(moreBytes: number): void
  /** Passes on an unfinished last line. From then on, bytes are read and dropped. */
  letGo(): void
}

function readLines(stream: Readable, onLine: RunOptions['onLine'], onFailure: () => void): LineReader {
  let readBytes = 0
  let limitBytes = Infinity
  let waits: Array<Promise<void>> = []
  let pending: Promise<void> = Promise.resolve()
  let failed = false
  let isLetGo = false
  const splitter = createLineSplitter(line => {
    if (failed) return
    const wait = onLine(line)
    if (wait) waits.push(wait)
  })

  function feed(step: () => void): void {
    try {
      step()
    } catch (error) {
      waits.push(Promise.reject(error))
    }
    if (waits.length === 0) return
    stream.pause()
    const round = Promise.all([pending, ...waits]).then(() => {})
    waits = []
    pending = round
    round.then(
      () => void (pending === round && stream.resume()),
      () => {
        failed = true
        stream.resume()
        onFailure()
      }
    )
  }

  const closed = new Promise<void>(resolve => {
    stream.once('close', () => {
      letGo()
      resolve()
    })
  })
  stream.on('error', () => {})
  stream.on('data', (chunk: Buffer) => {
    if (isLetGo) return
    readBytes += chunk.length
    if (!failed) feed(() => splitter.push(chunk))
    if (readBytes > limitBytes) letGo()
  })

  function letGo(): void {
    if (isLetGo) return
    isLetGo = true
    feed(() => splitter.end())
    ;(stream as Readable & { unref?: () => void }).unref?.()
  }
  const limit = (moreBytes: number): void => void (limitBytes = readBytes + moreBytes)
  return { closed, readBytes: () => readBytes, taken: () => pending, limit, letGo }
}

/*
 * A user's script, as its interpreter gets it. Editors on Windows write CRLF and a byte order mark: `cd app\r` would
 * fail with a message that hides the CR, and the script would go on in the wrong directory. A first line like
 * `#!/bin/bash` names the interpreter, as it does for a file.
 */

/** Returns a script without a byte order mark, and with LF at the end of its lines. */
export function scriptTextOf(script: string): string {
  return withoutMark(script).replaceAll('\r\n', '\n').replace(/\r$/, '')
}

/** An interpreter with its arguments before the one that takes the script. */
interface Interpreter {
  /** An absolute path, or a name that is searched in PATH. */
  program: string
  words: readonly string[]
}

/** Programs that run a text given as an argument, by the option for it. */
const textOptions: ReadonlyArray<[names: RegExp, option: string]> = [
  [/^(sh|bash|dash|ash|ksh|mksh|zsh|fish|python(\d(\.\d+)?)?)$/, '-c'],
  [/^(node|nodejs|perl|ruby)$/, '-e']
]

/** Returns the option of an interpreter that takes a script as text; null if it is unknown. */
export function textOptionOf(program: string): string | null {
  return textOptions.find(([names]) => names.test(basename(program)))?.[1] ?? null
}

/**
 * Returns the interpreter that the first line of a script names, or null without such a line. `/usr/bin/env` and its
 * option -S are resolved.
 */
export function interpreterOf(script: string): Interpreter | null {
  const line = /^#![ \t]*([^\n]*)/.exec(script)?.[1]?.trim()
  if (!line) return null
  const [program = '', ...words] = line.split(/[ \t]+/)
  if (basename(program) !== 'env') return { program, words }
  const rest = words[0] === '-S' ? words.slice(1) : words
  return rest[0] === undefined || rest[0].startsWith('-') || rest[0].includes('=')
    ? { program, words }
    : { program: rest[0], words: rest.slice(1) }
}

/*
 * A pipe for the output of a script. The pipes of `spawn` are sockets, which cannot be opened again by their name:
 * `echo done > /dev/stderr`, `tee /dev/stderr` and Python's `open('/dev/stdout')` would fail with "No such device or
 * address" (unix(7)). Under ssh, cron and CI systems they work. Node cannot make a pipe, so this is a named one,
 * without a name by the time the script runs. Its mode lets the script's user open it, who has no other way to it.
 *
 * To start `mkfifo` takes as long as a short script, so one call makes several pipes. They are opened at once, lose their
 * names, and wait. Each serves one script only: what that leaves behind may keep it open.
 */

const systemPath = '/usr/bin:/bin'
/** What one call of `mkfifo` makes; each has two descriptors while it waits. */
const pipesAtOnce = 8
/** How long a pipe waits for its use. Scripts come one after the other, and a server at rest keeps none. */
const pipeWaitsMs = 2000

/** Both ends of a pipe that nobody has used. */
interface Ends {
  fd: number
  writer: number
}

/** An open pipe. */
interface OutputPipe {
  reader: Readable
  /** The descriptor for the child. It must be closed here once the child has it. */
  writer: number
}

const unused: Ends[] = []
let making: Promise<boolean> | null = null
let waiting: NodeJS.Timeout | undefined

/**
 * Opens a pipe; null where none can be made or read, as on Windows and in Bun, whose sockets read no descriptor: a
 * socket serves most scripts.
 */
export async function openPipe(): Promise<OutputPipe | null> {
  if (process.platform === 'win32' || bunVersion !== undefined) return null
  for (;;) {
    const ends = unused.pop()
    if (ends !== undefined) {
      clearTimeout(waiting)
      if (unused.length > 0) waiting = setTimeout(closeUnused, pipeWaitsMs).unref()
      return { reader: new Socket({ fd: ends.fd, readable: true, writable: false }), writer: ends.writer }
    }
    making ??= makePipes().finally(() => (making = null))
    if (!(await making)) return null
  }
}

/** Makes as many pipes as possible. Resolves with whether there are any. */
async function makePipes(): Promise<boolean> {
  let directory: string | null = null
  try {
    directory = mkdtempSync(join(tmpdir(), `svc-pipe-${ownMark()}-`))
    const paths = Array.from({ length: pipesAtOnce }, (_, index) => join(directory as string, String(index)))
    await new Promise<void>((resolve, reject) =>
      execFile('mkfifo', ['-m', '666', ...paths], { env: { PATH: systemPath } }, error =>
        error === null ? resolve() : reject(error)
      )
    )
    for (const path of paths) unused.push(open(path))
  } catch {
    // Where nothing can be made, or no more can be opened.
  } finally {
    if (directory !== null) rmSync(directory, { recursive: true, force: true })
  }
  return unused.length > 0
}

function closeUnused(): void {
  for (const { fd, writer } of unused.splice(0)) {
    closeSync(writer)
    closeSync(fd)
  }
}

function open(path: string): Ends {
  // Without O_NONBLOCK, each open would wait for the other end.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    return { fd, writer: openSync(path, constants.O_WRONLY) }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}
