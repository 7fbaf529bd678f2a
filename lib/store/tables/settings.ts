import type { Reader, Transaction } from '../database.js'
import { rowReader, text } from './columns.js'

const readSetting = rowReader<{ key: string; value: string }>('settings', { key: text, value: text })

/** Returns the settings that were ever written, by key. Defaults are not included. */
export function readSettings(db: Reader): Record<string, string> {
  const rows = db.all('SELECT key, value FROM settings').map(readSetting)
  return Object.fromEntries(rows.map(({ key, value }) => [key, value]))
}

/** Writes one setting, replacing its previous value. */
export function writeSetting(tx: Transaction, key: string, value: string): void {
  tx.run(
    'INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
    key,
    value
  )
}
