import { clientVariableFault, folded } from '../../model/client-env.js'
import type { Project } from '../../model/project.js'
import { inheritedEnvironment, variablesWhere } from '../../proc/environment.js'
import { variablesOf as variablesOfUser, type Rights } from '../../proc/identity.js'

/** The values of the variables `SVC_*` (decisions 4). */
export interface ScriptFacts {
  project: Pick<Project, 'id' | 'name' | 'deployPath' | 'env'>
  deployId: string
  rollbackOf: string | null
  /** Whether it is a rollback although it has no source: the undo of the first deployment. Default: false. */
  isUndo?: boolean
  previousDeployId: string | null
}

/** A variable that is not passed to the scripts. */
export interface DroppedVariable {
  name: string
  /** The reason, as the end of a sentence. Never contains the value. */
  why: string
}

/**
 * Splits the client's variables into accepted and dropped ones. Every variable of a client must pass through here.
 * `allowed` is the project's `allowedEnv` if client scripts are disabled, or null if they are allowed. `own` contains
 * the names of the project's variables on the server, which take precedence.
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

/** Returns the output lines about dropped variables: one line per reason, with names only. */
export function linesOfDropped(dropped: readonly DroppedVariable[]): string[] {
  const reasons = [...new Set(dropped.map(({ why }) => why))]
  return reasons.map(reason => {
    const names = dropped.filter(({ why }) => why === reason).map(({ name }) => JSON.stringify(name))
    const more = names.length - maxNames
    const shownNames = names.slice(0, maxNames).join(', ') + (more > 0 ? `, and ${more} more` : '')
    return `→ not passed to the scripts: ${shownNames} (${reason})`
  })
}

/** Maximum number of names in a line: a client may send thousands. */
const maxNames = 50

/** The sources of a script's environment. Later ones take precedence. */
export interface EnvironmentParts {
  /** The server's own environment. */
  inherited: Readonly<Record<string, string | undefined>>
  /** The variables of the client and of the project. */
  accepted: Readonly<Record<string, string>>
  facts: ScriptFacts
  /** The rights of the script's user, or null for those of svc. */
  rights: Rights | null
}

/**
 * Returns the complete environment of a script. A script that runs as the project's own user inherits little, because
 * svc's environment belongs to root and may contain secrets.
 */
export function scriptEnvironment({
  inherited,
  accepted,
  facts,
  rights
}: EnvironmentParts): Record<string, string | undefined> {
  const base = inheritedEnvironment(inherited)
  return {
    ...(rights === null
      ? base
      : { ...variablesWhere(base, name => plainName.test(name)), ...variablesOfUser(rights.identity) }),
    ...accepted,
    ...variablesOf(facts)
  }
}

/** Variables for program paths, language and time zone. */
const plainName = /^(PATH|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR)$/

/** Returns the variables `SVC_*`. All of them are always set, even if empty: a script may use `set -u`. */
function variablesOf({
  project,
  deployId,
  rollbackOf,
  isUndo = false,
  previousDeployId
}: ScriptFacts): Record<string, string> {
  return {
    SVC_PROJECT_ID: project.id,
    SVC_PROJECT_NAME: project.name,
    SVC_DEPLOY_ID: deployId,
    SVC_DEPLOY_PATH: project.deployPath,
    SVC_ENV: project.env,
    SVC_DEPLOY_MODE: rollbackOf === null && !isUndo ? 'deploy' : 'rollback',
    SVC_ROLLBACK_OF: rollbackOf ?? '',
    SVC_PREVIOUS_DEPLOY_ID: previousDeployId ?? '',
    SVC_CHANGES: '',
    SVC_FAILURE: '',
    SVC_FAILURE_REASON: ''
  }
}
