import { rm } from 'node:fs/promises'
import { notFound, Refusal } from '../base/refusal.js'
import type { DeploymentRow, DeploymentStep } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { OpenedVariable } from '../model/variable.js'
import { findRights, umaskOf, type Rights } from '../proc/identity.js'
import { liveDeployment } from '../store/tables/deployments.js'
import { findProject } from '../store/tables/projects.js'
import { endBackground } from './background.js'
import { acceptClientEnv, linesOfDropped, scriptEnvironment } from './environment.js'
import { endJournal, extractArchive, extractionLimits } from './extract.js'
import type { Ends } from './ends.js'
import type { Executors } from './executors.js'
import { sentenceOf, StepFailure, StopRequest } from './failure.js'
import { sharedChanges, type DeployFiles } from './files.js'
import type { Live, LiveRun } from './live.js'
import type { DeployNeeds } from './needs.js'
import { createMasker, type Masker } from './masking.js'
import { runPipeline, type PipelineResult } from './pipeline.js'
import { recordComplete } from './placement.js'
import { endOf, eventOf, isExtracted, moveRecord, notifyOf, recordProgress, staysSentence, type Outcome } from './record.js'
import { createScriptProcesses } from './script-processes.js'
import type { ScriptStage, Tail } from './script-run.js'
import { chooseScripts, mayClientsSendScripts, permittedScripts, type ChosenScripts, type OfferedScripts } from './scripts.js'
import { createSteps } from './steps.js'
import type { TargetLocks } from './target-locks.js'

/** A deployment that has been recorded, with all that its turn will need. */
export interface Planned {
  row: DeploymentRow
  live: LiveRun
  offered: OfferedScripts
  /** What the client sent along for scripts. */
  env: Readonly<Record<string, string>>
  /** Step 6. */
  discardUpload(): Promise<void>
}

export interface Runner {
  /** Its turn: the pipeline from the second step on, to the final record. Never rejects. */
  run(planned: Planned): Promise<DeploymentRow>
  /** The end of one that never had its turn. Never rejects. */
  drop(planned: Planned, request: StopRequest): Promise<DeploymentRow>
}

/** What is found when a deployment's turn comes. */
interface Turn {
  project: Project
  /** Whose rights scripts and all work below the target have; null: those of svc. */
  rights: Rights | null
  previousId: string | null
  scripts: ChosenScripts
  /** What the project sets for its scripts on the server. */
  variables: readonly OpenedVariable[]
  /** Keeps its secrets out of outputs and sentences. */
  masker: Masker
}

export interface RunnerNeeds extends DeployNeeds {
  files: DeployFiles
  executors: Executors
  ends: Ends
  live: Live
  targets: TargetLocks
  /** Called when a deployment is final: archives may go. */
  prune(projectId: string): Promise<unknown>
}

