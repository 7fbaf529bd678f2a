import { Refusal } from '../base/refusal.js'
import type { RanScript } from '../model/deployment.js'
import type { Project } from '../model/project.js'

/** A script that will run, and the line that says which and why. */
export interface ChosenScript extends RanScript {
  line: string
}

export interface ChosenScripts {
  preDeploy: ChosenScript | null
  postDeploy: ChosenScript | null
}

/** The scripts that came with the archive: of an upload its client's, of a rollback those that ran the first time. */
export interface OfferedScripts {
  preDeploy?: string | undefined
  postDeploy?: string | undefined
  postDeployAsync?: boolean | undefined
  origin: 'upload' | 'source deployment'
}

const used = { upload: 'sent by the client', 'source deployment': 'as it ran in the source deployment' }
const ignored = { upload: 'sent by the client is ignored', 'source deployment': 'of the source deployment is not used' }

type ProjectScripts = Pick<Project, 'preDeployScript' | 'postDeployScript' | 'postDeployAsync'>

/** Which scripts run: the project's own take precedence over those that came with the archive (§4.6). */
export function chooseScripts(project: ProjectScripts, offered: OfferedScripts): ChosenScripts {
  const preDeploy = choose('preDeploy', project.preDeployScript, offered.preDeploy, offered.origin)
  const postDeploy = choose('postDeploy', project.postDeployScript, offered.postDeploy, offered.origin)
  if (postDeploy === null) return { preDeploy, postDeploy }
  const { isAsync, note } = chooseBackground(project.postDeployAsync, offered)
  return { preDeploy, postDeploy: { ...postDeploy, async: isAsync, line: postDeploy.line + note } }
}

function choose(
  step: RanScript['step'],
  platform: string,
  client: string | undefined,
  origin: OfferedScripts['origin']
): ChosenScript | null {
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
    return { isAsync: true, note: `, in the background (forced by the server's setting of this project${ignored})` }
  }
  if (offered.postDeployAsync !== true) return { isAsync: false, note: '' }
  const why = offered.origin === 'upload' ? ' (asked for by the client)' : ''
  return { isAsync: true, note: `, in the background${why}` }
}

/** Whether clients may send scripts to this project: its own word, else the setting's. */
export function mayClientsSendScripts(project: Pick<Project, 'allowClientScripts'>, setting: boolean): boolean {
  return project.allowClientScripts ?? setting
}

/** Throws the 403 for scripts where clients may not send any: a leaked deploy token must not be a shell. */
export function refuseClientScripts(
  project: Pick<Project, 'allowClientScripts'>,
  setting: boolean,
  scripts: { preDeploy?: string | undefined; postDeploy?: string | undefined }
): void {
  if (mayClientsSendScripts(project, setting)) return
  const field = !isBlank(scripts.preDeploy) ? 'preDeploy' : !isBlank(scripts.postDeploy) ? 'postDeploy' : null
  if (field === null) return
  const what = project.allowClientScripts === null ? 'the setting allow_client_scripts' : "the project's allowClientScripts"
  const sentence = `The upload may not carry "${field}": ${what} turns client scripts off; set the script on the server`
  throw new Refusal('forbidden', 'client_scripts_off', sentence, { field })
}

/**
 * The scripts that came with the archive as far as they may run now: client scripts may have been turned off since the
 * deployment was queued. Throws for an upload that carries one; a rollback runs without, and `dropped` names the steps.
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

function isBlank(script: string | undefined): boolean {
  return script === undefined || script.trim() === ''
}
