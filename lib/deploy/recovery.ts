import { existsSync } from 'node:fs'
import { isWaitingToBegin } from '../base/shared/api.js'
import { join } from 'node:path'
import { type DeploymentRow, type DeploymentStep, restarted } from '../model/deployment.js'
import { findDeployment, setBeforeFrom, unfinishedDeployments } from '../core/store/tables/deployments.js'
import { policyOf } from '../model/policy.js'
import { findQueuedRelease, isPlaced } from '../core/store/tables/fleet.js'
import { findProject } from '../core/store/tables/projects.js'
import { rolloutOfDeployment } from '../core/store/tables/rollouts.js'
import { type OpenExtractions, openState, recoverTargets } from '../core/install/unpack/extract.js'
import type { Executors } from '../core/install/unpack/executors.js'
import { withAnySignal } from '../base/async.js'
import { notFound, reasonOf, Refusal } from '../base/errors.js'
import { stagingName } from '../core/install/staging.js'
import { describeJournal, listJournals, removeJournalFiles } from '../core/install/undo.js'
import type { Actor } from '../model/audit.js'
import type { UnfinishedTarget } from '../model/health.js'
import { type DeployFiles, makeDirectories } from './files.js'
import type { DeployNeeds } from './needs.js'
import { endInterruptedScripts } from './scripts/script-processes.js'
import { continueOutput, openOutput } from './output/output.js'
import {
  endOf,
  eventOf,
  isExtracted,
  isFinal,
  notHeld,
  type Outcome,
  placedPatch,
  recordComplete,
  sendNotice,
  staysSentence,
  type Ends
} from './record.js'
import type { Scripted } from './scripted.js'
import { StopRequest } from './failure.js'
import type { Live, LiveRun } from './output/live.js'
import { addSaying, type Queue } from './queue.js'
import type { WaitingDeployments } from './user-actions.js'
import type { Runner } from './run.js'
import { readPlan } from './ownership.js'
import type { Planned } from './turn.js'
import { offeredBySource } from './retention.js'
import { listEarlier, removeStrays } from './strays.js'

type RecoveryNeeds = DeployNeeds & {
  files: DeployFiles
  executors: Executors
  ends: Ends
  open: OpenExtractions
  /** Takes up a deployment that was held, or whose failure is followed by a script. */
  resume(row: DeploymentRow, failure?: { sentence: string; note: string }): Promise<void>
  /** Queues a deployment again that was to be rolled out, or that waits before it begins. */
  requeue(row: DeploymentRow): Promise<void>
  scripted: Pick<Scripted, 'recover' | 'leave'>
  maintenance: { reconcile(): Promise<unknown> }
}

/** The state of the target of an interrupted deployment. */
type TargetState = 'restored' | 'complete' | 'absent' | 'not restored' | 'lost'

const notes: Record<TargetState, string> = {
  restored: '; the target directory was restored to its earlier state',
  complete: '',
  absent:
    '; the target directory does not exist, or its path leads to another one. Check that its disk is mounted: the next deployment or server start then restores it',
  'not restored': '; the target directory could not be restored yet: the next deployment or server start tries again',
  lost: '; the target directory cannot be restored: deploy again'
}

/**
 * Repairs what an earlier server left behind. Stops scripts that still run, restores targets in the middle of a change,
 * and fails deployments that were queued or running. Deployments that were held continue, and so do those that
 * wait for an approval or their time, and those whose nodes get the files: they wait again, or their rollout is followed. Then updates the records of files in place and removes unused
 * files.
 */
export async function recover(needs: RecoveryNeeds): Promise<void> {
  await makeDirectories(needs.home)
  const earlier = await listEarlier(needs.home)
  await endInterruptedScripts(needs)
  await needs.scripted.recover()
  await recoverRecords(needs)
  await needs.maintenance.reconcile()
  await removeStrays(needs, earlier)
}

