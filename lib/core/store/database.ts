import type { HistogramFigures } from '../../base/histogram.js'
import type { Image } from './page-file.js'

/*
 * The interfaces of the database: readers, transactions, and the store that makes writes durable (durable-store.ts).
 */

/** A value of a column. */
export type Value = string | number | null | Uint8Array

/** A row, by column name. `tables/table.ts` reads it as a record. */
export type Row = Readonly<Record<string, Value>>

/** Reads rows. */
export interface Reader {
  /** Returns the first row, or undefined if there is none. */
  get(sql: string, ...values: Value[]): Row | undefined
  /** Returns all rows. */
  all(sql: string, ...values: Value[]): Row[]
}

/** Reads and changes rows within one transaction. */
export interface Transaction extends Reader {
  /** Runs one INSERT, UPDATE or DELETE; returns the number of changed rows. */
  run(sql: string, ...values: Value[]): number
}

/** A statement and its bound values. */
export interface Call {
  sql: string
  values: readonly Value[]
}

/** Whether the store can write, and why not. */
export interface StoreState {
  /** Whether the last write became durable. */
  ok: boolean
  /** The path of svc.db. */
  path: string
  /** Why the last write did not become durable. */
  error: string | null
}

/** The database of the server. Reads are synchronous; a write resolves once it is durable. */
export interface Store extends Reader {
  /**
   * Runs `work` immediately in a transaction in memory and resolves with its result once the changes are durable. If
   * `work` throws, the transaction is rolled back and the promise rejects. `work` is synchronous. Refuses: `disk_full`,
   * `write_failed`, `shutting_down`, `database_unavailable`, `transaction_too_large`.
   */
  write<T>(work: (tx: Transaction) => T): Promise<T>
  /** Returns whether the last write became durable. */
  state(): StoreState
  /** Grows whenever memory changes: data read at one revision stays valid until the next. */
  revision(): number
  /** The number of the last durable write. It is lower in a new database, and in an older copy of this one. */
  sequence(): number
  /** Durations of writing and syncing a line of the redo log since the start, in seconds. */
  syncs(): HistogramFigures
  /** Reports which rows of a table are written to from now on, for caches of the table's rows. */
  follow(table: string): Followed
  /**
   * Returns a text that changes whenever one of these tables does (live-memory.ts). It is valid within this process only.
   */
  version(tables: readonly string[]): string
  /** Writes a checkpoint: svc.db then includes the redo log. */
  checkpoint(): Promise<void>
  /**
   * Returns the database as a SQLite file as of one moment. `at` is called at that moment: nothing else runs between it
   * and the image. Resolves once every write in the image is durable. The caller releases the image. Refuses
   * `disk_full`, `write_failed`, `database_unavailable`, `database_damaged`.
   */
  image(at?: () => void): Promise<Image>
  /** Waits for the writes in progress, writes a checkpoint, and closes the files. */
  close(): Promise<void>
}

/** Reports which rows of one table were written to, for caches of its rows. Does not work for tables WITHOUT ROWID. */
export interface Followed {
  /**
   * Returns the rowids of the rows that were added, changed or removed since the last call. Returns null if any row may
   * have changed: on the first call, after too many changes, and within a write that has already changed something,
   * because that change may still be rolled back.
   */
  take(): ReadonlySet<number> | null
  /** Ends the reports. */
  stop(): void
}

/** Maximum number of rows that are reported one by one; beyond it, `take` returns null. */
const maxRows = 1000

interface Follower {
  rows: Set<number>
  isAll: boolean
}

/** Creates an empty registry. `isUnfinished` returns whether memory has changes that may still be rolled back. */
export function createFollowers(isUnfinished: () => boolean) {
  const byTable = new Map<string, Set<Follower>>()
  return {
    follow(table: string): Followed {
      const follower: Follower = { rows: new Set(), isAll: true }
      const ofTable = byTable.get(table) ?? new Set()
      byTable.set(table, ofTable.add(follower))
      return {
        stop: () => void ofTable.delete(follower),
        take() {
          const { rows, isAll } = follower
          follower.rows = new Set()
          follower.isAll = isUnfinished()
          return isAll || follower.isAll ? null : rows
        }
      }
    },

    /** Reports that a row was written to. */
    touch(table: string, row: number): void {
      for (const follower of byTable.get(table) ?? []) {
        if (follower.isAll) continue
        follower.rows.add(row)
        if (follower.rows.size <= maxRows) continue
        follower.isAll = true
        follower.rows.clear()
      }
    },

    /** Reports that any row may have changed. */
    touchAll(): void {
      for (const follower of [...byTable.values()].flatMap(ofTable => [...ofTable])) follower.isAll = true
    }
  }
}
