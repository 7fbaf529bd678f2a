import type { Client } from './client/client.js'
import { listDeployments, readDeployment, rolloutOf, followRun, type Run, type RunEvent } from './client/runs.js'
import { oneLine, parseUrl } from '../base/text.js'
import type { FinalStatus } from '../model/deployment.js'
import type { UploadPermit } from '../model/access.js'
import { isBroken, mayRepeat } from './client/answer.js'
import { bothZones, type Waiting } from './push-options.js'
import { type Context, exitCodes } from './command.js'
import { isScreen } from './terminal/output.js'
import { humanDuration } from './terminal/words.js'
import { commandLine, detachedLine, followLine, type GivenOptions, nextLine } from './hints.js'
import { Interrupted } from './terminal/prompt.js'
import { appendSummary, type Known, pageOf, type RunResult } from './run-result.js'

/** The outcome of watching a deployment: it finished, or the user stopped watching. */
export type Watched =
  | {
      outcome: 'ended'
      status: FinalStatus
      duration: string
      deployId: string | null
      page: string | null
      /** Why it failed, if the last line of its output says so and was left out. */
      reason?: string
    }
  | { outcome: 'detached'; deployId: string | null }

/** Time without a line of the deployment after which a line says so, in ms. */
const silentEveryMs = 30_000

export interface WatchOptions {
  client: Client
  projectId: string
  /** Options that the user gave, for hints. */
  given?: GivenOptions
  /** What the server said before the upload. */
  permit?: UploadPermit | null
  print(line: string): void
  /** Whether `reportRun` prints the end as text. Then the line of the output that says the same is left out. */
  tellsEnd?: boolean
  /** Follows a deployment over lost connections. Tests replace it. */
  follow?: typeof followRun
  /** Called when the deployment waits to be confirmed. */
  onConfirm?(waiting: Waiting): void
  /** Aborted by Ctrl-C: stops watching, while the deployment continues. */
  signal: AbortSignal
}

/**
 * Prints the lines of a deployment until it finishes. If the connection is lost, it warns and continues with the event
 * stream. That stream replays the output, so lines that were already printed are skipped. If another hub of a cluster
 * continues the deployment, it writes an output of its own: nothing of that is skipped.
 */
export async function watchRun(run: Run, context: Context, options: WatchOptions): Promise<Watched> {
  const { output, host } = context
  let lineAtMs = Date.now()
  // A CI system ends a job that prints nothing for some minutes, as a script that compiles may.
  const silence = setInterval(() => {
    if (isScreen(host.stderr, host.env) || Date.now() - lineAtMs < silentEveryMs) return
    output.note(`Still following: no output for ${humanDuration(Date.now() - lineAtMs)}`)
  }, silentEveryMs)
  let held: string | null = null
  const flush = (): void => {
    if (held !== null) options.print(held)
    held = null
  }
  const print = (line: string): void => {
    lineAtMs = Date.now()
    flush()
    if (options.tellsEnd && failureLine.test(line)) held = line
    else options.print(line)
  }
  try {
    const watched = await watch(run, context, { ...options, print })
    if (held === null || watched.outcome !== 'ended' || watched.status !== 'failed') return watched
    const reason = (held as string).replace(failureLine, '')
    held = null
    return { ...watched, reason }
  } finally {
    flush()
    clearInterval(silence)
  }
}

/** How the last line of the output of a failed deployment begins (deploy/run.ts). */
const failureLine = /^✗ failed after [\w.]+: /