async function recoverRecords(needs: RecoveryNeeds): Promise<void> {
  const { store, home, log, executors, open } = needs
  const found = new Map<string, TargetState>()
  const restored = await recoverTargets(executors, {
    home,
    open,
    async onComplete(deployId) {
      const row = findDeployment(store, deployId)
      if (row === undefined || isFinal(row.status)) return recordComplete(needs, deployId)
      if (hasFailureScript(needs, row)) {
        found.set(deployId, 'complete')
        return recordComplete(needs, deployId)
      }
      await endInterrupted(needs, row, 'complete')
      // An error keeps the journal, from which the next start learns that the files are in place.
      const unrecorded = needs.ends.unrecorded(row.id)
      if (unrecorded !== null) throw new Error(unrecorded)
    },
    onProblem(deployId, error) {
      found.set(deployId, 'not restored')
      log(`Cannot finish or undo the extraction of deployment ${deployId} yet`, error)
    },
    onAbsent(deployId) {
      found.set(deployId, 'absent')
      log(
        `Cannot restore the target of deployment ${deployId} yet: it does not exist, or its path leads to another directory. Check that its disk is mounted`
      )
    },
    onLost(deployId) {
      found.set(deployId, 'lost')
      log(`Cannot restore the target of deployment ${deployId}: its staging directory does not exist. Deploy again`)
    }
  })
  for (const deployId of restored) found.set(deployId, 'restored')
  for (const row of unfinishedDeployments(store)) {
    const isHeld = row.heldFor !== null && openState(home, row.id) !== null
    const isRollingOut = row.status === 'running' && rolloutOfDeployment(store, row.id) !== undefined
    const isHere = needs.copies === undefined || isPlaced(store, row.projectId)
    const isWaiting = row.status === 'queued' && isHere && findQueuedRelease(store, row.id)
    if (isHeld || isRollingOut || isWaiting)
      await (isWaiting ? needs.requeue : needs.resume)(row).catch(error =>
        log(`Cannot continue deployment ${row.id}`, error)
      )
    else if (needs.ends.unrecorded(row.id) === null) await endOrRunScript(needs, row, found.get(row.id) ?? null)
  }
}

/** Whether a script follows the failure of an interrupted deployment. A rollout has those of its nodes. */
function hasFailureScript({ store }: RecoveryNeeds, row: DeploymentRow): boolean {
  const project = findProject(store, row.projectId)
  if (row.status !== 'running' || project === undefined || isPlaced(store, project.id)) return false
  // A repair that had not run a script was asked to run none.
  const isSilent = row.triggerSource === 'repair' && row.scripts.length === 0
  const hasBegun = row.steps.some(({ name }) => name === 'onFailure' || name === 'rollout')
  return !isSilent && !hasBegun && policyOf(project).onFailureScript !== null
}

async function endOrRunScript(needs: RecoveryNeeds, row: DeploymentRow, target: TargetState | null): Promise<void> {
  if (!hasFailureScript(needs, row)) return endInterrupted(needs, row, target)
  const failure = { sentence: reasonFor(needs, row), note: target === null ? '' : notes[target] }
  const ended = { ...row, steps: endSteps(row, needs.clock.now()) }
  await needs.resume(ended, failure).catch(async error => {
    needs.log(`Cannot run the on-failure script of deployment ${row.id}`, error)
    await endInterrupted(needs, row, target)
  })
}

async function endInterrupted(needs: RecoveryNeeds, row: DeploymentRow, target: TargetState | null): Promise<void> {
  const { clock } = needs
  const errorMessage = reasonFor(needs, row)
  const outcome: Outcome = { status: 'failed', cause: 'restart', errorMessage }
  const placed = target === 'complete' ? await placedPatch(needs, row, clock.now()) : null
  const { beforeFrom = null } = placed ?? {}
  if (beforeFrom !== null) await needs.store.write(tx => setBeforeFrom(tx, row.id, beforeFrom)).catch(() => {})
  const known = { ...row, ...placed?.patch }
  const end = { ...known, ...endOf(row, outcome, clock.now()), steps: endSteps(known, clock.now()), ...notHeld }
  const note = target === null ? '' : notes[target]
  await appendLines(needs, row.id, [
    ...(isExtracted(end.steps) ? [`→ ${staysSentence}`] : []),
    `✗ ${errorMessage}${note}`
  ])
  const final = await needs.ends.record(end, outcome)
  if (final.placed === null) await needs.scripted.leave(row.id)
  sendNotice(needs, final, { trigger: row.triggerSource, event: eventOf('failed'), errorMessage })
}

function reasonFor({ copies, store }: RecoveryNeeds, row: DeploymentRow): string {
  const said = restarted[copies === undefined ? 'server' : 'hub']
  if (row.status === 'queued') return said.queued
  // The on-failure script had begun.
  if (row.errorMessage !== null) return row.errorMessage
  const wasPlaced = isPlaced(store, row.projectId) || row.steps.some(({ name }) => name === 'rollout')
  return wasPlaced ? said.unrolled : said.running
}

