/**
 * Counts the writes of each table, so that a reader can tell whether what it knows is still so. A count may grow without
 * a change (a write that was rolled back), and never stays where something changed. Tables that SQLite changes by itself
 * (ON DELETE CASCADE, SET NULL) do not count: name the table that they refer to as well.
 */
export interface Versions {
  /** Counts the tables of these statements. */
  count(statements: ReadonlyArray<{ sql: string }>): void
  /** Everything may have changed. */
  countAll(): void
  /** Text that changes whenever one of these tables does. Only good within this process. */
  of(tables: readonly string[]): string
}

const target = /\b(?:insert(?:\s+or\s+\w+)?\s+into|replace\s+into|update(?:\s+or\s+\w+)?|delete\s+from)\s+["`]?(\w+)/i

export function createVersions(): Versions {
  const counts = new Map<string, number>()
  /** Parsed once: statements are few, and their texts the same each time. */
  const tables = new Map<string, string | null>()
  /** What was told since nothing has been counted, by the list of tables: lists are few, and stay the same. */
  let told = new WeakMap<readonly string[], string>()
  let all = 0

  function tableOf(sql: string): string | null {
    let table = tables.get(sql)
    if (table === undefined) tables.set(sql, (table = target.exec(sql)?.[1]?.toLowerCase() ?? null))
    return table
  }

  return {
    count(statements) {
      told = new WeakMap()
      for (const { sql } of statements) {
        const table = tableOf(sql)
        if (table === null) all++
        else counts.set(table, (counts.get(table) ?? 0) + 1)
      }
    },
    countAll() {
      told = new WeakMap()
      all++
    },
    of(names) {
      let text = told.get(names)
      if (text === undefined) {
        text = [all, ...names.map(name => counts.get(name.toLowerCase()) ?? 0)].join('.')
        told.set(names, text)
      }
      return text
    }
  }
}