async function watch(run: Run, { output }: Context, options: WatchOptions): Promise<Watched> {
  const { client, projectId, print, signal, follow = followRun } = options
  let deployId = run.deployId
  let printed = 0
  let firstLine: string | null = null
  try {
    return await consume(run.events)
  } catch (error) {
    if (signal.aborted) return await detached()
    if (!isBroken(error)) throw error
    deployId ??= await newest()
    if (deployId === null) throw error
    output.warn(
      `the connection was lost, reconnecting. The deployment continues; to follow it later: ${followLine(deployId, options.given)}`
    )
  }
  try {
    return await consume(unprinted(follow(client, deployId, { signal }), { printed, firstLine }))
  } catch (error) {
    if (signal.aborted) return await detached()
    if (mayRepeat(error)) output.note(lostLine(deployId, options))
    throw error
  }

  async function consume(events: AsyncIterable<RunEvent>): Promise<Watched> {
    for await (const event of events) {
      if (event.event === 'log') {
        printed++
        firstLine ??= event.text
        print(event.text)
      } else if (event.event === 'confirm') options.onConfirm?.(event)
      else
        return {
          outcome: 'ended',
          status: event.status,
          duration: event.duration,
          deployId: event.deployId ?? deployId,
          page: run.page
        }
    }
    throw new Error('a stream of run events ended without a status')
  }

  async function detached(): Promise<Watched> {
    return { outcome: 'detached', deployId: deployId ?? (await newest()) }
  }

  /** Returns the newest deployment of the project, for older servers that do not send the id at once. */
  async function newest(): Promise<string | null> {
    const [deployment] = await listDeployments(client, { projectId, limit: 1 }).catch(() => [])
    return deployment?.id ?? null
  }
}

/** Leaves out the lines that were printed, if the output is the same one. */
async function* unprinted(
  events: AsyncIterable<RunEvent>,
  { printed, firstLine }: { printed: number; firstLine: string | null }
): AsyncGenerator<RunEvent> {
  let line = 0
  let isSame = true
  for await (const event of events) {
    if (event.event === 'log') {
      if (line === 0) isSame = event.text === firstLine
      if (isSame && line++ < printed) continue
    }
    yield event
  }
}

/** Says where to find the result of a deployment whose server does not come back. */
function lostLine(deployId: string, { client, given, permit }: WatchOptions): string {
  const others = (permit?.hubs ?? []).filter(url => new URL(url).origin !== parseUrl(client.address)?.origin)
  const words = permit?.rollout ? ['rollout', 'status'] : ['logs', '-f', deployId]
  const [other] = others
  if (other === undefined)
    return `The result is unknown: the deployment may have continued. To see it: ${commandLine(words, given ?? {})}`
  const line = commandLine(words, { ...given, server: other })
  const more = others.length === 1 ? '' : `\nOther hubs: ${others.slice(1).join(', ')}`
  return `The result is unknown: another hub of the cluster continues the deployment. To see it: ${line}${more}`
}

export interface ReportOptions {
  client: Pick<Client, 'address' | 'call'>
  /** What a successful run did: "deployed to proj_…". */
  what: string
  json: boolean
  known: Known
  given?: GivenOptions
  /** Escapes a line for CI systems that read commands from the log. */
  harmless?: (line: string) => string
}

/**
 * Prints the result of a deployment, as text or as JSON, and appends it to the summary of a CI job. Returns the exit
 * code, which is 0 only for success. Throws Interrupted if the user stopped watching a deployment that continues.
 */
export async function reportRun(watched: Watched, context: Context, options: ReportOptions): Promise<number> {
  const result = await resultOf(watched, options)
  const { output } = context
  if (options.json) output.json(result)
  else if (watched.outcome === 'ended') sayEnd(result, context, options)
  await appendSummary(result, context)
  const { given = {} } = options
  if (watched.outcome === 'ended') {
    // The output of the deployment ends with the same line, without the options that reach the same server.
    const isOther = Object.values(given).some(value => value !== undefined)
    const next = result.rollout === null || !isOther ? null : nextLine(result.rollout, given)
    if (next !== null) output.note(next)
    return result.status === 'success' ? 0 : 1
  }
  if (result.rollout !== null) output.note(detachedLine(result.rollout.id, given))
  else output.note(`Detached: the deployment continues. Follow it with: ${followLine(result.deployId, options.given)}`)
  throw new Interrupted()
}

/** What follows the result of a deployment. */
interface Ending {
  client: Client
  watched: Watched
  /** The file for the receipt; undefined: none is asked for. */
  receipt: string | undefined
  /** The value of --witness; undefined: the command has no such option. */
  witness?: string | undefined
  /** Prints the result, and returns the exit code. */
  tell(): Promise<number>
}

