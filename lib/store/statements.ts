import type { Value } from './database.js'

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
