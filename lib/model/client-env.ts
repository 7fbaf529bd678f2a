/*
 * Decides which variables of a client reach the scripts of a deployment (decisions 4 and 12).
 *
 * A list of dangerous names is never complete: every program that a script starts has variables of its own that make it
 * run code (`GIT_SSH`, `TAR_OPTIONS`, `MAKEFLAGS`, `npm_config_script_shell`). So if clients may not send scripts, only
 * the names that the project lists are passed on. If they may, the list below only prevents mistakes.
 */

/** Maximum number of entries in a project's `allowedEnv`. */
export const maxAllowedEnv = 100
/** Maximum length of an entry in characters. */
export const maxAllowedEnvLength = 200

/** Maximum number of variables that a client sends with a deployment. */
export const maxClientVariables = 1000

/** Names that make a shell, a loader or an interpreter load code. No setting lets a client set them. */
const deniedNames = new Set([
  'PATH',
  'NODE_OPTIONS',
  'NODE_PATH',
  'BASH_ENV',
  'ENV',
  'IFS',
  'SHELLOPTS',
  'BASHOPTS',
  'PS4',
  'PROMPT_COMMAND',
  'PYTHONPATH',
  'PYTHONHOME',
  'PYTHONSTARTUP',
  'PERL5OPT',
  'PERL5LIB',
  'PERL5DB',
  'RUBYOPT',
  'RUBYLIB',
  'JAVA_TOOL_OPTIONS',
  'GIT_SSH_COMMAND',
  'COMSPEC',
  'PATHEXT'
])
const deniedPrefixes = ['LD_', 'DYLD_', 'SVC_', 'BASH_FUNC_']

/** Returns why `entry` cannot be in a project's `allowedEnv`, as the end of a sentence; null if it can. */
export function allowedEnvFault(entry: string): string | null {
  if (entry.length > maxAllowedEnvLength) return `is longer than ${maxAllowedEnvLength} characters`
  if (entry === '*') return 'would let every variable pass; list the names, or a prefix such as APP_*'
  if (!/^[A-Za-z_][A-Za-z0-9_]*\*?$/.test(entry)) {
    return 'is not a variable name: use letters, digits and "_", not starting with a digit, and optionally one "*" at the end'
  }
  return isDenied(entry.replace('*', '')) ? 'can never be set by a client' : null
}

/** Returns why a variable that a client sent cannot have this name, as the end of a sentence; null if it can. */
export function clientVariableNameFault(name: string): string | null {
  return name === '' || /[=\0]/.test(name) ? 'is not a valid variable name' : null
}

/**
 * Returns why a variable that a client sent does not reach the scripts, as a clause ("a client may never set it"); null
 * if it does. `allowed` is the project's `allowedEnv` if clients may not send scripts, and null if they may.
 */
export function clientVariableFault(name: string, value: string, allowed: readonly string[] | null): string | null {
  if (isDenied(name)) return 'a client may never set it'
  if (clientVariableNameFault(name) !== null || value.includes('\0')) return 'the system cannot represent it'
  if (allowed === null || isListed(name, allowed)) return null
  return "client scripts are off, and it is not in the project's allowedEnv"
}

function isListed(name: string, allowed: readonly string[]): boolean {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return false
  const known = folded(name)
  return allowed
    .map(folded)
    .some(entry => (entry.endsWith('*') ? known.startsWith(entry.slice(0, -1)) : known === entry))
}

/** Returns whether `name` makes a shell, a loader or an interpreter load code, or is reserved for svc. */
export function isDenied(name: string): boolean {
  const known = folded(name)
  return deniedNames.has(known) || deniedPrefixes.some(prefix => known.startsWith(prefix))
}

/** Returns the form of a name that is compared: on Windows `Path` is `PATH`; elsewhere case matters. */
export function folded(name: string): string {
  return process.platform === 'win32' ? name.toUpperCase() : name
}
