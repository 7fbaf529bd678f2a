import { type Clock, elapsedOf } from '../../base/clock.js'
import { isDiskFull, reasonOf, Refusal } from '../../base/errors.js'
import { type Call, createFollowers, type Followed, type Store, type Transaction } from './database.js'
import type { Memory } from './memory.js'
import { encodeTransaction } from './redo.js'
import { runCalls } from './schema.js'

interface LiveMemoryNeeds {
  memory: Memory
  /** Reads the disk into a new memory. */
  recover: () => Memory
  clock: Clock
  /** Maximum length of one transaction as text, in characters. */
  maxLength?: number
}

/** Time after which a read retries if memory could not be rebuilt: the next write may be hours away. */
const rebuildMs = 1000
/** V8's longest string has 512 Mi characters. */
const defaultMaxLength = 256 * 1024 * 1024

/**
 * The memory of an open store. A write that cannot be made durable must not stay in memory, so memory is then rebuilt
 * from the disk. If that fails too, there is no memory: reads are refused, and writes and some reads retry the rebuild.
 */
export class LiveMemory {
  readonly versions = createVersions()
  readonly #followers = createFollowers(() => this.#unfinished.length > 0)
  readonly #recover: () => Memory
  readonly #clock: Clock
  readonly #maxLength: number
  #memory: Memory | null
  #failure: string | null = null
  #rebuiltAtMs = -Infinity
  #revision = 0
  #isWriting = false
  #isClosing = false
  /** The changes that the current write has made so far. */
  #unfinished: Call[] = []

