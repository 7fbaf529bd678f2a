/** Reports which rows of one table were written to, for caches of its rows. Does not work for tables WITHOUT ROWID. */
export interface Followed {
  /**
   * Returns the rowids of the rows that were added, changed or removed since the last call. Returns null if any row may
   * have changed: on the first call, after too many changes, and within a write that has already changed something,
   * because that change may still be rolled back.
   */
  take(): ReadonlySet<number> | null
  /** Ends the reports. */
  stop(): void
}

/** The followers of all tables. */
export interface Followers {
  follow(table: string): Followed
  /** Reports that a row was written to. */
  touch(table: string, row: number): void
  /** Reports that any row may have changed. */
  touchAll(): void
}

/** Maximum number of rows that are reported one by one; beyond it, `take` returns null. */
const maxRows = 1000

interface Follower {
  rows: Set<number>
  isAll: boolean
}

/** Creates an empty registry. `isUnfinished` returns whether memory has changes that may still be rolled back. */
export function createFollowers(isUnfinished: () => boolean): Followers {
  const byTable = new Map<string, Set<Follower>>()
  return {
    follow(table) {
      const follower: Follower = { rows: new Set(), isAll: true }
      const ofTable = byTable.get(table) ?? new Set()
      byTable.set(table, ofTable.add(follower))
      return {
        stop: () => void ofTable.delete(follower),
        take() {
          const { rows, isAll } = follower
          follower.rows = new Set()
          follower.isAll = isUnfinished()
          return isAll || follower.isAll ? null : rows
        }
      }
    },
    touch(table, row) {
      for (const follower of byTable.get(table) ?? []) {
        if (follower.isAll) continue
        follower.rows.add(row)
        if (follower.rows.size <= maxRows) continue
        follower.isAll = true
        follower.rows.clear()
      }
    },
    touchAll() {
      for (const follower of [...byTable.values()].flatMap(ofTable => [...ofTable])) follower.isAll = true
    }
  }
}
