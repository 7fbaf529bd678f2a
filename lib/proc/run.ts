/*
 * A child process in a process group of its own: its lines in order of arrival, and one recorded reason for its end.
 *
 * Order. Two pipes reorder: which of them is read first is chance. Node offers no way to give a child the same pipe
 * twice, so a script (see scriptCommand) joins stderr to stdout itself before its first line runs: one pipe, exact
 * order. Any other command keeps two pipes: each in order, lines never mixed within a line.
 *
 * Backpressure. While a promise that onLine returned is pending the pipe is not read, it fills, and the child waits in
 * its write: memory stays at one chunk however much is printed.
 *
 * The end. A command is over when its own process exits, not when its pipe closes: a daemon it left behind may hold the
 * pipe for years. What was written before the exit is in the pipe by then; it is read until the pipe is empty, and then the
 * pipe is let go: still read, so that the daemon does not die of SIGPIPE, but thrown away, and holding nothing open.
 *
 * Stopping (timeout, cancel) means the whole group, and with a marker those that have left it (stop.ts). The first reason
 * wins. A daemon left behind by a command that ended by itself is left alone.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { createLineSplitter } from '../base/lines.js'
import { formatUmask, withRights, type Rights } from './identity.js'
import { withoutKept } from './kept-descriptors.js'
import { socketBufferBytes, type Marker } from './processes.js'
import { defaultGraceMs, mayRemain, stopProcesses, type Stopped } from './stop.js'

export type EndReason = 'exit' | 'signal' | 'timeout' | 'cancelled' | 'spawn_failed'

/** How a child ended. Of one that was stopped, `exitCode` and `signal` say what came of it. */
export interface Ended {
  reason: EndReason
  exitCode: number | null
  signal: string | null
  /** Of `spawn_failed`: what could not be started, and why. */
  error?: string
  /** Of one that was stopped, where something of it may be left. */
  remains?: Stopped
}

export interface RunOptions {
  /** The program and its arguments: see scriptCommand. */
  command: readonly string[]
  cwd: string
  /** Whose rights it has, from before it enters `cwd`; absent: those of svc. */
  rights?: Rights | undefined
  /** The whole environment; nothing is inherited. */
  env: Readonly<Record<string, string | undefined>>
  /** Is added to `env`. Who has left the group is known by it when the command is stopped; absent: the group is stopped alone. */
  marker?: Marker | undefined
  /** Called once the child runs: from then on it can only end. Its process is the leader of its group. */
  onStart?(pid: number): void
  /** Called for each line of stdout and stderr, without its newline; a returned promise pauses the child's output. */
  onLine(line: string): void | Promise<void>
  /** `lines`, the default: its lines come like those of stdout. */
  stderr?: 'lines' | 'ignored'
  /** The only choice: reading stdin finds its end at once. */
  stdin?: 'none'
  /** 0 or absent: no limit. */
  timeoutMs?: number
  /** Between SIGTERM and SIGKILL. */
  graceMs?: number
  /** Aborted: the group is stopped and the reason is `cancelled`. */
  signal?: AbortSignal | undefined
  /** Aborted: it is left to itself, without a time limit. What it prints is dropped, and it keeps this process from nothing. */
  leaving?: AbortSignal | undefined
}

/** The longest a Node timer can wait. */
const maxTimerMs = 2 ** 31 - 1
/** After the exit: a pipe that gives nothing in so many turns of the event loop is empty; each turn asks the system. */
const emptyTurns = 3
/** Of a pipe, the kernel's largest. */
const maxPipeBytes = 1024 * 1024
/** Read already, in the stream before it. */
const maxStreamBytes = 128 * 1024

const isWindows = process.platform === 'win32'

/** How a script is run; null: by `sh`, with the umask that svc has. */
export interface ScriptOptions {
  shell: string | null
  /** Not on Windows. */
  umask: number | null
}

/** The outer shell joins stderr to stdout, and becomes the inner one. */
const becomeShell = '[ -z "$2" ] || umask "$2"; exec "$1" -c "$0" 2>&1'

