import { machineTimeOf } from '../base/clock.js'
import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../base/errors.js'
import { createDoor } from '../base/async.js'
import { pick } from '../base/fields.js'
import type { Changes, ManifestFile } from '../model/manifest.js'
import type { DriftReport, ExactWindow, PlanAnswer } from '../model/plan.js'
import type { RolloutAhead } from '../model/rollout.js'
import { findDeployment, requireDeployment } from '../core/store/tables/deployments.js'
import { requireProject } from '../core/store/tables/projects.js'
import { findQueuedRelease } from '../core/store/tables/fleet.js'
import { rolloutAhead, rolloutOfDeployment } from '../core/store/tables/rollouts.js'
import { compareManifests, readManifest } from '../core/install/manifest.js'
import { endBackground } from './scripts/script-processes.js'
import { Admission } from './admission.js'
import { type ClientScripts, Requests } from './requests.js'
import { createArchiveRemoval, prunableArchives, pruneArchives, retentionOf } from './retention.js'
import { createConfirmation, createCorrection, createApprovals, createWaiting } from './user-actions.js'
import { findStaleFiles, findUnrecordedFiles } from './strays.js'
import { exactWindow } from './exact.js'
import { createExecutors } from '../core/install/unpack/executors.js'
import { StopRequest } from './failure.js'
import { createFiles, type FoundFile } from './files.js'
import {
  createIntake,
  createPending,
  type Received,
  type ReceiveOptions,
  type UploadFigures,
  createIncremental
} from './intake.js'
import { createLive, followOutput, type LiveRun } from './output/live.js'
import { type Beginning, refuseBeginning, refuseUpload, refuseLocked } from './gateway.js'
import { createLocks, Maintenances } from './locks.js'
import type { DeployNeeds } from './needs.js'
import { createOpenDeployments, createEnds } from './record.js'
import {
  type PlanRequest,
  Plans,
  preflight,
  type PreflightRequest,
  createComparer,
  type DriftRequest,
  reportDrift
} from './plan.js'
import type { RestoreRequest, RollbackPlans } from './rollback-plan.js'
import { createReceipts } from './receipts.js'
import { createQueue, createTargetLocks, createTargetTurns } from './queue.js'
import { createRequeue, createResume, createUnfinished, recover } from './recovery.js'
import { Runner } from './run.js'
import { Scripted } from './scripted.js'
import { refuseClientScripts } from './scripts/scripts.js'
import { createSignatures } from './signatures.js'
import type { SignatureDemand } from '../model/access.js'
import { createTreeStates, Trees, type TreeStates } from './trees.js'
import { createVerifier } from './verify.js'
import {
  readTail,
  readText,
  readWindow,
  type OutputTail,
  type OutputWindow,
  type StoredBlock,
  type WantedWindow
} from './output/stored-output.js'
import type { Wishes } from './ownership.js'

/** Default size limit of the output in a record (decisions 4). */
const defaultOutputBytes = 1024 * 1024
/** How long a stopping server waits for background scripts. It does not stop them. */
const tailGraceMs = 5_000
/** How long deployments that are left to another hub may take to notice it. */
const leaveGraceMs = 5_000

/** The interface of deployments for the rest of the program. `lib/README.md` follows one deployment through it. */
export type Deployer = ReturnType<typeof createDeployer>

export function createDeployer(needs: DeployNeeds) {
  const parts = createParts(needs)
  const { ends, live, locks, maintenance, ways, confirmation, approvals, correction } = parts
  return {
    ...arrivals(parts),
    ...pick(parts.requests, ['deploy', 'rollback', 'undo', 'repair', 'promote']),
    ...looks(parts),
    ...outputs(parts),
    ...lists(parts),
    ...removals(parts),
    ...phases(parts),
    ...correction,
    ...confirmation,
    ...approvals,
    ...createUnfinished(parts),
    ...pick(parts.receiptBook, ['receipt', 'receiptResult', 'receipts', 'receiptKeys']),
    ...pick(ends, ['current', 'kept', 'unrecorded']),
    /** Whether a deployment of the project is queued or running. Also exact inside a transaction of the store. */
    hasRunning: live.hasRunning,
    /** Extracts an archive over a project's target for an import. It waits in the queue and writes no record. */
    restore: async (request: RestoreRequest) => (await ways()).restore(request),
    /** The locks on projects and on the whole server. */
    locks,
    /** The maintenance of projects. */
    maintenance
  }
}

