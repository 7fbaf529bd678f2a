import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { bare } from './bare.js'

/** The launcher, as a user's PATH has it. */
export const svcPath = fileURLToPath(new URL('../../../bin/svc.js', import.meta.url))

export interface SvcOptions {
  cwd: string
  /** On top of a bare environment: PATH and HOME, nothing that configures svc. */
  env?: Record<string, string>
  /** Standard input; without it, there is none. */
  input?: string
  /** Called with the whole output of both streams after each new part. */
  onOutput?: (text: string, child: ChildProcess) => void
  /** Ctrl-C, once, as soon as everything said so far matches. */
  interruptAt?: RegExp
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** Runs `svc` as a process of its own, without a terminal, until it ends. */
export function svc(words: string[], { cwd, env = {}, input, onOutput, interruptAt }: SvcOptions): Promise<Ended> {
  const child = spawn(...bare(process.execPath, [svcPath, ...words]), {
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

/** What a command may see of this process's environment; its data directory is below `cwd` unless `env` says other. */
export function bareEnvironment(cwd: string, env: Record<string, string>): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: cwd, SVC_HOME: `${cwd}/.svc`, ...env }
}
