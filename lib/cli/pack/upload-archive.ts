/*
 * Uploads the archive of a push. A connection that breaks, or a proxy that cannot reach svc, is tried again, but only
 * if the server has not accepted the upload: unsent bytes prove that, or the list of deployments.
 */
import { randomUUID } from 'node:crypto'
import { Refusal } from '../../base/errors.js'
import { pause } from '../../base/clock.js'
import { countOf, oneLine } from '../../base/text.js'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import { aheadSentence } from '../../model/rollout.js'
import { daysLeftOf, reminderDays, type UploadPermit } from '../../model/access.js'
import type { Attached } from '../../model/statement.js'
import { formatBytes } from '../../base/shared/api.js'
import { treeMediaType } from '../../core/archive/tree-wire.js'
import { piecesFromBytes } from '../../base/shared/pieces.js'
import { type Client, requestOf } from '../client/client.js'
import { checkUpload, listDeployments, followRun, ndjson, type Run, runOf } from '../client/runs.js'
import { formBody } from '../client/files.js'
import { whoami } from '../client/named-project.js'
import { isBroken, isElecting, isPassing, mayRepeat } from '../client/answer.js'
import type { Context } from '../command.js'
import { followLine, type GivenOptions } from '../hints.js'
import type { Progress } from '../terminal/output.js'
import { humanDuration } from '../terminal/words.js'
import { Interrupted } from '../terminal/prompt.js'
import { isRefusedChange } from './changes.js'
import type { PackedArchive } from './pack.js'

/** The time before each repetition. A server or a proxy that restarts is back within seconds. */
const pausesMs = [500, 2000, 6000]
/** The longest wait that an answer can ask for. */
const maxWaitMs = 30_000
/** Deployments that others can begin during an upload, at most. */
const searchedDeployments = 100

/** Repeats `attempt` while it fails for a reason that passes, and says so. `mayRepeat` can refuse to. */
async function repeating<T>(
  attempt: () => Promise<T>,
  { mayRepeat, signal, note }: { mayRepeat(error: unknown): boolean; signal: AbortSignal; note(line: string): void }
): Promise<T> {
  for (const pauseMs of pausesMs) {
    try {
      return await attempt()
    } catch (error) {
      if (signal.aborted || !mayRepeat(error)) throw error
      const asked = error instanceof Refusal ? (error.retryAfterSeconds ?? 0) * 1000 : 0
      const waitMs = Math.min(Math.max(pauseMs, asked), maxWaitMs)
      note(`${(error as Error).message}. Trying again in ${humanDuration(waitMs)}`)
      await pause(waitMs, signal)
    }
  }
  return attempt()
}

/** Repeats a question before the upload. A server that refuses connections is down, or the address is wrong. */
export function askAgain<T>(ask: () => Promise<T>, signal: AbortSignal, note: (line: string) => void): Promise<T> {
  return repeating(ask, { mayRepeat: isReset, signal, note })
}

function isReset(error: unknown): boolean {
  if (!(error instanceof Refusal)) return isBroken(error)
  const { code } = (error.cause ?? {}) as NodeJS.ErrnoException
  return isPassing(error) || (error.code === 'unreachable' && (code === 'ECONNRESET' || code === 'EPIPE'))
}

/** Whether an upload that failed so may be sent again if it was not accepted. */
function mayBeSentAgain(error: unknown): boolean {
  const { code } = (error instanceof Refusal ? (error.cause ?? {}) : {}) as NodeJS.ErrnoException
  const isFull = error instanceof Refusal && error.code === 'server_full'
  return isReset(error) || isFull || isElecting(error) || code === 'ECONNREFUSED'
}

/** Whether a proxy refused the size of a request. svc names the field, and would refuse the upload in pieces, too. */
function isTooLarge(error: unknown): boolean {
  return error instanceof Refusal && error.code === 'too_large' && error.field === undefined
}

/** Whether the pieces are not there any more, or not as they were sent: then they are sent again. */
function isGone(error: unknown): boolean {
  return error instanceof Refusal && ['upload_unknown', 'upload_differs', 'upload_busy'].includes(error.code)
}

