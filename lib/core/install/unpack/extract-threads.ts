/*
 * The threads that extract archives: at most two, shared by all deployments. Idle threads are kept for a while, because
 * starting one takes 25 ms and 60 ms of processor time, ten times the cost of a small deployment. Each thread works on
 * one job at a time. A job with many files starts a second thread of its own (second-stage.ts). measured: bench/extract
 *
 * A thread that dies fails its own job and no other.
 *
 * A thread that does not answer soon after the abort of its job is terminated, and the next job gets a new one. Node
 * cannot interrupt a system call (for example on an NFS server that does not respond): such a thread ends when the call
 * returns. Its job ends as `stuck`, and other jobs continue. Node waits for its threads at exit, so a process with a
 * stuck thread ends itself with SIGTERM.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createWorkerPool, ThreadDied, type WorkerThread } from '../../../base/workers.js'
import { deployIdOf } from '../journal.js'
import type { Compared, CompareJob } from '../compare.js'
import type { Displaced } from '../before-images.js'
import type { LookedEntry, LookJob, MarkJob } from '../look-again.js'
import type { FileJob, FoundFile } from '../target-file.js'
import type { SliceFinding, VerifyJob } from '../verify.js'
import type { PlacedDecision, Recovery } from '../undo.js'
import type { Extracted, ExtractionJob, ExtractionPaths, LeftStaging } from './extraction.js'

/** A job on a target. It consists of plain data, so that another process can do it as well. */
export type Job =
  | ({ kind: 'extract'; extraction: ExtractionJob } & ExtractionPaths)
  /** Puts back the target of an interrupted extraction, or ends a deployment that is placed but not settled. */
  | { kind: 'recover'; journalPath: string; placed: PlacedDecision }
  /** Removes what an extraction with the rights of svc has replaced. The journal names it. */
  | { kind: 'discard'; journalPath: string; left: LeftStaging }
  /** Compares a tree with the target. */
  | { kind: 'compare'; compare: CompareJob }
  /** Looks at one file of the target, or removes it. */
  | { kind: 'file'; file: FileJob }
  /** Compares a slice of the owned tree with the target. */
  | { kind: 'verify'; verify: VerifyJob }
  /** Marks what svc owns in the target. */
  | { kind: 'mark'; mark: MarkJob }
  /** Looks again at entries that a script has touched, and copies what is new to `imagesPath`. */
  | { kind: 'look'; look: LookJob; imagesPath: string }

/** A job that a helper process can do. */
export type HelpedJob = Exclude<Job, { kind: 'discard' }>

/** A job as it is sent to a thread. */
export interface Task {
  job: Job
  /** One cell, not 0 if the job must be abandoned. A thread that works synchronously cannot read messages. */
  stop: Int32Array
}

/** The answer of a thread. */
export type Answer =
  | { kind: 'extracted'; extracted: Extracted }
  | { kind: 'recovered'; recovery: Recovery; displaced: Displaced | null }
  | { kind: 'discarded' }
  | { kind: 'compared'; compared: Compared }
  | { kind: 'found'; found: FoundFile }
  | { kind: 'verified'; findings: SliceFinding[] }
  | { kind: 'marked'; marks: Uint8Array }
  | { kind: 'looked'; looked: LookedEntry[] }

/** The result of a job: an answer, an error, the death of its thread, or a thread that does not end. */
export type Outcome = Answer | { kind: 'failed'; error: unknown } | { kind: 'died' } | { kind: 'stuck' }

/** Executes jobs. */
export interface Executor {
  /**
   * Runs a job. An abort while the job is queued rejects with the signal's reason; after that, the outcome says how the
   * job ended. After `died` and `stuck`, an extraction has left its journal. After `stuck`, one of its calls may still
   * take effect.
   */
  run(job: Job, signal: AbortSignal): Promise<Outcome>
  /** Whether a thread is stuck that extracts a deployment, or puts its target back. */
  isStuck(deployId: string): boolean
}

