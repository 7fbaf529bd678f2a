/*
 * Programs on a pseudo-terminal: node-pty behind a few functions.
 *
 * It is an optional dependency with a part compiled for the platform, so it is loaded on first use, and what is wrong
 * with it is a sentence, not an error. Its types are written here: without it, this must compile too.
 *
 * Where the terminal is a file descriptor (everywhere but on Windows), node-pty 1.1.0 only starts the program. It loses
 * output at the program's end (pty-output.ts), types into descriptors that are closed (pty-input.ts), and its `kill`
 * reaches the program alone; here its process group is meant.
 */
import { constants } from 'node:os'
import { missingInRuntime } from '../base/runtime.js'
import { keepBack } from './kept-descriptors.js'
import { createPtyInput } from './pty-input.js'
import { readPty } from './pty-output.js'
import type { PtyStream } from './pty-output.js'
import { membersOf } from './processes.js'

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

/** node-pty as far as it is used here. */
interface NodePty {
  spawn(file: string, args: string[], options: object): NodePtyTerminal
}

interface NodePtyTerminal {
  readonly pid: number
  /** Not on Windows. */
  readonly fd?: number
  /** Not part of its interface; where it is not what it is expected to be, its own ways are taken. */
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

/** Loads node-pty on the first call. `load` is for a test that has none. */
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
  // By its words too: an error that comes from a loader's own thread has lost its code.
  const isAbsent = error.code === 'MODULE_NOT_FOUND' || /^Cannot find (package|module)/.test(error.message)
  if (isAbsent && error.message.includes(packageName)) {
    return 'The terminal needs the package node-pty: install it beside svc with "npm install node-pty", then start svc again'
  }
  const why = error.message?.split('\n')[0] ?? String(error)
  return `The terminal needs node-pty compiled for this platform: run "npm rebuild node-pty" where svc is installed (${why})`
}

function createPty(spawn: NodePty['spawn'], { command: [program, ...words], cwd, env, cols, rows }: PtyOptions): Pty {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined))
  const name = env['TERM'] ?? 'xterm-256color'
  // The encoding also tells the kernel (IUTF8): else a backspace would delete half a character.
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
    tell(-terminal.pid, signal)
  }

  return {
    pid: terminal.pid,
    ended,
    onData: output.onData,
    pause: output.pause,
    resume: output.resume,
    write: text => isOver || input.write(text),
    resize(size) {
      if (!isOver && !stream?.destroyed) terminal.resize(size.cols, size.rows)
    },
    async end(graceMs = defaultGraceMs) {
      signalGroup('SIGHUP')
      const kill = setTimeout(() => {
        // The jobs of a shell are in groups of their own, and it will not pass the hang-up on any more.
        for (const job of membersOf(terminal.pid).filter(member => member !== terminal.pid)) tell(job, 'SIGHUP')
        signalGroup('SIGKILL')
      }, graceMs)
      output.giveUp()
      await ended
      clearTimeout(kill)
    }
  }
}

/** Signals a process, or a group by its negative id. */
function tell(id: number, signal: NodeJS.Signals): void {
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
    write(text) {
      terminal.write(text)
      return true
    }
  }
}

function signalName(number: number): string {
  const names = constants.signals as Record<string, number>
  return Object.keys(names).find(name => names[name] === number) ?? String(number)
}
