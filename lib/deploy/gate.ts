/*
 * The gate of a deployment: its checks are repeated until all of them have passed a number of times in a row, and then
 * for some time after that. Durations are measured by the elapsed time.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf, type Clock } from '../base/clock.js'
import { oneLine } from '../base/text.js'
import { pause } from '../base/pause.js'
import type { CheckResult } from '../model/deployment.js'
import { titlesOfChecks } from '../model/gate.js'
import type { Check, Gate } from '../model/policy.js'
import { StepFailure } from './failure.js'

/** The result of one attempt of one check. */
export interface Attempt {
  ok: boolean
  /** The answer: a status code, an error. */
  message: string
}

/** Makes attempts. Rejects only if the signal aborts. */
export type Attempts = (check: Check, options: { timeoutMs: number; signal: AbortSignal }) => Promise<Attempt>

/** The checks did not pass. */
export class GateFailure extends StepFailure {}

/** What a gate works with. */
export interface GateNeeds {
  clock: Clock
  checks: Attempts
  /** Writes a line of the output. */
  say(line: string): void
  signal: AbortSignal
}

/** Runs the checks until they have passed. Throws a GateFailure if they do not, or the signal's reason. */
export async function runGate(
  gate: Gate,
  needs: GateNeeds & { onResults(results: CheckResult[]): void }
): Promise<void> {
  const { clock, signal } = needs
  const history = createHistory(gate, needs)
  const startedMs = elapsedOf(clock)
  const elapsedMs = (): number => elapsedOf(clock) - startedMs
  let passes = 0
  let passedMs: number | null = null
  try {
    for (;;) {
      signal.throwIfAborted()
      const isGood = await history.attempt(gate.timeout * 1000)
      needs.onResults(history.results())
      passes = isGood ? passes + 1 : 0
      if (passedMs !== null && !isGood) throw new GateFailure(`${history.complaint()} after it had passed`)
      if (passedMs === null && passes >= gate.successes) passedMs = elapsedMs()
      if (passedMs !== null && elapsedMs() - passedMs >= stableMsOf(gate)) return
      // The next attempt would begin after the deadline.
      if (passedMs === null && elapsedMs() + gate.interval * 1000 > gate.deadline * 1000)
        throw new GateFailure(`${history.complaint()} within ${gate.deadline} s`)
      await pause(gate.interval * 1000, signal)
    }
  } catch (error) {
    signal.throwIfAborted()
    throw error
  }
}

/** Makes one attempt of each check and says what it answered. Never throws. */
export async function reportGate(gate: Gate, needs: GateNeeds): Promise<void> {
  await createHistory(gate, needs)
    .attempt(gate.timeout * 1000)
    .catch(() => {})
}

/** Returns for how long the checks must pass. A log is watched for its own time. */
function stableMsOf({ after, stableFor }: Gate): number {
  return Math.max(stableFor, ...after.map(check => ('log' in check ? check.for : 0))) * 1000
}

interface CheckHistory {
  /** Makes an attempt of each check. Returns whether all passed. */
  attempt(timeoutMs: number): Promise<boolean>
  results(): CheckResult[]
  /** Returns which check failed last, and how. */
  complaint(): string
}

/** Keeps the attempts of all checks. An attempt that changes the answer of a check is one line of output. */
function createHistory({ after }: Gate, { clock, checks, say, signal }: GateNeeds): CheckHistory {
  const titles = titlesOfChecks(after)
  const each = after.map((check, index) => {
    return { check, title: titles[index] as string, attempts: 0, last: null as Attempt | null }
  })
  const endedAt = (): string => new Date(clock.now()).toISOString()
  let results: CheckResult[] = []
  let complaint = 'The checks did not run'

  const note = (title: string, { ok, message }: Attempt): void =>
    say(`→ check ${title}: ${ok ? 'passed' : 'failed'} (${message})`)

  return {
    async attempt(timeoutMs) {
      const attempts = await Promise.all(
        each.map(async one => {
          const { ok, message } = await limited(
            checks(one.check, { timeoutMs, signal }),
            timeoutOf(one.check, timeoutMs)
          )
          const attempt = { ok, message: oneLine(message) }
          if (one.last?.ok !== ok || one.last.message !== attempt.message) note(one.title, attempt)
          one.attempts++
          one.last = attempt
          return attempt
        })
      )
      results = each.map(({ title, attempts, last }) => {
        const { ok, message } = last as Attempt
        return { check: title, ok, attempts, message, endedAt: endedAt() }
      })
      const failed = results.find(({ ok }) => !ok)
      if (failed !== undefined) complaint = `The check ${failed.check} failed: ${failed.message}`
      return attempts.every(({ ok }) => ok)
    },
    results: () => results,
    complaint: () => complaint
  }
}

function timeoutOf(check: Check, timeoutMs: number): number {
  return 'command' in check && check.timeout !== undefined ? check.timeout * 1000 : timeoutMs
}

/** Time that an attempt gets to notice its own limit. */
const lateMs = 1_000

/** Ends an attempt that does not end by itself, like a lookup of a name. */
async function limited(attempt: Promise<Attempt>, timeoutMs: number): Promise<Attempt> {
  const timer = new AbortController()
  const late = sleep(timeoutMs + lateMs, undefined, { signal: timer.signal }).then(
    () => ({ ok: false, message: `no answer within ${timeoutMs / 1000} s` }),
    () => ({ ok: false, message: '' })
  )
  try {
    return await Promise.race([attempt, late])
  } finally {
    timer.abort()
    attempt.catch(() => {})
  }
}
