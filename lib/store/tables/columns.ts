import type { Transaction, Value } from '../database.js'

/** How a field is kept: as it is, as 0 or 1 (null stays null), or as JSON text. */
export type Kind = 'plain' | 'flag' | 'json'

/** One table's columns: names are the model's field names. */
export interface Columns<T> {
  insert(tx: Transaction, record: T): void
  /** Writes the fields that are present; gives the number of rows changed, 0 where there is no such id. */
  update(tx: Transaction, id: string, patch: Partial<T>): number
  /** A row as the model has it, without what only queries need; other columns that are not the table's own stay as they are. */
  decode<R extends T>(row: object): R
}

/** Joins a table's name with how each of its fields is kept. Every table has a column `id`. */
export function columnsOf<T extends { id: string }>(table: string, kinds: { [Field in keyof T]: Kind }): Columns<T> {
  const fields = Object.keys(kinds) as Array<keyof T & string>
  const encoded = fields.filter(field => kinds[field] !== 'plain')
  const insert = `INSERT INTO ${table} (${fields.join(', ')}) VALUES (${fields.map(() => '?').join(', ')})`

  return {
    insert(tx, record) {
      tx.run(insert, ...fields.map(field => encode(kinds[field], record[field])))
    },
    update(tx, id, patch) {
      const given = fields.filter(field => field !== 'id' && patch[field] !== undefined)
      if (given.length === 0) return tx.get(`SELECT 1 FROM ${table} WHERE id = ?`, id) === undefined ? 0 : 1
      const set = given.map(field => `${field} = ?`).join(', ')
      return tx.run(`UPDATE ${table} SET ${set} WHERE id = ?`, ...given.map(field => encode(kinds[field], patch[field])), id)
    },
    decode<R extends T>(row: object) {
      // Not by `delete`, which makes an object slow for everybody who reads it.
      const { position, outcome, ...record } = row as Record<string, unknown>
      for (const field of encoded) record[field] = decode(kinds[field], record[field])
      return record as unknown as R
    }
  }
}

function encode(kind: Kind, value: unknown): Value {
  if (kind === 'json') return JSON.stringify(value)
  if (kind === 'flag') return value === null ? null : Number(value)
  return value as Value
}

function decode(kind: Kind, value: unknown): unknown {
  if (kind === 'json') return JSON.parse(value as string)
  return value === null ? null : value !== 0
}