type Parts = ReturnType<typeof createParts>

/** What a plan of a way back takes. */
type PlanOf<K extends keyof RollbackPlans> = Parameters<RollbackPlans[K]>

function createParts(needs: DeployNeeds) {
  const { store, settings } = needs
  const stopping = { isSo: false }
  function refuseWhenStopping(): void {
    if (!stopping.isSo) return
    const sentence = 'Cannot start a deployment: the server is shutting down. Try again in a moment'
    throw new Refusal('unavailable', 'shutting_down', sentence, { retryAfterSeconds: 5 })
  }
  const files = createFiles(needs.home)
  const trees = new Trees({ ...needs, files })
  const receiptBook = createReceipts({ ...needs, files, digest: task => trees.digest(task) })
  const parts = {
    ...needs,
    stopping,
    refuseWhenStopping,
    files,
    receiptBook,
    live: createLive(),
    queue: createQueue(),
    waiting: createWaiting(needs),
    intake: createIntake({ ...needs, files }),
    incremental: createIncremental({ ...needs, files }),
    pending: createPending({ ...needs, files }),
    executors: createExecutors(),
    targets: createTargetLocks(),
    trees,
    open: createOpenDeployments({ ...needs, files }),
    signatures: createSignatures(needs),
    prune: (projectId: string, keep?: number): Promise<string[]> =>
      pruneArchives({ ...needs, files }, projectId, retentionOf(settings, keep)),
    ends: createEnds({
      ...needs,
      ended(row) {
        needs.ended?.(row)
        void receiptBook.make()
      }
    })
  }
  const { live, waiting } = parts
  const comparer = createComparer(parts)
  const states: TreeStates = createTreeStates({
    ...parts,
    windowOf: projectId => exactWindow({ store, files }, projectId),
    async searchDrift({ id: projectId }, signal) {
      await reportDrift({ store, comparer, states }, { projectId, isFull: false, signal })
    }
  })
  const atWorkOn = (projectId: string): LiveRun[] =>
    live.all().filter(run => run.projectId === projectId && !run.isOver && !waiting.has(run.deployId))
  const verifier = createVerifier({ ...parts, states, hasRunning: projectId => atWorkOn(projectId).length > 0 })
  const plans = new Plans({ ...parts, comparer, atWorkOn })
  const scripted = new Scripted(parts)
  const runner = new Runner({ ...parts, verifier, scripted })
  const turns = createTargetTurns(parts)
  return {
    ...parts,
    comparer,
    states,
    verifier,
    plans,
    scripted,
    ways: createDoor(async () => {
      const { createRestore, createRollbackPlans } = await import('./rollback-plan.js')
      return {
        plans: createRollbackPlans({ ...parts, comparer, verifier }),
        restore: createRestore({ ...parts, turns })
      }
    }),
    requests: new Requests({ ...parts, plans, verifier, admission: new Admission({ ...parts, runner }) }),
    locks: createLocks(parts),
    maintenance: new Maintenances({ ...parts, turns }),
    resume: createResume({ ...parts, runner }),
    requeue: createRequeue({ ...parts, runner }),
    correction: createCorrection(parts),
    confirmation: createConfirmation(parts),
    approvals: createApprovals(parts)
  }
}

