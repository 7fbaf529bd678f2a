/*
 * The start of one deployment. `Planned` is a queued deployment, `Turn` is the state when it starts, and `pipelineOf`
 * combines both into the input of the pipeline. pipeline.ts contains the order of the steps; run.ts writes the final
 * record.
 */

import { type DeploymentRow, type DeploymentStep, isRevertPending } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { RolloutPolicy } from '../model/rollout.js'
import type { OpenedVariable } from '../model/variable.js'
import { type Rights, umaskOf } from '../core/proc/identity.js'
import {
  endJournal,
  extractArchive,
  type ExtractOptions,
  extractionLimits,
  type OpenExtractions
} from '../core/install/unpack/extract.js'
import { Refusal } from '../base/errors.js'
import { treeOfKept } from '../core/archive/pack-set.js'
import type { ArchiveLimits } from '../core/archive/read.js'
import type { Executors } from '../core/install/unpack/executors.js'
import type { Extracted } from '../core/install/unpack/extraction.js'
import { findDeployment, setBeforeFrom } from '../core/store/tables/deployments.js'
import type { ExactState } from './exact-state.js'
import { composeExact, exactChangeOf, type ExactGoal, exactSentence, exactState } from './exact.js'
import { type DeployFiles, modesOf, permissionsOf, sharedChanges } from './files.js'
import {
  type KeptPlan,
  linesOfEdits,
  ownershipOf,
  refuseOtherLive,
  wishesOf,
  withEarlyChanges,
  reservedPaths
} from './ownership.js'
import { type RepairGoal, repairSentence, repairState, type Verifier } from './verify.js'
import type { Trees } from './trees.js'
import { createChecks, reportGate, runGate } from './gate.js'
import { sentenceOf, StepFailure, StopRequest } from './failure.js'
import { Hold, type HoldPlan } from './hold.js'
import type { Scripted } from './scripted.js'
import { otherTree, type Signatures } from './signatures.js'
import type { DeployNeeds } from './needs.js'
import type { Live, LiveRun } from './output/live.js'
import { createSteps, type PipelineRun, type Steps } from './pipeline.js'
import { isExtracted, recordComplete, recordProgress } from './record.js'
import { acceptClientEnv, linesOfDropped, type Masker, scriptEnvironment } from './scripts/environment.js'
import { createScriptProcesses } from './scripts/script-processes.js'
import {
  type ChosenScript,
  type ChosenScripts,
  hasScripts,
  mayClientsSendScripts,
  type OfferedScripts,
  runScript,
  type ScriptStage
} from './scripts/scripts.js'
import type { TargetLocks } from './queue.js'

/** A recorded deployment with everything that it needs to start. */
export interface Planned {
  row: DeploymentRow
  live: LiveRun
  offered: OfferedScripts
  /** The variables that the client sent for scripts. */
  env: Readonly<Record<string, string>>
  /** The plan that the deployment is held to; null: none. */
  plan: KeptPlan | null
  /** The state that the target is to have exactly; null: the files of the archive are put over the others. */
  exact: ExactGoal | null
  /** What a repair puts back; null: it is no repair. */
  repair: RepairGoal | null
  /** Where the contents are that it replaced (`Placement.beforeFrom`); absent before its extraction. */
  beforeFrom?: readonly string[]
  /** Whether a rollback replaces edited files although the policy refuses that. */
  force?: boolean | undefined
  /** What this deployment sets instead of the policy of rollouts. */
  rollout?: Partial<RolloutPolicy> | undefined
  /** The role of who pushed it: what it wishes is checked again when it starts. Absent: it wishes nothing. */
  role?: string | null | undefined
  /** What its extraction has replaced, until that is removed. */
  left?: Extracted['left']
  /** The deployments whose archives contain what its scripts have changed. */
  scriptSources?: readonly string[]
  /** Removes the uploaded file: step 6. */
  discardUpload(): Promise<void>
  /** The record of a deployment that was held, or ran, when the server stopped. */
  resumedFrom?: DeploymentRow
  /** Whether its project was on nodes when it was accepted. Default: false. */
  isForNodes?: boolean | undefined
  /** Whether it takes a release back for the hub of this node. */
  takesBack?: boolean | undefined
  /** Why a deployment has failed that ran when the server stopped; absent: it has not. */
  failure?: string
}

