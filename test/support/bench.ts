import { appendFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** Whether benches run once at a tiny size, as `make test` does: whether they work, not how fast svc is. */
export const isTiny = process.env['BENCH_SIZE'] === 'tiny'

/** Returns the size of a work: the tiny one if benches only show that they work. */
export function sized(full: number, tiny: number): number {
  return isTiny ? tiny : full
}

/** What a ratio of svc to a contestant should be. Times and sizes have a maximum, rates a minimum. */
export interface Goal {
  beside: string
  atMost?: number
  atLeast?: number
}

/** A row of the table at the end of `make bench`. */
export interface BenchRow {
  work: string
  rival: string
  ratio: number
  goal: string
  isMet: boolean
}

/** Adds a row to the table at the end of `make bench`. */
export function tell(work: string, ratio: number, { beside, atMost, atLeast }: Goal): void {
  const path = process.env['BENCH_TABLE']
  if (path === undefined) return
  const isMet = ratio <= (atMost ?? Infinity) && ratio >= (atLeast ?? -Infinity)
  const goal = atMost === undefined ? `at least ${atLeast}` : `at most ${atMost}`
  const row: BenchRow = { work, rival: beside, ratio, goal, isMet }
  appendFileSync(path, `${JSON.stringify(row)}\n`)
}

/** Measures once and returns the figure: seconds, MB/s, requests per second. Returns null if the tool is missing. */
export type Contestant = (() => number | Promise<number>) | null

export interface Comparison {
  name: string
  unit: string
  /**
   * Number of alternating rounds. Each contestant runs once per round. Use at least five for a figure that is reported.
   */
  rounds?: number
  /** Rounds before these that are not counted (caches, compiled code). */
  warmups?: number
  /** The first contestant is svc. Each other row shows the ratio of svc to it. */
  contestants: Record<string, Contestant>
  /** The goals: ratios of the first contestant to others. */
  goals?: readonly Goal[]
  /** A goal in words, printed under the table. */
  target?: string
}

const defaultRounds = 5

/**
 * Runs the contestants in alternating rounds and prints one row each: median, lowest, highest, and ours divided by it.
 * Returns the medians by name, without those of skipped contestants.
 */
export async function compare(comparison: Comparison): Promise<Record<string, number>> {
  const { name, unit, contestants, goals = [], target } = comparison
  const rounds = isTiny ? 1 : (comparison.rounds ?? defaultRounds)
  const warmups = isTiny ? 0 : (comparison.warmups ?? 1)
  const present = Object.entries(contestants).flatMap(([who, run]) =>
    run === null ? [] : [{ who, run, seen: [] as number[] }]
  )
  for (let round = -warmups; round < rounds; round++) {
    // The order turns round each time, so that none always follows the same one.
    for (const contestant of round % 2 === 0 ? present : [...present].reverse()) {
      const figure = await contestant.run()
      if (round >= 0) contestant.seen.push(figure)
    }
  }
  const medians = Object.fromEntries(present.map(({ who, seen }) => [who, median(seen)]))
  const ours = medians[present[0]?.who ?? ''] ?? NaN

  console.log(`\n${name} (${unit}, median of ${rounds} alternating rounds)`)
  print([
    ['', 'median', 'lowest', 'highest', 'ours ÷ this'],
    ...present.map(({ who, seen }, at) => [
      who,
      ...[median(seen), Math.min(...seen), Math.max(...seen)].map(figure),
      at === 0 ? '' : figure(ours / median(seen))
    ])
  ])
  for (const [who, run] of Object.entries(contestants))
    if (run === null) console.log(`  ${who}: left out, not on this machine`)
  if (target !== undefined) console.log(`  target: ${target}`)
  for (const goal of goals) {
    const { beside, atMost, atLeast } = goal
    console.log(`  goal: ${atMost === undefined ? `at least ${atLeast}` : `at most ${atMost}`} of ${beside}`)
    const theirs = medians[beside]
    if (theirs !== undefined) tell(name, ours / theirs, goal)
  }
  return medians
}

/** Returns one line about the machine, for the head of a bench. */
export function machine(): string {
  const list = cpus()
  return `node ${process.version}, ${process.platform} ${process.arch}, ${list.length} × ${list[0]?.model.trim() ?? 'unknown CPU'}`
}

/** Returns the median; of an even number, the mean of the two in the middle. */
export function median(figures: number[]): number {
  const sorted = [...figures].sort((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? NaN
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN
  return (lower + upper) / 2
}

function figure(value: number): string {
  if (!Number.isFinite(value)) return '–'
  return Math.abs(value) >= 1000 ? Math.round(value).toString() : Number(value.toPrecision(3)).toString()
}

function print(rows: string[][]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map(row => (row[column] ?? '').length)))
  for (const row of rows) {
    console.log(
      '  ' +
        row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  ')
    )
  }
}