/** An executor whose threads can be closed. */
export interface ExtractThreads extends Executor {
  /** Ends idle threads. */
  close(): Promise<void>
}

const maxThreads = 2
/** An idle thread ends after this time, which frees its memory. */
const defaultIdleMs = 10_000
/** Time that a thread has to answer an abort. */
const defaultGraceMs = 5_000
/** Time that a terminated thread has to end. */
const endMs = 1_000

/** Young objects of a thread are few and short-lived; the default of 48 MB would only be filled with garbage. */
const maxYoungGenerationSizeMb = 3
/**
 * Old objects are the directory of the archive, about 90 MB for 200,000 entries. Without a limit the heap grows to more
 * than twice that size before it is collected. measured: bench/extract
 */
const defaultHeapMb = 192

/** An extraction with so many files leaves a large heap; starting a thread costs little beside it. */
const largeFiles = 20_000

/** Limits of the threads. */
export interface ThreadOptions {
  idleMs?: number
  /** Maximum heap size of a thread; above it the thread dies. */
  heapMb?: number
  /** Time that a thread has to answer an abort. */
  graceMs?: number
}

/** Creates an executor whose threads start when there is work. */
export function createExtractThreads({
  idleMs = defaultIdleMs,
  heapMb = defaultHeapMb,
  graceMs = defaultGraceMs
}: ThreadOptions = {}): ExtractThreads {
  const pool = createWorkerPool<Task, Answer>({
    module: new URL('./extract-worker.js', import.meta.url),
    resourceLimits: { maxYoungGenerationSizeMb, maxOldGenerationSizeMb: heapMb },
    maxBusy: maxThreads,
    idleMs
  })
  const stuck = new Set<Job>()

  function runIn(thread: WorkerThread<Task, Answer>, job: Job, signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted()
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    return new Promise(resolve => {
      let hasEnded = false
      let grace: NodeJS.Timeout | undefined
      const end = (outcome: Outcome): void => {
        hasEnded = true
        clearTimeout(grace)
        signal.removeEventListener('abort', onAbort)
        resolve(outcome)
      }
      /** Terminates a thread that does not answer. Its job ends even if the thread does not. */
      const terminate = async (): Promise<void> => {
        const exited = thread.terminate()
        const hasExited = await Promise.race([exited.then(() => true), sleep(endMs, false)])
        if (hasExited || hasEnded) return
        thread.abandon()
        noteStuck(job, exited)
        end({ kind: 'stuck' })
      }
      const onAbort = (): void => {
        Atomics.store(stop, 0, 1)
        grace = setTimeout(terminate, graceMs)
      }
      signal.addEventListener('abort', onAbort, { once: true })
      thread
        .ask({ job, stop })
        .then(end, (error: unknown) => end(error instanceof ThreadDied ? { kind: 'died' } : { kind: 'failed', error }))
    })
  }

  function noteStuck(job: Job, exited: Promise<void>): void {
    if (stuck.size === 0) process.once('exit', endBySignal)
    stuck.add(job)
    void exited.then(() => {
      stuck.delete(job)
      if (stuck.size === 0) process.off('exit', endBySignal)
    })
  }

  return {
    run: (job, signal) =>
      // A cancel, or the next deployment, waits for it.
      pool.use(async thread => runIn(thread, job, signal), {
        signal,
        isFirst: job.kind === 'recover' || job.kind === 'discard',
        endsAfter: outcome => outcome.kind === 'extracted' && outcome.extracted.fileCount >= largeFiles
      }),
    isStuck: deployId => [...stuck].some(job => 'journalPath' in job && deployIdOf(job.journalPath) === deployId),
    close: () => pool.close()
  }
}

/**
 * Ends the process at exit with a signal: all work is done, and Node would only wait for a thread that does not end.
 */
function endBySignal(): void {
  process.removeAllListeners('SIGTERM')
  process.kill(process.pid, 'SIGTERM')
}