/** The state when a deployment starts. */
export interface Turn {
  project: Project
  /** The rights of scripts and of all file operations in the target, or null for those of svc. */
  rights: Rights | null
  previousId: string | null
  scripts: ChosenScripts
  /** The project's variables. */
  variables: readonly OpenedVariable[]
  /** Masks secrets in outputs and error messages. */
  masker: Masker
  /** How the deployment is held after its files are in place; null: it is not. */
  plan: HoldPlan | null
}

export interface TurnNeeds extends DeployNeeds {
  files: DeployFiles
  executors: Executors
  live: Live
  targets: TargetLocks
  open: OpenExtractions
  trees: Pick<Trees, 'read' | 'update' | 'noteTimes'>
  verifier: Pick<Verifier, 'differences'>
  scripted: Pick<Scripted, 'begin' | 'leave'>
  signatures: Signatures
}

/** Builds the input of the pipeline for one deployment. */
export function pipelineOf(needs: TurnNeeds, planned: Planned, turn: Turn): PipelineRun {
  const { clock, files, targets } = needs
  const { row, live } = planned
  const { project, rights, scripts } = turn
  const { output } = live
  const rules = { home: needs.home.directory, allowSystemPaths: needs.allowSystemPaths }
  const target = project.deployPath
  const isExact = planned.exact !== null || planned.repair !== null
  const findModes = async () => (isExact ? permissionsOf(project) : await modesOf(project))
  const steps = createSteps({
    clock,
    output,
    signal: live.signal,
    done: row.steps,
    save: saveSteps(needs, planned, target)
  })
  row.steps = steps.all()
  const hold =
    turn.plan === null ? null : holdOf(needs, planned, { turn, plan: turn.plan, steps, stage: () => run.stage })
  const run: PipelineRun = {
    steps,
    scripts,
    hold,
    stage: stageOf(needs, planned, turn),
    async makeTarget() {
      if (planned.plan !== null) refuseOtherLive(planned.plan, turn.previousId)
      const modes = await findModes()
      await needs.executors.makeTarget(rights, target, { ...rules, umask: umaskOf(project), modes })
      await holdTarget(needs, planned, target)
      // A change that is not possible is refused before the pre-deploy script runs.
      if (planned.exact !== null && scripts.preDeploy !== null)
        await exactState(needs, project, { goal: planned.exact, signal: live.signal })
      if (scripts.preDeploy !== null) await verifyEarly(needs, planned, project)
    },
    async extract() {
      const exact = isExact ? await prepareExact(needs, planned, project) : null
      const change = exact?.change ?? null
      const options = await extractionOf(needs, planned, { turn, change, findModes, staysOpen: hold !== null })
      const extracted = await extractSigned(needs, planned, options)
      planned.left = extracted.left
      hold?.placed()
      needs.trees.noteTimes(row.id, extracted.ctimes)
      row.fileCount = extracted.fileCount
      row.treeSha256 = exact === null ? extracted.treeSha256 : exact.treeSha256(extracted)
      planned.beforeFrom = [...new Set([...extracted.beforeFrom, ...(planned.scriptSources ?? [])])]
      needs.quota.changed(project.id, extracted.beforeBytes)
      for (const line of linesOfEdits(extracted, project)) output.say(line)
      output.tolerateFailures()
      return extracted
    },
    watch: () => watchScripts(needs, planned, project),
    async writeChanges(changes: Uint8Array[]) {
      const path = rights === null ? files.changes(row.id) : sharedChanges(files.changes(row.id))
      await needs.executors.writeChanges(rights, path, changes)
      return path
    },
    failed: error => runFailureScript(failure, error),
    async done() {
      if (planned.takesBack !== true) return
      await runFailureScript(failure, new StepFailure('The hub has taken the release back'), { isTakenBack: true })
    },
    discardUpload: planned.discardUpload
  }
  const failure: FailureScriptNeeds = {
    row,
    script: scripts.onFailure,
    steps,
    stage: () => run.stage,
    forced: live.forced,
    holdTarget: signal => targets.hold(row.id, target, { signal }),
    watch: () => watchScripts(needs, planned, project)
  }
  return run
}

