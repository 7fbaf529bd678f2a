/* The tables that describe the options and operands of a command, and the types of their values. */

/** Kinds of values that a completion script asks svc for (commands/values.ts). */
export type CompletedValues = 'environments' | 'deployments' | 'projects' | 'nodes' | 'rollouts'

/** One option of a command, for the parser, the help and shell completion. Its key in the table is its flag. */
export interface OptionRow {
  type: 'text' | 'count' | 'switch'
  /** Letter of the short form: `f` for `-f`. */
  alias?: string
  /** Name of the value in the help: `url`, `name`. */
  value?: string
  /** The allowed values. Absent: any value. */
  choices?: readonly string[]
  /** Value of an option if no value follows it. Without `choices`, a value must follow an equals sign. */
  bare?: string
  /** Default value. A switch that is on by default is listed as `--no-<flag>`, which turns it off. */
  default?: string | number | boolean
  /** Whether the option can be given more than once; its value is then a list. */
  repeatable?: boolean
  /** Kind of values that shell completion offers. */
  complete?: CompletedValues
  /** Smallest value of a count. */
  minimum?: number
  /** Largest value of a count. */
  maximum?: number
  help: string
}

/** The options of a command, by flag. */
export type OptionTable = Readonly<Record<string, OptionRow>>

/** One argument that is not an option. Its key in the table is its name; the order of keys is that of the arguments. */
export interface OperandRow {
  required?: boolean
  /** Kind of values that shell completion offers. Absent: file names. */
  complete?: CompletedValues
  help: string
}

/** The operands of a command, by name. */
export type OperandTable = Readonly<Record<string, OperandRow>>

type Plain<R extends OptionRow> = R['type'] extends 'switch' ? boolean : R['type'] extends 'count' ? number : string
type Value<R extends OptionRow> = R extends { repeatable: true }
  ? string[]
  : R['type'] extends 'switch'
    ? boolean
    : R extends { default: string | number }
      ? Plain<R>
      : Plain<R> | undefined

/** The parsed values of a table of options. */
export type Options<O extends OptionTable> = { [K in keyof O]: Value<O[K]> }
/** The parsed values of a table of operands. */
export type Operands<P extends OperandTable> = {
  [K in keyof P]: P[K] extends { required: true } ? string : string | undefined
}

/** Returns an option as the help shows it: `--no-<flag>` for a switch that is on by default, else `--<flag>`. */
export function shownFlag(flag: string, row: OptionRow): string {
  return row.type === 'switch' && row.default === true ? `--no-${flag}` : `--${flag}`
}
