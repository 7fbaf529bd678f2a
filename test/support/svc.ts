import { StringDecoder } from 'node:string_decoder'
import { spawn, type ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { commands } from '../../lib/cli/command-table.js'
import { main } from '../../lib/cli/entry.js'
import { bare } from './bare.js'
import { isThorough } from './thorough.js'
import type { Host } from '../../lib/cli/terminal/output.js'

/** The launcher in bin. */
export const svcPath = fileURLToPath(new URL('../../../bin/svc.js', import.meta.url))

export interface SvcOptions {
  cwd: string
  /** Additions to a bare environment: PATH and HOME, and nothing that configures svc. */
  env?: Record<string, string>
  /** The launcher of another program than this one. */
  program?: string
  /** Standard input; by default it is closed. */
  input?: string
  /** A server or an agent refuses to start, and so ends by itself. */
  isRefused?: boolean
  /** Called with the whole output of both streams after each new part. */
  onOutput?: (text: string, child: ChildProcess) => void
  /** Sends Ctrl-C once, as soon as the output matches. */
  interruptAt?: RegExp
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/**
 * Runs `svc` without a terminal until it ends. A command is a process the first time (in the whole suite, if suite.ts
 * runs it), which shows that it ends by itself; then it runs in this process, because to start Node takes twenty times as long as most commands. With
 * THOROUGH=1 each is a process.
 */
export function svc(words: string[], options: SvcOptions): Promise<Ended> {
  return isThorough || needsProcess(words, options) ? svcProcess(words, options) : svcHere(words, options)
}

/** Commands that were a process. suite.ts gives all its processes a directory with a file for each. */
const begun = new Set<string>()
const begunInSuite = process.env['BEGUN_COMMANDS']

/** Returns whether a command was not a process yet. The next time it was. */
function isFirst(name: string): boolean {
  if (begun.has(name)) return false
  begun.add(name)
  try {
    if (begunInSuite !== undefined) closeSync(openSync(join(begunInSuite, name), 'wx'))
    return true
  } catch {
    return false
  }
}
/** Variables that Node reads by itself, or a program that svc starts. */
const ofNode = /^(HOME|PATH|TZ|LANG|LC_.*|TMPDIR|NODE_.*|SSL_.*|GIT_.*|XDG_.*)$/

function needsProcess(
  words: string[],
  { env = {}, program, onOutput, interruptAt, isRefused = false }: SvcOptions
): boolean {
  const row = commands.find(({ name, aliases = [] }) =>
    [name, ...aliases].some(typed => typed === words.slice(0, typed.split(' ').length).join(' '))
  )
  // Servers and agents run until a signal ends them.
  if (row === undefined || (row.reader === 'ignored' && !isRefused)) return true
  if (program !== undefined || onOutput !== undefined || interruptAt !== undefined) return true
  if (Object.keys(env).some(name => ofNode.test(name))) return true
  // Below the home directory, which Node reads from the environment of the process.
  if (/^(~|$)/.test(env['SVC_HOME'] ?? '.')) return true
  return isFirst(row.name)
}

/** Runs `svc` in this process. */
async function svcHere(words: string[], { cwd, env = {}, input }: SvcOptions): Promise<Ended> {
  const said = { stdout: '', stderr: '' }
  const { run } = programHere({
    cwd,
    env: bareEnvironment(cwd, env),
    input,
    hear: (name, text) => (said[name] += text)
  })
  return { code: await run(words), signal: null, ...said }
}

export interface ProgramHere {
  cwd: string
  env: Record<string, string>
  /** Standard input; by default it is closed. */
  input?: string | undefined
  hear(name: 'stdout' | 'stderr', text: string): void
}

/** The program `svc` in this process, with all that it uses of a process: streams, environment, signals. */
export function programHere({ cwd, env, input, hear }: ProgramHere) {
  const signals = new EventEmitter()
  const stream = (name: 'stdout' | 'stderr') => {
    // A character may come in several writes.
    const decoder = new StringDecoder('utf8')
    return new Writable({
      write(bytes: Buffer, _encoding, done) {
        hear(name, decoder.write(bytes))
        done()
      }
    })
  }
  let exit = (_code: number): void => {}
  const exited = new Promise<number>(resolve => (exit = resolve))
  const host = {
    env,
    cwd: () => cwd,
    stdin: Readable.from(input === undefined ? [] : [Buffer.from(input)]),
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    on: signals.on.bind(signals),
    off: signals.off.bind(signals),
    exit
  }
  return {
    run: (words: string[]): Promise<number> => Promise.race([main(words, host as unknown as Host), exited]),
    signal: (name: NodeJS.Signals): void => void signals.emit(name)
  }
}

/** Runs `svc` as a process. */
function svcProcess(
  words: string[],
  { cwd, env = {}, program = svcPath, input, onOutput, interruptAt }: SvcOptions
): Promise<Ended> {
  const child = spawn(...bare(process.execPath, [program, ...words]), {
    cwd,
    env: bareEnvironment(cwd, env),
    stdio: 'pipe'
  })
  const said = { stdout: '', stderr: '' }
  let isInterrupted = false
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text
      onOutput?.(said.stdout + said.stderr, child)
      if (isInterrupted || !interruptAt?.test(said.stdout + said.stderr)) return
      isInterrupted = true
      child.kill('SIGINT')
    })
  }
  child.stdin.on('error', () => {})
  child.stdin.end(input ?? '')
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...said }))
  })
}

/**
 * Returns the environment of a command. Its data directory is below `cwd` by default, and its temporary files are where
 * this process has them.
 */
export function bareEnvironment(cwd: string, env: Record<string, string>): Record<string, string> {
  const { PATH = '', TMPDIR } = process.env
  return { PATH, ...(TMPDIR !== undefined && { TMPDIR }), HOME: cwd, SVC_HOME: `${cwd}/.svc`, ...env }
}
