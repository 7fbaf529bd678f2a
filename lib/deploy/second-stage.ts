/*
 * A second thread that stages files of the same archive: of many small ones, it takes nearly half of the time, because
 * inflating and hashing are most of the work. The first thread offers it a batch at a time, and does itself what the
 * second has no time for; so neither waits, and a second thread that is slow to start costs nothing.
 *
 * Both have the same process, so the held directories of the first are good in the second, by their names and numbers.
 * What was found out about each file is in shared memory (target/record.ts). The first one waits for the second before
 * it reads that, and before it puts a target back. measured: bench/extract
 */
import { cpus } from 'node:os'
import { Worker } from 'node:worker_threads'
import { isSmall } from '../archive/entry-data.js'
import { unpackError, type PackedError } from '../base/packed-error.js'
import type { NumberedEntry } from './stage-entries.js'

/** What the second thread needs to know of an extraction. */
export interface StageTask {
  archivePath: string
  /** The held target: how to name it, and its descriptor. */
  root: { path: string; fd: number | null }
  /** How to name the staging directory in calls. */
  staging: string
  umask: number
  records: SharedArrayBuffer
}

/** Cells that both threads read: not 0 when the work is to be given up; batches that are done. */
export const cell = { stop: 0, done: 1 } as const

export type StageMessage =
  | { kind: 'begin'; task: StageTask; cells: Int32Array }
  | { kind: 'batch'; batch: NumberedEntry[] }
  /** Answered when everything before it is over: null, or what went wrong. */
  | { kind: 'end' }

/** The part of the second thread in one extraction. */
export interface SecondStage {
  /** Takes files to be staged; false: it has enough to do, or one of them is not small. */
  take(batch: NumberedEntry[]): boolean
  /** It is to do no more. */
  stop(): void
  /** It was stopped, or something went wrong. */
  isStopped(): boolean
  /** Resolves when it works no longer; rejects with what it met. Must be called, once. */
  settled(): Promise<void>
}

/** Starts the part of the second thread in an extraction of so many entries; null: it would not pay. */
export type BeginSecond = (task: Omit<StageTask, 'archivePath'>, entries: number) => SecondStage | null

/** With fewer entries the start of a thread takes longer than they do. */
const minEntries = 1_000
/** Batches that wait in the second thread, so that it is never idle. */
const maxAhead = 2
/** As of extract-threads.ts; of the archive it has one batch. */
const resourceLimits = { maxYoungGenerationSizeMb: 3, maxOldGenerationSizeMb: 64 }

/** A second thread, started when it is first needed, that ends with this one. */
export function createSecondThread(): { of(archivePath: string): BeginSecond } {
  let worker: Worker | null = null

  function start(): Worker {
    const started = new Worker(new URL('./stage-worker.js', import.meta.url), { resourceLimits, execArgv: [] })
    started.unref()
    // What it died of the missing answer says well enough.
    started.on('error', () => {})
    started.once('exit', () => {
      if (worker === started) worker = null
    })
    return started
  }

  return {
    of: archivePath => (task, entries) => {
      if (entries < minEntries || cpus().length < 2) return null
      worker ??= start()
      return beginIn(worker, { ...task, archivePath })
    }
  }
}

function beginIn(worker: Worker, task: StageTask): SecondStage {
  const cells = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT))
  const send = (message: StageMessage): void => worker.postMessage(message)
  let given = 0
  let isDead = false
  const onExit = (): void => { isDead = true }
  worker.once('exit', onExit)
  send({ kind: 'begin', task, cells })
  return {
    take(batch) {
      if (given - Atomics.load(cells, cell.done) >= maxAhead || !batch.every(({ entry }) => isSmall(entry))) return false
      given++
      send({ kind: 'batch', batch })
      return true
    },
    stop: () => void Atomics.store(cells, cell.stop, 1),
    isStopped: () => isDead || Atomics.load(cells, cell.stop) !== 0,
    settled: () => new Promise((resolve, reject) => {
      const died = (): void => reject(new Error('A thread that extracted the archive died'))
      worker.off('exit', onExit)
      if (isDead) return died()
      worker.once('exit', died)
      worker.once('message', (failure: PackedError | null) => {
        worker.off('exit', died)
        if (failure === null) resolve()
        else reject(unpackError(failure))
      })
      send({ kind: 'end' })
    })
  }
}
