import type initSqlJs from 'sql.js'
import type { Database, SqlJsStatic, Statement } from 'sql.js'
import type { Reader, Row, Value } from './database.js'
import { createPageFile, type Image, type PageFile, piecesOf } from './page-file.js'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'

/**
 * The database in memory: sql.js with prepared statements that are cached, on a file that can return images of itself
 * (page-file.ts). It does not access the disk.
 */
export interface Memory extends Reader {
  /** Runs one statement that changes rows; returns the number of changed rows. */
  run(sql: string, values: readonly Value[]): number
  /** Runs any SQL text, also several statements. Used for the schema. */
  script(sql: string): void
  /** Returns the first value that a pragma returns. */
  pragma(text: string): unknown
  /** Runs `work` between BEGIN and COMMIT; rolls back if it throws. */
  transaction<T>(work: () => T): T
  /**
   * Runs one last statement that changes a row, and returns the database that includes it, in SQLite's file format.
   * Takes no time. Must not be called within a transaction. The caller releases the image.
   */
  image(sql: string, values: readonly Value[]): Image
  /** Calls `listener` for every row that is written to, whichever statement, trigger or reference writes it. */
  follow(listener: (table: string, row: number) => void): void
  /** Closes the database and frees its statements. */
  close(): void
}

interface Prepared {
  statement: Statement
  columns: string[] | null
}

/** Maximum number of cached prepared statements; the least recently used one is removed first. */
const maxStatements = 256

// The only other copy of the database is written by checkpoints, so SQLite itself has nothing to sync or journal on
// disk. Pages are written when a transaction ends and not before. So the file is always as of a moment between two
// transactions, and never has to be truncated (page-file.ts).
const pragmas = `
  PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_spill = OFF;
  PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;`

/**
 * Opens a database in memory from the bytes of its file, whole or in pieces of `pieceBytes`; null creates an empty one.
 * The database takes over the memory of the file. Throws SQLite's error if the file is invalid.
 */
export function createMemory(sqlite: SqlJsStatic, file: Uint8Array | readonly Uint8Array[] | null): Memory {
  const whole = file ?? firstPage(sqlite)
  const pages = createPageFile(whole instanceof Uint8Array ? piecesOf(whole) : whole)
  const database = new sqlite.Database(pages.handed)
  try {
    if (!pages.adopted)
      throw new Error(
        'Cannot open a database in memory: sql.js does not use the given file. Its version is not supported'
      )
    database.exec(pragmas)
  } catch (error) {
    database.close()
    throw error
  }
  return memoryOf(database, pages)
}

/** Returns a database that has a header and nothing else. */
function firstPage(sqlite: SqlJsStatic): Uint8Array {
  const database = new sqlite.Database()
  database.exec('PRAGMA user_version = 0')
  const page = database.export()
  database.close()
  return page
}

/** Keeps the statements that were used last, prepared. `check` throws for a text that must not run; each is checked once. */
function createStatements(database: Database) {
  const kept = new Map<string, Prepared>()
  return {
    prepare(sql: string, check: (sql: string) => void): Prepared {
      const found = kept.get(sql)
      if (found !== undefined) {
        kept.delete(sql)
        kept.set(sql, found)
        return found
      }
      check(sql)
      const prepared: Prepared = { statement: database.prepare(sql), columns: null }
      kept.set(sql, prepared)
      if (kept.size > maxStatements) {
        const [oldest, { statement }] = kept.entries().next().value as [string, Prepared]
        kept.delete(oldest)
        statement.free()
      }
      return prepared
    },
    clear: () => kept.clear()
  }
}