interface ArchiveUpload {
  client: Client
  projectId: string
  archive: PackedArchive
  fields: Record<string, string | undefined>
  /** The differences of the trees, if the archive contains only changes (core/archive/tree-wire.ts). */
  tree?: Uint8Array | undefined
  /** Statement, signatures, and the list of components. */
  attached?: Attached | undefined
  /** The newest deployment before the upload; null: there is none. Undefined if it is unknown. */
  newest: string | null | undefined
  /** What the server takes; null: it is too old to say. */
  permit?: Pick<UploadPermit, 'features'> | null
  given: GivenOptions
  signal: AbortSignal
  /** Called when the archive is sent, and the server works. */
  onSent?(): void
  /** Sends one request. Tests replace it. */
  send?: typeof sendOnce
}

/** Uploads the archive, and returns the deployment that it began. */
export async function uploadArchive(upload: ArchiveUpload, { output }: Context): Promise<Run> {
  const { client, projectId, archive, tree, signal, send = sendOnce } = upload
  // The server keeps another archive than the one that was sent.
  const traceId = tree === undefined ? undefined : `push-${randomUUID()}`
  const bytes = archive.bytes
  const startedAtMs = Date.now()
  const size = formatBytes(bytes)
  const takesPieces = upload.permit?.features?.includes('pieces') === true
  let isInPieces = takesPieces && bytes >= piecesFromBytes
  let sentBytes = 0
  let mayHaveArrived = false
  /** Whether the pieces have been tried often enough. */
  let hasGivenUp = false

  /** Sends the archive in pieces. Returns how the form names it. */
  async function archiveInPieces(bar: Progress): Promise<PackedArchive | { uploadId: string }> {
    const onProgress = (sent: number): void => {
      sentBytes = Math.min(sent, bytes - 1)
      bar.update(sent, bytes)
    }
    const { sendPieces } = await import('./pieces.js')
    const uploadId = await sendPieces({ client, projectId, archive, onProgress, note: output.note, signal }).catch(
      (error: unknown) => {
        hasGivenUp = true
        throw error
      }
    )
    if (uploadId === null) return archive
    sentBytes = bytes
    return { uploadId }
  }

  async function attempt(): Promise<Run> {
    if (mayHaveArrived) {
      const arrived = await findArrived(upload, traceId)
      if (arrived !== null) return arrived
      mayHaveArrived = false
    }
    const bar = output.progress(`Uploading ${size} to ${client.address}`)
    sentBytes = 0
    const onProgress = (sent: number): void => {
      sentBytes = sent
      bar.update(sent, bytes)
      if (sent >= bytes && upload.onSent !== undefined) setImmediate(upload.onSent)
    }
    try {
      const sent = isInPieces ? await archiveInPieces(bar) : archive
      const run = await send(upload, { archive: sent, traceId, onProgress }).catch(async (error: unknown) => {
        // The whole archive comes instead.
        if (isRefusedChange(error) && 'uploadId' in sent)
          await client.call('DELETE /api/uploads/:id', { id: sent.uploadId }).catch(() => {})
        throw error
      })
      bar.end(`Uploaded ${size} in ${humanDuration(Date.now() - startedAtMs)}`)
      return run
    } catch (error) {
      bar.clear()
      mayHaveArrived = sentBytes >= bytes
      if (isInPieces || !takesPieces) throw error
      isInPieces = true
      if (!isTooLarge(error)) throw error
      output.note(`${(error as Error).message}. Sending it in pieces`)
      return await attempt()
    }
  }

  // What may have arrived is sent again only if the list of deployments can tell.
  const mayRepeat = (error: unknown): boolean =>
    !hasGivenUp && (mayBeSentAgain(error) || isGone(error)) && (!mayHaveArrived || upload.newest !== undefined)
  try {
    return await repeating(attempt, { mayRepeat, signal, note: output.note })
  } catch (error) {
    const note = noteOf(error, { ...upload, sentBytes, bytes, isInPieces })
    if (note !== null) output.note(note)
    throw error
  }
}

interface Sent {
  /** The archive, or the id of the upload that brought it in pieces. */
  archive: { path: string; bytes: number } | { uploadId: string }
  /** The id by which the deployment is found again. */
  traceId: string | undefined
  onProgress(sentBytes: number): void
}

