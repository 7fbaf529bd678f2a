/*
 * Programs on a pseudo-terminal: node-pty behind a few functions.
 *
 * It is an optional dependency with a part compiled for the platform, so it is loaded on first use, and what is wrong
 * with it is a sentence, not an error. Its types are written here: without it, this must compile too.
 *
 * node-pty 1.1.0 is led around three of its habits, on systems that have a file descriptor for the terminal:
 *   - Reading stops 200 ms after the program's exit. What the kernel still holds then, because reading was paused or
 *     this process was busy, would be lost. So the stream's `destroy` waits until all of it is read.
 *   - A write that the kernel does not take is tried again in a busy loop, from a queue without a limit that outlives
 *     the descriptor: somebody else's file may have its number by then. So bytes are written here, synchronously (the
 *     descriptor does not block), and only while the stream is open.
 *   - Ending it signals the program alone. Here its process group is meant.
 * Decoding is left to it: without an encoding it would tell the kernel that the terminal is not UTF-8 (IUTF8), and a
 * backspace would delete half a character. Node's decoder keeps the bytes of a character that is cut until the rest is
 * there.
 */
import { writeSync } from 'node:fs'
import { constants } from 'node:os'

export interface PtyOptions {
  /** The program and its arguments. */
  command: readonly [program: string, ...words: string[]]
  cwd: string
  /** The whole environment; nothing is inherited. */
  env: Readonly<Record<string, string | undefined>>
  cols: number
  rows: number
}

export interface PtyEnded {
  exitCode: number | null
  /** The name of the signal that ended it. */
  signal: string | null
}

export interface Pty {
  readonly pid: number
  /** What it prints, never cut within a character. */
  onData(take: (text: string) => void): void
  /** Once, after the last of its output. */
  readonly ended: Promise<PtyEnded>
  /** Types. False: so much waits already, because nobody reads it, that nothing of this was taken. */
  write(text: string): boolean
  resize(size: { cols: number; rows: number }): void
  /** Nothing more is read of it, so that it waits in its next write; input goes on reaching it. */
  pause(): void
  resume(): void
  /** Hangs up: SIGHUP for its process group, and SIGKILL after `graceMs`. Resolves when it has ended. */
  end(graceMs?: number): Promise<void>
}

export type PtyModule =
  | { outcome: 'loaded'; spawn(options: PtyOptions): Pty }
  /** `reason`: a sentence that says how to cure it. */
  | { outcome: 'missing'; reason: string }

export const defaultGraceMs = 2_000
/** Of input that the terminal does not take yet. */
const maxInputBytes = 1024 * 1024
/** After the exit: silence that long means that all is read, and that somebody else holds the terminal open. */
const drainIdleMs = 200
/** After the exit: at most so many times that silence is waited for, however busily a daemon writes on. */
const maxDrainWaits = 8
/** Before input that was not taken is offered again. */
const retryMs = 10

/** node-pty as far as it is used here. */
interface NodePty {
  spawn(file: string, args: string[], options: object): NodePtyTerminal
}

interface NodePtyTerminal {
  readonly pid: number
  /** Not on Windows. */
  readonly fd?: number
  /** Not part of its interface; where it is not what it is expected to be, its own ways are taken. */
  readonly _socket?: NodeJS.ReadableStream & { destroyed: boolean; destroy(error?: Error): unknown; destroySoon?: unknown }
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

/** Loads node-pty on the first call. `load` is for a test that has none. */
export function createPtyLoader(load: () => Promise<unknown> = () => import(packageName)): () => Promise<PtyModule> {
  let loading: Promise<PtyModule> | undefined
  return () => (loading ??= loadModule(load))
}

async function loadModule(load: () => Promise<unknown>): Promise<PtyModule> {
  if (process.versions['bun'] !== undefined) {
    return { outcome: 'missing', reason: 'The terminal needs Node: node-pty does not work in Bun (start with "--runtime node")' }
  }
  try {
    const module = (await load()) as NodePty & { default?: NodePty }
    const { spawn } = module.default ?? module
    return { outcome: 'loaded', spawn: options => createPty(spawn, options) }
  } catch (error) {
    return { outcome: 'missing', reason: explain(error as NodeJS.ErrnoException) }
  }
}

function explain(error: NodeJS.ErrnoException): string {
  const isAbsent = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND'
  if (isAbsent && error.message.includes(packageName)) {
    return 'The terminal needs the package node-pty: install it beside svc with "npm install node-pty", then start svc again'
  }
  const why = error.message?.split('\n')[0] ?? String(error)
  return `The terminal needs node-pty compiled for this platform: run "npm rebuild node-pty" where svc is installed (${why})`
}

function createPty(spawn: NodePty['spawn'], { command: [program, ...words], cwd, env, cols, rows }: PtyOptions): Pty {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined))
  const name = env['TERM'] ?? 'xterm-256color'
  const terminal = spawn(program, words, { name, cwd, cols, rows, env: given, encoding: 'utf8' })
  const drain = keepUntilDrained(terminal)
  const input = createInput(terminal)
  let isOver = false
  const ended = new Promise<PtyEnded>(resolve => {
    terminal.onExit(({ exitCode, signal }) => {
      isOver = true
      input.stop()
      resolve(signal ? { exitCode: null, signal: signalName(signal) } : { exitCode, signal: null })
    })
  })

  return {
    pid: terminal.pid,
    ended,
    onData: take => terminal.onData(take),
    write: text => isOver || input.write(text),
    resize(size) {
      if (!isOver && !terminal._socket?.destroyed) terminal.resize(size.cols, size.rows)
    },
    pause: () => terminal.pause(),
    resume() {
      terminal.resume()
      drain.resumed()
    },
    async end(graceMs = defaultGraceMs) {
      signalGroup(terminal, 'SIGHUP')
      const kill = setTimeout(() => signalGroup(terminal, 'SIGKILL'), graceMs)
      drain.giveUp()
      await ended
      clearTimeout(kill)
    }
  }

  function signalGroup({ pid, kill }: NodePtyTerminal, signal: NodeJS.Signals): void {
    if (isOver) return
    if (isWindows) return kill.call(terminal)
    try {
      process.kill(-pid, signal)
    } catch {
      // It has just ended.
    }
  }
}

