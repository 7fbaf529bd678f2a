import type { Host } from './host.js'
import type { Operands, Options, OperandTable, OptionTable } from './option-table.js'
import type { Output } from './terminal/output.js'

/** The surroundings of a running command. */
export interface Context {
  host: Host
  env: Readonly<Record<string, string | undefined>>
  /** The current directory, as an absolute path. */
  cwd: string
  output: Output
  /** The options and operands of the running command, for hints that name them. */
  command: Pick<Command, 'options' | 'operands'>
  /** The table of all commands. */
  commands: readonly CommandRow[]
}

/** A command: its tables, its help texts and the function that runs it. */
export interface Command {
  operands: OperandTable
  options: OptionTable
  /** Sentences that the help shows below the options. A blank line separates paragraphs. */
  details?: string
  /** Examples for the help, at least one: a command line without the leading `svc`, and what it does. */
  examples: readonly (readonly [line: string, what: string])[]
  /** Runs the command and returns its exit code. */
  run(input: { options: never; operands: never }, context: Context): Promise<number>
}

/** The sections of the overview that `svc --help` prints. */
export type CommandGroup = 'deploying' | 'projects' | 'fleet' | 'logs' | 'access' | 'server' | 'data' | 'configuration'

/** A row of the table of commands. */
export interface CommandRow {
  /** The words that a user types; two for a command like "projects list". */
  name: string
  /** Other names of the same command. */
  aliases?: readonly string[]
  group: CommandGroup
  /** Imperative sentence of at most 56 characters, so that its line of the help fits on a terminal. */
  summary: string
  load(): Promise<{ command: Command }>
  /** Whether the command keeps running after the reader of its output has closed the pipe. Others exit then. */
  outlivesReader?: boolean
  /** Whether the command is for completion scripts only, so that no list of commands shows it. */
  hidden?: boolean
}

/** Declares a command. Derives the types of the values that `run` receives from the tables of options and operands. */
export function defineCommand<const O extends OptionTable, const P extends OperandTable>(
  command: Omit<Command, 'options' | 'operands' | 'run'> & {
    operands: P
    options: O
    run(input: { options: Options<O>; operands: Operands<P> }, context: Context): Promise<number>
  }
): Command {
  return command
}

/** Exit codes: 0 success, 1 the operation failed, 2 wrong usage, 130 after Ctrl-C, as shells expect. */
export const exitCodes = { success: 0, failed: 1, usage: 2, interrupted: 130 } as const
