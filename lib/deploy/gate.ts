/*
 * The gate of a deployment: its checks are repeated until all of them have passed a number of times in a row, and then
 * for some time after that. Durations are measured by the elapsed time.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { type Clock, elapsedOf, pause } from '../base/clock.js'
import { oneLine } from '../base/text.js'
import type { CheckResult } from '../model/deployment.js'
import {
  type Check,
  type Gate,
  isExpression,
  logExpression,
  parsePlace,
  parseStatuses,
  titlesOfChecks
} from '../model/policy.js'
import { messageOf } from '../base/errors.js'
import type { Project } from '../model/project.js'
import { runProcess, scriptCommand } from '../core/proc/run.js'
import { StepFailure } from './failure.js'
import type { CheckSources } from './needs.js'
import { findRunner, type ScriptStage, workingDirectory } from './scripts/scripts.js'

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
      if (passedMs !== null && !isGood) throw new GateFailure(history.complaint('passed, and then failed'))
      if (passedMs === null && passes >= gate.successes) passedMs = elapsedMs()
      if (passedMs !== null && elapsedMs() - passedMs >= stableMsOf(gate)) return
      // The next attempt would begin after the deadline.
      if (passedMs === null && elapsedMs() + gate.interval * 1000 > gate.deadline * 1000)
        throw new GateFailure(history.complaint(`did not pass within ${gate.deadline} s`))
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

/** Keeps the attempts of all checks. An attempt that changes the answer of a check is one line of output. */
function createHistory({ after, successes, deadline }: Gate, { clock, checks, say, signal }: GateNeeds) {
  const titles = titlesOfChecks(after)
  const each = after.map((check, index) => {
    return { check, title: titles[index] as string, attempts: 0, last: null as Attempt | null }
  })
  const endedAt = (): string => new Date(clock.now()).toISOString()
  let results: CheckResult[] = []
  let lastFailed: CheckResult | undefined

  const note = (title: string, { ok, message }: Attempt): void =>
    say(`→ check ${title}: ${ok ? 'passed' : 'failed'} (${message})`)

  return {
    /** Makes an attempt of each check. Returns whether all passed. */
    async attempt(timeoutMs: number): Promise<boolean> {
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
      lastFailed = results.find(({ ok }) => !ok) ?? lastFailed
      return attempts.every(({ ok }) => ok)
    },
    results: (): CheckResult[] => results,
    /** Returns which check failed last, what became of it, and why; none failed: what is missing. */
    complaint: (what: string): string =>
      lastFailed === undefined
        ? `The checks did not pass ${successes} times in a row within ${deadline} s`
        : `The check ${lastFailed.check} ${what}: ${lastFailed.message}`
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

/*
 * The attempts of each kind of check. They run with what the deployment has: commands run like the project's scripts,
 * with its environment, its rights and its working directory.
 */

/** The deployment whose checks are made. */
export interface Checked {
  deployId: string
  project: Pick<Project, 'id' | 'pm2AppName'>
  stage(): ScriptStage
}

type Options = Parameters<Attempts>[1]

/** Creates the attempts of one deployment. */
export function createChecks(sources: CheckSources, checked: Checked): Attempts {
  const state: Remembered = { restarts: null, offsets: new Map() }
  return async (check, options) => {
    try {
      if ('http' in check) return await attemptHttp(check, { sources, checked, options })
      if ('tcp' in check) return await attemptTcp(check.tcp, sources.hosts(), options)
      if ('command' in check) return await attemptCommand(check, checked.stage(), options)
      if ('pm2' in check) return await attemptPm2(sources, checked, state)
      return await attemptLog(check, { sources, checked, state, signal: options.signal })
    } catch (error) {
      options.signal.throwIfAborted()
      return { ok: false, message: messageOf(error) }
    }
  }
}

/** What is remembered from the attempts before. */
interface Remembered {
  /** Number of restarts of the PM2 application at the first attempt. */
  restarts: number | null
  /** The place in each log up to which it was read. */
  offsets: Map<string, number>
}

async function attemptHttp(
  { http, status = '200-299', contains, header = {} }: Extract<Check, { http: string }>,
  { sources, checked, options }: { sources: CheckSources; checked: Checked; options: Options }
): Promise<Attempt> {
  const filled = (text: string): string => text.replaceAll('${SVC_DEPLOY_ID}', checked.deployId)
  const { maxBodyBytes, probeHttp } = await import('../http/outgoing/probe.js')
  const answer = await probeHttp({
    ...options,
    url: http,
    hosts: sources.hosts(),
    secureContext: http.startsWith('https:') ? sources.trust?.() : undefined,
    header: Object.fromEntries(Object.entries(header).map(([name, value]) => [name, filled(value)])),
    readsBody: contains !== undefined
  })
  if ('error' in answer) return { ok: false, message: answer.error }
  const message = String(answer.status)
  const isExpected = parseStatuses(status)?.some(({ from, to }) => answer.status >= from && answer.status <= to)
  if (isExpected !== true) return { ok: false, message }
  if (contains === undefined || answer.body.includes(filled(contains))) return { ok: true, message }
  return { ok: false, message: `${message}, but the first ${maxBodyBytes / 1024} KiB do not contain "${contains}"` }
}

async function attemptTcp(place: string, hosts: readonly string[], options: Options): Promise<Attempt> {
  const parsed = parsePlace(place)
  if (parsed === null) return { ok: false, message: `"${place}" is not like "127.0.0.1:5432"` }
  const { probeTcp } = await import('../http/outgoing/probe.js')
  const complaint = await probeTcp({ ...options, ...parsed, hosts })
  return { ok: complaint === null, message: complaint ?? 'connected' }
}

async function attemptCommand(
  { command, timeout }: Extract<Check, { command: string }>,
  stage: ScriptStage,
  { timeoutMs, signal }: Options
): Promise<Attempt> {
  const title = 'The command'
  const { interpreter } = await findRunner(command, stage, { title, path: stage.env['PATH'] })
  const { path: cwd } = await workingDirectory(stage, { title, isBeforeFiles: false })
  let last = ''
  const lines = stage.masker.lines(line => void (last = line))
  const ended = await runProcess({
    command: scriptCommand(command, { interpreter, umask: stage.umask }),
    stderr: 'joined',
    cwd,
    rights: stage.rights ?? undefined,
    env: stage.env,
    timeoutMs: timeout === undefined ? timeoutMs : timeout * 1000,
    signal,
    onLine: line => lines.push(line)
  }).finally(() => lines.end())
  signal.throwIfAborted()
  const tail = last === '' ? '' : `: ${last.slice(0, maxLineLength)}`
  switch (ended.reason) {
    case 'exit':
      return { ok: ended.exitCode === 0, message: `exit code ${ended.exitCode}${ended.exitCode === 0 ? '' : tail}` }
    case 'signal':
      return { ok: false, message: `killed by the signal ${ended.signal}${tail}` }
    case 'timeout':
      return { ok: false, message: 'it ran longer than its time limit' }
    default:
      return { ok: false, message: `it did not run: ${ended.error ?? ended.reason}` }
  }
}

/** Maximum length of a command's output in a message. */
const maxLineLength = 200

async function attemptPm2(sources: CheckSources, { project }: Checked, state: Remembered): Promise<Attempt> {
  const app = await sources.pm2(project.pm2AppName)
  if (!app.bound || app.found === null) return { ok: false, message: app.message }
  if (!app.found) return { ok: false, message: `PM2 does not run "${app.name}"` }
  state.restarts ??= app.restarts
  if (app.status !== 'online') return { ok: false, message: String(app.status) }
  const restarts = app.restarts - state.restarts
  return restarts > 0 ? { ok: false, message: `restarted ${restarts} times` } : { ok: true, message: 'online' }
}

async function attemptLog(
  { log, none }: Extract<Check, { log: string }>,
  {
    sources,
    checked,
    state,
    signal
  }: { sources: CheckSources; checked: Checked; state: Remembered; signal: AbortSignal }
): Promise<Attempt> {
  const expression = logExpression(none)
  if (!isExpression(expression)) return { ok: false, message: `"${none}" is not a regular expression` }
  const source = { projectId: checked.project.id, sourceId: log, signal }
  for (let offset = state.offsets.get(log) ?? null; ; ) {
    const { lines, endOffset, hasMore } = await sources.log({ ...source, offset })
    const tested = lines.map(line => line.slice(0, maxTestedLength))
    const found = lines[await sources.firstMatch(expression, tested, signal)]
    state.offsets.set(log, endOffset)
    if (found !== undefined) return { ok: false, message: `found: ${found.slice(0, maxLineLength)}` }
    if (!hasMore) return { ok: true, message: 'no such line' }
    offset = endOffset
  }
}

/** Maximum number of characters of a line that are compared with a pattern. */
const maxTestedLength = 10_000
