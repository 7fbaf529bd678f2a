import type { Call } from '../database.js'

/*
 * The redo log, wherever it is: a file beside svc.db (file-log.ts), or keys in etcd that several hubs share
 * (etcd-log.ts). Both keep the same promises, which test/store/log/file-log.test.ts and etcd-log.test.ts check.
 */

/** One line of the log: the transactions of one append. */
export interface LogLine {
  /** The number of its first transaction. */
  first: number
  transactions: Call[][]
}

/**
 * A log of numbered transactions, without gaps.
 *
 * An append resolves when the line is durable. If it rejects with anything but `UnknownOutcome`, the line is not part of
 * the log and never will be. Appends do not overlap: the next begins after the last has ended.
 */
export interface RedoLog {
  /** Appends transactions that `encodeTransaction` returned; the first one has the number `first`. */
  append(first: number, transactions: string[]): Promise<void>
  /**
   * Hands over the transactions after number `after`, in lines and in order, those that are in the log and then each new
   * one. The first line may begin earlier than `after + 1`. Waits for `take`. Ends when the signal aborts, without an
   * error. Throws `Trimmed` if the log no longer contains them all.
   */
  follow(after: number, options: FollowOptions): Promise<void>
  /** Removes the lines whose transactions all have numbers up to `upTo`. Some of them may stay. */
  trim(upTo: number): Promise<void>
}

/** Options of `follow`. */
export interface FollowOptions {
  take: (line: LogLine) => void | Promise<void>
  signal: AbortSignal
}

/** The log did not say whether a line became part of it. It may turn up later. */
export class UnknownOutcome extends Error {
  constructor(cause: unknown) {
    super(`It is not known whether the line was written: ${(cause as Error).message}`, { cause })
    this.name = 'UnknownOutcome'
  }
}

/** The log begins after the transaction that was asked for. */
export class Trimmed extends Error {
  constructor(after: number, begin: number) {
    super(`The log begins after transaction ${begin}, and what follows ${after} was asked for`)
    this.name = 'Trimmed'
  }
}

/** The log ends before a transaction that the reader already has: it is an older copy, or another log. */
export class OlderLog extends Error {
  constructor(after: number, end: number) {
    super(`The log ends with transaction ${end}, and this database already has ${after}`)
    this.name = 'OlderLog'
  }
}

/** A value in etcd cannot be what a hub wrote: somebody else changed it, or it is damaged. */
export class DamagedLog extends Error {
  constructor(key: string, why: string) {
    super(`The value of "${key}" in etcd is damaged: ${why}`)
    this.name = 'DamagedLog'
  }
}

/** The log has another line at a place that the reader has applied: it was restored from an older copy, and then grew. */
export class DivergedLog extends Error {
  constructor(sequence: number) {
    super(`The log has another transaction ${sequence} than this database`)
    this.name = 'DivergedLog'
  }
}

/** The line after which this hub writes is gone or another one: the log was restored from an older copy meanwhile. */
export class LostLine extends Error {
  constructor(key: string) {
    super(`etcd was restored from an older snapshot: the last line of this hub, "${key}", is not in it`)
    this.name = 'LostLine'
  }
}

/** Another process writes the log now, so the line was not written. */
export class LostLeadership extends Error {
  constructor() {
    super('Another hub leads')
    this.name = 'LostLeadership'
  }
}
