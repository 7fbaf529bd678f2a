import type { Database, SqlJsStatic, Statement } from 'sql.js'
import type { Reader, Value } from './database.js'
import { createPageFile, piecesOf } from './page-file.js'
import type { Image, PageFile } from './page-file.js'
import { checkRead, checkValues, checkWrite } from './statements.js'

/**
 * The database in memory: sql.js, with statements prepared once, on a file that gives images of itself (page-file.ts).
 * Knows nothing of disks.
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
  /**
   * Runs one last statement that changes a row, and gives the database with it, in SQLite's own file format. Takes no time.
   * Not within a transaction. The caller releases it.
   */
  image(sql: string, values: readonly Value[]): Image
  /** `listener` is told of every row that is written to, whatever statement, trigger or reference does it. */
  follow(listener: (table: string, row: number) => void): void
  close(): void
}

interface Prepared {
  statement: Statement
  columns: string[] | null
}

/** Prepared statements that are kept; the one unused for longest goes first. */
const maxStatements = 256

// The only other copy of the database is written by checkpoints, so SQLite itself has nothing to sync or journal on disk.
// Pages are written when a transaction ends and not before, so that the file is always of a moment between two, and never
// has to be made shorter again (page-file.ts).
const pragmas = `
  PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_spill = OFF;
  PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;`

/**
 * Opens a database in memory: the one whose file is handed in, whole or in pieces (`pieceBytes`), or an empty one. The
 * memory of the file is the database's from then on. Throws what SQLite says of the file.
 */
export function createMemory(sqlite: SqlJsStatic, file: Uint8Array | readonly Uint8Array[] | null): Memory {
  const whole = file ?? firstPage(sqlite)
  const pages = createPageFile(whole instanceof Uint8Array ? piecesOf(whole) : whole)
  const database = new sqlite.Database(pages.handed)
  try {
    if (!pages.adopted) throw new Error('sql.js keeps the bytes of a database in another way than it did')
    database.exec(pragmas)
  } catch (error) {
    database.close()
    throw error
  }
  return memoryOf(database, pages)
}

/** A database that has a header, and nothing else. */
function firstPage(sqlite: SqlJsStatic): Uint8Array {
  const database = new sqlite.Database()
  database.exec('PRAGMA user_version = 0')
  const page = database.export()
  database.close()
  return page
}

function memoryOf(database: Database, pages: PageFile): Memory {
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

  function run(sql: string, values: readonly Value[]): number {
    checkValues(sql, values)
    step(prepare(sql, checkWrite), values)
    return database.getRowsModified()
  }

  return {
    get: <T>(sql: string, ...values: Value[]) => rows<T>(sql, values, 1)[0],
    all: <T>(sql: string, ...values: Value[]) => rows<T>(sql, values, Infinity),
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
      if (pages.writes === before) throw new Error('sql.js does not write to the file that it was given any more')
      return pages.image()
    },
    follow(listener) {
      database.updateHook((_operation, _database, table, row) => listener(table, row))
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