  constructor({ memory, recover, clock, maxLength = defaultMaxLength }: LiveMemoryNeeds) {
    this.#maxLength = maxLength
    this.#recover = recover
    this.#clock = clock
    this.#memory = memory
    memory.follow(this.#followers.touch)
  }

  /** Why the last write did not become durable; null if it did. */
  get failure(): string | null {
    return this.#failure
  }

  /** Grows whenever memory changes. */
  get revision(): number {
    return this.#revision
  }

  /** Whether there is no memory, because the disk could not be read. */
  get isGone(): boolean {
    return this.#memory === null
  }

  /** Returns the database in memory. Refuses `database_unavailable`. */
  get(): Memory {
    const isTime = elapsedOf(this.#clock) - this.#rebuiltAtMs >= rebuildMs
    if (this.#memory === null && !this.#isClosing && isTime) this.#rebuild()
    if (this.#memory !== null) return this.#memory
    const sentence = `The database is not available: ${this.#failure ?? 'it is closed'}`
    throw new Refusal('unavailable', 'database_unavailable', sentence)
  }

  /** Rebuilds memory if there is none. Unlike a read, it does not wait for `rebuildMs`. */
  ensure(): void {
    if (this.#memory === null) this.#rebuild()
  }

  /** Reports which rows of a table are written to. */
  follow(table: string): Followed {
    return this.#followers.follow(table)
  }

  /** Records that a write is durable. */
  succeed(): void {
    this.#failure = null
  }

  /**
   * Records that a write could not be made durable, and rebuilds memory from the disk. Returns the refusal of the
   * write.
   */
  fail(error: unknown): Refusal {
    this.#failure = reasonOf(error)
    this.#rebuild()
    if (error instanceof Refusal) return error
    const code = isDiskFull(error) ? 'disk_full' : 'write_failed'
    return new Refusal('unavailable', code, `The change was not saved: ${reasonOf(error)}`, { cause: error })
  }

  /** Runs transactions that another hub has made durable, all or none. */
  apply(transactions: readonly Call[][]): void {
    const memory = this.get()
    try {
      memory.transaction(() => transactions.forEach(calls => runCalls(memory, calls)))
    } finally {
      this.#revision++
      transactions.forEach(calls => this.versions.count(calls))
    }
  }

  /** Reads the disk into a new memory, after its files were replaced. Refuses `database_unavailable`. */
  replace(): void {
    this.#rebuild()
    this.get()
  }

  /**
   * Runs `work` in a transaction. Returns its result and the text of its changes for the redo log; null if it changed
   * nothing. Refuses `transaction_too_large`.
   */
  execute<T>(work: (tx: Transaction) => T): { result: T; text: string | null } {
    if (this.#isWriting) throw new Error('Cannot begin a write inside another write')
    const memory = this.get()
    const calls: Call[] = []
    const recorder = transactionOf(memory, calls)
    this.#isWriting = true
    this.#unfinished = calls
    try {
      return memory.transaction(() => {
        const result = work(recorder.tx)
        if (result instanceof Promise) throw new Error('Cannot wait inside a write: its work must be synchronous')
        return { result, text: calls.length === 0 ? null : this.#withinLimit(encodeTransaction(calls)) }
      })
    } finally {
      recorder.end()
      this.#isWriting = false
      this.#unfinished = []
      this.#revision++
      this.versions.count(calls)
    }
  }

  /** Prevents further rebuilds of memory. */
  beginClosing(): void {
    this.#isClosing = true
  }

  /** Closes the database in memory. */
  close(): void {
    this.#memory?.close()
    this.#memory = null
    this.#failure = null
  }

  #withinLimit(text: string): string {
    if (text.length <= this.#maxLength) return text
    throw new Refusal(
      'too_large',
      'transaction_too_large',
      'The change was not saved: it is too large for one transaction'
    )
  }

  #rebuild(): void {
    this.#rebuiltAtMs = elapsedOf(this.#clock)
    this.#revision++
    this.#followers.touchAll()
    this.versions.countAll()
    this.#memory?.close()
    this.#memory = null
    try {
      this.#memory = this.#recover()
      this.#memory.follow(this.#followers.touch)
    } catch (error) {
      this.#failure = reasonOf(error)
    }
  }
}

/** Returns a transaction that records its changes. It throws after its work has ended. */
function transactionOf(memory: Memory, calls: Call[]): { tx: Transaction; end: () => void } {
  let isOver = false
  const open = () => {
    if (isOver) throw new Error('The transaction has ended')
    return memory
  }
  return {
    tx: {
      get: (sql, ...values) => open().get(sql, ...values),
      all: (sql, ...values) => open().all(sql, ...values),
      run(sql, ...values) {
        const changed = open().run(sql, values)
        calls.push({ sql, values })
        return changed
      }
    },
    end: () => void (isOver = true)
  }
}

const target = /\b(?:insert(?:\s+or\s+\w+)?\s+into|replace\s+into|update(?:\s+or\s+\w+)?|delete\s+from)\s+["`]?(\w+)/i

/** Creates counts that start at zero. */
export function createVersions() {
  const counts = new Map<string, number>()
  /** Caches the table of each statement: there are few statements, and their texts repeat. */
  const tables = new Map<string, string | null>()
  /** Caches the texts until the next write, by list of tables: there are few lists, and they repeat. */
  let told = new WeakMap<readonly string[], string>()
  let all = 0

  function tableOf(sql: string): string | null {
    let table = tables.get(sql)
    if (table === undefined) tables.set(sql, (table = target.exec(sql)?.[1]?.toLowerCase() ?? null))
    return table
  }

  return {
    /** Counts a write for each table that these statements change. */
    count(statements: ReadonlyArray<{ sql: string }>): void {
      told = new WeakMap()
      for (const { sql } of statements) {
        const table = tableOf(sql)
        if (table === null) all++
        else counts.set(table, (counts.get(table) ?? 0) + 1)
      }
    },

    /** Records that every table may have changed. */
    countAll(): void {
      told = new WeakMap()
      all++
    },

    /** Returns a text that changes whenever one of these tables does. It is valid within this process only. */
    of(names: readonly string[]): string {
      let text = told.get(names)
      if (text === undefined) {
        text = [all, ...names.map(name => counts.get(name.toLowerCase()) ?? 0)].join('.')
        told.set(names, text)
      }
      return text
    }
  }
}

/**
 * Caches the results of a read by id until the next write. It is for reads that repeat between two writes (bench/api:
 * reading and joining a project takes 60 us, a cached one nothing). The caller must not change a result.
 */
export function keepReads<T>(store: Pick<Store, 'revision'>, read: (id: string) => T | undefined): typeof read {
  const kept = new Map<string, T>()
  let revision = -1
  return id => {
    if (store.revision() !== revision) {
      kept.clear()
      revision = store.revision()
    }
    const known = kept.get(id)
    if (known !== undefined) return known
    const found = read(id)
    if (found !== undefined) kept.set(id, found)
    return found
  }
}
