import { machineTimeOf } from '../base/clock.js'
import { existsSync } from 'node:fs'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { notFound, Refusal } from '../base/errors.js'
import { pick } from '../base/fields.js'
import type { Actor } from '../model/audit.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { Changes, ManifestFile } from '../model/manifest.js'
import type { Project } from '../model/project.js'
import type { DriftReport, ExactWindow } from '../model/plan.js'
import type { RolloutAhead } from '../model/rollout.js'
import { findDeployment } from '../core/store/tables/deployments.js'
import { findProject } from '../core/store/tables/projects.js'
import { findQueuedRelease } from '../core/store/tables/fleet.js'
import { rolloutAhead, rolloutOfDeployment } from '../core/store/tables/rollouts.js'
import { compareManifests, readManifest } from '../core/install/manifest.js'
import { endBackground } from './scripts/script-processes.js'
import {
  Admission,
  type ClientScripts,
  type DeployRequest,
  type PromoteRequest,
  type RepairRequest,
  type RollbackRequest,
  type UndoRequest,
  type Run
} from './admission.js'
import { type ArchiveRemoval, createArchiveRemoval, prunableArchives, pruneArchives, retentionOf } from './retention.js'
import { type Confirmation, type Correction, createConfirmation, createCorrection } from './user-actions.js'
import { type Approvals, createApprovals } from './approval.js'
import { createComparer, type DriftRequest, reportDrift } from './comparer.js'
import { createEnds, type Ends } from './ends.js'
import { exactWindow } from './exact.js'
import { createExecutors } from '../core/install/unpack/executors.js'
import { StopRequest } from './failure.js'
import { createFiles, type FoundFile } from './files.js'
import { createIncremental, type Incremental, type Reuse } from './incremental.js'
import {
  createIntake,
  createPending,
  type Intake,
  type Note,
  type Received,
  type ReceiveOptions,
  type UploadFigures
} from './intake.js'
import { createLive, followOutput, type LiveRun } from './output/live.js'
import { type Beginning, refuseBeginning, refuseUpload } from './gateway.js'
import { Maintenances, refuseLocked } from './locks.js'
import type { DeployNeeds } from './needs.js'
import { createOpenDeployments } from './record.js'
import { Plans, preflight, type PreflightRequest } from './plan.js'
import { createRestore, createRollbackPlans, type RestoreRequest, type RollbackPlans } from './rollback-plan.js'
import { createReceipts, type Receipts } from './receipts.js'
import { createQueue, createTargetLocks, createTargetTurns } from './queue.js'
import { createRequeue, createResume, createUnfinished, recover, type Unfinished } from './recovery.js'
import { Runner } from './run.js'
import { Scripted } from './scripted.js'
import { refuseClientScripts } from './scripts/scripts.js'
import { type AttestationFile, createAttestations } from './attestations.js'
import { createSignatures, type Signatures } from './signatures.js'
import type { SignatureDemand } from '../model/access.js'
import { findStaleFiles, findUnrecordedFiles } from './strays.js'
import { createTreeStates, Trees, type TreeStates } from './trees.js'
import { createVerifier, type Verifier } from './verify.js'
import {
  readTail,
  readText,
  readWindow,
  type OutputWindow,
  type StoredBlock,
  type WantedWindow
} from './output/stored-output.js'
import type { Wishes } from './ownership.js'
import { createWaiting } from './waiting.js'

