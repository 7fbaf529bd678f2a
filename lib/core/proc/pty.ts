/*
 * Programs on a pseudo-terminal: node-pty behind a few functions.
 *
 * node-pty is an optional dependency with a part that is compiled for the platform. So it is loaded on first use, and a
 * problem with it is reported as a message, not thrown. Its types are declared here, since this must compile without
 * it.
 *
 * If the terminal is a file descriptor (everywhere except on Windows), node-pty 1.1.0 only starts the program. It loses
 * output at the end of the program, writes to closed descriptors, and its `kill` reaches
 * only the program; here the whole process group is signalled.
 */
import { readSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import { StringDecoder } from 'node:string_decoder'
import { missingInRuntime } from '../../base/runtime.js'
import { hasCode } from '../../base/errors.js'
import { keepBack } from './environment.js'
import { membersOf } from './stop.js'

/** A program to start on a pseudo-terminal. */
export interface PtyOptions {
  /** The program and its arguments. */
  command: readonly [program: string, ...words: string[]]
  cwd: string
  /** The whole environment; nothing is inherited. */
  env: Readonly<Record<string, string | undefined>>
  cols: number
  rows: number
}

/** How a program on a pseudo-terminal ended. */
export interface PtyEnded {
  exitCode: number | null
  /** The name of the signal that ended the program. */
  signal: string | null
}

/** A program on a pseudo-terminal. */
export interface Pty {
  readonly pid: number
  /** Calls `take` with the output of the program, never split within a character. */
  onData(take: (text: string) => void): void
  /** Resolves after the last of its output. */
  readonly ended: Promise<PtyEnded>
  /** See PtyInput. */
  write: PtyInput['write']
  resize(size: { cols: number; rows: number }): void
  /** Stops reading, so that the program blocks in its next write. Input still reaches it. */
  pause(): void
  resume(): void
  /**
   * Hangs up: sends SIGHUP to its process group, and SIGKILL after `graceMs`. `isWhole` also kills the jobs that ignore the
   * hangup. Resolves when the program has ended.
   */
  end(options?: { graceMs?: number; isWhole?: boolean }): Promise<void>
}

/** The result of loading node-pty. */
export type PtyModule =
  | { outcome: 'loaded'; spawn(options: PtyOptions): Pty }
  /** `reason` is a message that says how to fix it. */
  | { outcome: 'missing'; reason: string }

/** Default time between SIGHUP and SIGKILL. */
const defaultGraceMs = 2_000

/** The part of node-pty that is used here. */
interface NodePty {
  spawn(file: string, args: string[], options: object): NodePtyTerminal
}

interface NodePtyTerminal {
  readonly pid: number
  /** Missing on Windows. */
  readonly fd?: number
  /** Not part of the public interface. If it is missing, node-pty's own functions are used. */
  readonly _socket?: PtyStream
  onData(take: (text: string) => void): void
  onExit(take: (end: { exitCode: number; signal?: number }) => void): void
  write(text: string): void
  resize(cols: number, rows: number): void
  kill(signal?: string): void
  pause(): void
  resume(): void
}

const isWindows = process.platform === 'win32'
const packageName: string = 'node-pty'

/** Returns a function that loads node-pty on its first call. Tests replace `load` to simulate that it is missing. */
export function createPtyLoader(load: () => Promise<unknown> = () => import(packageName)): () => Promise<PtyModule> {
  let loading: Promise<PtyModule> | undefined
  return () => (loading ??= loadModule(load))
}

async function loadModule(load: () => Promise<unknown>): Promise<PtyModule> {
  if (missingInRuntime.terminal !== null) return { outcome: 'missing', reason: missingInRuntime.terminal }
  try {
    const module = (await load()) as NodePty & { default?: NodePty }
    const { spawn } = module.default ?? module
    return { outcome: 'loaded', spawn: options => createPty(spawn, options) }
  } catch (error) {
    return { outcome: 'missing', reason: explain(error as NodeJS.ErrnoException) }
  }
}

function explain(error: NodeJS.ErrnoException): string {
  // The message is checked, too: an error from the thread of a loader has lost its code.
  const isAbsent = error.code === 'MODULE_NOT_FOUND' || /^Cannot find (package|module)/.test(error.message)
  if (isAbsent && error.message.includes(packageName)) {
    return 'The terminal needs the package node-pty. Install it beside svc with "npm install node-pty", and restart svc'
  }
  const why = error.message?.split('\n')[0] ?? String(error)
  // Not "npm rebuild": npm 11 says that it has rebuilt a bundled package, and runs nothing.
  return `The terminal needs node-pty compiled for this platform (${why}). Run "npm run install" in node_modules/node-pty of svc`
}

function createPty(spawn: NodePty['spawn'], { command: [program, ...words], cwd, env, cols, rows }: PtyOptions): Pty {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined))
  const name = env['TERM'] ?? 'xterm-256color'
  // The encoding also sets IUTF8 in the kernel; otherwise a backspace would delete half a character.
  const terminal = spawn(program, words, { name, cwd, cols, rows, env: given, encoding: 'utf8' })
  const { fd, _socket: stream } = terminal
  const device = isWindows || fd === undefined || stream === undefined ? undefined : { fd, stream }
  if (device !== undefined) device.stream.once('close', keepBack(device.fd))
  const output = device === undefined ? plainOutput(terminal) : readPty(device)
  const input = device === undefined ? plainInput(terminal) : createPtyInput(device)
  let isOver = false
  const ended = new Promise<PtyEnded>(resolve => {
    terminal.onExit(({ exitCode, signal }) => {
      isOver = true
      input.stop()
      resolve(signal ? { exitCode: null, signal: signalName(signal) } : { exitCode, signal: null })
    })
  })

  function signalGroup(signal: NodeJS.Signals): void {
    if (isOver) return
    if (isWindows) return terminal.kill()
    sendSignal(-terminal.pid, signal)
  }

  return {
    pid: terminal.pid,
    ended,
    onData: output.onData,
    pause: output.pause,
    resume: output.resume,
    write: (text, onTaken) => isOver || input.write(text, onTaken),
    resize(size) {
      if (!isOver && !stream?.destroyed) terminal.resize(size.cols, size.rows)
    },
    async end({ graceMs = defaultGraceMs, isWhole = false } = {}) {
      signalGroup('SIGHUP')
      const kill = setTimeout(() => {
        // The jobs of a shell are in groups of their own, and a killed shell cannot pass on the hangup.
        for (const job of membersOf(terminal.pid).filter(member => member !== terminal.pid)) sendSignal(job, 'SIGHUP')
        signalGroup('SIGKILL')
      }, graceMs)
      output.giveUp()
      await ended
      clearTimeout(kill)
      // The session keeps its number as long as one of them runs.
      if (isWhole) for (const job of membersOf(terminal.pid)) sendSignal(job, 'SIGKILL')
    }
  }
}

