/**
 * Counts the writes of each table, so that a reader can tell whether its copy is still current. A count may grow
 * without a change (a write that was rolled back), but it always grows with a change. Tables that SQLite changes by
 * itself (ON DELETE CASCADE, SET NULL) are not counted: name the referenced table as well.
 */
export interface Versions {
  /** Counts a write for each table that these statements change. */
  count(statements: ReadonlyArray<{ sql: string }>): void
  /** Records that every table may have changed. */
  countAll(): void
  /** Returns a text that changes whenever one of these tables does. It is valid within this process only. */
  of(tables: readonly string[]): string
}

const target = /\b(?:insert(?:\s+or\s+\w+)?\s+into|replace\s+into|update(?:\s+or\s+\w+)?|delete\s+from)\s+["`]?(\w+)/i

/** Creates counts that start at zero. */
export function createVersions(): Versions {
  const counts = new Map<string, number>()
  /** Caches the table of each statement: there are few statements, and their texts repeat. */
  const tables = new Map<string, string | null>()
  /** Caches the texts until the next write, by list of tables: there are few lists, and they repeat. */
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
