import type { Project } from '../model/project.js'
import { inheritedEnvironment } from '../proc/environment.js'

/** What a script is told in `SVC_*` (decisions 4). */
export interface ScriptFacts {
  project: Pick<Project, 'id' | 'name' | 'deployPath' | 'env'>
  deployId: string
  rollbackOf: string | null
  previousDeployId: string | null
}

/**
 * What a client may not set: whatever makes the shell, or a program that the script starts, load code of somebody
 * else's choosing. `SVC_` names are ours.
 */
const deniedNames = new Set([
  'PATH', 'NODE_OPTIONS', 'NODE_PATH', 'BASH_ENV', 'ENV', 'IFS', 'SHELLOPTS', 'BASHOPTS', 'PS4', 'PROMPT_COMMAND',
  'PYTHONPATH', 'PYTHONHOME', 'PYTHONSTARTUP', 'PERL5OPT', 'PERL5LIB', 'PERL5DB', 'RUBYOPT', 'RUBYLIB',
  'JAVA_TOOL_OPTIONS', 'GIT_SSH_COMMAND', 'COMSPEC', 'PATHEXT'
])
const deniedPrefixes = ['LD_', 'DYLD_', 'SVC_', 'BASH_FUNC_']

/** The variables a client sent, without those that it may not set; `dropped` names these. */
export function acceptClientEnv(sent: Readonly<Record<string, string>>): {
  accepted: Record<string, string>
  dropped: string[]
} {
  const accepted: Array<[string, string]> = []
  const dropped: string[] = []
  for (const [name, value] of Object.entries(sent)) {
    if (isDenied(name) || !isPossible(name, value)) dropped.push(name)
    else accepted.push([name, value])
  }
  // An assignment would lose the variable "__proto__".
  return { accepted: Object.fromEntries(accepted), dropped }
}

/** The whole environment of a script. */
export function scriptEnvironment(
  inherited: Readonly<Record<string, string | undefined>>,
  accepted: Readonly<Record<string, string>>,
  facts: ScriptFacts
): Record<string, string | undefined> {
  return { ...inheritedEnvironment(inherited), ...accepted, ...variablesOf(facts) }
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

/** On Windows `Path` is `PATH`; elsewhere `env` is a variable like any other. */
function isDenied(name: string): boolean {
  const known = process.platform === 'win32' ? name.toUpperCase() : name
  return deniedNames.has(known) || deniedPrefixes.some(prefix => known.startsWith(prefix))
}

function isPossible(name: string, value: string): boolean {
  return name !== '' && !/[=\0]/.test(name) && !value.includes('\0')
}
