import { realpath, stat } from 'node:fs/promises'
import { basename, delimiter, isAbsolute, join } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import type { DeploymentStep, RanScript } from '../../model/deployment.js'
import type { Policy } from '../../model/policy.js'
import type { Project } from '../../model/project.js'
import {
  type Ended,
  interpreterOf,
  runProcess,
  scriptCommand,
  scriptTextOf,
  textOptionOf
} from '../../core/proc/run.js'
import type { Rights } from '../../core/proc/identity.js'
import { StepFailure } from '../failure.js'
import type { Output } from '../output/output.js'
import { isInside, isProgram } from '../../base/files.js'
import { isBlank } from '../../base/text.js'
import type { Masker } from './environment.js'
import { linesOfRemains, nameOf, type ScriptProcesses } from './script-processes.js'

/** A script that will run, and the output line that says which one and why. */
export interface ChosenScript extends RanScript {
  line: string
}

/** A script that clients may send, too. */
export interface StepScript extends ChosenScript {
  step: Exclude<RanScript['step'], 'onFailure'>
}

/** The scripts of the steps of one deployment. Null means none. */
export interface StepScripts {
  preDeploy: StepScript | null
  postDeploy: StepScript | null
}

/** All scripts of one deployment. */
export interface ChosenScripts extends StepScripts {
  onFailure: ChosenScript | null
}

/** The scripts that came with the archive: those of the client for an upload, or of the source for a rollback. */
export interface OfferedScripts {
  preDeploy?: string | undefined
  postDeploy?: string | undefined
  postDeployAsync?: boolean | undefined
  origin: 'upload' | 'source deployment'
}

const used = { upload: 'sent by the client', 'source deployment': 'as it ran in the source deployment' }
const ignored = { upload: 'sent by the client is ignored', 'source deployment': 'of the source deployment is not used' }

type ProjectScripts = Pick<Project, 'preDeployScript' | 'postDeployScript' | 'postDeployAsync'>

/** Chooses the scripts to run. The project's own take precedence over those that came with the archive (§4.6). */
export function chooseScripts(project: ProjectScripts, offered: OfferedScripts): StepScripts {
  const preDeploy = choose('preDeploy', project.preDeployScript, offered)
  const postDeploy = choose('postDeploy', project.postDeployScript, offered)
  if (postDeploy === null) return { preDeploy, postDeploy }
  const { isAsync, note } = chooseBackground(project.postDeployAsync, offered)
  return { preDeploy, postDeploy: { ...postDeploy, async: isAsync, line: postDeploy.line + note } }
}

/** Returns the script that runs after a failure. Clients cannot send one. */
export function failureScriptOf({ onFailureScript: script }: Pick<Policy, 'onFailureScript'>): ChosenScript | null {
  if (script === null) return null
  return {
    step: 'onFailure',
    source: 'platform',
    script,
    async: false,
    line: 'on-failure script (policy of the project)'
  }
}

function choose(step: StepScript['step'], platform: string, offered: OfferedScripts): StepScript | null {
  const { [step]: client, origin } = offered
  const title = step === 'preDeploy' ? 'pre-deploy script' : 'post-deploy script'
  const isOffered = !isBlank(client)
  if (!isBlank(platform)) {
    const why = isOffered ? `set on the server; the one ${ignored[origin]}` : 'set on the server'
    return { step, source: 'platform', script: platform, async: false, line: `${title} (${why})` }
  }
  if (!isOffered) return null
  return { step, source: 'client', script: client as string, async: false, line: `${title} (${used[origin]})` }
}

function chooseBackground(isForced: boolean, offered: OfferedScripts): { isAsync: boolean; note: string } {
  if (isForced) {
    const ignored = offered.postDeployAsync === undefined ? '' : "; the client's value is ignored"
    return {
      isAsync: true,
      note: `, in the background (required by the project's configuration on the server${ignored})`
    }
  }
  if (offered.postDeployAsync !== true) return { isAsync: false, note: '' }
  const why = offered.origin === 'upload' ? ' (requested by the client)' : ''
  return { isAsync: true, note: `, in the background${why}` }
}

/** Whether clients may send scripts to this project. The project's value takes precedence over the setting. */
export function mayClientsSendScripts(project: Pick<Project, 'allowClientScripts'>, setting: boolean): boolean {
  return project.allowClientScripts ?? setting
}

/** Throws the 403 if client scripts are disabled: a leaked deploy token must not give access to a shell. */
export function refuseClientScripts(
  project: Pick<Project, 'allowClientScripts'>,
  setting: boolean,
  scripts: { preDeploy?: string | undefined; postDeploy?: string | undefined }
): void {
  if (mayClientsSendScripts(project, setting)) return
  const field = !isBlank(scripts.preDeploy) ? 'preDeploy' : !isBlank(scripts.postDeploy) ? 'postDeploy' : null
  if (field === null) return
  const what =
    project.allowClientScripts === null ? 'the setting allow_client_scripts' : "the project's allowClientScripts"
  const sentence = `Cannot run "${field}" of the upload: ${what} disables client scripts. Set the script on the server`
  throw new Refusal('forbidden', 'client_scripts_off', sentence, { field })
}