/** What arrives for a deployment, before there is one. */
function arrivals({ store, settings, clock, refuseWhenStopping, intake, incremental, ...parts }: Parts) {
  const { plans, signatures, queue } = parts
  const { close: _, ...uploadsOfChanges } = incremental
  return {
    ...uploadsOfChanges,

    /**
     * Stores an upload in `tmp/` and computes its SHA-256. Removes the file if the stream fails or `signal` aborts; an
     * abort throws its reason. Refuses: `too_large`, `empty_upload`, `disk_full`, `shutting_down`.
     */
    async receive(bytes: Readable, options: ReceiveOptions): Promise<Received> {
      refuseWhenStopping()
      return intake.receive(bytes, options)
    },

    /** Counts an upload while `work` receives it elsewhere. Refuses: `shutting_down`. */
    async receiving<T>(work: (received: (bytes: number) => void) => Promise<T>): Promise<T> {
      refuseWhenStopping()
      return intake.during(work)
    },

    /** Refuses (403 `client_scripts_off`) scripts if the project, or the setting, does not allow client scripts. */
    checkClientScripts(projectId: string, scripts: ClientScripts): void {
      refuseClientScripts(requireProject(store, projectId), settings.flag('allow_client_scripts'), scripts)
    },

    /**
     * Refuses (409) an upload to a project that is `locked`, or whose releases come from another project (`only_promotion`).
     * `beginning`: when it is to begin; undefined: the windows are not looked at.
     */
    checkArrival(projectId: string, beginning?: Beginning): void {
      const project = requireProject(store, projectId)
      refuseLocked(store, project, clock.now())
      refuseUpload(store, project)
      if (beginning !== undefined) refuseBeginning(project, beginning, clock.now())
    },

    /** Returns what a deployment that is held to a plan does to other files. Refuses: 409 `plan_unknown`. */
    plannedWishes(planId: string, projectId: string): Wishes {
      const { prune, force } = plans.expect(planId, projectId)
      return { prune, force }
    },

    /** Returns the number of queued and running deployments of a project. */
    countAhead: queue.count,
    /** Returns the rollout that queued deployments of a project wait for; null: none is going on. */
    rolloutAhead: (projectId: string): RolloutAhead | null => rolloutAhead(store, projectId),
    /** Says what the rule of a project about signatures asks for. */
    signatureDemand: (projectId: string): SignatureDemand => signatures.demand(requireProject(store, projectId)),
    /** Verifies who signed the releases of an import. See `Signatures`. */
    signers: signatures.signers,
    /** Returns the keys of `keys/allowed_signers`. See `Signatures`. */
    signersFile: signatures.signersFile
  }
}

/** What only looks: plans, and comparisons with the target. */
function looks({ plans, ways, comparer, verifier, states, trees, ...parts }: Parts) {
  return {
    /** Refuses what a deployment of an archive would be refused for now. */
    async preflight(request: PreflightRequest): Promise<void> {
      // The space of what the last deployment has replaced is not free before.
      await parts.targets.tidied()
      await preflight(parts, request)
    },
    /** Says what a deployment of a tree would do. */
    plan: (request: PlanRequest): Promise<PlanAnswer> => plans.plan(request),
    /** Says what a rollback, or an undo, would do. */
    planRollback: async (...given: PlanOf<'rollback'>) => (await ways()).plans.rollback(...given),
    planUndo: async (...given: PlanOf<'undo'>) => (await ways()).plans.undo(...given),
    planPromotion: async (...given: PlanOf<'promotion'>) => (await ways()).plans.promotion(...given),
    /** Says what a deployment would do that waits before it begins. Refuses: 404, 409 `not_waiting`. */
    planWaiting: async (...given: PlanOf<'waiting'>) => (await ways()).plans.waiting(...given),
    /** Lists the files of a target that were edited since svc put them there. */
    drift: (request: DriftRequest): Promise<DriftReport> => reportDrift({ ...parts, comparer, states }, request),
    /** Compares every file that svc put into a target with the target. */
    verify: verifier.verify,
    /** Describes the files that svc put into the target of a project. */
    treeSummary: states.summary,
    /** Returns the files that svc put into the target of a project. See `Trees.read`. */
    ownedTree: (...given: Parameters<Trees['read']>) => trees.read(...given),
    /** Returns how far a project can go back exactly. */
    exactWindow: (projectId: string): ExactWindow => exactWindow(parts, projectId)
  }
}

