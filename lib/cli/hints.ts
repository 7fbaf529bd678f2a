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

/** `--server or `, where the command has that option, else nothing: the beginning of a list of ways. */
export function flagsOf({ options }: Rows, flag: string): string {
  return Object.hasOwn(options, flag) ? `--${flag} or ` : ''
}
