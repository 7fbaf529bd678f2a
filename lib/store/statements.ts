import type { Value } from './database.js'

/**
 * What a statement may be, so that replaying the redo log gives exactly what was acknowledged: rows change only through
 * statements that are recorded, and nothing in them is computed from the time, from chance, or from the connection.
 * Breaking this is a bug of ours, never a user's: plain errors. Checked once for each text.
 */
const computed =
  /\b(?:(current_time|current_date|current_timestamp)\b|(random|randomblob|date|time|datetime|julianday|strftime|unixepoch|timediff|last_insert_rowid|changes|total_changes)\s*\()/i
const literals = /'[^']*'/g

/** Throws unless the statement only reads. */
export function checkRead(sql: string): void {
  if (!/^\s*(explain query plan\s+)?(select|values|with)\b/i.test(sql) || /^\s*with\b.*\b(insert|update|delete|replace)\s+(or|into|from|\w+\s+set)\b/is.test(sql)) {
    throw new Error(`not a statement that only reads: ${sql}`)
  }
}

/** Throws unless the statement changes rows in a way that can be repeated. */
export function checkWrite(sql: string): void {
  if (!/^\s*(insert|update|delete|replace|with)\b/i.test(sql)) throw new Error(`not a statement that changes rows: ${sql}`)
  const found = computed.exec(sql.replace(literals, ''))
  if (found !== null) throw new Error(`"${found[0]}" cannot be repeated, bind its value instead: ${sql}`)
}

/** Throws unless every value is one that SQLite and the redo log keep exactly. */
export function checkValues(sql: string, values: readonly Value[]): void {
  values.forEach((value: unknown, at) => {
    if (typeof value === 'string' || value === null || value instanceof Uint8Array) return
    if (typeof value === 'number' && Number.isFinite(value)) return
    throw new TypeError(`value ${at + 1} cannot be bound (${typeof value}): ${sql}`)
  })
}