/** Appends the last lines to an output. A failure must not stop the start. */
async function appendLines(needs: RecoveryNeeds, deployId: string, sentences: string[]): Promise<void> {
  try {
    const output = await continueOutput({ path: needs.files.output(deployId), clock: needs.clock })
    for (const sentence of sentences) output.say(sentence)
    await output.flush()
    await output.sync()
  } catch (error) {
    needs.log(`Cannot append to the output of deployment ${deployId}`, error)
  }
}

function endSteps(row: DeploymentRow, nowMs: number): DeploymentRow['steps'] {
  const endedAt = new Date(nowMs).toISOString()
  return row.steps.map(step => (step.endedAt === null ? { ...step, status: 'failed', endedAt } : step))
}

/*
 * Deployments that wait, and those of placed projects that were queued, when the server stopped, or when another hub led: they
 * wait or are queued again, in the same order. Nothing of them depends on the machine on which they began to wait.
 */

export interface RequeueNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'offers' | 'copies'> {
  files: DeployFiles
  live: Live
  queue: Queue
  waiting: WaitingDeployments
  runner: Pick<Runner, 'run' | 'drop'>
}

/** Maximum time in which another hub sends an archive. */
const maxFetchMs = 10 * 60_000

/** Creates the function that queues a deployment again. */
export function createRequeue(needs: RequeueNeeds) {
  const { store, offers, copies, files, live, queue, waiting, runner } = needs
  /** Gets what the deployment needs: the archive, and what the client sent with it. */
  async function prepare(planned: Planned): Promise<Planned> {
    const { row, live: run } = planned
    const limits = { signals: [run.signal, run.suspending], withinMs: maxFetchMs }
    await withAnySignal(limits, async signal => copies?.ensure(row.id, signal))
    if (!files.packs.has(row.id)) throw notFound('Archive', row.id)
    const { sealed = null, plan = null, ...kept } = findQueuedRelease(store, row.id) ?? {}
    const { offered, clientEnv } = await offers.open(row.id, sealed)
    return { ...planned, offered, env: clientEnv, ...kept, plan: plan === null ? null : readPlan(plan) }
  }

  async function run(planned: Planned): Promise<void> {
    const { row, live: run } = planned
    try {
      planned = await prepare(planned)
    } catch (error) {
      // The next start, or the next leader, queues it again.
      if (run.suspending.aborted) return run.end(row)
      const reason = error instanceof Refusal ? error.message : reasonOf(error)
      const sentence = `Cannot continue the deployment after a restart: ${reason}. Push again`
      const request = run.signal.reason instanceof StopRequest ? run.signal.reason : new StopRequest('stop', sentence)
      await runner.drop(planned, request)
      return live.forget(row.id)
    }
    await runner.run(planned)
    void (run.tail ?? Promise.resolve()).finally(() => live.forget(row.id))
  }

  return async (row: DeploymentRow): Promise<void> => {
    const isWaiting = isWaitingToBegin(row)
    const planned: Planned = {
      row,
      live: await takeUp(row, isWaiting ? 'the deployment still waits' : 'the deployment is queued again', needs),
      offered: { origin: 'upload' },
      env: {},
      plan: null,
      exact: null,
      repair: null,
      discardUpload: async () => {}
    }
    const entry = {
      key: row.projectId,
      id: row.id,
      run: () => run(planned),
      async drop(request: StopRequest) {
        await runner.drop(planned, request)
        live.forget(row.id)
      }
    }
    const begin = (): void => void addSaying({ store, queue, live }, entry, line => planned.live.output.say(line))
    if (isWaiting) waiting.add({ planned, drop: entry.drop, begin })
    else begin()
  }
}

export interface ResumeNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'log' | 'copies'> {
  files: DeployFiles
  live: Live
  queue: Queue
  runner: Pick<Runner, 'resume'>
}

/**
 * Begins the run of a deployment that an earlier process, or another hub, had accepted. Its output says so, and what
 * happens now.
 */
async function takeUp(
  row: DeploymentRow,
  what: string,
  { clock, files, live, copies }: Pick<ResumeNeeds, 'clock' | 'files' | 'live' | 'copies'>
): Promise<LiveRun> {
  const output = await openOutput({
    path: files.output(row.id),
    clock,
    onWritten: () => live.find(row.id)?.wake()
  })
  output.tolerateFailures()
  const run = live.begin({ deployId: row.id, projectId: row.projectId, output })
  output.say(`→ ${copies === undefined ? 'the server was restarted' : 'this hub leads now'}; ${what}`)
  return run
}

