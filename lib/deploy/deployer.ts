import { machineTimeOf } from '../base/clock.js'
import { existsSync } from 'node:fs'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { notFound, Refusal } from '../base/refusal.js'
import type { Actor } from '../model/audit.js'
import type { DeploymentRow, FinalStatus } from '../model/deployment.js'
import type { Changes, ManifestFile } from '../model/manifest.js'
import type { Provenance } from '../model/provenance.js'
import { findDeployment } from '../store/tables/deployments.js'
import { findProject } from '../store/tables/projects.js'
import { compareManifests, readManifest } from '../target/manifest.js'
import { endBackground } from './background.js'
import { createAdmission, type Waiting } from './admission.js'
import { createCorrection } from './correction.js'
import { createEnds, type Ends } from './ends.js'
import { createExecutors } from './executors.js'
import { StopRequest } from './failure.js'
import { createFiles, type FoundFile } from './files.js'
import { createIntake, type UploadFigures } from './intake.js'
import { createLive, followOutput, type LiveRun } from './live.js'
import type { DeployNeeds } from './needs.js'
import { createPending, type Note } from './pending.js'
import { createQueue } from './queue.js'
import { recover } from './recovery.js'
import { prunableArchives, pruneArchives } from './retention.js'
import { createRestore, type RestoreRequest } from './restore.js'
import { createRunner } from './run.js'
import { refuseClientScripts } from './scripts.js'
import { findStaleFiles, findUnrecordedFiles } from './strays.js'
import { createTargetLocks } from './target-locks.js'
import { readTail, readText, readWindow } from './stored-output.js'
import type { OutputWindow, StoredBlock, WantedWindow } from './stored-output.js'

/** An upload that arrived whole and waits in `tmp/`. Whoever gives it to `deploy` has given it away. */
export interface Received {
  path: string
  bytes: number
  /** Hex. */
  sha256: string
  /** When its first and its last byte came. */
  startedAt: string
  endedAt: string
  /** Drops it without a trace; harmless when it is gone already. */
  discard(): Promise<void>
}

/** The scripts an upload carries; undefined or blank: none. */
export interface ClientScripts {
  preDeploy?: string | undefined
  postDeploy?: string | undefined
}

export interface ReceiveOptions {
  limitBytes: number
  /** Is told how many bytes have come; what it throws refuses the upload. */
  onLength?: (bytes: number) => void
  signal: AbortSignal
}

export interface DeployRequest extends ClientScripts {
  projectId: string
  /** Undefined: the client said nothing of it. */
  postDeployAsync?: boolean | undefined
  env: Record<string, string>
  message?: string | null | undefined
  /** Where it comes from, as the client claims; checked. */
  provenance?: Provenance | null | undefined
  actor: Actor
}

export interface RollbackRequest {
  message?: string | null | undefined
  actor: Actor
}

/** A deployment that has been recorded and goes its way, whoever watches. */
export interface Run {
  deployId: string
  /** Resolves with the record once it is final; never rejects. */
  finished: Promise<DeploymentRow>
}

