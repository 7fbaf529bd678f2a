import type { Reader, Row, Transaction, Value } from '../database.js'
import { fieldsOf, rowReader, type Columns } from './columns.js'

/** A table of records with ids, with the operations of every such table. Other queries read its rows with `read`. */
export interface Table<T extends { id: string }> {
  /** Adds a record. */
  insert(tx: Transaction, record: T): void
  /** Writes the fields that are present; returns false if there is no such record. */
  update(tx: Transaction, id: string, patch: Partial<T>): boolean
  /** Removes a record; returns false if there is none. */
  delete(tx: Transaction, id: string): boolean
  /** Returns the record with this id. */
  find(db: Reader, id: string): T | undefined
  /** Reads a row as a record. Throws an error that names the column if the row contains a wrong value. */
  read(row: Row): T
}

/**
 * Returns a table whose columns are the fields of `T`. Columns in `kept` are maintained by triggers: they are read,
 * never written.
 */
export function tableOf<T extends { id: string }>(
  name: string,
  columns: Columns<T>,
  kept: ReadonlyArray<keyof T> = []
): Table<T> {
  const read = rowReader<T>(name, columns)
  const fields = fieldsOf(columns).filter(field => !kept.includes(field))
  const insert = `INSERT INTO ${name} (${fields.join(', ')}) VALUES (${fields.map(() => '?').join(', ')})`

  return {
    read,
    insert(tx, record) {
      tx.run(insert, ...fields.map(field => columns[field].write(record[field])))
    },
    update(tx, id, patch) {
      const set: string[] = []
      const values: Value[] = []
      for (const field of fields) {
        const value = patch[field]
        if (field === 'id' || value === undefined) continue
        set.push(`${field} = ?`)
        values.push(columns[field].write(value))
      }
      if (set.length === 0) return tx.get(`SELECT 1 FROM ${name} WHERE id = ?`, id) !== undefined
      return tx.run(`UPDATE ${name} SET ${set.join(', ')} WHERE id = ?`, ...values, id) > 0
    },
    delete: (tx, id) => tx.run(`DELETE FROM ${name} WHERE id = ?`, id) > 0,
    find(db, id) {
      const row = db.get(`SELECT * FROM ${name} WHERE id = ?`, id)
      return row === undefined ? undefined : read(row)
    }
  }
}