async function sendOnce(
  { client, projectId, fields, tree, attached = {}, signal }: ArchiveUpload,
  { archive, traceId, onProgress }: Sent
): Promise<Run> {
  const { statement, signatures: signature, sbom } = attached
  const uploadId = 'uploadId' in archive ? archive.uploadId : undefined
  const form = Object.fromEntries(
    Object.entries({ projectId, ...fields, uploadId, statement, signature }).filter(
      (entry): entry is [string, string | string[]] => entry[1] !== undefined
    )
  )
  const small = [
    ...(tree === undefined ? [] : [{ field: 'tree', type: treeMediaType, contents: tree }]),
    ...(sbom === undefined ? [] : [{ field: 'sbom', type: 'application/json', contents: sbom }])
  ]
  const file = 'uploadId' in archive ? null : { field: 'file', filename: 'archive.zip', ...archive }
  const body = formBody({ fields: form, small }, file, onProgress)
  const headers = traceId === undefined ? undefined : { 'x-svc-trace-id': traceId }
  const given = requestOf('POST /api/deploy/upload', { accept: ndjson, ...(headers && { headers }), signal })
  return runOf(client, await client.open({ ...given, body }))
}

/**
 * Returns the deployment that an upload without an answer began, or null if there is none. Refuses `unreachable`,
 * and (`unavailable`) upload_unknown if the list of deployments does not tell.
 */
async function findArrived(
  { client, projectId, archive, newest, signal }: ArchiveUpload,
  traceId: string | undefined
): Promise<Run | null> {
  const asked = { projectId, limit: searchedDeployments, output: 'none', signal } as const
  const rows = await listDeployments(client, asked)
  const at = newest === null ? rows.length : rows.findIndex(({ id }) => id === newest)
  const added = rows.slice(0, at === -1 ? rows.length : at)
  const own = added.find(row =>
    traceId === undefined ? row.archiveSha256 === archive.sha256 : row.traceId === traceId
  )
  if (own !== undefined) return { deployId: own.id, page: null, events: followRun(client, own.id, { signal }) }
  if (added.every(({ archiveSha256 }) => typeof archiveSha256 === 'string')) return null
  throw new Refusal('unavailable', 'stream_broken', 'The answer to the upload was lost')
}

/**
 * Returns a note about the state of the deployment if no answer arrived. Only an answer proves that the deployment
 * began. Unsent bytes prove that it did not begin. Once all bytes are handed to the network, the upload may or may not
 * arrive.
 */
function noteOf(
  error: unknown,
  { sentBytes, bytes, isInPieces, given }: Progressed & { given: GivenOptions }
): string | null {
  const isInterrupted = error instanceof Interrupted
  if (!isInterrupted && !isBroken(error)) return null
  if (sentBytes >= bytes) {
    return (
      `${isInterrupted ? 'Interrupted: the' : 'The'} server did not confirm the upload, so a deployment may have begun. ` +
      `Run "${followLine(null, given)}" to check. It is safe to push again: the same files are deployed once more`
    )
  }
  const rest = isInPieces && sentBytes > 0 ? '. The next push of the same files continues the upload' : ''
  if (isInterrupted) return `Interrupted: nothing was deployed${rest}`
  return sentBytes === 0
    ? null
    : `Nothing was deployed: only ${formatBytes(sentBytes)} of ${formatBytes(bytes)} were sent${rest}`
}

/** How much of an archive was sent. */
interface Progressed {
  sentBytes: number
  bytes: number
  isInPieces: boolean
}

/** An upload to check in advance. */
interface Preflight {
  client: Client
  projectId: string
  config: EffectiveConfig
  /** Why it begins outside of the windows of the project. */
  override?: string | undefined
  /** When it begins. */
  startAt?: string | undefined
  /** The tree of a release that this client knows. */
  base?: string | undefined
  signal: AbortSignal
}

/**
 * Asks the server whether it would accept this upload: token, project, client scripts, disk space. Returns its limits,
 * or null if the server is too old to say. Throws the refusal of the upload, with advice added.
 */
export async function checkBeforePacking({
  client,
  projectId,
  config,
  override,
  startAt,
  base,
  signal
}: Preflight): Promise<UploadPermit | null> {
  const { preDeploy, postDeploy } = config
  const scripts = Object.entries({ preDeploy, postDeploy }).flatMap(([name, script]) =>
    script?.value.trim() ? [name] : []
  )
  try {
    return await checkUpload(client, { projectId, scripts, override, startAt, base, signal })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const cure = await cureOf(error, { client, projectId, config, signal })
    throw cure === null ? error : new Refusal(error.kind, error.code, cure, { cause: error })
  }
}

