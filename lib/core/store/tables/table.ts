import type { Reader, Row, Transaction, Value } from '../database.js'

/** A table of records with ids, with the operations of every such table. Other queries read its rows with `read`. */
interface Table<T extends { id: string }> {
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

/*
 * Typed columns. SQLite returns whatever a row contains: a column's reader checks the type and returns the field of the
 * model, so that a damaged or foreign row is an error that names table and column, and never a wrong value in a record.
 */

/** One column: how a field of the model is read and written. */
export interface Column<T> {
  /** A description of valid values, as the end of a sentence. */
  readonly wanted: string
  /** Returns the field, or undefined if the value is of another type. */
  read(value: Value | undefined): T | undefined
  write(field: T): Value
}

/** The columns of a record, by the name of the field. */
export type Columns<T> = { [Field in keyof T]: Column<T[Field]> }

export const text: Column<string> = {
  wanted: 'text',
  read: value => (typeof value === 'string' ? value : undefined),
  write: field => field
}

export const number: Column<number> = {
  wanted: 'a number',
  read: value => (typeof value === 'number' ? value : undefined),
  write: field => field
}

export const bytes: Column<Uint8Array> = {
  wanted: 'bytes',
  read: value => (value instanceof Uint8Array ? value : undefined),
  write: field => field
}

/** A boolean, stored as 0 or 1. */
export const flag: Column<boolean> = {
  wanted: '0 or 1',
  read: value => (value === 1 ? true : value === 0 ? false : undefined),
  write: Number
}

/** A text that is one of these values. */
export function choice<T extends string>(values: readonly T[]): Column<T> {
  return {
    wanted: `one of ${values.join(', ')}`,
    read: value => values.find(one => one === value),
    write: field => field
  }
}

/** A column that may also be null. */
export function nullable<T>(column: Column<T>): Column<T | null> {
  return {
    wanted: `${column.wanted}, or null`,
    read: value => (value === null ? null : column.read(value)),
    write: field => (field === null ? null : column.write(field))
  }
}

/**
 * A value stored as JSON text, which `isWanted` checks. Only svc writes it, so `isWanted` checks only what readers rely
 * on.
 */
export function json<T>(wanted: string, isWanted: (value: unknown) => value is T): Column<T> {
  return {
    wanted: `JSON of ${wanted}`,
    read(value) {
      if (typeof value !== 'string') return undefined
      const parsed = parse(value)
      return isWanted(parsed) ? parsed : undefined
    },
    write: field => JSON.stringify(field)
  }
}

/** A list, stored as JSON text. */
export function jsonList<T>(wanted: string, isItem: (item: unknown) => item is T): Column<T[]> {
  return json(`a list of ${wanted}`, (value): value is T[] => Array.isArray(value) && value.every(isItem))
}

/** A list of texts, stored as JSON text. */
export const texts: Column<string[]> = jsonList('texts', item => typeof item === 'string')

/** Returns a check whether a value is one of these texts. */
export function isOneOf<T extends string>(values: readonly T[]): (value: unknown) => value is T {
  return (value): value is T => values.some(one => one === value)
}

/** Returns whether the value is an object; its fields are still unchecked. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parse(given: string): unknown {
  try {
    return JSON.parse(given)
  } catch {
    return undefined
  }
}

/** Returns the names of the columns, in their order. */
function fieldsOf<T extends object>(columns: Columns<T>): Array<Extract<keyof T, string>> {
  const fields: Array<Extract<keyof T, string>> = []
  for (const field in columns) fields.push(field)
  return fields
}

/**
 * Returns a function that reads rows of a table, or of a query on it, as records. `fields` are all columns by default.
 * Throws an error that names table and column if a value has the wrong type.
 */
export function rowReader<T extends object>(
  table: string,
  columns: Columns<T>,
  fields: ReadonlyArray<keyof T & string> = fieldsOf(columns)
): (row: Row) => T {
  return row => {
    const record: Partial<T> = {}
    for (const field of fields) {
      const value = columns[field].read(row[field])
      if (value === undefined) throw wrongColumn(`${table}.${field}`, columns[field].wanted, row[field])
      record[field] = value
    }
    // Every field has a column, so the record is complete. TypeScript cannot infer that from a loop.
    return record as T
  }
}

/** Returns a function that reads rows of a single column: `SELECT count(*) AS n`. */
export function valueReader<T>(place: string, column: Column<T>): (row: Row) => T {
  return row => {
    const [given] = Object.values(row)
    const value = column.read(given)
    if (value === undefined) throw wrongColumn(place, column.wanted, given)
    return value
  }
}

/** The message does not contain the value, which may be a secret. */
function wrongColumn(place: string, wanted: string, given: Value | undefined): Error {
  const found = given === undefined ? 'missing' : given === null ? 'null' : `a wrong ${typeOf(given)}`
  return new Error(`Cannot read the database: "${place}" is ${found} but must be ${wanted}`)
}

function typeOf(given: string | number | Uint8Array): string {
  return given instanceof Uint8Array ? 'blob' : typeof given === 'string' ? 'text' : 'number'
}

/** Conditions in SQL, and the values that they bind, in order. */
export interface Conditions {
  conditions: string[]
  values: Value[]
}

/** Returns an equality condition for each expression that has a value; undefined means any value. */
export function equalities(wanted: Record<string, string | undefined>): Conditions {
  const found: Conditions = { conditions: [], values: [] }
  for (const [expression, value] of Object.entries(wanted)) {
    if (value === undefined) continue
    found.conditions.push(`${expression} = ?`)
    found.values.push(value)
  }
  return found
}

/** Adds the condition that an expression is one of these ids; null or undefined means any value. */
export function among(to: Conditions, expression: string, ids: readonly string[] | null | undefined): Conditions {
  if (ids == null) return to
  to.conditions.push(`${expression} IN (SELECT value FROM json_each(?))`)
  to.values.push(JSON.stringify(ids))
  return to
}

/** Returns the WHERE clause of all conditions; empty if there are none. */
export function where(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
}
