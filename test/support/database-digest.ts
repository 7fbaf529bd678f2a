import { createHash } from 'node:crypto'
import type { Reader } from '../../lib/core/store/database.js'

/** Returns a digest of everything in a database but the time of its last checkpoint. */
export function digestOf(db: Reader): string {
  const hash = createHash('sha256')
  for (const { name, sql } of db.all("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")) {
    hash.update(`${String(name)} ${String(sql)}\n`)
    if (name === 'store') continue
    for (const row of db.all(`SELECT * FROM "${String(name)}"`)) hash.update(`${JSON.stringify(row)}\n`)
  }
  return hash.digest('hex')
}
