/* What a crash run has found, and how it is told. */
import type { Test } from 'tap'
import { invariants, type Invariant } from './crash-promises.js'

export interface Violation {
  invariant: Invariant
  lane: number
  round: number
  /** The moment of the kill before the violation. */
  moment: string
  sentence: string
}

export interface CrashReport {
  kills: number
  acknowledged: number
  /** For each moment, the number of kills and the states of the journals that they left. */
  moments: Map<string, Record<string, number>>
  violations: Violation[]
  /** Lines that servers wrote to stderr, with their counts. */
  complaints: Map<string, number>
}

/** Maximum number of violations of each kind that are printed. */
const mostTold = 25

/** Returns the run as lines: its kills by moment, and the lines of the servers. */
export function linesOf({ kills, acknowledged, moments, complaints }: CrashReport, seed: number): string[] {
  const rows = [...moments].sort((a, b) => (b[1]['kills'] ?? 0) - (a[1]['kills'] ?? 0))
  const columns = ['kills', 'begun', 'ready', 'done']
  return [
    `${kills} kills, seed ${seed}, ${acknowledged} answers that acknowledged something; kills with a journal that was begun, ready, done:`,
    `${'moment'.padEnd(34)}${columns.map(name => name.padStart(7)).join('')}`,
    ...rows.map(
      ([name, counts]) => `${name.padEnd(34)}${columns.map(column => String(counts[column] ?? 0).padStart(7)).join('')}`
    ),
    ...[...complaints].map(([line, count]) => `said ${count} times: ${line}`)
  ]
}

/** Asserts one check for each invariant, after printing the violations. */
export function checkReport(t: Pick<Test, 'comment' | 'equal'>, { violations }: CrashReport): void {
  for (const invariant of Object.keys(invariants) as Invariant[]) {
    const found = violations.filter(each => each.invariant === invariant)
    for (const { lane, round, moment, sentence } of found.slice(0, mostTold)) {
      t.comment(`${invariant}, lane ${lane}, round ${round} (killed: ${moment}): ${sentence}`)
    }
    t.equal(found.length, 0, invariants[invariant])
  }
}
