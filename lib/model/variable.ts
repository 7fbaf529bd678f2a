/*
 * The rules for names and values of a project's variables. Scripts get the variables in their environment.
 *
 * Names are those that every shell can use. Names that make a program load code, and svc's own, are also refused for
 * the administrator: a mistake there breaks every script, and a script can set them itself.
 */

import type { Instant } from './scalars.js'

/** A variable as the API returns it. */
export interface Variable {
  name: string
  /** The value. Null for a secret. */
  value: string | null
  secret: boolean
  /** Whether a value is stored. False for a secret that was imported without its value. */
  hasValue: boolean
  updatedAt: Instant
}

/** A variable as it is stored. The value of a secret is encrypted (projects/seal.ts), or empty if it is not set yet. */
export interface StoredVariable extends Omit<Variable, 'value' | 'hasValue'> {
  projectId: string
  value: string
}

/** A variable in a request. Without a value, a stored variable keeps its value. */
export interface GivenVariable {
  name: string
  value: string | null
  /** Null keeps the stored flag; a new variable is then not a secret. */
  secret: boolean | null
}

/** A variable as scripts get it. */
export interface OpenedVariable {
  name: string
  value: string
  secret: boolean
}

/** Maximum number of variables of a project. */
export const maxVariables = 200
/** Maximum length of a name in characters. */
export const maxVariableNameLength = 200
/** Maximum size of a value in bytes: Linux does not accept a variable of more than 128 KiB. */
export const maxVariableBytes = 64 * 1024
/** Maximum size of all names and values of a project in bytes. */
export const maxVariablesBytes = 256 * 1024
/** Minimum length of a secret in characters. A shorter one cannot be masked: every output would be full of `***`. */
export const minSecretLength = 4

/** Control characters except tab, line feed and carriage return; halves of surrogate pairs. */
const unusable =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** Returns why a variable cannot have this name, as the end of a sentence; null if it can. */
export function variableNameFault(name: string): string | null {
  if (name.length > maxVariableNameLength) return `is longer than ${maxVariableNameLength} characters`
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return 'is not a variable name: use letters, digits and "_", not starting with a digit'
  }
  if (folded(name).startsWith('SVC_')) return 'begins with "SVC_": svc itself sets these variables'
  return isDenied(name)
    ? 'can never be set, because it makes shells and interpreters load code. Set it in the script'
    : null
}

/** Returns why a variable cannot have this value, as the end of a sentence that never contains it; null if it can. */
export function variableValueFault(value: string, secret: boolean): string | null {
  const found = unusable.exec(value)?.[0]
  if (found !== undefined)
    return `contains U+${found.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}, which is not allowed`
  if (Buffer.byteLength(value) > maxVariableBytes) return `is longer than ${maxVariableBytes / 1024} KiB`
  if (secret && !value.split(/\r?\n/).some(line => line.trim().length >= minSecretLength)) {
    return `is too short for a secret: svc masks secrets of at least ${minSecretLength} characters`
  }
  return null
}

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
const maxAllowedEnvLength = 200

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
function isDenied(name: string): boolean {
  const known = folded(name)
  return deniedNames.has(known) || deniedPrefixes.some(prefix => known.startsWith(prefix))
}

/** Returns the form of a name that is compared: on Windows `Path` is `PATH`; elsewhere case matters. */
export function folded(name: string): string {
  return process.platform === 'win32' ? name.toUpperCase() : name
}
