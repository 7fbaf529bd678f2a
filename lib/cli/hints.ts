/*
 * Hints name only the options that the command has: they come from its own rows.
 */
import type { Command } from './command.js'

type Rows = Pick<Command, 'options' | 'operands'>

/** How a person names the project to a command; null: the command takes none but that of svc.config.json. */
export function projectHint({ options, operands }: Rows): string | null {
  if (Object.hasOwn(options, 'project')) return 'name the project with --project'
  return Object.hasOwn(operands, 'projectId') ? 'give the <projectId>' : null
}

/** The options of a command that a hint must repeat to reach the same project with the same token. */
export interface GivenOptions {
  env?: string | undefined
  server?: string | undefined
  project?: string | undefined
  /** Never printed: the hint reads the token from standard input. */
  token?: string | undefined
}

/** The command line that follows a deployment or, if its id is not known, shows the project's last ones. */
export function followLine(deployId: string | null, { env, server, project, token }: GivenOptions = {}): string {
  const flags = { env, server, ...(deployId !== null && { project }), token: token === undefined ? undefined : '-' }
  const words = deployId === null ? ['status', ...(project === undefined ? [] : [project])] : ['logs', '-f', deployId]
  const options = Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}`, value]))
  return ['svc', ...words, ...options].map(shellWord).join(' ')
}

/** A word as a POSIX shell takes it literally. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** `--server or `, where the command has that option, else nothing: the beginning of a list of ways. */
export function flagsOf({ options }: Rows, flag: string): string {
  return Object.hasOwn(options, flag) ? `--${flag} or ` : ''
}
