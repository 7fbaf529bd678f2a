import { readFileSync, writeFileSync } from 'node:fs'
import { loadSqlite, type Memory } from '../../lib/core/store/memory.js'
import { migrationCall, runCalls, schemaVersion } from '../../lib/core/store/schema.js'

/** The schema version that `olderDatabase` produces. */
export const olderVersion = 6

/** Changes a svc.db to an older schema, with the rows and the columns that it had. */
export async function olderDatabase(path: string): Promise<void> {
  const sqlite = await loadSqlite()
  const newer = new sqlite.Database(readFileSync(path))
  const older = new sqlite.Database()
  const empty: Pick<Memory, 'pragma' | 'script'> = { pragma: () => 0, script: sql => void older.exec(sql) }
  runCalls(empty as Memory, [{ ...migrationCall(), values: [olderVersion] }])
  const valuesOf = (database: typeof older, sql: string) => database.exec(sql)[0]?.values ?? []
  const columnsOf = (database: typeof older, table: string) =>
    valuesOf(database, `SELECT name FROM pragma_table_info('${table}')`).map(String)
  for (const table of valuesOf(older, "SELECT name FROM sqlite_schema WHERE type = 'table'").map(String)) {
    const had = columnsOf(older, table)
    const columns = columnsOf(newer, table).filter(column => had.includes(column))
    const insert = `INSERT OR REPLACE INTO ${table} (${columns.join()}) VALUES (${columns.map(() => '?').join()})`
    for (const row of valuesOf(newer, `SELECT ${columns.join()} FROM ${table}`)) older.run(insert, row)
  }
  writeFileSync(path, older.export())
  newer.close()
  older.close()
}

/** Changes a svc.db to an unknown newer schema. */
export async function newerDatabase(path: string): Promise<void> {
  const sqlite = await loadSqlite()
  const database = new sqlite.Database(readFileSync(path))
  database.exec(`PRAGMA user_version = ${schemaVersion + 1}`)
  writeFileSync(path, database.export())
  database.close()
}
