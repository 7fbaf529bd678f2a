/*
 * Programs on a pseudo-terminal: node-pty behind a few functions.
 *
 * node-pty is an optional dependency with a part that is compiled for the platform. So it is loaded on first use, and a
 * problem with it is reported as a message, not thrown. Its types are declared here, since this must compile without
 * it.
 *
 * If the terminal is a file descriptor (everywhere except on Windows), node-pty 1.1.0 only starts the program. It loses
 * output at the end of the program (pty-output.ts), writes to closed descriptors (pty-input.ts), and its `kill` reaches
 * only the program; here the whole process group is signalled.
 */
import { constants } from 'node:os'
import { missingInRuntime } from '../base/runtime.js'
import { keepBack } from './kept-descriptors.js'
import { createPtyInput, type PtyInput } from './pty-input.js'
import { readPty, type PtyStream } from './pty-output.js'
import { membersOf } from './processes.js'

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
  /** Hangs up: sends SIGHUP to its process group, and SIGKILL after `graceMs`. Resolves when the program has ended. */
  end(graceMs?: number): Promise<void>
}

/** The result of loading node-pty. */
export type PtyModule =
  | { outcome: 'loaded'; spawn(options: PtyOptions): Pty }
  /** `reason` is a message that says how to fix it. */
  | { outcome: 'missing'; reason: string }

/** Default time between SIGHUP and SIGKILL. */
export const defaultGraceMs = 2_000

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
  return `The terminal needs node-pty compiled for this platform (${why}). Run "npm rebuild node-pty" beside svc`
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
    async end(graceMs = defaultGraceMs) {
      signalGroup('SIGHUP')
      const kill = setTimeout(() => {
        // The jobs of a shell are in groups of their own, and a killed shell cannot pass on the hangup.
        for (const job of membersOf(terminal.pid).filter(member => member !== terminal.pid)) sendSignal(job, 'SIGHUP')
        signalGroup('SIGKILL')
      }, graceMs)
      output.giveUp()
      await ended
      clearTimeout(kill)
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
