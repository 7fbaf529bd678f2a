import { runProcess, scriptCommand, type Ended } from '../../proc/run.js'
import type { Rights } from '../../proc/identity.js'
import type { DeploymentStep } from '../../model/deployment.js'
import { StepFailure } from '../failure.js'
import type { Masker } from './masking.js'
import type { Output } from '../output/output.js'
import { findRunner, workingDirectory, type ScriptPlace } from './script-place.js'
import { linesOfRemains, nameOf, type ScriptProcesses } from './script-processes.js'
import type { ChosenScript } from './scripts.js'

/** What the scripts of one deployment run with. */
export interface ScriptStage extends ScriptPlace {
  rights: Rights | null
  /** Null means the umask of svc, or of the user whose rights the scripts have. */
  umask: number | null
  /** Masks secrets in the output of scripts. */
  masker: Masker
  env: Readonly<Record<string, string | undefined>>
  timeoutMs: number
  /** Where the time limit is set, for the error message. */
  timeoutFrom: string
  output: Output
  signal: AbortSignal
  /** When aborted, svc stops watching a background script, which continues. */
  leaving?: AbortSignal
  processes: ScriptProcesses
  /** Called once a script has certainly started. */
  onRan(script: ChosenScript): void
}

/** A script that continues in the background. Resolves with a sentence if it failed, else with null. */
export type Tail = Promise<string | null>

/** Runs a script to its end. Returns a sentence, or null if there is no script. Throws if the script fails. */
export async function runScript(
  stage: ScriptStage,
  chosen: ChosenScript | null,
  step: DeploymentStep
): Promise<string | null> {
  if (chosen === null) return null
  stage.output.say(`→ ${chosen.line}`)
  const ended = await run(stage, chosen, { signal: stage.signal })
  step.exitCode = ended.exitCode
  const complaint = complaintOf(ended, chosen, stage)
  if (ended.reason === 'cancelled') throw stage.signal.reason
  if (complaint !== null) throw new StepFailure(complaint)
  return `${titleOf(chosen)} ended with exit code 0`
}

/**
 * Starts a script in the background and returns once it runs. Throws if it cannot be started. From then on a
 * cancellation has no effect, only the time limit.
 */
export async function startScript(
  stage: ScriptStage,
  chosen: ChosenScript,
  step: DeploymentStep
): Promise<{ sentence: string; tail: Tail }> {
  stage.output.say(`→ ${chosen.line}`)
  step.exitCode = null
  let ended = Promise.resolve<Ended | null>(null)
  const started = new Promise<null>(resolve => (ended = run(stage, chosen, { onStart: () => resolve(null) })))
  const early = await Promise.race([started, ended])
  if (early !== null) throw new StepFailure(complaintOf(early, chosen, stage) ?? early.reason)
  return { sentence: `${titleOf(chosen)} started`, tail: watch(ended as Promise<Ended>, { stage, chosen, step }) }
}

async function run(
  stage: ScriptStage,
  chosen: ChosenScript,
  { signal, onStart }: { signal?: AbortSignal; onStart?: () => void }
): Promise<Ended> {
  const { processes, output, masker, umask } = stage
  const title = `The ${titleOf(chosen)}`
  const { interpreter, notes } = await findRunner(chosen.script, stage, { title, path: stage.env['PATH'] })
  for (const note of notes) output.say(`→ ${note}`)
  const { path: cwd, isPlain } = await workingDirectory(stage, { title, isBeforeFiles: chosen.step === 'preDeploy' })
  if (isPlain)
    output.say(`→ running in the target directory: "${stage.directory}" does not exist before the first deployment`)
  const lines = masker.lines(line => output.line(line))
  const ended = await runProcess({
    command: scriptCommand(chosen.script, { interpreter, umask }),
    stderr: 'joined',
    cwd,
    rights: stage.rights ?? undefined,
    env: stage.env,
    timeoutMs: stage.timeoutMs,
    onLine: line => lines.push(line),
    marker: processes.markerOf(chosen.step),
    signal,
    leaving: stage.leaving,
    onStart(pid) {
      stage.onRan(chosen)
      processes.began(chosen, pid)
      onStart?.()
    }
  }).finally(async () => {
    await lines.end()
    // For a background script, the write that ends its step removes the record.
    if (!chosen.async) processes.ended(chosen.step)
  })
  for (const line of ended.remains === undefined ? [] : linesOfRemains(ended.remains, chosen.step)) output.say(line)
  return ended
}

async function watch(
  ended: Promise<Ended>,
  { stage, chosen, step }: { stage: ScriptStage; chosen: ChosenScript; step: DeploymentStep }
): Tail {
  try {
    const { exitCode } = await ended
    step.exitCode = exitCode
    const complaint = complaintOf(await ended, chosen, stage)
    return complaint === null ? null : stage.masker.text(complaint)
  } catch (error) {
    return `The ${titleOf(chosen)} was stopped: its output could not be written (${(error as Error).message})`
  }
}

function titleOf(chosen: ChosenScript): string {
  const name = nameOf(chosen.step)
  return chosen.async ? `${name} script in the background` : `${name} script`
}

/** Returns how a script failed as a sentence, or null if it succeeded. */
function complaintOf(ended: Ended, chosen: ChosenScript, { timeoutMs, timeoutFrom }: ScriptStage): string | null {
  const script = `The ${titleOf(chosen)}`
  switch (ended.reason) {
    case 'exit':
      return ended.exitCode === 0 ? null : `${script} ended with exit code ${ended.exitCode}`
    case 'signal':
      return `${script} was killed by the signal ${ended.signal}`
    case 'timeout':
      return `${script} was stopped: it ran longer than ${timeoutMs / 1000} s (${timeoutFrom})`
    case 'cancelled':
      return `${script} was stopped`
    case 'spawn_failed':
      return `${script} did not run: ${ended.error}`
  }
}