/** The outputs of deployments, and what goes on now. */
function outputs({ store, files, live, intake }: Parts) {
  return {
    /**
     * Yields blocks of stored lines from a byte offset on, then new lines until the deployment has finished. Followers at
     * the end share the same block objects. An offset that is not the end of a line restarts at 0. A slow reader uses no
     * memory. An abort throws the signal's reason.
     */
    follow(deployId: string, { from = 0, signal }: { from?: number; signal: AbortSignal }): AsyncIterable<StoredBlock> {
      requireDeployment(store, deployId)
      return followOutput(live, { deployId, path: files.output(deployId), from, signal })
    },

    /**
     * Returns the end of the output, at most `maxBytes` (default 1 MiB).
     */
    async readOutput(
      deployId: string,
      { maxBytes = defaultOutputBytes, timestamps = false }: { maxBytes?: number; timestamps?: boolean } = {}
    ): Promise<OutputTail> {
      return readTail(files.output(deployId), { maxBytes, timestamps })
    },

    /** Streams the whole output as it is now. */
    outputStream(deployId: string, { timestamps = false }: { timestamps?: boolean } = {}): Readable {
      requireDeployment(store, deployId)
      return Readable.from(readText(files.output(deployId), { timestamps }), { objectMode: false })
    },

    /** Returns a part of the output: whole lines and their byte offsets. */
    async outputWindow(deployId: string, wanted: WantedWindow): Promise<OutputWindow> {
      requireDeployment(store, deployId)
      return readWindow(files.output(deployId), wanted)
    },

    /** Current activity, for metrics. */
    figures: (): { uploads: UploadFigures; followers: number } => ({
      uploads: intake.uploads(),
      followers: live.followers
    })
  }
}

/** What is kept of deployments. */
function lists({ store, files, settings, ...parts }: Parts) {
  function manifestOf(deployId: string): AsyncIterable<ManifestFile> {
    const { fileCount } = requireDeployment(store, deployId)
    const path = files.manifest(deployId)
    if (existsSync(path)) return readManifest(path, fileCount ?? 0)
    const rollout = rolloutOfDeployment(store, deployId)
    const why =
      rollout === undefined
        ? (fileCount ?? 0) > 0
          ? `"deployments/${basename(path)}" is lost in the data directory`
          : 'it extracted no files'
        : `rollout ${rollout.id} brought its files to nodes. The page of a node lists them`
    throw new Refusal('not_found', 'no_manifest', `Deployment ${deployId} has no file list here: ${why}`)
  }

  const sent = createDoor(async () => (await import('./attestations.js')).createAttestations({ store, files }))

  /** Describes the files that a clean-up must not touch. */
  function inUse() {
    const isLive = (id: string): boolean => parts.live.find(id) !== undefined || parts.pending.has(id)
    return { nowMs: machineTimeOf(parts.clock), isLive }
  }

  return {
    // The statement of a deployment, its signatures, and the list of its components; one of them, or 404.
    attestations: async (deployId: string) => (await sent()).attestations(deployId),
    attestation: async (deployId: string, name: string) => (await sent()).attestation(deployId, name),

    /** Files that a deployment extracted. Refuses: unknown, `no_manifest` if it extracted none, `torn_manifest`. */
    async manifest(deployId: string): Promise<ManifestFile[]> {
      const list: ManifestFile[] = []
      for await (const file of manifestOf(deployId)) list.push(file)
      return list
    },

    /** Files that `deployId` added, changed and removed, compared with deployment `against`. */
    changes: async (deployId: string, against: string): Promise<Changes> =>
      compareManifests(manifestOf(against), manifestOf(deployId)),

    /** Deployments whose archives exceed the retention: the setting `keep_archives`, or `keep`. */
    prunable: (projectId: string, keep?: number): string[] =>
      prunableArchives(store, projectId, retentionOf(settings, keep)),
    /** Removes those archives. Returns their deployments. */
    prune: parts.prune,
    /** Makes the archive of a deployment a whole one, which nodes fetch. */
    makeWhole: (deployId: string): Promise<void> => files.packs.makeWhole(deployId),
    /** Registers deployments whose files and records an import is about to create. */
    note: parts.pending.note,
    /** Unused files in `tmp/`. */
    staleFiles: (): Promise<FoundFile[]> => findStaleFiles(parts.home, inUse()),
    /** Files in `deployments/` without a record, left by a lost database or a power cut. */
    unrecordedFiles: (): Promise<FoundFile[]> =>
      findUnrecordedFiles(parts.home, store, { ...inUse(), isNeeded: id => files.packs.isNeeded(id) })
  }
}