/**
 * Replaces the stream's `destroy`: node-pty calls it without an error only to stop reading after the exit. The stream's
 * own end comes with an error (EIO), and passes.
 */
function keepUntilDrained(terminal: NodePtyTerminal): { resumed(): void; giveUp(): void } {
  const stream = terminal._socket
  if (isWindows || stream === undefined) return { resumed() {}, giveUp: () => terminal.resume() }
  const destroy = stream.destroy.bind(stream)
  let isOver = false
  let isGivenUp = false
  let isQuiet = true
  let waits = 0
  stream.on('data', () => void (isQuiet = false))

  function look(): void {
    // A timer that is late comes before what has arrived meanwhile; this comes after it.
    setImmediate(() => {
      if (stream?.isPaused()) return
      if (isQuiet || ++waits > maxDrainWaits) return void destroy()
      wait()
    })
  }

  function wait(): void {
    isQuiet = true
    setTimeout(look, drainIdleMs)
  }

  stream.destroy = error => {
    if (error !== undefined && error !== null || isGivenUp) return destroy(error)
    isOver = true
    look()
    return stream
  }
  return {
    resumed() {
      if (isOver) wait()
    },
    /** Nobody waits for what is unread any more. */
    giveUp() {
      isGivenUp = true
      terminal.resume()
      if (isOver) destroy()
    }
  }
}

/** What is typed: written at once as far as the terminal takes it, in order, and dropped with it. */
function createInput(terminal: NodePtyTerminal): { write(text: string): boolean; stop(): void } {
  const { fd, _socket: stream } = terminal
  let waiting: Buffer[] = []
  let waitingBytes = 0
  let retry: NodeJS.Timeout | undefined

  function flush(): void {
    retry = undefined
    while (waiting.length > 0) {
      const written = tryToWrite(waiting[0] as Buffer)
      if (written === undefined) return stop()
      waitingBytes -= written
      if (written === (waiting[0] as Buffer).length) {
        waiting.shift()
        continue
      }
      waiting[0] = (waiting[0] as Buffer).subarray(written)
      retry = setTimeout(flush, retryMs)
      return
    }
  }

  /** How many bytes were taken; undefined: there is no terminal any more. */
  function tryToWrite(bytes: Buffer): number | undefined {
    if (stream?.destroyed) return undefined
    try {
      return writeSync(fd as number, bytes)
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EAGAIN' ? 0 : undefined
    }
  }

  function stop(): void {
    clearTimeout(retry)
    waiting = []
    waitingBytes = 0
  }

  return {
    stop,
    write(text) {
      if (fd === undefined || stream === undefined) {
        terminal.write(text)
        return true
      }
      const bytes = Buffer.from(text)
      if (waitingBytes + bytes.length > maxInputBytes) return false
      waiting.push(bytes)
      waitingBytes += bytes.length
      if (retry === undefined) flush()
      return true
    }
  }
}

function signalName(number: number): string {
  const names = constants.signals as Record<string, number>
  return Object.keys(names).find(name => names[name] === number) ?? String(number)
}
