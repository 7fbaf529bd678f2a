import { accessSync, constants, statSync } from 'node:fs'
import { userHome } from '../base/runtime.js'
import { basename, isAbsolute } from 'node:path'
import { inheritedEnvironment, variablesWhere } from '../proc/environment.js'

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Returns the shell of the user that svc runs as: `$SHELL`, or `/bin/sh` if that is not a usable shell; `cmd.exe` on
 * Windows.
 */
export function findShell(environment: Environment): string {
  if (process.platform === 'win32') return environment['COMSPEC'] ?? 'cmd.exe'
  const own = environment['SHELL'] ?? ''
  return isShell(own) ? own : '/bin/sh'
}

/** Programs that service accounts have instead of a shell. */
const nonShells = new Set(['nologin', 'false', 'true', 'sync'])

function isShell(path: string): boolean {
  if (!isAbsolute(path) || nonShells.has(basename(path))) return false
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/**
 * Returns the directory in which a session starts: the first candidate that exists. The target of a project may not
 * exist yet.
 */
export function findDirectory(wanted: string | null, environment: Environment): string {
  const home = environment['HOME'] || userHome()
  return [wanted, home].find(path => path !== null && isDirectory(path)) ?? '/'
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** Variables of the terminal from which svc itself was started. */
const terminalVariables = [
  'TMUX',
  'TMUX_PANE',
  'STY',
  'WINDOW',
  'WINDOWID',
  'TERMCAP',
  'COLUMNS',
  'LINES',
  'TERM_PROGRAM'
]

/**
 * Returns the environment of a shell: the server's, without its secrets and without the variables of its own terminal.
 * If no locale is set, as is common for services, LANG becomes C.UTF-8. Otherwise the shell would treat each non-ASCII
 * character as several.
 */
export function shellEnvironment(environment: Environment, shell: string): Record<string, string | undefined> {
  const kept = variablesWhere(inheritedEnvironment(environment), name => !terminalVariables.includes(name))
  const hasLocale = ['LC_ALL', 'LC_CTYPE', 'LANG'].some(name => environment[name])
  return {
    HOME: userHome(),
    ...(hasLocale ? {} : { LANG: 'C.UTF-8' }),
    ...kept,
    SHELL: shell,
    TERM: 'xterm-256color',
    COLORTERM: 'truecolor'
  }
}
