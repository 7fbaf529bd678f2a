import { clientVariableFault, folded } from '../model/client-env.js'
import type { Project } from '../model/project.js'
import { inheritedEnvironment } from '../proc/environment.js'
import { variablesOf as variablesOfUser, type Rights } from '../proc/identity.js'

/** What a script is told in `SVC_*` (decisions 4). */
export interface ScriptFacts {
  project: Pick<Project, 'id' | 'name' | 'deployPath' | 'env'>
  deployId: string
  rollbackOf: string | null
  previousDeployId: string | null
}

/** A variable that does not reach the scripts. */
export interface DroppedVariable {
  name: string
  /** The end of a sentence. Never the value. */
  why: string
}

/**
 * Divides what a client sent for scripts. `allowed` is the project's `allowedEnv` where clients may not send scripts, and
 * null where they may; `own` are the names that the project sets on the server. Every variable of a client goes through
 * here, whatever kind of deployment it is.
 */
export function acceptClientEnv(
  sent: Readonly<Record<string, string>>,
  allowed: readonly string[] | null,
  own: readonly string[] = []
): { accepted: Record<string, string>; dropped: DroppedVariable[] } {
  const taken = new Set(own.map(folded))
  const judged = Object.entries(sent).map(([name, value]) => {
    return { name, value, why: taken.has(folded(name)) ? ofTheServer : clientVariableFault(name, value, allowed) }
  })
  return {
    accepted: Object.fromEntries(judged.flatMap(({ name, value, why }) => (why === null ? [[name, value]] : []))),
    dropped: judged.flatMap(({ name, why }) => (why === null ? [] : [{ name, why }]))
  }
}

const ofTheServer = 'the project sets it on the server'

/** Returns what the output says of variables that were left out: one line for each reason, names only. */
export function linesOfDropped(dropped: readonly DroppedVariable[]): string[] {
  const reasons = [...new Set(dropped.map(({ why }) => why))]
  return reasons.map(reason => {
    const names = dropped.filter(({ why }) => why === reason).map(({ name }) => JSON.stringify(name))
    const more = names.length - maxNamesTold
    const told = names.slice(0, maxNamesTold).join(', ') + (more > 0 ? `, and ${more} more` : '')
    return `→ left out of the scripts' environment: ${told} (${reason})`
  })
}

/** A client may send thousands. */
const maxNamesTold = 50

/**
 * The whole environment of a script. One that has the rights of a project's user inherits little: what is in svc's own
 * environment is root's, and may be a secret.
 */
export function scriptEnvironment(
  inherited: Readonly<Record<string, string | undefined>>,
  accepted: Readonly<Record<string, string>>,
  facts: ScriptFacts,
  rights: Rights | null = null
): Record<string, string | undefined> {
  const base = inheritedEnvironment(inherited)
  return { ...(rights === null ? base : { ...plainOf(base), ...variablesOfUser(rights.identity) }), ...accepted, ...variablesOf(facts) }
}

/** Where programs are, and which language and time zone they speak. */
const plainName = /^(PATH|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR)$/

function plainOf(environment: Record<string, string | undefined>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => plainName.test(name)))
}

/** All of them are always set, if empty: a script may run with `set -u`. */
function variablesOf({ project, deployId, rollbackOf, previousDeployId }: ScriptFacts): Record<string, string> {
  return {
    SVC_PROJECT_ID: project.id,
    SVC_PROJECT_NAME: project.name,
    SVC_DEPLOY_ID: deployId,
    SVC_DEPLOY_PATH: project.deployPath,
    SVC_ENV: project.env,
    SVC_DEPLOY_MODE: rollbackOf === null ? 'deploy' : 'rollback',
    SVC_ROLLBACK_OF: rollbackOf ?? '',
    SVC_PREVIOUS_DEPLOY_ID: previousDeployId ?? '',
    SVC_CHANGES: ''
  }
}
