/*
 * Runs work on files with the rights of another user: one process per job, on Linux, if svc runs as root.
 *
 * The process is Node with one module of svc, a small environment of its own, and the descriptors that it is given. So
 * it can read and write files of the data directory without permission to open anything there. It lives until svc has
 * used the answer: svc can take over a file that the process has opened (core/install/helper-answers.ts).
 *
 * The user can signal the process, and svc believes no more of its answer than of that user (helper-wire.ts). A
 * process that the user has stopped is ended, because others wait for its place.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { serialize } from 'node:v8'
import { oneLine } from '../../base/text.js'
import {
  channelDescriptor,
  FrameTooLong,
  maxAnswerBytes,
  notAccepted,
  readAnswer,
  type ReadAnswer,
  readFrame,
  sendFrame
} from './helper-wire.js'
import type { HelperTask } from './helper-process.js'
import type { Rights } from './identity.js'
import { withoutKept } from './environment.js'
import { statOf, type FoundProcess } from './stop.js'

/** One job for a helper process. */
export interface HelperCall<Job, Answer> {
  /** The module of the process, which calls `serveHelper`. */
  module: URL
  rights: Rights
  job: Job
  /** Reads what the process answers. It throws for everything that svc's own code would not answer. */
  read: ReadAnswer<Answer>
  /** Open files that the process gets as its descriptors 4, 5, …. The caller still has to close them. */
  descriptors?: readonly number[]
  /** On abort, the process is killed and the call rejects with the reason. */
  signal?: AbortSignal | undefined
  /** Time for a job without a signal, in ms. */
  limitMs?: number
  /** Called once the process runs, before it gets its job. */
  onStart?(process: FoundProcess): void
}

/** Default time for a job without a signal. */
const defaultLimitMs = 120_000
/** Interval at which svc looks whether the user has stopped the process. */
const lookMs = 1_000
/** Maximum length of what the process has printed before it ended. */
const maxPrinted = 2_000

/** Maximum heap size of a helper process, like that of a thread (core/install/unpack/extract-threads.ts). */
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
 * with the error of the job, with an error if the process dies without an answer, with `notAccepted`, and with
 * `HelperStuck`.
 */
export async function runHelper<Job, Answer, Result = Answer>(
  call: HelperCall<Job, Answer>,
  use: (answer: Answer, process: FoundProcess) => Result | Promise<Result> = answer => answer as unknown as Result
): Promise<Result> {
  const { signal, limitMs = defaultLimitMs } = call
  const { name } = call.rights.identity
  signal?.throwIfAborted()
  const child = start(call)
  const kill = (): void => void child.kill('SIGKILL')
  const gone = new Promise<void>(resolve => void child.once('exit', () => resolve()).once('error', () => resolve()))
  let abort = (): void => {}
  const aborted = new Promise<void>(resolve => {
    abort = () => {
      kill()
      resolve()
    }
  })
  signal?.addEventListener('abort', abort)
  const working = converse(child, call, use)
  working.catch(() => {})
  const faulty = signal === undefined ? [whenStopped(child, name), late(limitMs, name)] : [whenStopped(child, name)]
  const fault = Promise.race(faulty.map(({ fault }) => fault))
  try {
    const found = await Promise.race([working.then(noFault, noFault), aborted, fault])
    if (found !== undefined) throw found
  } finally {
    for (const { forget } of faulty) forget()
    signal?.removeEventListener('abort', abort)
    kill()
    for (const stream of child.stdio) stream?.destroy()
  }
  if (!(await endsIn(gone, endMs))) throw new HelperStuck(gone)
  signal?.throwIfAborted()
  return working
}

const noFault = (): undefined => {}

interface Watch {
  /** Resolves with the error if the process must be ended. */
  fault: Promise<Error>
  forget(): void
}

function whenStopped(child: ChildProcess, user: string): Watch {
  let timer: NodeJS.Timeout | undefined
  const fault = new Promise<Error>(resolve => {
    timer = setInterval(() => {
      const isStopped = child.pid !== undefined && statOf(child.pid)?.isStopped === true
      if (isStopped) resolve(notAccepted(user, 'a signal has stopped it'))
    }, lookMs)
  })
  return { fault, forget: () => clearInterval(timer) }
}

function late(limitMs: number, user: string): Watch {
  let timer: NodeJS.Timeout | undefined
  const fault = new Promise<Error>(resolve => {
    timer = setTimeout(() => resolve(notAccepted(user, `no answer within ${Math.round(limitMs / 1000)} s`)), limitMs)
  })
  return { fault, forget: () => clearTimeout(timer) }
}

async function converse<Job, Answer, Result>(
  child: ChildProcess,
  { rights, job, read, onStart }: HelperCall<Job, Answer>,
  use: (answer: Answer, process: FoundProcess) => Result | Promise<Result>
): Promise<Result> {
  const ended = ending(child)
  // It rejects at the end of every call.
  ended.catch(() => {})
  await Promise.race([new Promise(resolve => child.once('spawn', resolve)), ended])
  const pid = child.pid as number
  const process = { pid, startedAt: statOf(pid)?.startedAt ?? '' }
  onStart?.(process)
  const channel = child.stdio[channelDescriptor] as Duplex
  const { name } = rights.identity
  const answered = readFrame(channel, maxAnswerBytes).catch((error: unknown) => {
    throw error instanceof FrameTooLong ? notAccepted(name, `it answers ${error.message}`) : error
  })
  answered.catch(() => {})
  sendFrame(channel, serialize({ rights, job } satisfies HelperTask))
  const frame = await Promise.race([answered, ended])
  if (frame === null) {
    // It has closed the connection: it has ended, or is to end.
    child.kill('SIGKILL')
    return ended
  }
  return use(readAnswer(frame, name, read), process)
}

async function endsIn(gone: Promise<void>, ms: number): Promise<boolean> {
  const giveUp = new AbortController()
  const late = sleep(ms, false, { signal: giveUp.signal }).catch(() => false)
  const hasEnded = await Promise.race([gone.then(() => true), late])
  giveUp.abort()
  return hasEnded
}

/** Newer versions of Node can do without the signal of the debugger; helper-process.ts takes it in all of them. */
const withoutDebugger = ['--disable-sigusr1'].filter(word => process.allowedNodeEnvironmentFlags.has(word))

function start({
  module,
  descriptors = []
}: Pick<HelperCall<unknown, unknown>, 'module' | 'descriptors'>): ChildProcess {
  const heap = [`--max-old-space-size=${maxHeapMb}`, '--max-semi-space-size=2']
  const words = [...withoutDebugger, ...heap, fileURLToPath(module)]
  // What the process prints is no log of svc, and the terminal of svc none of its descriptors.
  return withoutKept(['ignore', 'ignore', 'pipe', 'pipe', ...descriptors] as const, stdio =>
    spawn(process.execPath, words, {
      cwd: '/',
      env: {},
      // A signal to svc's group, such as Ctrl-C, must not interrupt a commit.
      detached: true,
      stdio
    })
  )
}

/** Rejects when the process has ended. */
function ending(child: ChildProcess): Promise<never> {
  const errors = child.stdio[2] as Readable | null
  let printed = ''
  errors?.setEncoding('utf8').on('data', (text: string) => {
    printed = (printed + text).slice(-maxPrinted)
  })
  errors?.on('error', () => {})
  return new Promise((_, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      const words = printed.trim() === '' ? '' : `: ${oneLine(printed.trim())}`
      reject(new Error(`The helper process ended without an answer (${signal ?? code})${words}`))
    })
  })
}
