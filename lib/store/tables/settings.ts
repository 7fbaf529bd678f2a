import type { Reader, Transaction } from '../database.js'

/** The settings that were ever written, by key. Defaults are not here. */
export function readSettings(db: Reader): Record<string, string> {
  const rows = db.all<{ key: string; value: string }>('SELECT key, value FROM settings')
  return Object.fromEntries(rows.map(({ key, value }) => [key, value]))
}

/** Writes one setting, over what it was. */
export function writeSetting(tx: Transaction, key: string, value: string): void {
  tx.run('INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value', key, value)
}
