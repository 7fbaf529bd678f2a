/*
 * Work on files with the rights of another user: one process for one job, on Linux, where svc runs as root.
 *
 * The process is Node with one module of svc, a small environment of its own and the descriptors it is given, so it
 * reads and writes what lies in the data directory without a right to open anything there. Its answer comes over the
 * channel that Node provides (structured clone). It lives until svc has used the answer: what it has opened can be
 * opened again by svc as /proc/<pid>/fd/<n>, which names the open file itself and no path that somebody could change.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { unpackError } from '../base/packed-error.js'
import type { HelperAnswer, HelperTask } from './helper-process.js'
import type { Rights } from './identity.js'

export interface HelperCall<Job> {
  /** The module of the process; it calls `serveHelper`. */
  module: URL
  rights: Rights
  job: Job
  /** Open files that the process has as its descriptors 4, 5, …; they stay the caller's to close. */
  descriptors?: readonly number[]
  /** Aborted: the process is killed and the call rejects with the reason. */
  signal?: AbortSignal | undefined
  /** Called once the process runs, before it gets its job. */
  onStart?(pid: number): void
}

/** The number by which a helper process knows the first of `descriptors`; Node's channel has 3. */
export const firstDescriptor = 4

/** The heap that one may have before it dies, as a thread has (deploy/extract-threads.ts). */
const maxHeapMb = 192

/**
 * Runs a job in a process of its own and answers what `use` makes of its answer; the process lives until then. Rejects
 * with what the job threw, and with an error when the process dies without an answer.
 */
export async function runHelper<Job, Answer, Result = Answer>(
  call: HelperCall<Job>, use: (answer: Answer, pid: number) => Result | Promise<Result> = answer => answer as unknown as Result
): Promise<Result> {
  const { rights, job, signal, onStart } = call
  signal?.throwIfAborted()
  const child = start(call)
  const kill = (): void => void child.kill('SIGKILL')
  signal?.addEventListener('abort', kill)
  try {
    const ended = ending(child)
    // Held here: it rejects when the process ends, which it does in the end of every call.
    ended.catch(() => {})
    await Promise.race([new Promise(resolve => child.once('spawn', resolve)), ended])
    onStart?.(child.pid as number)
    const answered = new Promise<HelperAnswer>(resolve => child.once('message', answer => resolve(answer as HelperAnswer)))
    child.send({ rights, job } satisfies HelperTask, () => {})
    const answer = await Promise.race([answered, ended])
    if (answer.kind === 'failed') throw unpackError(answer.error)
    return await use(answer.answer as Answer, child.pid as number)
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  } finally {
    signal?.removeEventListener('abort', kill)
    kill()
    await gone(child)
  }
}

function start({ module, descriptors = [] }: HelperCall<unknown>): ChildProcess {
  const words = [`--max-old-space-size=${maxHeapMb}`, '--max-semi-space-size=2', fileURLToPath(module)]
  return spawn(process.execPath, words, {
    cwd: '/',
    env: {},
    // A signal to svc's group, Ctrl-C, must not end a commit in its middle.
    detached: true,
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc', ...descriptors]
  })
}

/** Rejects when the process is gone. */
function ending(child: ChildProcess): Promise<never> {
  return new Promise((_, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => reject(new Error(`The helper process ended without an answer (${signal ?? code})`)))
  })
}

async function gone(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  await new Promise(resolve => child.once('exit', resolve))
}
