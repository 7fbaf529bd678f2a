/*
 * Runs work on files with the rights of another user: one process per job, on Linux, if svc runs as root.
 *
 * The process is Node with one module of svc, a small environment of its own, and the descriptors that it is given. So
 * it can read and write files of the data directory without permission to open anything there. Its answer comes over
 * Node's channel (structured clone). The process lives until svc has used the answer: svc can open the files that the
 * process has opened as /proc/<pid>/fd/<n>, which names the open file itself, not a path that somebody could change.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { unpackError } from '../base/packed-error.js'
import { withoutKept } from './kept-descriptors.js'
import type { HelperAnswer, HelperTask } from './helper-process.js'
import type { Rights } from './identity.js'

/** One job for a helper process. */
export interface HelperCall<Job> {
  /** The module of the process, which calls `serveHelper`. */
  module: URL
  rights: Rights
  job: Job
  /** Open files that the process gets as its descriptors 4, 5, …. The caller still has to close them. */
  descriptors?: readonly number[]
  /** On abort, the process is killed and the call rejects with the reason. */
  signal?: AbortSignal | undefined
  /** Called once the process runs, before it gets its job. */
  onStart?(pid: number): void
}

/** Maximum heap size of a helper process, like that of a thread (install/unpack/extract-threads.ts). */
const maxHeapMb = 192

/**
 * A killed process does not end: it is blocked in a system call, for example to a file server that does not respond.
 */
export class HelperStuck extends Error {
  /** Resolves when the process has ended after all. */
  readonly gone: Promise<void>

  constructor(gone: Promise<void>) {
    super('The process that works with the rights of another user does not end: a file system call does not return')
    this.gone = gone
  }
}

/** Time that a killed process has to end. */
const endMs = 5_000

/**
 * Runs a job in a new process, and returns the result of `use` for its answer; the process lives until then. Rejects
 * with the error of the job, with an error if the process dies without an answer, and with `HelperStuck`.
 */
export async function runHelper<Job, Answer, Result = Answer>(
  call: HelperCall<Job>,
  use: (answer: Answer, pid: number) => Result | Promise<Result> = answer => answer as unknown as Result
): Promise<Result> {
  const { signal } = call
  signal?.throwIfAborted()
  const child = start(call)
  const kill = (): void => void child.kill('SIGKILL')
  const gone = new Promise<void>(resolve => void child.once('exit', () => resolve()).once('error', () => resolve()))
  signal?.addEventListener('abort', kill)
  const working = converse(child, call, use)
  working.catch(() => {})
  try {
    const aborted = new Promise<void>(resolve => signal?.addEventListener('abort', () => resolve(), { once: true }))
    await Promise.race([working.catch(() => {}), aborted])
  } finally {
    signal?.removeEventListener('abort', kill)
    kill()
  }
  if (!(await endsIn(gone, endMs))) throw new HelperStuck(gone)
  signal?.throwIfAborted()
  return working
}

async function converse<Job, Answer, Result>(
  child: ChildProcess,
  { rights, job, onStart }: HelperCall<Job>,
  use: (answer: Answer, pid: number) => Result | Promise<Result>
): Promise<Result> {
  const ended = ending(child)
  // It rejects at the end of every call.
  ended.catch(() => {})
  await Promise.race([new Promise(resolve => child.once('spawn', resolve)), ended])
  onStart?.(child.pid as number)
  const answered = new Promise<HelperAnswer>(resolve =>
    child.once('message', answer => resolve(answer as HelperAnswer))
  )
  child.send({ rights, job } satisfies HelperTask, () => {})
  const answer = await Promise.race([answered, ended])
  if (answer.kind === 'failed') throw unpackError(answer.error)
  return use(answer.answer as Answer, child.pid as number)
}

async function endsIn(gone: Promise<void>, ms: number): Promise<boolean> {
  const giveUp = new AbortController()
  const late = sleep(ms, false, { signal: giveUp.signal }).catch(() => false)
  const hasEnded = await Promise.race([gone.then(() => true), late])
  giveUp.abort()
  return hasEnded
}

function start({ module, descriptors = [] }: HelperCall<unknown>): ChildProcess {
  const words = [`--max-old-space-size=${maxHeapMb}`, '--max-semi-space-size=2', fileURLToPath(module)]
  return withoutKept(['ignore', 'ignore', 'inherit', 'ipc', ...descriptors] as const, stdio =>
    spawn(process.execPath, words, {
      cwd: '/',
      env: {},
      // A signal to svc's group, such as Ctrl-C, must not interrupt a commit.
      detached: true,
      serialization: 'advanced',
      stdio
    })
  )
}

/** Rejects when the process has ended. */
function ending(child: ChildProcess): Promise<never> {
  return new Promise((_, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) =>
      reject(new Error(`The helper process ended without an answer (${signal ?? code})`))
    )
  })
}