/** The user's own script as a command: `sh -c`, or `-c` of another shell (`cmd /c` on Windows, where only its first line runs). */
export function scriptCommand(script: string, { shell, umask }: ScriptOptions = { shell: null, umask: null }): string[] {
  if (isWindows) return shell === null ? ['cmd', '/d', '/s', '/c', `"${script}"`] : [shell, '-c', script]
  return ['sh', '-c', becomeShell, script, shell ?? 'sh', umask === null ? '' : formatUmask(umask)]
}

/**
 * Runs a command to its end; every outcome is a value. Rejects only with what onLine threw, or rejected with: then the
 * group is stopped first.
 */
export async function runProcess(options: RunOptions): Promise<Ended> {
  if (options.signal?.aborted) return { reason: 'cancelled', exitCode: null, signal: null }
  const started = await start(options)
  if (typeof started === 'string') return { reason: 'spawn_failed', exitCode: null, signal: null, error: started }
  options.onStart?.(started.pid as number)
  return supervise(started, options)
}

async function start({ command, rights, cwd, env, marker, stderr }: RunOptions): Promise<ChildProcess | string> {
  const [program = '', ...words] = rights === undefined ? command : withRights(command, rights, cwd)
  try {
    const outputs = ['ignore', 'pipe', stderr === 'ignored' ? 'ignore' : 'pipe'] as const
    const child = withoutKept(outputs, stdio => spawn(program, words, {
      cwd: rights === undefined ? cwd : '/',
      env: marker === undefined ? env : { ...env, [marker.name]: marker.value },
      detached: !isWindows,
      windowsHide: true,
      windowsVerbatimArguments: isWindows && program === 'cmd',
      stdio
    }))
    await new Promise((resolve, reject) => void child.once('spawn', resolve).once('error', reject))
    return child
  } catch (error) {
    return explain(program, cwd, error as NodeJS.ErrnoException)
  }
}

/** The system blames the program (`ENOENT`) for a directory that is missing. */
async function explain(program: string, cwd: string, error: NodeJS.ErrnoException): Promise<string> {
  const directory = await stat(cwd).catch(() => null)
  const say = (why: string): string => `could not start "${program}": ${why}`
  if (directory === null) return say(`there is no directory "${cwd}"`)
  if (!directory.isDirectory()) return say(`"${cwd}" is not a directory`)
  if (error.code === 'ENOENT') return say('there is no such program')
  if (error.code === 'E2BIG') return say('its script or environment is longer than the system allows')
  return say(error.message)
}

type StopReason = 'timeout' | 'cancelled' | 'consumer failed'

async function supervise(child: ChildProcess, options: RunOptions): Promise<Ended> {
  const exited = new Promise<Pick<Ended, 'exitCode' | 'signal'>>(resolve => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
  })
  let why: StopReason | 'over' | null = null
  let stopped: Promise<Stopped> | null = null
  const stop = (reason: StopReason): void => {
    if (why !== null) return
    why = reason
    stopped = stopProcesses({ group: child.pid as number, marker: options.marker, graceMs: options.graceMs ?? defaultGraceMs })
  }
  const output = readOutput(child, options.onLine, () => stop('consumer failed'))
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
  /** To be called after the exit: resolves when all that was printed before it has been handed out and taken. */
  drain(): Promise<void>
  /** What comes from now on is dropped, and not waited for. */
  letGo(): void
}

function readOutput(child: ChildProcess, onLine: RunOptions['onLine'], onFailure: () => void): Output {
  const streams = [child.stdout, child.stderr].filter((stream): stream is Readable => stream !== null)
  const readers = streams.map(stream => readLines(stream, onLine, onFailure))
  const closed = Promise.all(readers.map(reader => reader.closed))

  async function drain(): Promise<void> {
    const maxBytes = maxDrainBytes()
    for (const reader of readers) reader.limit(maxBytes)
    for (let before = -1; before !== sum(readers); ) {
      before = sum(readers)
      // While the consumer has not taken what it got, the pipe is not read: its silence says nothing.
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

/** After the exit: more than this cannot have been on the way. Node's pipes are sockets, whose size a machine may raise. */
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
  /** Resolves when the consumer has taken what it was given; rejects with what it threw. */
  taken(): Promise<void>
  /** Lets go after so many bytes more. */
  limit(moreBytes: number): void
  /** Hands out an unfinished last line; from then on bytes are read and dropped. */
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