/** Returns the sentence of a refusal with advice, or null if the server's own sentence is enough. */
async function cureOf({ code, message }: Refusal, { client, projectId, config }: Preflight): Promise<string | null> {
  const from = config.deployToken?.from ?? 'the command line'
  const advice = `An administrator can print the deploy token with "svc projects token ${projectId}" or find it in the panel`
  if (code === 'deploy_token_needed')
    return `The token from ${from} is the admin token, but a push needs the deploy token of the project or a named token. ${advice}`
  if (code === 'locked')
    return `${message}. "svc push --wait" waits for the end of the lock; "svc unlock --take-over <reason>" needs a token that is no deploy token`
  if (code === 'outside_window') return `${message}. "svc push --wait" waits for the window`
  if (code === 'unauthorized') return `${message}. It is wrong, or was replaced on the server. ${advice}`
  if (code !== 'other_project') return null
  const holder = await whoami(client).catch(() => null)
  const owner = holder?.project ? `project ${holder.project.name} (${holder.project.id})` : 'another project'
  const where = config.projectId === null ? '' : ` (from ${config.projectId.from})`
  return `The deploy token from ${from} belongs to ${owner}, not to ${projectId}${where}. Correct the project id, or use the token of ${projectId}`
}

/** Whether what refuses a deployment ends by itself: a lock, or a closed window. */
export function endsByItself(error: unknown): error is Refusal {
  return error instanceof Refusal && (error.code === 'locked' || error.code === 'outside_window')
}

const pollMs = 5000
/** Clients that began to wait together spread their requests by this time in both directions. */
const spreadMs = 1000

/** The fields of a permit that say what is ahead. */
type Ahead = Partial<Pick<UploadPermit, 'deploymentsAhead' | 'rolloutAhead'>>

/** Dependencies of `waitUntilFree`. Tests replace the time. */
interface Waiting<T> {
  /** Asks the server whether it would accept the deployment, as `checkBeforePacking` does. */
  check(): Promise<T>
  limitMs: number
  signal: AbortSignal
  /** Prints a change of what the push waits for. */
  note(line: string): void
  sleep?(ms: number, signal: AbortSignal): Promise<unknown>
  now?(): number
}

/**
 * Waits until the project is not locked, one of its windows is open, and no other deployment is queued or running. Returns the answer of `check`.
 * Once it waits, it also waits for a server that restarts, and for a cluster that has no leader. Throws that refusal, or
 * `still_busy`, after the time limit, any other refusal at once, and the reason of the signal.
 */
export async function waitUntilFree<T extends Ahead | null>(waiting: Waiting<T>): Promise<T> {
  const { check, limitMs, signal, note, sleep = pause, now = Date.now } = waiting
  const startedMs = now()
  for (let last = ''; ; ) {
    const answer = await check().catch((error: unknown) => {
      const isLate = last !== '' && mayRepeat(error)
      if (error instanceof Refusal && (endsByItself(error) || isLate)) return error
      throw error
    })
    if (!(answer instanceof Refusal) && !answer?.deploymentsAhead) return answer
    const leftMs = limitMs - (now() - startedMs)
    if (leftMs <= 0) throw answer instanceof Refusal ? answer : stillBusy(answer?.deploymentsAhead ?? 0, limitMs)
    const reason = answer instanceof Refusal ? answer.message : reasonOf(answer)
    if (reason !== last) note(`Waiting: ${reason}`)
    last = reason
    await sleep(Math.min(leftMs, pollMs + (2 * Math.random() - 1) * spreadMs), signal)
  }
}

function reasonOf(answer: Ahead | null): string {
  const ahead = answer?.rolloutAhead
  return sentenceOf(answer?.deploymentsAhead ?? 0) + (ahead === undefined ? '' : `: ${aheadSentence(ahead)}`)
}

function sentenceOf(ahead: number): string {
  return `${countOf(ahead, 'deployment')} of this project ahead`
}

function stillBusy(ahead: number, limitMs: number): Refusal {
  const sentence = `Nothing was sent: after ${humanDuration(limitMs)} there is still ${sentenceOf(ahead)}. Push again later`
  return new Refusal('timed_out', 'still_busy', sentence)
}

/** Returns a line about a token that expires within 14 days; null if it does not, or has no end. */
export function tokenEndLine(permit: UploadPermit | null, nowMs: number): string | null {
  const { token } = permit ?? {}
  if (token === undefined) return null
  const days = daysLeftOf(token, nowMs)
  if (days > reminderDays[0]) return null
  const name = oneLine(token.name)
  const day = token.expiresAt.slice(0, 10)
  return `The token "${name}" expires in ${countOf(days, 'day')}, on ${day}. An administrator can replace its secret: svc token rotate "${name}"`
}
