import type { MachineFacts, MachineMinute } from '../../model/machine.js'
import type { Reader, Transaction } from '../database.js'
import { isObject, json, rowReader, text } from './columns.js'

const readMinute = rowReader<{ at: string; facts: MachineFacts }>('machineHistory', {
  at: text,
  facts: json('figures', isFacts)
})

/** Null stands for an unknown figure. */
function isFacts(value: unknown): value is MachineFacts {
  return isObject(value) && Object.values(value).every(figure => typeof figure === 'number' || figure === null)
}

/** Adds minutes. A minute that exists already, because the clock was set back, is replaced. */
export function insertMachineMinutes(tx: Transaction, minutes: readonly MachineMinute[]): void {
  for (const { at, ...facts } of minutes) {
    tx.run(
      'INSERT INTO machineHistory (at, facts) VALUES (?, ?) ON CONFLICT (at) DO UPDATE SET facts = excluded.facts',
      at,
      JSON.stringify(facts)
    )
  }
}

/**
 * Removes the minutes outside two instants, which are both included in the range. If the clock was set back, there are
 * minutes in the future.
 */
export function trimMachineHistory(tx: Transaction, { from, to }: { from: string; to: string }): void {
  tx.run('DELETE FROM machineHistory WHERE at < ? OR at > ?', from, to)
}

/** Returns the minutes between two instants, both included, oldest first. */
export function readMachineHistory(db: Reader, { from, to }: { from: string; to: string }): MachineMinute[] {
  const sql = 'SELECT at, facts FROM machineHistory WHERE at >= ? AND at <= ? ORDER BY at'
  return db.all(sql, from, to).map(row => {
    const { at, facts } = readMinute(row)
    return { at, ...facts }
  })
}