/** Signals a process, or a group by its negative id. */
function sendSignal(id: number, signal: NodeJS.Signals): void {
  try {
    process.kill(id, signal)
  } catch {
    // It has just ended.
  }
}

function plainOutput(terminal: NodePtyTerminal): ReturnType<typeof readPty> {
  return {
    onData: take => terminal.onData(take),
    pause: () => terminal.pause(),
    resume: () => terminal.resume(),
    giveUp: () => terminal.resume()
  }
}

function plainInput(terminal: NodePtyTerminal): ReturnType<typeof createPtyInput> {
  return {
    stop() {},
    write(text, onTaken) {
      terminal.write(text)
      onTaken?.()
      return true
    }
  }
}

function signalName(number: number): string {
  const names = constants.signals as Record<string, number>
  return Object.keys(names).find(name => names[name] === number) ?? String(number)
}

/** The input of a pseudo-terminal. */
interface PtyInput {
  /**
   * Types text, in order. Returns false, without taking any of it, if too much input is already queued because nobody
   * reads it. `onTaken` is called when the terminal has accepted all of it.
   */
  write(text: string, onTaken?: () => void): boolean
  /** Drops the queued input. */
  stop(): void
}

/** Maximum size of input that the terminal has not accepted yet. */
const maxWaitingBytes = 1024 * 1024
/** Delay before input that was not accepted is written again. The terminal takes 4 KiB at a time. */
const retryMs = 2
/** The delay if the program has read nothing meanwhile. */
const idleRetryMs = 20

/**
 * Creates the input of a terminal. Bytes are written at once and synchronously (the descriptor does not block), and
 * only while the stream that owns the descriptor is open. node-pty's own queue retries in a busy loop without a limit,
 * and continues after the descriptor is closed, when its number may belong to another file.
 */
export function createPtyInput({ fd, stream }: { fd: number; stream: { readonly destroyed: boolean } }): PtyInput {
  let waiting: Array<{ bytes: Buffer; onTaken: (() => void) | undefined }> = []
  let waitingBytes = 0
  let retry: NodeJS.Timeout | undefined

  function flush(): void {
    retry = undefined
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      const written = tryToWrite(first.bytes)
      if (written === undefined) return stop()
      waitingBytes -= written
      if (written < first.bytes.length) {
        first.bytes = first.bytes.subarray(written)
        retry = setTimeout(flush, written > 0 ? retryMs : idleRetryMs)
        return
      }
      waiting.shift()
      first.onTaken?.()
    }
  }

  /** Returns the number of bytes that were accepted, or undefined if the terminal no longer exists. */
  function tryToWrite(bytes: Buffer): number | undefined {
    if (stream.destroyed) return undefined
    try {
      return writeSync(fd, bytes)
    } catch (error) {
      return hasCode(error, 'EAGAIN') ? 0 : undefined
    }
  }

  function stop(): void {
    clearTimeout(retry)
    retry = undefined
    waiting = []
    waitingBytes = 0
  }

  return {
    stop,
    write(text, onTaken) {
      const bytes = Buffer.from(text)
      if (waitingBytes + bytes.length > maxWaitingBytes) return false
      waiting.push({ bytes, onTaken })
      waitingBytes += bytes.length
      if (retry === undefined) flush()
      return true
    }
  }
}