/** The interface of deployments for the rest of the program. `lib/README.md` follows one deployment through it. */
export interface Deployer
  extends Pick<Ends, 'current' | 'kept' | 'unrecorded'>,
    Confirmation,
    Approvals,
    ArchiveRemoval,
    Omit<Incremental, 'close'>,
    Pick<Receipts, 'receipt' | 'receiptResult' | 'receipts' | 'receiptKeys'>,
    Unfinished {
  /**
   * Stores an upload in `tmp/` and computes its SHA-256. Removes the file if the stream fails or `signal` aborts; an
   * abort throws its reason. Refuses: `too_large`, `empty_upload`, `disk_full`, `shutting_down`.
   */
  receive(bytes: Readable, options: ReceiveOptions): Promise<Received>
  /** Counts an upload while `work` receives it elsewhere. Refuses: `shutting_down`. */
  receiving: Intake['during']
  /** Refuses (403 `client_scripts_off`) scripts if the project, or the setting, does not allow client scripts. */
  checkClientScripts(projectId: string, scripts: ClientScripts): void
  /**
   * Refuses (409) an upload to a project that is `locked`, or whose releases come from another project (`only_promotion`).
   * `beginning`: when it is to begin; undefined: the windows are not looked at.
   */
  checkArrival(projectId: string, beginning?: Beginning): void
  /** Returns what a deployment that is held to a plan does to other files. Refuses: 409 `plan_unknown`. */
  plannedWishes(planId: string, projectId: string): Wishes
  /** Returns the number of queued and running deployments of a project. */
  countAhead(projectId: string): number
  /** Returns the rollout that queued deployments of a project wait for; null: none is going on. */
  rolloutAhead(projectId: string): RolloutAhead | null
  /**
   * Keeps the archive, records the deployment as queued, and adds it to the queue. Resolves as soon as it is recorded.
   * Writes the audit entry. Owns `received` from the call on: if it refuses, it removes the upload.
   */
  deploy(received: Received & { reuse?: Reuse }, request: DeployRequest): Promise<Run>
  /** Refuses what a deployment of an archive would be refused for now. Writes nothing. */
  preflight(request: PreflightRequest): Promise<void>
  /** Says what a deployment of a tree would do. Writes nothing. */
  plan: Plans['plan']
  /** Lists the files of a target that were edited since svc put them there. Writes nothing. */
  drift(request: DriftRequest): Promise<DriftReport>
  /** Compares every file that svc put into a target with the target. Writes nothing. */
  verify: Verifier['verify']
  /** Describes the files that svc put into the target of a project. */
  treeSummary: TreeStates['summary']
  /** Deploys the archive of `deployId` again. Writes the audit entry. Refuses: unknown, unfinished, `no_archive`. */
  rollback(deployId: string, request: RollbackRequest): Promise<Run>
  /** Undoes the last change of a project's target exactly. Audited. Refuses what `exactRange` refuses. */
  undo(projectId: string, request: UndoRequest): Promise<Run>
  /**
   * Puts back the files of a project that are not as svc put them there. Audited. Refuses what `findRepair` refuses.
   */
  repair(projectId: string, request: RepairRequest): Promise<Run>
  /** Says what a rollback, or an undo, would do. Changes nothing. */
  planRollback: RollbackPlans['rollback']
  planPromotion: RollbackPlans['promotion']
  /** Says what a deployment would do that waits before it begins. Refuses: 404, 409 `not_waiting`. */
  planWaiting: RollbackPlans['waiting']
  /**
   * Deploys the archive of another project's deployment. Refuses as `rollback`, and 409 `not_promotable`, `only_promotion`,
   * `outside_window`.
   */
  promote(projectId: string, request: PromoteRequest): Promise<Run>
  planUndo: RollbackPlans['undo']
  /** Returns how far a project can go back exactly. */
  exactWindow(projectId: string): ExactWindow
  /** Stops a queued or running deployment. Resolves with its final record. Audited. Refuses: 409 if it has finished. */
  cancel(deployId: string, actor: Actor): Promise<DeploymentRow>
  /** Corrects the status of a finished deployment. Audited. Refuses: 409 if it is queued or running. */
  mark: Correction['mark']
  /**
   * Yields blocks of stored lines from a byte offset on, then new lines until the deployment has finished. Followers at
   * the end share the same block objects. An offset that is not the end of a line restarts at 0. A slow reader uses no
   * memory. An abort throws the signal's reason.
   */
  follow(deployId: string, options: { from?: number; signal: AbortSignal }): AsyncIterable<StoredBlock>
  /**
   * Returns the end of the output, at most `maxBytes` (default 1 MiB). `truncated` means that its beginning is missing.
   */
  readOutput(
    deployId: string,
    options?: { maxBytes?: number; timestamps?: boolean }
  ): Promise<{ text: string; truncated: boolean }>
  /** Streams the whole output as it is now. */
  outputStream(deployId: string, options?: { timestamps?: boolean }): Readable
  /** Returns a part of the output: whole lines and their byte offsets. */
  outputWindow(deployId: string, wanted: WantedWindow): Promise<OutputWindow>
  /** Current activity, for metrics. */
  figures(): { uploads: UploadFigures; followers: number }
  /** Whether a deployment of the project is queued or running. Also exact inside a transaction of the store. */
  hasRunning(projectId: string): boolean
  /**
   * Removes records with `work`, which returns their ids, then removes their files. `deployIds` are the expected ids.
   * Rejects only if `work` does. Files that cannot be removed are logged, and the next start tries again.
   */
  removeWith(deployIds: readonly string[], work: () => Promise<string[]>): Promise<void>
  /** Returns the files that svc put into the target of a project. See `Trees.read`. */
  ownedTree: Trees['read']
  /** Removes the list of these files, after the project was removed. */
  removeTree(projectId: string): Promise<void>
  /** Registers deployments whose files and records an import is about to create. */
  note(deployIds: readonly string[]): Promise<Note>
  /** Extracts an archive over a project's target for an import. It waits in the queue and writes no record. */
  restore(request: RestoreRequest): Promise<unknown>
  /** Says what the rule of a project about signatures asks for. */
  signatureDemand(projectId: string): SignatureDemand
  /** Verifies who signed the releases of an import. See `Signatures`. */
  signers: Signatures['signers']
  /** Returns the keys of `keys/allowed_signers`. See `Signatures`. */
  signersFile: Signatures['signersFile']
  /** Lists the statement of a deployment, its signatures, and the list of its components. */
  attestations(deployId: string): Promise<AttestationFile[]>
  /** Returns one of these files. Refuses 404. */
  attestation(deployId: string, name: string): Promise<AttestationFile & { content: Uint8Array }>
  /** The maintenance of projects. */
  maintenance: Omit<Maintenances, 'reconcile'>
  /** Files that a deployment extracted. Refuses: unknown, `no_manifest` if it extracted none, `torn_manifest`. */
  manifest(deployId: string): Promise<ManifestFile[]>
  /** Files that `deployId` added, changed and removed, compared with deployment `against`. */
  changes(deployId: string, against: string): Promise<Changes>
  /** Deployments whose archives exceed the retention: the setting `keep_archives`, or `keep`. */
  prunable(projectId: string, keep?: number): string[]
  /** Removes those archives. Returns their deployments. */
  prune(projectId: string, keep?: number): Promise<string[]>
  /** Makes the archive of a deployment a whole one, which nodes fetch. */
  makeWhole(deployId: string): Promise<void>
  /** Unused files in `tmp/`. */
  staleFiles(): Promise<FoundFile[]>
  /** Files in `deployments/` without a record, left by a lost database or a power cut. */
  unrecordedFiles(): Promise<FoundFile[]>
  /** Repairs what a stopped or killed server left behind. Must run first at a start. */
  recover(): Promise<void>
  /**
   * Refuses new deployments (503) and fails the queued ones, except those that are to be rolled out, or that wait before they
   * begin. Waits for the running ones, or stops them if `wait` is false. The next start continues those that wait. It can be
   * called again with `wait: false` while the first call waits.
   */
  stop(options: { wait: boolean }): Promise<void>
  /**
   * Leaves the queued and the running deployments to the next leader of the cluster: their records stay as they are.
   * Refuses new deployments from then on.
   */
  leave(): Promise<void>
}

