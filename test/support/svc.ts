import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { bare } from './bare.js'

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

/** Runs `svc` as a process without a terminal until it ends. */
export function svc(
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

/** Returns the environment of a command. Its data directory is below `cwd` by default. */
export function bareEnvironment(cwd: string, env: Record<string, string>): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: cwd, SVC_HOME: `${cwd}/.svc`, ...env }
}
