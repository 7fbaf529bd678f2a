/*
 * The attempts of each kind of check. They run with what the deployment has: commands run like the project's scripts,
 * with its environment, its rights and its working directory.
 */
import { messageOf } from '../base/errors.js'
import { isExpression, logExpression, parsePlace, parseStatuses } from '../model/gate.js'
import type { Check } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { maxBodyBytes, probeHttp, probeTcp } from '../probe/probe.js'
import { runProcess, scriptCommand } from '../proc/run.js'
import type { CheckSources } from './check-sources.js'
import type { Attempt, Attempts } from './gate.js'
import { findRunner, workingDirectory } from './scripts/script-place.js'
import type { ScriptStage } from './scripts/script-run.js'

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
  if (!app.bound) return { ok: false, message: app.message }
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
