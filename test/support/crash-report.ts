/* What a crash run has found, and how it is told. */
import type { Test } from 'tap'
import { invariants, type Invariant } from './crash-promises.js'

export interface Violation {
  invariant: Invariant
  lane: number
  round: number
  /** Of the kill before it. */
  moment: string
  sentence: string
}

export interface CrashReport {
  kills: number
  acknowledged: number
  /** For each moment: how many kills, and how many of them left journals that had come so far. */
  moments: Map<string, Record<string, number>>
  violations: Violation[]
  /** Lines that servers said on stderr, with their numbers. */
  complaints: Map<string, number>
}

/** Of each kind of violation, so many are told. */
const mostTold = 25

/** The run in lines: its kills by moment, and what servers said. */
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

/** One check for each promise; what breaks it is told before. */
export function checkReport(t: Pick<Test, 'comment' | 'equal'>, { violations }: CrashReport): void {
  for (const invariant of Object.keys(invariants) as Invariant[]) {
    const found = violations.filter(each => each.invariant === invariant)
    for (const { lane, round, moment, sentence } of found.slice(0, mostTold)) {
      t.comment(`${invariant}, lane ${lane}, round ${round} (killed: ${moment}): ${sentence}`)
    }
    t.equal(found.length, 0, invariants[invariant])
  }
}