/** Returns what is extracted for a deployment, and how. `change`: that of an exact change or a repair; null: it is neither. */
async function extractionOf(
  needs: TurnNeeds,
  planned: Planned,
  given: {
    turn: Turn
    change: ReturnType<typeof exactChangeOf> | null
    findModes(): ReturnType<typeof modesOf>
    staysOpen: boolean
  }
): Promise<ExtractOptions> {
  const { row } = planned
  const { turn, change, findModes, staysOpen } = given
  const { project, rights, scripts } = turn
  const target = project.deployPath
  const asked = change ?? planned.plan ?? { ...wishesOf(project), force: planned.force ?? false }
  return {
    archivePath: needs.files.archive(row.id),
    target,
    // Resolved again: the pre-deploy script may have changed a link.
    real: await holdTarget(needs, planned, target),
    isAtWork: needs.targets.isHeld,
    rights,
    umask: umaskOf(project),
    modes: await findModes(),
    deployId: row.id,
    home: needs.home,
    limits: change === null ? extractionLimits(needs.settings) : unlimited,
    expected: planned.plan?.expected,
    treeSha256: row.treeSha256 ?? undefined,
    likelyTree: treeOfSource(needs, row),
    ownership: await withEarlyChanges(await ownershipOf(needs, project, asked), needs.files.scripted(row.id), {
      deployId: row.id,
      sequence: 0,
      target
    }),
    reserved: reservedPaths(needs.store, project.id),
    isDurable: needs.settings.flag('durable_targets'),
    signal: planned.live.signal,
    staysOpen,
    // Scripts find what they found before: nothing of svc in the target.
    mayLeave: !planned.takesBack && !hasScripts({ ...scripts, preDeploy: null }),
    open: needs.open,
    onEarlierComplete: id => recordComplete({ ...needs, outputOf: other => needs.live.find(other)?.output }, id)
  }
}

/** Returns the tree that the archive of an earlier deployment had; undefined: it has another one, or none is known. */
function treeOfSource({ store }: TurnNeeds, { rollbackOf, promotedFrom, exact }: DeploymentRow): string | undefined {
  const id = rollbackOf ?? promotedFrom
  const source = id === null || exact ? undefined : findDeployment(store, id)
  return source === undefined || source.exact ? undefined : (source.treeSha256 ?? undefined)
}

/** Extracts an archive. What was signed is named if the archive does not contain it. */
async function extractSigned(needs: TurnNeeds, { row }: Planned, options: ExtractOptions): Promise<Extracted> {
  try {
    return await extractArchive(needs.executors, options)
  } catch (error) {
    const isOther = error instanceof Refusal && error.code === 'stated_tree_differs'
    throw isOther && row.statement !== null ? await otherTree(needs, row) : error
  }
}

/**
 * If only signed releases are taken, verifies the archive before the pre-deploy script runs: nobody's script runs for files that
 * nobody has signed. The extraction verifies again what it has staged.
 */
async function verifyEarly(needs: TurnNeeds, { row, live }: Planned, project: Project): Promise<void> {
  if (row.statement === null || !needs.signatures.isRequired(project)) return
  const limits = extractionLimits(needs.settings)
  const { treeSha256 } = await treeOfKept(needs.files.archive(row.id), limits, live.signal)
  if (treeSha256 !== row.treeSha256) throw await otherTree(needs, row)
  live.output.say('→ verified the archive before the pre-deploy script: it has the tree that was signed')
}

/** Begins to watch what a script changes. */
async function watchScripts(needs: TurnNeeds, planned: Planned, project: Project) {
  const { row, live } = planned
  const end = await needs.scripted.begin({
    deployId: row.id,
    project,
    say: live.output.say,
    onSources(ids) {
      planned.scriptSources = [...(planned.scriptSources ?? []), ...ids]
      if (planned.beforeFrom !== undefined) planned.beforeFrom = [...new Set([...planned.beforeFrom, ...ids])]
    }
  })
  return async ({ isLate } = { isLate: false }): Promise<void> => {
    if (!isLate) return end()
    // The server is stopping: the next start does it.
    if (live.leaving.aborted) return
    // Another deployment may be using the target by now.
    const holder = `${row.id}/script`
    await needs.targets.hold(holder, project.deployPath, { signal: live.leaving }).then(end, () => {})
    needs.targets.release(holder)
  }
}

