import type { Operands, Options, OperandTable, OptionTable } from './args.js'
import type { Output } from './output.js'

/** What `main` is given of the process; `process` itself fits. */
export interface Host {
  env: Readonly<Record<string, string | undefined>>
  cwd(): string
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
  exit(code: number): void
}

/** What a command works with. */
export interface Context {
  host: Host
  env: Readonly<Record<string, string | undefined>>
  /** Absolute. */
  cwd: string
  output: Output
  /** The rows of the command that runs, for hints that name its options. */
  command: Pick<Command, 'options' | 'operands'>
}

export interface Command {
  operands: OperandTable
  options: OptionTable
  /** What the help says below the options, in sentences. */
  details?: string
  /** At least one; each a command line without the leading `svc`, and what it does. */
  examples: readonly (readonly [line: string, what: string])[]
  /** Answers the exit code. */
  run(input: { options: never; operands: never }, context: Context): Promise<number>
}

/** Ties the values `run` receives to the rows of its tables. */
export function defineCommand<const O extends OptionTable, const P extends OperandTable>(
  command: Omit<Command, 'options' | 'operands' | 'run'> & {
    operands: P
    options: O
    run(input: { options: Options<O>; operands: Operands<P> }, context: Context): Promise<number>
  }
): Command {
  return command
}

/** Exit codes (decisions: 0 success, 1 the operation failed, 2 wrong usage); a shell expects 130 after Ctrl-C. */
export const exitCodes = { success: 0, failed: 1, usage: 2, interrupted: 130 } as const