/**
 * Creates the function that takes up a deployment which was held when the server stopped, or which has failed because it
 * ran then, and has a script for that (`failure`: why it failed, and what became of its target). It is the first of its
 * project in the queue. The variables that the client sent are not stored, so a script that runs again does not get
 * them.
 */
export function createResume({ clock, files, live, queue, runner, log, copies }: ResumeNeeds) {
  return async (row: DeploymentRow, failure?: { sentence: string; note: string }): Promise<void> => {
    const what = failure === undefined ? 'the deployment continues' : `the deployment has failed${failure.note}`
    const run = await takeUp(row, what, { clock, files, live, copies })
    // Before its turn, too: who reverts it now is not told that it is not held.
    run.isHeld = failure === undefined && row.heldFor !== null
    const planned = {
      row: { ...row, steps: row.steps.flatMap(step => endedStep(step, clock.now())) },
      live: run,
      offered: offeredBySource(row),
      env: {},
      plan: null,
      exact: null,
      // Its files are in place; only its scripts may still run.
      repair: row.triggerSource === 'repair' ? { paths: [], runScripts: row.scripts.length > 0 } : null,
      discardUpload: async () => {},
      ...(failure && { failure: failure.sentence }),
      resumedFrom: row
    }
    queue.add({
      key: row.projectId,
      id: row.id,
      async run() {
        await runner.resume(planned).catch(error => log(`Cannot continue deployment ${row.id}`, error))
        const tail = run.tail ?? Promise.resolve()
        void tail.finally(() => live.forget(row.id))
      },
      // It is the first of its queue, so it cannot be taken back.
      drop: async () => {}
    })
  }
}

/** The steps that begin again. */
const repeated: ReadonlySet<DeploymentStep['name']> = new Set(['check', 'confirm', 'revert', 'rollout', 'cleanup'])

/** Ends a step that the stop of the server interrupted, or drops it if it begins again. */
function endedStep(step: DeploymentStep, nowMs: number): DeploymentStep[] {
  if (step.endedAt !== null) return [step]
  if (repeated.has(step.name)) return []
  return [{ ...step, status: 'failed', endedAt: new Date(nowMs).toISOString() }]
}

/** Targets in which a deployment was interrupted and could not be finished: their disk is missing, or they were moved. */
export type Unfinished = ReturnType<typeof createUnfinished>

type UnfinishedNeeds = Pick<DeployNeeds, 'store' | 'home' | 'audit' | 'giveUpOn'> & {
  targets: { isHeld(deployId: string): boolean }
}

export function createUnfinished({ store, home, audit, targets, giveUpOn }: UnfinishedNeeds) {
  const found = () =>
    listJournals(home.deployments)
      .filter(({ deployId }) => !targets.isHeld(deployId) && findDeployment(store, deployId)?.heldFor == null)
      .map(({ deployId, path }) => ({ deployId, path, target: describeJournal(path)?.target ?? null }))

  function giveUpHere(deployId: string): UnfinishedTarget {
    const journal = found().find(each => each.deployId === deployId)
    if (journal === undefined) throw notFound('Unfinished target', deployId)
    const { path, target } = journal
    if (target !== null && existsSync(join(target, stagingName(deployId)))) {
      const sentence = `Cannot give up deployment ${deployId}: its target ${target} is there. Restart the server, which finishes it`
      throw new Refusal('conflict', 'target_there', sentence)
    }
    removeJournalFiles(path)
    return { deployId, target }
  }

  return {
    unfinishedTargets: (): UnfinishedTarget[] => found().map(({ deployId, target }) => ({ deployId, target })),
    /** The same on this machine, for the hub that leads, which writes the audit entry. */
    giveUpHere,
    /**
     * Gives up what a deployment has left half changed in a target that is gone for good, on this machine or on that of another
     * hub. Audited. Refuses 404, (`conflict`) `target_there`, and what prevents that the hub answers.
     */
    async giveUp(
      deployId: string,
      { actor, hub }: { actor: Actor; hub?: string | undefined }
    ): Promise<UnfinishedTarget> {
      const isElsewhere = hub !== undefined && giveUpOn !== undefined
      const given = isElsewhere ? await giveUpOn(hub, deployId) : giveUpHere(deployId)
      const detail = isElsewhere ? `${given.target ?? 'unknown target'} on the hub "${hub}"` : given.target
      audit({ action: 'deployment.give_up', actor, projectId: null, target: deployId, detail })
      return given
    }
  }
}