/** The contents of an exact change were in the target before. */
const unlimited: ArchiveLimits = { maxEntries: Infinity, maxExtractedBytes: Infinity, mayBeEmpty: true }

/** Computes what an exact change or a repair puts in place, and composes its archive. */
async function prepareExact(needs: TurnNeeds, planned: Planned, project: Project) {
  const { row, live } = planned
  const { state, sentence, force, to } = await stateOf(needs, planned, project)
  const { bytes, sha256 } = await composeExact(needs.files, row.id, state)
  row.archiveBytes = bytes
  row.archiveSha256 = sha256
  needs.quota.changed(project.id, bytes)
  live.output.say(`→ ${sentence}`)
  return {
    change: exactChangeOf(state, force),
    treeSha256: ({ kept }: Pick<Extracted, 'kept'>) => (kept?.count === 0 ? (to?.treeSha256 ?? null) : null)
  }
}

interface PreparedState {
  state: ExactState
  sentence: string
  /** Whether edited files are replaced. */
  force: boolean
  to: DeploymentRow | null
}

async function stateOf(needs: TurnNeeds, { live, exact, repair }: Planned, project: Project): Promise<PreparedState> {
  if (repair !== null) {
    const state = await repairState(needs, { project, goal: repair, signal: live.signal })
    return { state, sentence: repairSentence(state), force: true, to: null }
  }
  const goal = exact as ExactGoal
  const state = await exactState(needs, project, { goal, signal: live.signal })
  return { state, sentence: exactSentence(state), force: goal.force, to: state.to }
}

/** Creates the hold of a deployment. */
function holdOf(
  needs: TurnNeeds,
  planned: Planned,
  given: { turn: Turn; plan: HoldPlan; steps: Steps; stage(): ScriptStage }
): Hold {
  const { row, live } = planned
  const { turn, plan, steps, stage } = given
  const { gate } = plan
  const watch = (): ReturnType<PipelineRun['watch']> => watchScripts(needs, planned, turn.project)
  const hasCommands = gate?.after.some(check => 'command' in check) ?? false
  const watchGate = async () => (hasCommands ? watch() : async () => {})
  const checks = createChecks(needs.checks, { deployId: row.id, project: turn.project, stage })
  return new Hold({
    ...needs,
    held: { row, live, output: live.output },
    plan,
    steps: steps.all,
    script: turn.scripts.postDeploy,
    stage,
    watch,
    async runGate(options) {
      if (gate === null) return
      const end = await watchGate()
      await runGate(gate, { ...options, clock: needs.clock, checks, say: live.output.say }).finally(() => end())
    },
    async reportGate(signal) {
      if (gate === null) return
      const end = await watchGate()
      await reportGate(gate, { clock: needs.clock, checks, say: live.output.say, signal }).finally(() => end())
    }
  })
}

/** Waits until no other deployment uses the target directory. Resolves with its real path. */
function holdTarget({ targets }: TurnNeeds, { row, live }: Planned, target: string): Promise<string> {
  const onWait = (forWhom: string, real: string): void =>
    live.output.say(`→ waiting for deployment ${forWhom}, which uses the same directory: ${real}`)
  return targets.hold(row.id, target, { signal: live.signal, onWait })
}

function stageOf(
  needs: TurnNeeds,
  { row, live, env }: Planned,
  { project, rights, previousId, scripts, variables, masker }: Turn
): ScriptStage {
  const isOn = mayClientsSendScripts(project, needs.settings.flag('allow_client_scripts'))
  const { accepted, dropped } = acceptClientEnv(
    env,
    isOn ? null : project.allowedEnv,
    variables.map(({ name }) => name)
  )
  const own = Object.fromEntries(variables.map(({ name, value }) => [name, value]))
  for (const line of hasScripts(scripts) ? linesOfDropped(dropped) : []) live.output.say(line)
  const { rollbackOf, undoOf } = row
  const facts = { project, deployId: row.id, rollbackOf, isUndo: undoOf !== null, previousDeployId: previousId }
  return {
    target: project.deployPath,
    directory: project.scriptDirectory,
    shell: project.scriptShell,
    isFirst: previousId === null,
    umask: umaskOf(project),
    rights,
    masker,
    env: scriptEnvironment({ inherited: needs.environment, accepted: { ...accepted, ...own }, facts, rights }),
    ...timeLimitOf(project, needs.settings.number('script_timeout')),
    output: live.output,
    signal: live.signal,
    leaving: live.leaving,
    processes: createScriptProcesses(needs, row.id),
    onRan: ({ step, source, script, async }) => row.scripts.push({ step, source, script, async })
  }
}

