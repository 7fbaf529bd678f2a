import { Refusal } from '../../base/errors.js'
import type { RanScript } from '../../model/deployment.js'
import type { Policy } from '../../model/policy.js'
import type { Project } from '../../model/project.js'

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

function isBlank(script: string | undefined): boolean {
  return script === undefined || script.trim() === ''
}
