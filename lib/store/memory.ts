import type { Database, SqlJsStatic, Statement } from 'sql.js'
import type { Reader, Value } from './database.js'
import { checkRead, checkValues, checkWrite } from './statements.js'

/**
 * The database in memory: sql.js, with statements prepared once. Knows nothing of disks.
 *
 * `image()` is SQLite's own file format. sql.js closes and reopens the database for it, which drops prepared statements
 * and pragmas: both are made again here.
 */
export interface Memory extends Reader {
  /** Runs one statement that changes rows; gives their number. */
  run(sql: string, values: readonly Value[]): number
  /** Runs SQL text of any kind, several statements too: schema. */
  script(sql: string): void
  /** The first value a pragma answers. */
  pragma(text: string): unknown
  /** Runs `work` between BEGIN and COMMIT; rolls back when it throws. */
  transaction<T>(work: () => T): T
  image(): Uint8Array
  close(): void
}

interface Prepared {
  statement: Statement
  columns: string[] | null
}

/** Prepared statements that are kept; the one unused for longest goes first. */
const maxStatements = 256

// The only other copy of the database is written by checkpoints, so SQLite itself has nothing to sync or journal on disk.
const pragmas = `
  PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
  PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;`

/** Opens a database in memory: the one whose file is handed in, or an empty one. Throws what SQLite says of the file. */
export function createMemory(sqlite: SqlJsStatic, file: Uint8Array | null): Memory {
  const database = new sqlite.Database(file)
  try {
    database.exec(pragmas)
  } catch (error) {
    database.close()
    throw error
  }
  return memoryOf(database)
}

function memoryOf(database: Database): Memory {
  const kept = new Map<string, Prepared>()

  function prepare(sql: string, check: (sql: string) => void): Prepared {
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
  }

  function rows<T>(sql: string, values: Value[], most: number): T[] {
    const prepared = prepare(sql, checkRead)
    const { statement } = prepared
    const found: T[] = []
    checkValues(sql, values)
    try {
      statement.bind(values)
      while (found.length < most && statement.step()) {
        // Column names are asked for once: sql.js decodes them anew for every row otherwise.
        prepared.columns ??= statement.getColumnNames()
        found.push(rowOf(prepared.columns, statement.get()) as T)
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

  const control = (sql: 'BEGIN' | 'COMMIT' | 'ROLLBACK') => step(prepare(sql, () => {}), [])

  /** After some errors SQLite has rolled back by itself; then this one has nothing to do, and the first error counts. */
  function rollBack(): void {
    try {
      control('ROLLBACK')
    } catch (error) {
      if (!/no transaction is active/.test((error as Error).message)) throw error
    }
  }

  return {
    get: <T>(sql: string, ...values: Value[]) => rows<T>(sql, values, 1)[0],
    all: <T>(sql: string, ...values: Value[]) => rows<T>(sql, values, Infinity),
    run(sql, values) {
      checkValues(sql, values)
      step(prepare(sql, checkWrite), values)
      return database.getRowsModified()
    },
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
    image() {
      kept.clear()
      const image = database.export()
      database.exec(pragmas)
      return image
    },
    close() {
      kept.clear()
      database.close()
    }
  }
}

function rowOf(columns: string[], values: unknown[]): Record<string, unknown> {
  const row: Record<string, unknown> = {}
  for (let at = 0; at < columns.length; at++) row[columns[at] as string] = values[at]
  return row
}