/** Prints the result of a deployment, writes its receipt, and compares the audit log with what this machine saw before. */
export async function endRun(
  { client, watched, receipt: path, witness, tell }: Ending,
  context: Context
): Promise<number> {
  const finish = async (): Promise<number> => {
    if (path === undefined) return await tell()
    const { withReceipt } = await import('./receipt-file.js')
    return await withReceipt({ client, deployId: watched.deployId, path }, context, tell)
  }
  if (watched.outcome === 'detached') return await finish()
  return await asWitness({ client, witness }, context, finish)
}

/** Runs the end of a command, as a witness of the audit log unless that is off. */
async function asWitness(
  { client, witness }: Pick<Ending, 'client' | 'witness'>,
  context: Context,
  finish: () => Promise<number>
): Promise<number> {
  if (witness === undefined || witness === 'off') return await finish()
  const { withWitness } = await import('./witness.js')
  return await withWitness({ client, mode: witness }, context, finish)
}

/** Resolves when the server has recorded the deployment: with the first line of its output. */
export async function isReceived(run: Run): Promise<void> {
  for await (const _ of run.events) return
}

/** Says when a deployment begins. Returns the exit code. */
export function reportScheduled(
  { witness, ...scheduled }: Scheduled & Pick<Ending, 'witness'>,
  context: Context
): Promise<number> {
  return asWitness({ ...scheduled, witness }, context, () => showScheduled(scheduled, context))
}

interface Scheduled {
  client: Client
  known: Known
  json: boolean
}

async function showScheduled({ client, known, json }: Scheduled, { output }: Context): Promise<number> {
  const deployment = await readDeployment(client, known.deployId ?? '', { output: 'end' })
  const { id, startAt, heldFor } = deployment
  output.result(
    json,
    { ...known, status: deployment.status, duration: null, error: null, deployment, rollout: null },
    () => [
      `${output.paint.green('✔ scheduled')}: ${id} begins at ${bothZones(startAt ?? deployment.startTime)}`,
      ...(heldFor === 'approval' ? [`It waits for an approval before: svc approve ${id}`] : [])
    ]
  )
  return exitCodes.success
}

async function resultOf(watched: Watched, { client, known }: ReportOptions): Promise<RunResult> {
  const { deployId } = watched
  const url = pageOf(client, deployId, watched.outcome === 'ended' ? watched.page : known.url)
  const begun = { ...known, deployId, url }
  if (watched.outcome === 'detached') {
    const error = { code: 'detached', message: 'Stopped watching; the deployment continues' }
    const rollout = deployId === null ? null : await rolloutOf(client, deployId)
    return { ...begun, status: 'running', duration: null, error, deployment: null, rollout }
  }
  // The result is known without the record, so a record that cannot be read is not an error.
  const deployment =
    deployId === null ? null : await readDeployment(client, deployId, { output: 'end' }).catch(() => null)
  const { status, duration } = watched
  const message = deployment?.errorMessage || watched.reason || 'The deployment failed. See its output for the reason'
  const error = status === 'failed' ? { code: 'deployment_failed', message } : null
  const isRollout = deployment?.steps?.some(({ name }) => (name as string) === 'rollout') === true
  const rollout = isRollout ? await rolloutOf(client, deployment.id) : null
  return { ...begun, message: deployment?.message ?? known.message, status, duration, error, deployment, rollout }
}

function sayEnd(result: RunResult, { output }: Context, { what, harmless = line => line }: ReportOptions): void {
  const { paint } = output
  const { status, duration, deployId, error, url } = result
  const took = readable(duration ?? '')
  const words =
    status === 'success'
      ? `${paint.green('✔ success')}: ${what} in ${took} (${deployId ?? 'unknown id'})`
      : `${paint.red('✘ failed')} after ${took}: ${oneLine(error?.message ?? '')} (${deployId ?? 'unknown id'})`
  output.print(harmless(words))
  if (url !== null) output.note(harmless(url))
}

/** `84.00s` → `1m 24s`. */
function readable(duration: string): string {
  const seconds = Number.parseFloat(duration)
  return Number.isFinite(seconds) && seconds >= 60 ? humanDuration(seconds * 1000) : duration
}
