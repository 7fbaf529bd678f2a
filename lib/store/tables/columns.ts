/*
 * Typed columns. SQLite returns whatever a row contains: a column's reader checks the type and returns the field of the
 * model, so that a damaged or foreign row is an error that names table and column, and never a wrong value in a record.
 */
import type { Row, Value } from '../database.js'

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

/** A text. */
export const text: Column<string> = {
  wanted: 'text',
  read: value => (typeof value === 'string' ? value : undefined),
  write: field => field
}

/** A number. */
export const number: Column<number> = {
  wanted: 'a number',
  read: value => (typeof value === 'number' ? value : undefined),
  write: field => field
}

/** Bytes. */
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
export function fieldsOf<T extends object>(columns: Columns<T>): Array<Extract<keyof T, string>> {
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
