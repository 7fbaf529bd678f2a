import { rm } from 'node:fs/promises'
import { Refusal } from '../base/errors.js'
import { endJournal, extractionLimits, openState, removeLeft } from '../core/install/unpack/extract.js'
import type { LeftStaging } from '../core/install/unpack/extraction.js'
import type { DeploymentRow, RevertReason } from '../model/deployment.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { tighten } from '../model/policy-keys.js'
import { findRights } from '../core/proc/identity.js'
import { isPlaced } from '../core/store/tables/fleet.js'
import { rolloutOfDeployment } from '../core/store/tables/rollouts.js'
import { findDeployment, liveDeployment } from '../core/store/tables/deployments.js'
import { findBrokenProject, findProject, requireProject } from '../core/store/tables/projects.js'
import { treeOfKept } from '../core/archive/pack-set.js'
import { treeDiffers } from '../core/install/manifest-writer.js'
import { countOf } from '../base/text.js'
import type { Actor } from '../model/audit.js'
import type { RolloutPolicy } from '../model/rollout.js'
import type { RollEnd, Rolls } from '../model/fleet-wire.js'
import { Interrupted, sentenceOf, StepFailure, StopRequest, Suspension } from './failure.js'
import { type DeployFiles, sharedChanges } from './files.js'
import { awaitConfirmation, bareHold, type HoldPlan, holdPlanOf, restartReason } from './hold.js'
import { refuseSuperseded, requireApprovals } from './user-actions.js'
import { refuseOutside, refuseLocked } from './gateway.js'
import { createSteps, type PipelineResult, type PipelineRun, resumePipeline, runPipeline } from './pipeline.js'
import {
  endOf,
  eventOf,
  isExtracted,
  moveRecord,
  notHeld,
  type Outcome,
  recordProgress,
  revertedPatch,
  sendNotice,
  staysSentence,
  type Ends
} from './record.js'
import { endBackground } from './scripts/script-processes.js'
import { refusePlaced, refuseUnplaced, refuseWishes } from './wishes.js'
import { createMasker } from './scripts/environment.js'
import {
  chooseScripts,
  type ChosenScripts,
  failureScriptOf,
  hasScripts,
  permittedScripts,
  type Tail
} from './scripts/scripts.js'
import { pipelineOf, type Planned, type TurnNeeds } from './turn.js'
import type { DeployNeeds } from './needs.js'

export interface RunnerNeeds extends TurnNeeds {
  ends: Ends
  /** Called when a deployment has finished: its project may have too many archives. */
  prune(projectId: string): Promise<unknown>
}

/** Runs admitted deployments when the queue calls it, or drops them before they start, and records their results. */
export class Runner {
  readonly #needs: RunnerNeeds

  constructor(needs: RunnerNeeds) {
    this.#needs = needs
  }

  /** Runs the pipeline of a deployment from the second step to the final record. Never rejects. */
  run(planned: Planned): Promise<DeploymentRow> {
    return this.#run(planned, (given, run, result) => this.#start(given, run, result))
  }

  /** Continues a deployment that was held, or ran, when the server stopped. Never rejects. */
  resume(planned: Planned): Promise<DeploymentRow> {
    return this.#run(planned, (given, run) => this.#goOn(given, run))
  }

  /** Records the end of a deployment that never started. Never rejects. */
  async drop(planned: Planned, request: StopRequest): Promise<DeploymentRow> {
    const outcome: Outcome = { status: 'failed', cause: request.by, errorMessage: request.message }
    await this.#discardUpload(planned)
    const row = await this.#settle(planned, outcome)
    await this.#tidy(planned)
    return row
  }