/** What the rest of the program may ask of deployments. `lib/README.md` walks through one. */
export interface Deployer extends Pick<Ends, 'current' | 'kept' | 'unrecorded'> {
  /**
   * Uploaded bytes → `tmp/`, with their SHA-256. Drops the file when the stream fails or `signal` aborts (its reason
   * is thrown). Refuses: `too_large`, `empty_upload`, `disk_full`, `shutting_down`.
   */
  receive(bytes: Readable, options: ReceiveOptions): Promise<Received>
  /** Refuses (403 `client_scripts_off`) scripts that the project, or the setting, does not let clients send. */
  checkClientScripts(projectId: string, scripts: ClientScripts): void
  /**
   * Keeps the archive, records the deployment as queued, and queues it; resolves as soon as it is recorded. Audited
   * here. Owns `received` from the call on: when it refuses, the upload is dropped.
   */
  deploy(received: Received, request: DeployRequest): Promise<Run>
  /** A new run from the archive that `deployId` kept. Audited here. Refuses: unknown, unfinished, `no_archive`. */
  rollback(deployId: string, request: RollbackRequest): Promise<Run>
  /** Stops a queued or running one; resolves with its final record. Audited here. Finished already: 409. */
  cancel(deployId: string, actor: Actor): Promise<DeploymentRow>
  /** The manual correction of a finished one. Audited here. Queued or running: 409. */
  mark(deployId: string, status: FinalStatus, actor: Actor): Promise<DeploymentRow>
  /**
   * The lines from a byte offset of the stored output on, then live ones, until the deployment is final, in blocks; those
   * who follow at the end are given the same block objects. An offset that is no line's end replays from the start. A slow
   * reader costs no memory. Aborted: throws the signal's reason.
   */
  follow(deployId: string, options: { from?: number; signal: AbortSignal }): AsyncIterable<StoredBlock>
  /** The end of the output, at most `maxBytes` (default 1 MiB); `truncated` where its head was cut. */
  readOutput(
    deployId: string,
    options?: { maxBytes?: number; timestamps?: boolean }
  ): Promise<{ text: string; truncated: boolean }>
  /** The whole output, as it stands now. */
  outputStream(deployId: string, options?: { timestamps?: boolean }): Readable
  /** A part of the output: whole lines, and where they stand. */
  outputWindow(deployId: string, wanted: WantedWindow): Promise<OutputWindow>
  /** What goes on now, for metrics. */
  figures(): { uploads: UploadFigures; followers: number }
  /** Whether one is queued or running. Exact inside a transaction of the store too. */
  hasRunning(projectId: string): boolean
  /**
   * Removes records with `work`, which returns their ids, then their files; `deployIds` are the expected ones. Rejects
   * only as `work` does; files that cannot be removed are logged, and tried again by the next start.
   */
  removeWith(deployIds: readonly string[], work: () => Promise<string[]>): Promise<void>
  /** Notes that files and records of deployments are about to be made by somebody else (an import). */
  note(deployIds: readonly string[]): Promise<Note>
  /** Extracts an archive over a project's target, in its turn, without a record (an import). */
  restore(request: RestoreRequest): Promise<unknown>
  /** What the deployment put in place. Refuses: unknown, `no_manifest` if it put nothing in place, `torn_manifest`. */
  manifest(deployId: string): Promise<ManifestFile[]>
  /** What `deployId` added, changed and removed against the files of another one. */
  changes(deployId: string, against: string): Promise<Changes>
  /** Whose archives are past the retention: by the setting `keep_archives`, or by `keep`. */
  prunable(projectId: string, keep?: number): string[]
  /** Removes those archives; gives their deployments. */
  prune(projectId: string, keep?: number): Promise<string[]>
  /** Files in `tmp/` that nobody uses any more. */
  staleFiles(): Promise<FoundFile[]>
  /** Files in `deployments/` without a record: of a database that was lost, or of a power cut. */
  unrecordedFiles(): Promise<FoundFile[]>
  /** At start, before anything else: what a stopped or killed server left behind is put right. */
  recover(): Promise<void>
  /**
   * Refuses new ones (503) and fails the queued ones; lets the running ones finish, or with `wait: false` stops them.
   * May be called again with `wait: false` while the first call waits.
   */
  stop(options: { wait: boolean }): Promise<void>
}

/** A record's `output` (decisions 4). */
const defaultOutputBytes = 1024 * 1024
/** How long a stopping server waits for scripts in the background; they are not stopped. */
const tailGraceMs = 5_000