function memoryOf(database: Database, pages: PageFile): Memory {
  const statements = createStatements(database)
  const { prepare } = statements

  function rows(sql: string, values: Value[], most: number): Row[] {
    const prepared = prepare(sql, checkRead)
    const { statement } = prepared
    const found: Row[] = []
    checkValues(sql, values)
    try {
      statement.bind(values)
      while (found.length < most && statement.step()) {
        // The column names are cached, because sql.js would decode them again for every row.
        prepared.columns ??= statement.getColumnNames()
        found.push(rowOf(prepared.columns, statement.get()))
      }
    } finally {
      statement.reset()
    }
    return found
  }

  function step({ statement }: Prepared, values: readonly Value[]): void {
    try {
      statement.bind(values as Value[])
      statement.step()
    } finally {
      statement.reset()
    }
  }

  const control = (sql: 'BEGIN' | 'COMMIT' | 'ROLLBACK') =>
    step(
      prepare(sql, () => {}),
      []
    )

  /** After some errors SQLite has already rolled back. Then there is nothing to do, and the first error is reported. */
  function rollBack(): void {
    try {
      control('ROLLBACK')
    } catch (error) {
      if (!/no transaction is active/.test((error as Error).message)) throw error
    }
  }

  function run(sql: string, values: readonly Value[]): number {
    checkValues(sql, values)
    step(prepare(sql, checkWrite), values)
    return database.getRowsModified()
  }

  return {
    get: (sql, ...values) => rows(sql, values, 1)[0],
    all: (sql, ...values) => rows(sql, values, Infinity),
    run,
    pragma: text => database.exec(`PRAGMA ${text}`)[0]?.values[0]?.[0],
    script(sql) {
      database.exec(sql)
    },
    transaction(work) {
      control('BEGIN')
      try {
        const result = work()
        control('COMMIT')
        return result
      } catch (error) {
        rollBack()
        throw error
      }
    },
    image(sql, values) {
      const before = pages.writes
      run(sql, values)
      if (pages.writes === before)
        throw new Error('Cannot take an image: sql.js no longer writes to the file it was given')
      return pages.image()
    },
    follow(listener) {
      // biome-ignore lint/complexity/useMaxParams: sql.js calls it with these
      database.updateHook((_operation, _database, table, row) => listener(table, row))
    },
    close() {
      statements.clear()
      database.close()
    }
  }
}

function rowOf(columns: string[], values: Value[]): Row {
  const row: Record<string, Value> = {}
  columns.forEach((column, at) => (row[column] = values[at] ?? null))
  return row
}

/**
 * Expressions that a write must not contain, so that replaying the redo log gives exactly the acknowledged state. Rows
 * change only through recorded statements, and nothing in them is computed from the time, at random, or from the
 * connection. A violation is a bug in svc, never a user's mistake, so it throws a plain error. Each text is checked
 * once.
 */
const computed =
  /\b(?:(current_time|current_date|current_timestamp)\b|(random|randomblob|date|time|datetime|julianday|strftime|unixepoch|timediff|last_insert_rowid|changes|total_changes)\s*\()/i
const literals = /'[^']*'/g

/** Throws unless the statement only reads. */
export function checkRead(sql: string): void {
  if (
    !/^\s*(explain query plan\s+)?(select|values|with)\b/i.test(sql) ||
    /^\s*with\b.*\b(insert|update|delete|replace)\s+(or|into|from|\w+\s+set)\b/is.test(sql)
  ) {
    throw new Error(`Not a read-only statement: ${sql}`)
  }
}

/** Throws unless the statement changes rows in a way that can be replayed. */
export function checkWrite(sql: string): void {
  if (!/^\s*(insert|update|delete|replace|with)\b/i.test(sql))
    throw new Error(`Not a statement that changes rows: ${sql}`)
  const found = computed.exec(sql.replace(literals, ''))
  if (found !== null) throw new Error(`"${found[0]}" cannot be replayed. Bind its value instead: ${sql}`)
}

/** Throws unless SQLite and the redo log preserve every value exactly. */
export function checkValues(sql: string, values: readonly Value[]): void {
  values.forEach((value: unknown, at) => {
    if (typeof value === 'string' || value === null || value instanceof Uint8Array) return
    if (typeof value === 'number' && Number.isFinite(value)) return
    throw new TypeError(`Cannot bind value ${at + 1} (${typeof value}): ${sql}`)
  })
}

