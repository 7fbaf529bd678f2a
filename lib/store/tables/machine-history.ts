import type { MachineFacts, MachineMinute } from '../../model/machine.js'
import type { Reader, Transaction } from '../database.js'

/** Adds minutes; one that is there already, since a clock was set back, is replaced. */
export function insertMachineMinutes(tx: Transaction, minutes: readonly MachineMinute[]): void {
  for (const { at, ...facts } of minutes) {
    tx.run('INSERT INTO machineHistory (at, facts) VALUES (?, ?) ON CONFLICT (at) DO UPDATE SET facts = excluded.facts', at, JSON.stringify(facts))
  }
}

/** Keeps the minutes between two instants, both included; a clock that was set back leaves some in the future. */
export function trimMachineHistory(tx: Transaction, { from, to }: { from: string; to: string }): void {
  tx.run('DELETE FROM machineHistory WHERE at < ? OR at > ?', from, to)
}

/** The minutes between two instants, both included, oldest first. */
export function readMachineHistory(db: Reader, { from, to }: { from: string; to: string }): MachineMinute[] {
  const rows = db.all<{ at: string; facts: string }>('SELECT at, facts FROM machineHistory WHERE at >= ? AND at <= ? ORDER BY at', from, to)
  return rows.map(({ at, facts }) => ({ at, ...(JSON.parse(facts) as MachineFacts) }))
}