/** Joins the room. */
export function createDeployer(needs: DeployNeeds): Deployer {
  const { store, settings, quota } = needs
  const files = createFiles(needs.home)
  const live = createLive()
  const queue = createQueue<Waiting>()
  const intake = createIntake({ ...needs, files })
  const pending = createPending({ ...needs, files })
  const prune = (projectId: string, keep = settings.number('keep_archives')): Promise<string[]> =>
    pruneArchives({ store, files, quota }, projectId, keep)
  const executors = createExecutors()
  const ends = createEnds(needs)
  const targets = createTargetLocks()
  const runner = createRunner({ ...needs, files, executors, targets, ends, live, prune })
  const admission = createAdmission({ ...needs, files, intake, live, pending, queue, ends, runner, refuseWhenStopping })
  const correction = createCorrection({ ...needs, files, live, queue, ends })
  const restore = createRestore({ ...needs, files, executors, targets, pending, queue, ends, refuseWhenStopping })
  let isStopping = false

  function refuseWhenStopping(): void {
    if (!isStopping) return
    const sentence = 'No deployment can begin: the server is shutting down; try again in a moment'
    throw new Refusal('unavailable', 'shutting_down', sentence, { retryAfterSeconds: 5 })
  }

  function requireRow(deployId: string): DeploymentRow {
    const row = findDeployment(store, deployId)
    if (row === undefined) throw notFound('Deployment', deployId)
    return row
  }

  /** What no clean-up may touch. */
  function inUse() {
    const isLive = (id: string): boolean => live.find(id) !== undefined || pending.has(id)
    return { nowMs: machineTimeOf(needs.clock), isLive }
  }

  function manifestOf(deployId: string): AsyncIterable<ManifestFile> {
    const { fileCount } = requireRow(deployId)
    const path = files.manifest(deployId)
    if (existsSync(path)) return readManifest(path, fileCount ?? 0)
    const sentence = `Deployment ${deployId} has no list of files: it put none in place`
    throw new Refusal('not_found', 'no_manifest', sentence)
  }

  async function stop({ wait }: { wait: boolean }): Promise<void> {
    isStopping = true
    const neverRan = new StopRequest('stop', 'The server was stopped before the deployment had its turn')
    const dropped = queue.takeBackAll().map(entry => entry.drop(neverRan))
    const cutShort = new StopRequest('stop', 'The server was stopped while the deployment was running')
    if (!wait) for (const run of live.all()) run.stop(cutShort)
    await Promise.all([...dropped, ...live.all().map(run => run.finished)])
    await leaveTails(needs, live.all().filter(run => run.tail !== null), wait ? tailGraceMs : 0)
    await ends.settle().catch(error => needs.log('The ends of some deployments are not recorded', error))
    await executors.close()
  }

  return {
    async receive(bytes, options) {
      refuseWhenStopping()
      return intake.receive(bytes, options)
    },
    checkClientScripts(projectId, scripts) {
      const project = findProject(store, projectId)
      if (project === undefined) throw notFound('Project', projectId)
      refuseClientScripts(project, settings.flag('allow_client_scripts'), scripts)
    },
    ...admission,
    ...correction,
    follow(deployId, { from = 0, signal }) {
      requireRow(deployId)
      return followOutput(live, { deployId, path: files.output(deployId), from, signal })
    },
    async readOutput(deployId, { maxBytes = defaultOutputBytes, timestamps = false } = {}) {
      return readTail(files.output(deployId), { maxBytes, timestamps })
    },
    outputStream(deployId, { timestamps = false } = {}) {
      requireRow(deployId)
      return Readable.from(readText(files.output(deployId), { timestamps }), { objectMode: false })
    },
    async outputWindow(deployId, wanted) {
      requireRow(deployId)
      return readWindow(files.output(deployId), wanted)
    },
    figures: () => ({ uploads: intake.uploads(), followers: live.followers }),
    hasRunning: projectId => live.hasRunning(projectId),
    async removeWith(deployIds, work) {
      const note = await pending.note(deployIds)
      const removed = await work().catch(async (error: unknown) => {
        await note.settle()
        throw error
      })
      await note.removeFiles(removed)
      quota.recountLater()
    },
    note: pending.note,
    async manifest(deployId) {
      const list: ManifestFile[] = []
      for await (const file of manifestOf(deployId)) list.push(file)
      return list
    },
    async changes(deployId, against) {
      return compareManifests(manifestOf(against), manifestOf(deployId))
    },
    prunable: (projectId, keep = settings.number('keep_archives')) => prunableArchives(store, projectId, keep),
    prune,
    staleFiles: () => findStaleFiles(needs.home, inUse()),
    unrecordedFiles: () => findUnrecordedFiles(needs.home, store, inUse()),
    restore,
    recover: () => recover({ ...needs, files, executors, ends }),
    current: ends.current,
    kept: ends.kept,
    unrecorded: ends.unrecorded,
    stop
  }
}

/** Scripts in the background go on without the server; what they print from here on is nowhere kept. */
async function leaveTails(needs: DeployNeeds, runs: LiveRun[], graceMs: number): Promise<void> {
  const left = new Set(runs)
  const giveUp = new AbortController()
  const grace = sleep(graceMs, undefined, { signal: giveUp.signal }).catch(() => {})
  await Promise.race([grace, Promise.all(runs.map(run => run.tail?.then(() => left.delete(run))))])
  giveUp.abort()
  for (const run of left) {
    run.output.say('→ the server stops; the post-deploy script goes on in the background, what it prints is not kept')
    await run.output.flush().catch(() => {})
    run.leave()
    // The next start leaves it alone, too.
    await endBackground(needs, run.deployId, { complaint: null, exitCode: null })
  }
}