/*
 * Reads the output of a program on a pseudo-terminal, to its last byte.
 *
 * Reading through a Node stream loses some output at the end of the program. The terminal returns 4 KiB per read. Once
 * the other end is closed, libuv takes a read that does not fill its buffer for the last one. Data that is queued in
 * the stream while it is paused is then dropped. node-pty stops after 200 ms anyway. All of these call the stream's
 * `destroy`, so `destroy` is delayed here: first the data in the stream is passed on, then the rest is read from the
 * kernel, respecting `pause` and `resume`, and only then the descriptor is closed.
 *
 * A daemon that the program left behind may keep the terminal open for years. Then silence is the end, or a maximum
 * number of waits.
 *
 * The stream decodes its bytes as latin1, one character each, because an encoding cannot be removed from a stream. They
 * are decoded as UTF-8 here, so that a character may be split anywhere, even between the stream and the kernel.
 */

/** node-pty's stream: a `tty.ReadStream`. */
export type PtyStream = NodeJS.ReadableStream & { destroyed: boolean; destroy(error?: Error | null): unknown }

/** The output of a pseudo-terminal. */
interface PtyOutput {
  onData(take: (text: string) => void): void
  pause(): void
  resume(): void
  /** Drops the output that is not read yet. */
  giveUp(): void
}

const readBytes = 64 * 1024
/** Maximum number of reads in one turn of the event loop. */
const maxReads = 64
/**
 * After the end, silence of this length means that everything was read. The kernel passes on written data with a delay.
 */
const drainIdleMs = 100
/** After the end, the maximum number of waits for silence, however much a daemon still writes. */
const maxDrainWaits = 16

/** Reads a terminal through its stream, and at the end directly from its descriptor. */
export function readPty({ fd, stream }: { fd: number; stream: PtyStream }): PtyOutput {
  const takers: Array<(text: string) => void> = []
  const decoder = new StringDecoder('utf8')
  const destroy = stream.destroy.bind(stream)
  /** `ending` means that the stream wants to close, and must wait. */
  let state: 'reading' | 'ending' | 'over' = 'reading'
  let isPaused = false
  let waits = 0
  let timer: NodeJS.Timeout | undefined

  function hand(text: string): void {
    if (text !== '') for (const take of takers) take(text)
  }

  function over(error?: Error | null): void {
    if (state === 'over') return
    state = 'over'
    clearTimeout(timer)
    hand(decoder.end())
    destroy(error)
  }

  /** Reads until everything is read, a pause begins, or there is silence. */
  function drain(): void {
    clearTimeout(timer)
    // For a flowing stream, `read` emits the data that it holds.
    while (!isPaused && stream.read() !== null);
    const outcome = readRest()
    if (state !== 'ending' || outcome === 'paused') return
    if (outcome === 'end' || (outcome === 'silence' && waits > 0) || waits > maxDrainWaits) return over()
    waits++
    timer = setTimeout(drain, drainIdleMs)
  }

  /** Reads from the kernel. `end` means that nobody can write any more, `some` that there was data a moment ago. */
  function readRest(): 'end' | 'silence' | 'some' | 'paused' {
    const bytes = Buffer.allocUnsafe(readBytes)
    for (let reads = 0; reads < maxReads; reads++) {
      if (isPaused) return 'paused'
      const count = tryToRead(fd, bytes)
      if (count === 'end') return 'end'
      if (count === 0) return reads === 0 ? 'silence' : 'some'
      hand(decoder.write(bytes.subarray(0, count)))
    }
    return 'some'
  }

  stream.setEncoding('latin1')
  stream.on('data', (text: string) => hand(decoder.write(Buffer.from(text, 'latin1'))))
  stream.destroy = () => {
    if (state === 'reading') {
      state = 'ending'
      drain()
    }
    return stream
  }

  return {
    onData: take => void takers.push(take),
    pause() {
      isPaused = true
      stream.pause()
    },
    resume() {
      isPaused = false
      stream.resume()
      if (state === 'ending') drain()
    },
    giveUp() {
      takers.length = 0
      isPaused = false
      stream.resume()
      if (state === 'ending') over()
      else stream.destroy = error => over(error)
    }
  }
}

/** Returns the number of bytes that were read, or `end` if there will be no more. The descriptor does not block. */
function tryToRead(fd: number, into: Buffer): number | 'end' {
  try {
    return readSync(fd, into) || 'end'
  } catch (error) {
    // EIO: the other end is closed.
    return hasCode(error, 'EAGAIN') ? 0 : 'end'
  }
}