/** The part of WebAssembly that is used here: the Node types leave it to the DOM library. */
const assembly = (globalThis as unknown as { WebAssembly: Assembly }).WebAssembly
interface Assembly {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: object) => { exports: object }
}

/** Stores of one process share what is compiled. */
let compiled: object | undefined

/**
 * Loads sql.js on first use: a process that opens no store does not pay for it. The module is compiled synchronously,
 * not in the way of sql.js. That way ends in a task of V8's after which an idle Node waits until every hot function has
 * been optimised, about 170 ms (test/bench/store).
 */
export async function loadSqlite(): Promise<SqlJsStatic> {
  return instantiate((compiled ??= withFlags(lasting, () => new assembly.Module(moduleBytes()))))
}

/** Whether this process has made a database. */
let hasMade = false

/**
 * Returns the file of a database to which `fill` has added tables. The migrations make V8 optimise SQLite's parser and
 * interpreter, half a second of CPU on other threads and 17 MB permanently (test/bench/idle). So they run in a module
 * that is never optimised, and that is dropped afterwards. Returns null if that is not worthwhile: for a second
 * database of the same process, and with a V8 whose flags are unknown.
 */
export async function makeDatabase(fill: (memory: Memory) => Image): Promise<Uint8Array | null> {
  if (hasMade || defaultBudget === undefined) return null
  hasMade = true
  // V8 compiles the same bytes only once. The empty custom section makes them others.
  const bytes = Buffer.concat([moduleBytes(), Buffer.from([0, 1, 0])])
  const sqlite = await instantiate(withFlags(brief, () => new assembly.Module(bytes)))
  return withFlags(brief, () => {
    const memory = createMemory(sqlite, null)
    const { pieces } = fill(memory)
    memory.close()
    return Buffer.concat(pieces)
  })
}

// Not loaded by import(): Node would search 47 KB of CommonJS for export names, which takes five times as long as
// loading.
const require = createRequire(import.meta.url)

function moduleBytes(): Buffer {
  return readFileSync(require.resolve('sql.js/dist/sql-wasm.wasm'))
}

async function instantiate(module: object): Promise<SqlJsStatic> {
  const initialise = require('sql.js') as typeof initSqlJs
  return initialise({
    instantiateWasm(imports, onReady) {
      const instance = new assembly.Instance(module, imports)
      onReady(instance)
      return instance.exports
    }
  })
}

/** The default of `--wasm-tiering-budget` by major version of V8. In other versions, the flags stay unchanged. */
const defaultBudgets: Record<string, number> = {
  '10': 1_800_000,
  '11': 1_800_000,
  '12': 13_000_000,
  '13': 13_000_000,
  '14': 13_000_000
}
const defaultBudget = defaultBudgets[String(process.versions.v8).split('.', 1)[0] as string]

/** Flags of V8, and their defaults. */
type Flags = ReadonlyArray<[changed: string, usual: string]>

/** A function is checked at its first call, when it is also compiled: most functions are never called. */
const lazy: Flags = [['--wasm-lazy-validation', '--no-wasm-lazy-validation']]

/**
 * The largest budget that V8 accepts delays optimisation: V8 started half a second of work while the program was still
 * starting, on the other cores if they were idle (test/bench/start). SQLite's parser uses half of it when it reads the
 * tables of svc.db. The delay has no later cost (test/bench/store).
 */
const lasting: Flags = [...lazy, [`--wasm-tiering-budget=${2 ** 31 - 1}`, `--wasm-tiering-budget=${defaultBudget}`]]

/** Nothing but function 0, which is imported, can be optimised. */
const brief: Flags = [...lazy, ['--wasm-tier-up-filter=0', '--wasm-tier-up-filter=-1']]

/**
 * Runs `work` with flags of V8 changed. Then it restores them, because Node's code cache is valid only for the default
 * flags.
 */
function withFlags<T>(flags: Flags, work: () => T): T {
  if (defaultBudget === undefined) return work()
  for (const [changed] of flags) setFlagsFromString(changed)
  try {
    return work()
  } finally {
    for (const [, usual] of flags) setFlagsFromString(usual)
  }
}
