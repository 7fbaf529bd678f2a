import { accessSync, constants, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, isAbsolute } from 'node:path'
import { inheritedEnvironment } from '../proc/environment.js'

type Environment = Readonly<Record<string, string | undefined>>

/** The shell of the user svc runs as: `$SHELL`, or `sh` where that is none; `cmd` on Windows. */
export function findShell(environment: Environment): string {
  if (process.platform === 'win32') return environment['COMSPEC'] ?? 'cmd.exe'
  const own = environment['SHELL'] ?? ''
  return isShell(own) ? own : '/bin/sh'
}

/** What accounts of services have in place of a shell. */
const noShells = new Set(['nologin', 'false', 'true', 'sync'])

function isShell(path: string): boolean {
  if (!isAbsolute(path) || noShells.has(basename(path))) return false
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/** Where a session starts: the first of these that is a directory; a project's target may not be there yet. */
export function findDirectory(wanted: string | null, environment: Environment): string {
  const home = environment['HOME'] || homedir()
  return [wanted, home].find(path => path !== null && isDirectory(path)) ?? '/'
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** What belongs to the terminal that svc itself was started from. */
const ofAnotherTerminal = ['TMUX', 'TMUX_PANE', 'STY', 'WINDOW', 'WINDOWID', 'TERMCAP', 'COLUMNS', 'LINES', 'TERM_PROGRAM']

/**
 * The environment of a shell: the server's, without its secrets and without its own terminal. A service is often
 * started without a locale, and then a shell would take every character beyond ASCII for several.
 */
export function shellEnvironment(environment: Environment, shell: string): Record<string, string | undefined> {
  const kept = Object.entries(inheritedEnvironment(environment)).filter(([name]) => !ofAnotherTerminal.includes(name))
  const hasLocale = ['LC_ALL', 'LC_CTYPE', 'LANG'].some(name => environment[name])
  return {
    HOME: homedir(),
    ...(hasLocale ? {} : { LANG: 'C.UTF-8' }),
    ...Object.fromEntries(kept),
    SHELL: shell,
    TERM: 'xterm-256color',
    COLORTERM: 'truecolor'
  }
}