/**
 * Returns the function that records the steps: each one when it begins, with the end of the one before it. Once the
 * files are in place, a failed write does not stop the deployment, because the final record contains the steps, too.
 */
function saveSteps({ store, home, log }: TurnNeeds, planned: Planned, target: string) {
  const { row } = planned
  return async (steps: DeploymentStep[]): Promise<void> => {
    try {
      const { scripts, errorMessage, fileCount, treeSha256, heldFor, holdUntil, confirmSeconds, revertReason, checks } =
        row
      const hold = { heldFor, holdUntil, confirmSeconds, revertReason, checks }
      const { archiveBytes, archiveSha256 } = row
      const patch = { steps, scripts, errorMessage, fileCount, treeSha256, archiveBytes, archiveSha256, ...hold }
      const saved = await store.write(tx => {
        if (planned.beforeFrom !== undefined) setBeforeFrom(tx, row.id, planned.beforeFrom)
        return recordProgress(tx, row.id, patch)
      })
      const isSettled = saved !== undefined && saved.placed !== null && saved.heldFor === null
      if (isSettled && !isRevertPending(saved)) await endJournal(home, { deployId: row.id, target })
    } catch (error) {
      if (!isExtracted(steps)) throw error
      log(`Cannot record the steps of deployment ${row.id} yet`, error)
    }
  }
}

function timeLimitOf({ scriptTimeoutSeconds }: Project, setting: number): { timeoutMs: number; timeoutFrom: string } {
  if (scriptTimeoutSeconds === null) return { timeoutMs: setting * 1000, timeoutFrom: 'setting script_timeout' }
  return { timeoutMs: scriptTimeoutSeconds * 1000, timeoutFrom: "the project's scriptTimeoutSeconds" }
}

/*
 * The script of the policy that runs after a deployment has failed or was reverted (`onFailureScript`). The step is
 * recorded before the script begins, and it begins at most once: a start that finds the step does not run it again. Its
 * own failure is in the output and in its step, and changes no result. A node runs it, too, if its hub takes a release back:
 * the undo of the node succeeds, and the release was reverted.
 */

/** What the script of one deployment needs. */
export interface FailureScriptNeeds {
  row: DeploymentRow
  script: ChosenScript | null
  steps: Steps
  stage(): ScriptStage
  /** Aborted when the server stops and does not wait. Cancelling the deployment does not stop the script. */
  forced: AbortSignal
  /** Waits until no other deployment uses the target. */
  holdTarget(signal: AbortSignal): Promise<unknown>
  /** Begins to watch what a script changes. Resolves with the function that ends it. */
  watch(): Promise<() => Promise<void>>
}

/** Runs the script if the deployment has one and it has not begun yet. `error`: why it failed. Never rejects. */
async function runFailureScript(
  needs: FailureScriptNeeds,
  error: unknown,
  { isTakenBack = false }: { isTakenBack?: boolean } = {}
): Promise<void> {
  const { row, script, steps, stage, forced } = needs
  if (script === null || forced.aborted || steps.all().some(({ name }) => name === 'onFailure')) return
  const { masker, output, env } = stage()
  const reason = masker.text(sentenceOf(error, null))
  // If svc is killed meanwhile, the next start finds the reason here.
  if (!isTakenBack) row.errorMessage = reason
  const isReverted = isTakenBack || row.revertedAt !== null
  const facts = { SVC_FAILURE: isReverted ? 'reverted' : 'failed', SVC_FAILURE_REASON: reason }
  await steps
    .run('onFailure', async step => {
      await needs.holdTarget(forced)
      const end = await needs.watch()
      const own = { ...stage(), env: { ...env, ...facts }, signal: forced }
      return runScript(own, script, step).finally(() => end())
    })
    .catch((failure: unknown) => {
      if (!(failure instanceof StopRequest)) output.say(`✗ ${masker.text(sentenceOf(failure, 'onFailure'))}`)
    })
}
