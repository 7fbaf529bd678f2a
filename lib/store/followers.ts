/** Which rows of one table were written to, for those who keep what they read of it. Tables WITHOUT ROWID have none. */
export interface Followed {
  /**
   * The numbers (rowid) of the rows that were added, changed or removed since the last call. null: any may have been, and
   * on the first call; also within a write that has changed something, since that may still be rolled back.
   */
  take(): ReadonlySet<number> | null
  /** Is told nothing more. */
  stop(): void
}

export interface Followers {
  follow(table: string): Followed
  /** A row was written to. */
  touch(table: string, row: number): void
  /** Everything may be otherwise. */
  touchAll(): void
}

/** So many rows are told one by one. */
const maxRows = 1000

interface Follower {
  rows: Set<number>
  isAll: boolean
}

/** `isUnfinished`: whether memory has changes that may still be rolled back. */
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
