/*
 * Hints for error messages. A hint names only options that the running command has, taken from its tables.
 */
import type { ListedRollout } from '../model/rollout.js'

/** The options and operands of a command, by their names. */
interface Rows {
  options: Readonly<Record<string, unknown>>
  operands: Readonly<Record<string, unknown>>
}

/** Returns how to name the project to a command, or null if the command only uses the one of svc.config.json. */
export function projectHint({ options, operands }: Rows): string | null {
  if (Object.hasOwn(options, 'project')) return 'name the project with --project'
  return Object.hasOwn(operands, 'projectId') ? 'give the <projectId>' : null
}

/** Options of the running command that a hint repeats, to reach the same project with the same token. */
export interface GivenOptions {
  env?: string | undefined
  server?: string | undefined
  project?: string | undefined
  /** Never printed. The hint contains `--token -`, which reads the token from standard input. */
  token?: string | undefined
}

/** Returns the command line that follows a deployment or, if its id is unknown, lists the latest of the project. */
export function followLine(deployId: string | null, { env, server, project, token }: GivenOptions = {}): string {
  if (deployId !== null) return commandLine(['logs', '-f', deployId], { env, server, project, token })
  return commandLine(['status', ...(project === undefined ? [] : [project])], { env, server, token })
}

/** Returns a command line for the same project, with the options of the running command. */
export function commandLine(words: readonly string[], { env, server, project, token }: GivenOptions): string {
  const flags = { env, server, project, token: token === undefined ? undefined : '-' }
  const options = Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}`, value]))
  return ['svc', ...words, ...options].map(shellWord).join(' ')
}

/** Says that a rollout continues after the command has ended, and how to halt it. */
export function detachedLine(rolloutId: string, given: GivenOptions): string {
  return (
    `Detached: the rollout continues. Halt it with: ${commandLine(['rollout', 'halt', rolloutId], given)}\n` +
    `To watch it again: ${commandLine(['rollout', 'status', rolloutId, '--follow'], given)}`
  )
}

/** Returns what a user can do next about a rollout that waits or was halted; null: nothing. */
export function nextLine({ id, state }: Pick<ListedRollout, 'id' | 'state'>, given: GivenOptions): string | null {
  const line = (verb: string): string => commandLine(['rollout', verb, id], given)
  if (state === 'approval') return `next: ${line('approve')}   or   ${line('halt')}`
  if (state === 'halted') return `next: ${line('revert')}   or   ${line('resume')}`
  return null
}

/** Quotes a word so that a POSIX shell takes it literally. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** Returns `--server or ` if the command has that option, else an empty text. It begins a list of alternatives. */
export function flagsOf({ options }: Rows, flag: string): string {
  return Object.hasOwn(options, flag) ? `--${flag} or ` : ''
}