  async #run(planned: Planned, work: Work): Promise<DeploymentRow> {
    const result: PipelineResult = { tail: null }
    const outcome = await this.#attempt(planned, result, work)
    if (outcome === null) return suspended(planned)
    const settled = this.#settle(planned, outcome)
    if (planned.left !== undefined)
      this.#needs.targets.releaseAfter(planned.row.id, this.#removeLeft(planned.left, settled))
    const { tail } = result
    if (tail === null) await settled.then(() => this.#tidy(planned))
    else planned.live.tail = settled.then(() => this.#followTail(planned, tail)).catch(this.#tailFailed)
    return settled
  }

  /** Starts a deployment that was queued. A lock does not stop one that was held: its files are in place already. */
  async #start(planned: Planned, run: PipelineRun, result: PipelineResult): Promise<void> {
    await this.#begin(planned)
    await runPipeline(run, result)
  }

  async #begin(planned: Planned): Promise<void> {
    const { row } = planned
    const nowMs = this.#needs.clock.now()
    refuseLocked(this.#needs.store, { id: row.projectId, name: row.projectName }, nowMs)
    const project = findProject(this.#needs.store, row.projectId)
    const isNew = row.triggerSource === 'cli' || row.triggerSource === 'promotion'
    if (isNew && project !== undefined) {
      refuseOutside(project, row.override, nowMs)
      requireApprovals(project, row)
      this.#judgeAgain(planned, project)
    }
    if (row.startAt !== null || row.approvals.length > 0) refuseSuperseded(this.#needs.store, row)
    if (row.approvals.length > 0) await this.#refuseOtherFiles(planned)
    await moveRecord(this.#needs, row.id, { to: 'running', cause: 'turn' })
    row.status = 'running'
  }

  /** Refuses a release that nobody has signed whom the project trusts now. */
  #judgeAgain({ row, live, offered, env }: Planned, project: Project): void {
    const { signedBy, lines } = this.#needs.signatures.judgeAgain(project, row, { offered, env: Object.keys(env) })
    if (JSON.stringify(signedBy) === JSON.stringify(row.signedBy)) return
    row.signedBy = signedBy
    for (const line of lines) live.output.say(line)
  }

  /** Refuses an archive that is not the one that was approved. */
  async #refuseOtherFiles({ row, live }: Planned): Promise<void> {
    const { files, settings } = this.#needs
    const { treeSha256 } = await treeOfKept(files.archive(row.id), extractionLimits(settings), live.signal)
    if (treeSha256 === row.treeSha256) return
    throw new StepFailure(`The archive is not the one that was approved: its files are those of tree ${treeSha256}`)
  }

  /** Whether the nodes of the project get the files, and not a target on this server. */
  #isRolledOut({ row, resumedFrom }: Planned): boolean {
    if (resumedFrom !== undefined) return rolloutOfDeployment(this.#needs.store, row.id) !== undefined
    return isPlaced(this.#needs.store, row.projectId)
  }

  async #rollOut(planned: Planned, project: Project): Promise<void> {
    const { exact, repair, plan, force, resumedFrom } = planned
    await this.#needs.ends.settle()
    // The project may have been placed while the deployment was in the queue.
    if (exact !== null || repair !== null || plan !== null || force) refusePlaced(this.#needs.store, project, 'deploy')
    if (resumedFrom === undefined) await this.#begin(planned)
    await runPlaced(this.#needs, planned, project)
  }

  /** Continues a deployment that was held, or that an end of the server interrupted. */
  async #goOn({ row, live, failure, resumedFrom = row }: Planned, run: PipelineRun): Promise<void> {
    if (failure !== undefined) return resumePipeline(run, { at: 'failure', error: new StepFailure(failure) })
    // Also if it was cancelled meanwhile: its files are in place, and are put back.
    await this.#needs.targets.hold(row.id, run.stage.target, { signal: live.forced })
    const isReverting = openState(this.#needs.home, row.id) === 'reverting'
    const reason = isReverting ? (row.revertReason ?? 'restart') : restartReason(resumedFrom, this.#needs.clock.now())
    if (reason === null) await resumePipeline(run, { at: phaseOf(resumedFrom) })
    else await resumePipeline(run, { at: 'revert', error: interrupted(reason) })
  }

  async #attempt(planned: Planned, result: PipelineResult, work: Work): Promise<Outcome | null> {
    const { store, ends, log, targets } = this.#needs
    const { row, live } = planned
    let masker = createMasker([])
    try {
      live.signal.throwIfAborted()
      const stored = requireProject(store, row.projectId)
      const project = { ...stored, policy: await this.#needs.headers.open(stored.id, stored.policy) }
      if (planned.resumedFrom === undefined) tightenAgain(planned, project)
      if (this.#isRolledOut(planned)) {
        await this.#rollOut(planned, project)
        return { status: 'success', cause: 'end', errorMessage: null }
      }
      if (planned.resumedFrom === undefined) {
        // The project may have been removed from its nodes while the deployment was in the queue.
        refuseUnplaced(this.#needs, project, planned.isForNodes)
        refuseWishes(store, project, { rollout: planned.rollout })
      }
      const rights = await findRights(project)
      const scripts = this.#scriptsOf(planned, project)
      const variables = hasScripts(scripts) ? await this.#needs.variables.open(project.id) : []
      masker = createMasker(variables.flatMap(({ secret, value }) => (secret ? [value] : [])))
      // Earlier results are recorded first, so records stay in order.
      await ends.settle()
      const liveId = liveDeployment(store, project.id)?.id ?? null
      const previousId = liveId === row.id ? null : liveId
      const plan = planOf(planned, project)
      row.confirmSeconds = plan?.confirmSeconds ?? null
      const turn = { project, rights, previousId, scripts, variables, masker, plan }
      await work(planned, pipelineOf(this.#needs, planned, turn), result)
      return { status: 'success', cause: 'end', errorMessage: null }
    } catch (error) {
      if (error instanceof Suspension) return null
      // The pipeline does this itself, but the failure may have happened before the pipeline started.
      await this.#discardUpload(planned)
      if (isBug(error)) log(`Deployment ${row.id} failed because of an internal error`, error)
      const cause = error instanceof StopRequest ? error.by : 'end'
      return { status: 'failed', cause, errorMessage: planned.failure ?? masker.text(sentenceOf(error, null)) }
    } finally {
      if (planned.left === undefined) targets.release(row.id)
    }
  }

  /** Removes what a deployment has replaced, once its end is recorded: nobody waits for that. */
  async #removeLeft(left: LeftStaging, settled: Promise<unknown>): Promise<void> {
    const { store, home, executors, log } = this.#needs
    const { deployId, target } = left
    await settled
    try {
      await removeLeft(executors, home, left)
      // Without a record, the next start needs the journal.
      if (findDeployment(store, deployId)?.placed != null) await endJournal(home, { deployId, target })
    } catch (error) {
      log(`Cannot remove yet what deployment ${deployId} has replaced. The next deployment or start tries again`, error)
    }
  }

  /** Chooses the scripts at the start, not when the deployment was queued: scripts forbidden since then do not run. */
  #scriptsOf({ row, live, offered, repair, takesBack }: Planned, project: Project): ChosenScripts {
    if (repair?.runScripts === false) return { preDeploy: null, postDeploy: null, onFailure: null }
    const { revertScript, onFailureScript, onPostFailure } = policyOf(project)
    const onFailure = failureScriptOf({ onFailureScript })
    // For the project on nodes it is a revert, as that of a deployment here.
    if (takesBack && revertScript === 'none') return { preDeploy: null, postDeploy: null, onFailure }
    const permitted = permittedScripts(project, this.#needs.settings.flag('allow_client_scripts'), offered)
    for (const step of permitted.dropped) {
      live.output.say(
        `→ skipping the ${step} script of ${row.rollbackOf ?? 'the live deployment'}: client scripts have been disabled since`
      )
    }
    const chosen = chooseScripts(project, permitted.offered)
    if (chosen.postDeploy?.async && onPostFailure === 'revert')
      live.output.say('→ the post-deploy script runs in the background: its failure puts nothing back (onPostFailure)')
    return { ...chosen, onFailure }
  }

  async #settle(planned: Planned, outcome: Outcome): Promise<DeploymentRow> {
    const { clock, log, ends } = this.#needs
    const { live } = planned
    const { output } = live
    const end = { ...planned.row, ...endOf(planned.row, outcome, clock.now()), ...notHeld }
    for (const line of lastLines(end)) output.say(line)
    await output
      .flush()
      .then(() => output.sync())
      .catch(error => log(`Cannot write the whole output of deployment ${end.id}`, error))
    const wasBroken = this.#wasBroken(end.projectId)
    const row = await ends.record(end, { ...outcome, asked: live.asked })
    if (output.unwritten !== null) ends.complete(output)
    if (row.placed === null) await this.#needs.scripted.leave(row.id)
    await this.#needs.prune(row.projectId).catch(error => log('Cannot remove old archives', error))
    if (row.placed !== null) this.#needs.trees.update(row.projectId)
    live.end(row)
    sendNotice(this.#needs, row, {
      trigger: row.triggerSource,
      event: eventOf(outcome.status),
      errorMessage: row.errorMessage
    })
    if (wasBroken && outcome.status === 'success')
      sendNotice(this.#needs, row, { trigger: row.triggerSource, event: 'recovered', errorMessage: null })
    return row
  }

  /** Whether a project was broken. The end of a deployment does not depend on the answer. */
  #wasBroken(projectId: string): boolean {
    try {
      return findBrokenProject(this.#needs.store, projectId) !== undefined
    } catch (error) {
      this.#needs.log('Cannot find out whether a deployment is a recovery', error)
      return false
    }
  }

  /** Nobody waits for the tail of a run, so it must not reject: the database may be closed by then. */
  readonly #tailFailed = (error: unknown): void =>
    this.#needs.log('Cannot record the result of a background script', error)

  /** Records the result of a background script. The status of the deployment does not change (§3). */
  async #followTail(planned: Planned, tail: Tail): Promise<void> {
    const { row, live } = planned
    const complaint = await tail
    const goodEnd = '→ post-deploy script in the background ended with exit code 0'
    live.output.say(complaint === null ? goodEnd : `✗ ${complaint}`)
    await this.#tidy(planned)
    // A script can fail before its deployment has finished. The result of the deployment is reported first.
    await live.finished
    const exitCode = row.steps.find(({ name }) => name === 'postDeploy')?.exitCode ?? null
    const kept = this.#needs.ends.kept().find(({ id }) => id === row.id) ?? null
    await endBackground(this.#needs, row.id, { complaint, exitCode, kept })
  }

  async #discardUpload(planned: Planned): Promise<void> {
    await planned.discardUpload().catch(error => this.#needs.log('Cannot remove a temporary zip', error))
  }

  async #tidy({ row, live }: Planned): Promise<void> {
    const path = this.#needs.files.changes(row.id)
    for (const each of [path, sharedChanges(path)]) {
      await rm(each, { force: true }).catch(error => this.#needs.log('Cannot remove a list of changes', error))
    }
    await live.output.flush().catch(() => {})
  }
}

/** Leaves a deployment as it is: the next start continues it. */
function suspended({ row, live }: Planned): DeploymentRow {
  live.output.say('→ the server is stopping; the next start continues this deployment')
  void live.output.flush().catch(() => {})
  live.end(row)
  return row
}

/** Returns the plan of the project's policy now. A deployment that was held before stays so. */
function planOf({ row, resumedFrom }: Planned, project: Project): HoldPlan | null {
  const plan = holdPlanOf(policyOf(project), row.confirmSeconds)
  return resumedFrom === undefined ? plan : (plan ?? { ...bareHold, confirmSeconds: row.confirmSeconds })
}

/**
 * Checks what a push wished against the policy of this moment, which may have become stricter in the queue. Refuses as at
 * its arrival.
 */
function tightenAgain({ row, offered, plan, rollout, role }: Planned, project: Project): void {
  if (role == null) return
  const { prune, force } = plan ?? {}
  const { confirmSeconds, override } = row
  const wish = { prune, force, confirmSeconds, override, postDeployAsync: offered.postDeployAsync, rollout }
  tighten(project, wish, { role, token: actorOf(row).token })
}

type Work = (planned: Planned, run: PipelineRun, result: PipelineResult) => Promise<void>

/** Returns the step at which a held deployment continues. */
function phaseOf({ steps }: DeploymentRow): 'check' | 'confirm' {
  return steps.some(({ name }) => name === 'confirm') ? 'confirm' : 'check'
}

function interrupted(reason: RevertReason): Interrupted {
  if (reason === 'confirm') return new Interrupted(reason, 'Nobody confirmed the deployment in time')
  return new Interrupted(reason, 'The server was restarted before the deployment was settled')
}

function lastLines(row: DeploymentRow): string[] {
  if (row.status === 'success') return [`✓ success in ${row.duration}`]
  const note = isExtracted(row.steps) && row.revertReason === null ? [`→ ${staysSentence}`] : []
  return [...note, `✗ failed after ${row.duration}: ${row.errorMessage}`]
}

/** Whether an error is a bug in svc: neither a refusal nor a system error. */
function isBug(error: unknown): boolean {
  if (error instanceof StopRequest || error instanceof Refusal) return false
  if (error instanceof StepFailure) return error.cause !== undefined && isBug(error.cause)
  return (error as NodeJS.ErrnoException | null)?.code?.startsWith('ERR_') ?? true
}

/*
 * The deployment of a project that is placed on nodes: the server that has the archive rolls it out, and puts nothing in
 * place itself. Its steps are `store`, `rollout`, `confirm` and `revert` if it waits to be confirmed, and `cleanup`.
 */

export interface PlacedRunNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'settings' | 'fleet' | 'notify' | 'log'> {
  files: DeployFiles
}

type Steps = ReturnType<typeof createSteps>

/** Rolls a deployment out, or continues its rollout. Throws if it does not end with the release on all nodes. */
async function runPlaced(needs: PlacedRunNeeds, planned: Planned, project: Project): Promise<void> {
  const { store, clock, fleet } = needs
  const { row, live, resumedFrom } = planned
  if (fleet === undefined) throw new Error('This server has no fleet')
  if (resumedFrom === undefined) row.confirmSeconds ??= policyOf(project).confirm?.seconds ?? null
  const steps = createSteps({
    clock,
    output: live.output,
    signal: live.signal,
    done: row.steps,
    async save(steps) {
      const { treeSha256, fileCount, heldFor, holdUntil, confirmSeconds, revertReason, revertedAt } = row
      const hold = { heldFor, holdUntil, confirmSeconds, revertReason, revertedAt }
      await store.write(tx => recordProgress(tx, row.id, { steps, treeSha256, fileCount, ...hold }))
    }
  })
  row.steps = steps.all()
  let isSuspended = false
  try {
    const isRolledOut = row.steps.some(({ name, status }) => name === 'rollout' && status === 'success')
    const rollOut = async (): Promise<string> => {
      const say = (line: string): void => live.output.say(line)
      const isBegun = rolloutOfDeployment(store, row.id) !== undefined
      const end = await untilStopped(needs, planned, async signal => {
        if (isBegun) return fleet.follow(row.id, { say, signal })
        return fleet.begin(await releaseOf(needs, planned, { project, signal }), { say, signal })
      })
      if (end.outcome !== 'done') throw new StepFailure(end.sentence)
      return end.sentence
    }
    if (!isRolledOut) await steps.run('rollout', rollOut)
    if (row.confirmSeconds !== null) await confirmPlaced(needs, planned, steps)
  } catch (error) {
    isSuspended = error instanceof Suspension
    throw error
  } finally {
    if (isSuspended) await planned.discardUpload()
    else await steps.run('cleanup', async () => planned.discardUpload().then(() => 'removed the temporary zip'))
  }
}

/**
 * Waits until the release on the nodes is confirmed. If nobody confirms it in time, or somebody reverts it, all of them go
 * back.
 */
async function confirmPlaced(needs: PlacedRunNeeds, { row, live, resumedFrom }: Planned, steps: Steps): Promise<void> {
  const { store, clock } = needs
  const seconds = row.confirmSeconds as number
  const isNew = resumedFrom?.heldFor !== 'confirm'
  row.heldFor = 'confirm'
  if (isNew) row.holdUntil = new Date(clock.now() + seconds * 1000).toISOString()
  live.isHeld = true
  try {
    if (row.revertReason !== null) throw interrupted(row.revertReason)
    await steps.run('confirm', () => awaitConfirmation(needs, { row, live, output: live.output }, { seconds, isNew }))
    if (rolloutOfDeployment(store, row.id)?.state !== 'done')
      throw new StopRequest('cancel', 'The rollout was reverted')
  } catch (error) {
    if (error instanceof Suspension || (error instanceof StopRequest && error.by === 'stop')) throw error
    row.revertReason ??= error instanceof StopRequest ? 'operator' : 'confirm'
    const sentence = (error as Error).message
    await steps.run('revert', () => revertPlaced(needs, { row, live }, sentence))
    throw new StepFailure(`${sentence}; the earlier files are back`)
  } finally {
    live.isHeld = false
  }
}

/** Lets all nodes go back, and records that. The next start continues if the server stops meanwhile. */
async function revertPlaced(
  { fleet, clock }: PlacedRunNeeds,
  { row, live }: Pick<Planned, 'row' | 'live'>,
  why: string
): Promise<string> {
  const watch = { say: (line: string) => live.output.say(line), signal: live.suspending }
  const end = await (fleet as Rolls).revert(row.id, why, watch).catch(error => {
    throw live.suspending.aborted ? new Suspension() : error
  })
  if (end.outcome !== 'reverted') throw new StepFailure(`${why}; the nodes are not back: ${end.sentence}`)
  Object.assign(row, revertedPatch(row, clock.now()))
  return 'reverted'
}

/** Follows a rollout until the deployment is cancelled, which halts it, or the server stops. The next start continues. */
async function untilStopped(
  { fleet }: PlacedRunNeeds,
  { row, live }: Planned,
  work: (signal: AbortSignal) => Promise<RollEnd>
): Promise<RollEnd> {
  const stop = new AbortController()
  const abort = (): void => stop.abort()
  const signals = [live.suspending, live.signal]
  for (const signal of signals) signal.addEventListener('abort', abort)
  try {
    if (signals.some(({ aborted }) => aborted)) abort()
    return await work(stop.signal)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    if (live.suspending.aborted) throw new Suspension()
    await fleet?.halt(row.id, (live.signal.reason as Error).message)
    throw live.signal.reason
  } finally {
    for (const signal of signals) signal.removeEventListener('abort', abort)
  }
}

/** Reads the archive, and returns what the nodes of the project get. */
async function releaseOf(
  { files, settings }: PlacedRunNeeds,
  { row, live, offered, env, rollout }: Planned,
  { project, signal }: { project: Project; signal: AbortSignal }
) {
  const tree = await treeOfKept(files.archive(row.id), extractionLimits(settings), signal)
  if (row.treeSha256 !== null && row.treeSha256 !== tree.treeSha256) throw treeDiffers()
  row.treeSha256 = tree.treeSha256
  row.fileCount = tree.fileCount
  const permitted = permittedScripts(project, settings.flag('allow_client_scripts'), offered)
  for (const step of permitted.dropped)
    live.output.say(`→ skipping the ${step} script of ${row.rollbackOf}: client scripts have been disabled since`)
  live.output.say(`→ read the archive: ${countOf(tree.fileCount, 'file')}`)
  const policy: RolloutPolicy = { ...policyOf(project).rollout, ...rollout }
  return {
    projectId: project.id,
    deployId: row.id,
    treeSha256: tree.treeSha256,
    archiveSha256: row.archiveSha256 as string,
    archiveBytes: row.archiveBytes as number,
    policy,
    offer: { offered: permitted.offered, clientEnv: { ...env } },
    rollbackOf: row.rollbackOf,
    actor: actorOf(row)
  }
}

/** Returns who started a deployment. */
function actorOf({ actor, tokenId, actorIp, claimedIp }: DeploymentRow): Actor {
  const name = actor ?? 'system'
  const token = tokenId === null ? undefined : { id: tokenId, name: name.replace(/^token:/, '') }
  return { name, ip: actorIp, claimedIp, token }
}