export function createRunner(needs: RunnerNeeds): Runner {
  const { store, clock, files, ends, targets, log } = needs

  async function run(planned: Planned): Promise<DeploymentRow> {
    const result: PipelineResult = { tail: null }
    const outcome = await attempt(planned, result)
    const settled = settle(planned, outcome)
    const { tail } = result
    if (tail === null) await settled.then(() => tidy(planned))
    else planned.live.tail = settled.then(() => followTail(planned, tail))
    return settled
  }

  async function attempt(planned: Planned, result: PipelineResult): Promise<Outcome> {
    const { row, live } = planned
    let masker = createMasker([])
    try {
      live.signal.throwIfAborted()
      const project = findProject(store, row.projectId)
      if (project === undefined) throw notFound('Project', row.projectId)
      const rights = await findRights(project)
      const scripts = scriptsOf(planned, project)
      const variables = hasScripts(scripts) ? await needs.variables.open(project.id) : []
      masker = createMasker(variables.flatMap(({ secret, value }) => (secret ? [value] : [])))
      // What happened before this is recorded before this.
      await ends.settle()
      const previousId = liveDeployment(store, project.id)?.id ?? null
      await moveRecord(needs, row.id, { to: 'running', cause: 'turn' })
      row.status = 'running'
      await runPipeline(pipelineOf(planned, { project, rights, previousId, scripts, variables, masker }), result)
      return { status: 'success', cause: 'end', errorMessage: null }
    } catch (error) {
      // The pipeline does so itself, but the failure may have come before it.
      await discardUpload(planned)
      if (isBug(error)) log(`Deployment ${row.id} met a fault`, error)
      const cause = error instanceof StopRequest ? error.by : 'end'
      return { status: 'failed', cause, errorMessage: masker.text(sentenceOf(error, null)) }
    } finally {
      targets.release(row.id)
    }
  }

  /** Decided at the turn, not when it was queued: what an administrator has forbidden since does not run. */
  function scriptsOf({ row, live, offered }: Planned, project: Project): ChosenScripts {
    const permitted = permittedScripts(project, needs.settings.flag('allow_client_scripts'), offered)
    for (const step of permitted.dropped) {
      live.output.say(`→ the ${step} script of ${row.rollbackOf} is left out: clients may not send scripts any more`)
    }
    return chooseScripts(project, permitted.offered)
  }

  function pipelineOf(planned: Planned, turn: Turn) {
    const { row, live } = planned
    const { project, rights, scripts } = turn
    const { output } = live
    const limits = extractionLimits(needs.settings)
    const rules = { home: needs.home.directory, allowSystemPaths: needs.allowSystemPaths }
    const target = project.deployPath
    const steps = createSteps({ clock, output, signal: live.signal, done: row.steps, save: saveSteps(planned, target) })
    row.steps = steps.all()
    return {
      steps,
      scripts,
      stage: stageOf(planned, turn),
      async makeTarget() {
        await needs.executors.makeTarget(rights, target, { ...rules, umask: umaskOf(project) })
        await holdTarget(planned, target)
      },
      async extract() {
        const extracted = await extractArchive(needs.executors, {
          archivePath: files.archive(row.id),
          target,
          // The pre-deploy script may have changed where it leads.
          real: await holdTarget(planned, target),
          isAtWork: targets.isHeld,
          rights,
          umask: umaskOf(project),
          deployId: row.id,
          home: needs.home,
          limits,
          isDurable: needs.settings.flag('durable_targets'),
          signal: live.signal,
          onEarlierComplete: id => recordComplete({ ...needs, outputOf: other => needs.live.find(other)?.output }, id)
        })
        row.fileCount = extracted.fileCount
        output.goOn()
        return extracted
      },
      writeChanges: (changes: Uint8Array[]) => needs.executors.writeChanges(rights, files.changes(row.id), changes),
      discardUpload: planned.discardUpload
    }
  }

  function holdTarget({ row, live }: Planned, target: string): Promise<string> {
    const onWait = (forWhom: string, real: string): void =>
      live.output.say(`→ this deployment waits for ${forWhom}, which works in the same directory: ${real}`)
    return targets.hold(row.id, target, { signal: live.signal, onWait })
  }

  function stageOf({ row, live, env }: Planned, { project, rights, previousId, scripts, variables, masker }: Turn): ScriptStage {
    const isOn = mayClientsSendScripts(project, needs.settings.flag('allow_client_scripts'))
    const { accepted, dropped } = acceptClientEnv(env, isOn ? null : project.allowedEnv, variables.map(({ name }) => name))
    const own = Object.fromEntries(variables.map(({ name, value }) => [name, value]))
    for (const line of hasScripts(scripts) ? linesOfDropped(dropped) : []) live.output.say(line)
    const facts = { project, deployId: row.id, rollbackOf: row.rollbackOf, previousDeployId: previousId }
    return {
      target: project.deployPath,
      directory: project.scriptDirectory,
      shell: project.scriptShell,
      isFirst: previousId === null,
      umask: umaskOf(project),
      rights,
      masker,
      env: scriptEnvironment(needs.environment, { ...accepted, ...own }, facts, rights),
      ...timeLimitOf(project, needs.settings.number('script_timeout')),
      output: live.output,
      signal: live.signal,
      leaving: live.leaving,
      processes: createScriptProcesses(needs, row.id),
      onRan: ({ step, source, script, async }) => row.scripts.push({ step, source, script, async })
    }
  }

  /**
   * A step that begins is visible at once, and with it how the one before it ended. When the files are in place the
   * deployment goes on, also if that cannot be recorded: its end says it again.
   */
  function saveSteps({ row }: Planned, target: string) {
    return async (steps: DeploymentStep[]): Promise<void> => {
      try {
        const patch = { steps, scripts: row.scripts, fileCount: row.fileCount }
        const saved = await store.write(tx => recordProgress(tx, row.id, patch))
        if (saved !== undefined && saved.placed !== null) await endJournal(needs.home, { deployId: row.id, target })
      } catch (error) {
        if (!isExtracted(steps)) throw error
        log(`What deployment ${row.id} has done could not be recorded yet`, error)
      }
    }
  }

  async function settle(planned: Planned, outcome: Outcome): Promise<DeploymentRow> {
    const { live } = planned
    const { output } = live
    const end = { ...planned.row, ...endOf(planned.row, outcome, clock.now()) }
    for (const line of lastLines(end)) output.say(line)
    await output.flush().then(() => output.sync()).catch(error => log(`The output of deployment ${end.id} is incomplete`, error))
    const row = await ends.record(end, outcome)
    if (output.unwritten !== null) ends.complete(output)
    await needs.prune(row.projectId).catch(error => log('Archives could not be pruned', error))
    live.end(row)
    notifyOf(needs, row, { trigger: row.triggerSource, event: eventOf(outcome.status), errorMessage: row.errorMessage })
    return row
  }

  async function drop(planned: Planned, request: StopRequest): Promise<DeploymentRow> {
    const outcome: Outcome = { status: 'failed', cause: request.by, errorMessage: request.message }
    await discardUpload(planned)
    const row = await settle(planned, outcome)
    await tidy(planned)
    return row
  }

  /** What a script in the background came to: the deployment stays what it is (§3). */
  async function followTail(planned: Planned, tail: Tail): Promise<void> {
    const { row, live } = planned
    const complaint = await tail
    const goodEnd = '→ post-deploy script in the background ended with exit code 0'
    live.output.say(complaint === null ? goodEnd : `✗ ${complaint}`)
    await tidy(planned)
    // A script may fail before its deployment has come to its end, which is what the world hears first.
    await live.finished
    const exitCode = row.steps.find(({ name }) => name === 'postDeploy')?.exitCode ?? null
    const kept = ends.kept().find(({ id }) => id === row.id) ?? null
    await endBackground(needs, row.id, { complaint, exitCode }, kept)
  }

  async function discardUpload(planned: Planned): Promise<void> {
    await planned.discardUpload().catch(error => log('A temporary zip could not be removed', error))
  }

  async function tidy({ row, live }: Planned): Promise<void> {
    const path = files.changes(row.id)
    for (const each of [path, sharedChanges(path)]) {
      await rm(each, { force: true }).catch(error => log('A list of changes could not be removed', error))
    }
    await live.output.flush().catch(() => {})
  }

  return { run, drop }
}

function hasScripts({ preDeploy, postDeploy }: ChosenScripts): boolean {
  return preDeploy !== null || postDeploy !== null
}

function timeLimitOf({ scriptTimeoutSeconds }: Project, setting: number): { timeoutMs: number; timeoutFrom: string } {
  if (scriptTimeoutSeconds === null) return { timeoutMs: setting * 1000, timeoutFrom: 'setting script_timeout' }
  return { timeoutMs: scriptTimeoutSeconds * 1000, timeoutFrom: "the project's scriptTimeoutSeconds" }
}

function lastLines(row: DeploymentRow): string[] {
  if (row.status === 'success') return [`✓ success in ${row.duration}`]
  const note = isExtracted(row.steps) ? [`→ ${staysSentence}`] : []
  return [...note, `✗ failed after ${row.duration}: ${row.errorMessage}`]
}

/** What neither a user caused nor the system reported. */
function isBug(error: unknown): boolean {
  if (error instanceof StopRequest || error instanceof Refusal) return false
  if (error instanceof StepFailure) return error.cause !== undefined && isBug(error.cause)
  return (error as NodeJS.ErrnoException | null)?.code?.startsWith('ERR_') ?? true
}