/**
 * Returns those offered scripts that are allowed now: client scripts may have been disabled since the deployment was
 * queued. Throws if an upload contains one. A rollback runs without it, and `dropped` contains its step.
 */
export function permittedScripts(
  project: Pick<Project, 'allowClientScripts'>,
  setting: boolean,
  offered: OfferedScripts
): { offered: OfferedScripts; dropped: Array<RanScript['step']> } {
  if (offered.origin === 'upload') refuseClientScripts(project, setting, offered)
  if (offered.origin === 'upload' || mayClientsSendScripts(project, setting)) return { offered, dropped: [] }
  const dropped = (['preDeploy', 'postDeploy'] as const).filter(step => !isBlank(offered[step]))
  return { offered: { origin: offered.origin }, dropped }
}

/** Whether any script runs. */
export function hasScripts({ preDeploy, postDeploy, onFailure }: ChosenScripts): boolean {
  return preDeploy !== null || postDeploy !== null || onFailure !== null
}

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

/*
 * The working directory and the shell of a script. Both are checked when the step begins, because a deployment may have
 * added or removed them.
 */

/** The project's settings for its scripts, and the state of the target. */
export interface ScriptPlace {
  target: string
  /** Path below the target, or null for the target itself. */
  directory: string | null
  /** An absolute path, or a name that is searched in PATH. Null means `sh`. */
  shell: string | null
  /** Whether nothing has been deployed before, so that the directory may not exist yet. */
  isFirst: boolean
}

/**
 * Returns the directory in which a script runs. If it does not exist before the first deployment's files, that is the
 * target itself, and `isPlain` is true. Throws a StepFailure whose sentence begins with `title`.
 */
export async function workingDirectory(
  { target, directory, isFirst }: ScriptPlace,
  { title, isBeforeFiles }: { title: string; isBeforeFiles: boolean }
): Promise<{ path: string; isPlain: boolean }> {
  if (directory === null) return { path: target, isPlain: false }
  const path = join(target, directory)
  const no = (why: string): StepFailure =>
    new StepFailure(`${title} did not run: its working directory "${directory}" ${why}`)
  const real = await realpath(path).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw no(`cannot be used: ${reasonOf(error)}`)
    return null
  })
  if (real === null) {
    if (isBeforeFiles && isFirst) return { path: target, isPlain: true }
    throw no('does not exist in the target')
  }
  if (!isInside(await realpath(target), real)) throw no('leads outside the target')
  if (!(await stat(real)).isDirectory()) throw no('is not a directory')
  return { path: real, isPlain: false }
}

/** What runs a script; null is `sh -c`. The notes are for the output: what svc changed or did not follow. */
export interface ScriptRunner {
  interpreter: string[] | null
  notes: string[]
}

/**
 * Returns what runs a script: the project's shell, else the interpreter that its first line names, else `sh`. Throws a
 * StepFailure that begins with `title` if the shell does not exist.
 */
export async function findRunner(
  script: string,
  { shell }: Pick<ScriptPlace, 'shell'>,
  { title, path }: { title: string; path: string | undefined }
): Promise<ScriptRunner> {
  const text = scriptTextOf(script)
  const notes = text === script ? [] : ['its line ends and byte order mark are those of Windows; it runs without them']
  const named = interpreterOf(text)
  const chosen = shell === 'sh' ? null : await findShell(shell, { title, path })
  if (named === null) return { interpreter: chosen === null ? null : [chosen, '-c'], notes }
  const ignored = (why: string): string => `its first line names "${named.program}", which is not used: ${why}`
  if (shell !== null) {
    const isSame = basename(shell) === basename(named.program)
    notes.push(...(isSame ? [] : [ignored(`the project's scriptShell is "${shell}"`)]))
    return { interpreter: chosen === null ? null : [chosen, '-c'], notes }
  }
  const option = textOptionOf(named.program)
  const program = option === null ? null : await find(named.program, path)
  if (option !== null && program !== null) return { interpreter: [program, ...named.words, option], notes }
  const why = option === null ? 'svc cannot give it a script as text' : 'it is not on this server'
  return { interpreter: null, notes: [...notes, ignored(`${why}; the script runs with sh`)] }
}

async function find(program: string, path: string | undefined): Promise<string | null> {
  const directories = (path ?? '').split(delimiter).filter(isAbsolute)
  const places = isAbsolute(program) ? [program] : directories.map(directory => join(directory, program))
  for (const place of places) if (await isProgram(place)) return place
  return null
}

async function findShell(
  shell: string | null,
  { title, path }: { title: string; path: string | undefined }
): Promise<string | null> {
  const found = shell === null ? null : await find(shell, path)
  if (shell === null || found !== null) return found
  const where = isAbsolute(shell) ? 'is not an executable file on this server' : 'is not in the PATH of this server'
  throw new StepFailure(
    `${title} did not run: the shell "${shell}" ${where}. Install it, or change the project's scriptShell`
  )
}