function removals({ pending, states, trees, ...parts }: Parts) {
  return {
    ...createArchiveRemoval(parts),

    /**
     * Removes records with `work`, which returns their ids, then removes their files. `deployIds` are the expected ids.
     * Rejects only if `work` does. Files that cannot be removed are logged, and the next start tries again.
     */
    async removeWith(deployIds: readonly string[], work: () => Promise<string[]>): Promise<void> {
      const note = await pending.note(deployIds)
      const removed = await work().catch(async (error: unknown) => {
        await note.settle()
        throw error
      })
      await note.removeFiles(removed)
      parts.quota.recountLater()
    },

    /** Removes the list of the files of a project, after the project was removed. */
    async removeTree(projectId: string): Promise<void> {
      states.forget(projectId)
      await trees.remove(projectId)
    }
  }
}

/** The start and the end of a server. */
function phases({ store, live, queue, waiting, receiptBook, trees, executors, stopping, ...parts }: Parts) {
  /** Ends the run of a queued deployment without changing its record. */
  function leaveQueued(deployId: string): void {
    const row = findDeployment(store, deployId)
    if (row !== undefined) live.find(deployId)?.end(row)
  }

  /** Waits for what works beside the deployments, and ends its threads. */
  async function close(): Promise<void> {
    // The next start does what takes longer.
    await parts.targets.tidied()
    await receiptBook.close()
    await trees.close()
    await parts.incremental.close()
    await parts.files.packs.idle()
    await executors.close()
  }

  return {
    /** Repairs what a stopped or killed server left behind. Must run first at a start. */
    async recover(): Promise<void> {
      receiptBook.recover()
      await recover({ ...parts, store, executors })
      // Those of deployments whose earlier files are back only now.
      void receiptBook.make()
    },

    /**
     * Refuses new deployments (503) and fails the queued ones, except those that are to be rolled out, or that wait before they
     * begin. Waits for the running ones, or stops them if `wait` is false. The next start continues those that wait. It can be
     * called again with `wait: false` while the first call waits.
     */
    async stop({ wait }: { wait: boolean }): Promise<void> {
      stopping.isSo = true
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
      const tails = live.all().filter(run => run.tail !== null)
      await leaveTails({ ...parts, store }, tails, wait ? tailGraceMs : 0)
      await parts.ends.settle().catch(error => parts.log('Cannot record the results of some deployments', error))
      await receiptBook.make()
      await close()
    },

    /**
     * Leaves the queued and the running deployments to the next leader of the cluster: their records stay as they are.
     * Refuses new deployments from then on.
     */
    async leave(): Promise<void> {
      stopping.isSo = true
      waiting.leave()
      for (const { id } of queue.takeBackAll()) leaveQueued(id)
      for (const run of live.all()) if (!run.isOver) run.suspend()
      const finished = Promise.all(live.all().map(run => run.finished))
      const late = await Promise.race([finished.then(() => false), sleep(leaveGraceMs, true, { ref: false })])
      if (late) {
        for (const run of live.all()) run.stop(new StopRequest('stop', 'Another hub leads the cluster now'))
        await finished
      }
      await close()
    }
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