/** Default size limit of the output in a record (decisions 4). */
const defaultOutputBytes = 1024 * 1024
/** How long a stopping server waits for background scripts. It does not stop them. */
const tailGraceMs = 5_000
/** How long deployments that are left to another hub may take to notice it. */
const leaveGraceMs = 5_000

/** Creates the deployer from its parts. */
export function createDeployer(needs: DeployNeeds): Deployer {
  const { store, settings, quota } = needs
  const files = createFiles(needs.home)
  const live = createLive()
  const trees = new Trees({ ...needs, files })
  const queue = createQueue()
  const waiting = createWaiting(needs)
  const intake = createIntake({ ...needs, files })
  const incremental = createIncremental({ ...needs, files })
  const pending = createPending({ ...needs, files })
  const prune = (projectId: string, keep?: number): Promise<string[]> =>
    pruneArchives({ ...needs, files }, projectId, retentionOf(settings, keep))
  const executors = createExecutors()
  const receipts = createReceipts({ ...needs, files })
  const ends = createEnds({
    ...needs,
    ended(row) {
      needs.ended?.(row)
      void receipts.make()
    }
  })
  const targets = createTargetLocks()
  const open = createOpenDeployments({ ...needs, files })
  const comparer = createComparer({ ...needs, executors, trees })
  const states: TreeStates = createTreeStates({
    ...needs,
    trees,
    windowOf: projectId => exactWindow({ store, files }, projectId),
    async searchDrift({ id: projectId }, signal) {
      await reportDrift({ store, comparer, states }, { projectId, isFull: false, signal })
    }
  })
  const hasRunning = (projectId: string): boolean => live.hasRunning(projectId)
  const atWorkOn = (projectId: string): LiveRun[] =>
    live.all().filter(run => run.projectId === projectId && !run.isOver && !waiting.has(run.deployId))
  const verifier = createVerifier({
    ...needs,
    executors,
    trees,
    states,
    hasRunning: projectId => atWorkOn(projectId).length > 0
  })
  const plans = new Plans({ ...needs, comparer, atWorkOn, refuseWhenStopping })
  const signatures = createSignatures(needs)
  const rollbackPlans = createRollbackPlans({ ...needs, comparer, files, trees, verifier, ends, signatures })
  const scripted = new Scripted({ ...needs, files, executors, trees })
  const runnerNeeds = {
    ...needs,
    files,
    executors,
    targets,
    ends,
    live,
    prune,
    open,
    trees,
    verifier,
    scripted,
    signatures
  }
  const runner = new Runner(runnerNeeds)
  const admission = new Admission({
    ...needs,
    files,
    intake,
    live,
    pending,
    queue,
    waiting,
    ends,
    plans,
    runner,
    verifier,
    signatures,
    refuseWhenStopping
  })
  const correction = createCorrection({ ...needs, files, live, queue, waiting, ends })
  const turns = createTargetTurns({
    ...needs,
    files,
    executors,
    targets,
    pending,
    queue,
    ends,
    open,
    refuseWhenStopping
  })
  const restore = createRestore({ ...needs, turns, trees, signatures })
  const maintenance = new Maintenances({ ...needs, files, executors, turns })
  const resume = createResume({ ...needs, files, live, queue, runner })
  const requeue = createRequeue({ ...needs, files, live, queue, waiting, runner })
  const confirmation = createConfirmation({ ...needs, live, ends })
  const approvals = createApprovals({ ...needs, live, ends, waiting })
  let isStopping = false

  function refuseWhenStopping(): void {
    if (!isStopping) return
    const sentence = 'Cannot start a deployment: the server is shutting down. Try again in a moment'
    throw new Refusal('unavailable', 'shutting_down', sentence, { retryAfterSeconds: 5 })
  }

  function requireRow(deployId: string): DeploymentRow {
    const row = findDeployment(store, deployId)
    if (row === undefined) throw notFound('Deployment', deployId)
    return row
  }

  function requireProject(projectId: string): Project {
    const project = findProject(store, projectId)
    if (project === undefined) throw notFound('Project', projectId)
    return project
  }

  /** Describes the files that a clean-up must not touch. */
  function inUse() {
    const isLive = (id: string): boolean => live.find(id) !== undefined || pending.has(id)
    return { nowMs: machineTimeOf(needs.clock), isLive }
  }

  function manifestOf(deployId: string): AsyncIterable<ManifestFile> {
    const { fileCount } = requireRow(deployId)
    const path = files.manifest(deployId)
    if (existsSync(path)) return readManifest(path, fileCount ?? 0)
    const rollout = rolloutOfDeployment(store, deployId)
    const why =
      rollout === undefined
        ? 'it extracted no files'
        : `rollout ${rollout.id} brought its files to nodes. The page of a node lists them`
    throw new Refusal('not_found', 'no_manifest', `Deployment ${deployId} has no file list here: ${why}`)
  }

  async function stop({ wait }: { wait: boolean }): Promise<void> {
    isStopping = true
    waiting.leave()
    const neverRan = new StopRequest('stop', 'The server was stopped before the deployment started')
    const dropped = queue.takeBackAll().map(entry => {
      // The next start queues a deployment again that is to be rolled out.
      return findQueuedRelease(store, entry.id) === undefined ? entry.drop(neverRan) : leaveQueued(entry.id)
    })
    const cutShort = new StopRequest('stop', 'The server was stopped while the deployment was running')
    // The next start continues deployments that wait for their checks or their confirmation.
    for (const run of live.all()) run.suspend()
    if (!wait) for (const run of live.all()) run.stop(cutShort)
    await Promise.all([...dropped, ...live.all().map(run => run.finished)])
    await leaveTails(
      needs,
      live.all().filter(run => run.tail !== null),
      wait ? tailGraceMs : 0
    )
    await ends.settle().catch(error => needs.log('Cannot record the results of some deployments', error))
    await receipts.make()
    await receipts.close()
    await trees.close()
    await incremental.close()
    await files.packs.idle()
    await executors.close()
  }

  /** Ends the run of a queued deployment without changing its record. */
  function leaveQueued(deployId: string): void {
    const row = findDeployment(store, deployId)
    if (row !== undefined) live.find(deployId)?.end(row)
  }

  async function leave(): Promise<void> {
    isStopping = true
    waiting.leave()
    for (const { id } of queue.takeBackAll()) leaveQueued(id)
    for (const run of live.all()) if (!run.isOver) run.suspend()
    const finished = Promise.all(live.all().map(run => run.finished))
    const late = await Promise.race([finished.then(() => false), sleep(leaveGraceMs, true, { ref: false })])
    if (late) {
      for (const run of live.all()) run.stop(new StopRequest('stop', 'Another hub leads the cluster now'))
      await finished
    }
    await receipts.close()
    await trees.close()
    await executors.close()
  }

  return {
    async receive(bytes, options) {
      refuseWhenStopping()
      return intake.receive(bytes, options)
    },
    async receiving(work) {
      refuseWhenStopping()
      return intake.during(work)
    },
    checkClientScripts(projectId, scripts) {
      refuseClientScripts(requireProject(projectId), settings.flag('allow_client_scripts'), scripts)
    },
    checkArrival(projectId, beginning) {
      const project = requireProject(projectId)
      refuseLocked(store, project, needs.clock.now())
      refuseUpload(store, project)
      if (beginning !== undefined) refuseBeginning(project, beginning, needs.clock.now())
    },
    promote: (projectId, request) => admission.promote(projectId, request),
    planPromotion: rollbackPlans.promotion,
    planWaiting: rollbackPlans.waiting,
    plannedWishes(planId, projectId) {
      const { prune, force } = plans.expect(planId, projectId)
      return { prune, force }
    },
    signers: () => signatures.signers(),
    signersFile: () => signatures.signersFile(),
    signatureDemand: projectId => signatures.demand(requireProject(projectId)),
    ...createAttestations({ store, files }),
    countAhead: queue.count,
    rolloutAhead: projectId => rolloutAhead(store, projectId),
    deploy: (received, request) => admission.deploy(received, request),
    rollback: (deployId, request) => admission.rollback(deployId, request),
    undo: (projectId, request) => admission.undo(projectId, request),
    repair: (projectId, request) => admission.repair(projectId, request),
    planRollback: rollbackPlans.rollback,
    planUndo: rollbackPlans.undo,
    exactWindow: projectId => exactWindow({ store, files }, projectId),
    ...incremental,
    preflight: request => preflight(needs, request),
    plan: request => plans.plan(request),
    drift: request => reportDrift({ store, comparer, states }, request),
    verify: verifier.verify,
    treeSummary: states.summary,
    ...correction,
    ...confirmation,
    ...approvals,
    ...createArchiveRemoval({ ...needs, files, ends }),
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
    hasRunning,
    async removeWith(deployIds, work) {
      const note = await pending.note(deployIds)
      const removed = await work().catch(async (error: unknown) => {
        await note.settle()
        throw error
      })
      await note.removeFiles(removed)
      quota.recountLater()
    },
    ownedTree: (...given) => trees.read(...given),
    async removeTree(projectId) {
      states.forget(projectId)
      await trees.remove(projectId)
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
    prunable: (projectId, keep) => prunableArchives(store, projectId, retentionOf(settings, keep)),
    prune,
    makeWhole: files.packs.makeWhole,
    staleFiles: () => findStaleFiles(needs.home, inUse()),
    ...createUnfinished({ ...needs, targets }),
    unrecordedFiles: () => findUnrecordedFiles(needs.home, store, { ...inUse(), isNeeded: files.packs.isNeeded }),
    restore,
    maintenance,
    async recover() {
      receipts.recover()
      await recover({ ...needs, files, executors, ends, open, scripted, resume, requeue, maintenance })
      // Those of deployments whose earlier files are back only now.
      void receipts.make()
    },
    ...pick(receipts, ['receipt', 'receiptResult', 'receipts', 'receiptKeys']),
    current: ends.current,
    kept: ends.kept,
    unrecorded: ends.unrecorded,
    stop,
    leave
  }
}

/** Waits for background scripts, then leaves them running. Their output after this point is lost. */
async function leaveTails(needs: DeployNeeds, runs: LiveRun[], graceMs: number): Promise<void> {
  const left = new Set(runs)
  const giveUp = new AbortController()
  const grace = sleep(graceMs, undefined, { signal: giveUp.signal }).catch(() => {})
  await Promise.race([grace, Promise.all(runs.map(run => run.tail?.then(() => left.delete(run))))])
  giveUp.abort()
  for (const run of left) {
    run.output.say(
      '→ the server is stopping; the post-deploy script continues in the background without recorded output'
    )
    await run.output.flush().catch(() => {})
    run.leave()
    // With its end recorded, the next start leaves the script alone, too.
    await endBackground(needs, run.deployId, { complaint: null, exitCode: null })
  }
}
