import { Refusal } from '../base/errors.js'
import { closest } from '../base/text.js'
import type { Host, Output } from './terminal/output.js'

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
  /**
   * The options or operands that set a field of a request which has another name. Where the server refuses the field, the
   * sentence names the option. `duration`: the field counts the seconds of a duration.
   */
  fields?: Readonly<Record<string, string | { duration: string }>>
  /** Sentences that the help shows below the options. A blank line separates paragraphs. */
  details?: string
  /** Examples for the help, at least one: a command line without the leading `svc`, and what it does. */
  examples: readonly (readonly [line: string, what: string])[]
  /** Runs the command. Returns its exit code; nothing means success. */
  run(input: { options: never; operands: never }, context: Context): Promise<number | void>
}

/** The sections of `svc help --all`: the verbs of every day, six topics, and names that newer commands replace. */
export type CommandGroup = 'verbs' | 'projects' | 'fleet' | 'access' | 'server' | 'data' | 'settings' | 'older'

export interface CommandRow {
  /** The words that a user types; two for a command like "projects list". */
  name: string
  /** Other names of the same command. */
  aliases?: readonly string[]
  group: CommandGroup
  /** Imperative sentence of at most 56 characters, so that its line of the help fits on a terminal. */
  summary: string
  /** The module below commands/ that has it; null for the help itself. */
  family: string | null
  load(): Promise<Command>
  /**
   * What a closed pipe of its output means to the command. By default, it runs on: its exit code says how its work ended.
   * `awaited`: it works only for the reader, and exits with 0. `needed`: it fails. `ignored`: it serves others, and runs on
   * whatever happens to its output.
   */
  reader?: 'awaited' | 'needed' | 'ignored'
  /** The newer command that does the same, with its option. The older name stays. */
  now?: string
  /** Whether the command is for completion scripts only, so that no list of commands shows it. */
  hidden?: boolean
}

/** The commands of one module, by the words that a user types. */
export type Family = Readonly<Record<string, Command>>

type None = Readonly<Record<never, never>>

/** Declares a command. Derives the types of the values that `run` receives from the tables of options and operands. */
export function defineCommand<const O extends OptionTable = None, const P extends OperandTable = None>(
  command: Omit<Command, 'options' | 'operands' | 'run'> & {
    operands?: P
    options?: O
    run(input: { options: Options<O>; operands: Operands<P> }, context: Context): Promise<number | void>
  }
): Command {
  return { operands: {}, options: {}, ...command }
}

/** Exit codes: 0 success, 1 the operation failed, 2 wrong usage, 130 after Ctrl-C, as shells expect. */
export const exitCodes = { success: 0, failed: 1, usage: 2, interrupted: 130 } as const

/* The tables that describe the options and operands of a command, and the types of their values. */

/** Kinds of values that a completion script asks svc for (commands/completion.ts). */
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

type More = Omit<Partial<OptionRow>, 'type' | 'help'>

/** Returns the row of an option with a text: the name of its value in the help, and what it does. */
export function option<const M extends Omit<More, 'value'> = None>(value: string, help: string, more?: M) {
  return { type: 'text', value, ...more, help } as { type: 'text'; value: string; help: string } & M
}

/** Returns the row of an option with one of some values. */
export function choice<const M extends Omit<More, 'choices'> = None>(
  choices: readonly string[],
  help: string,
  more?: M
) {
  return { type: 'text', choices, ...more, help } as { type: 'text'; choices: readonly string[]; help: string } & M
}

/** Returns the row of an option with a whole number. */
export function number<const M extends Omit<More, 'value'> = None>(value: string, help: string, more?: M) {
  return { type: 'count', value, ...more, help } as { type: 'count'; value: string; help: string } & M
}

/** Returns the row of an option that is on or off. */
export function toggle<const M extends More = None>(help: string, more?: M) {
  return { type: 'switch', ...more, help } as { type: 'switch'; help: string } & M
}

/** One argument that is not an option. Its key in the table is its name; the order of keys is that of the arguments. */
export interface OperandRow {
  required?: boolean
  /** Whether it takes all words that are left; its value is then a list. Only the last operand can. */
  repeatable?: boolean
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
  [K in keyof P]: P[K] extends { repeatable: true }
    ? string[]
    : P[K] extends { required: true }
      ? string
      : string | undefined
}

/** The values of one command line. */
export interface Parsed {
  options: Record<string, unknown>
  operands: Record<string, string | string[] | undefined>
  wantsHelp: boolean
}

/** One option on the command line. */
interface Given {
  flag: string
  row: OptionRow
  /** The value in the same word, as in `--flag=value`. */
  inline: string | undefined
  /** The next word, which may be the value. */
  next: string | undefined
}

/** Options that every command accepts in addition to its own table. */
const helpFlags = ['--help', '-h']

/**
 * Parses the words of a command line: `--k=v`, `--k v`, `-k v`, `-kv`, `-ab` for switches, `--no-k`, and `--`, after
 * which every word is an operand. The word after an option that needs a value is that value, even if it begins with a
 * dash (a token may), unless it is itself an option of this command. Refuses with the kind `usage`, naming the word.
 */
export function parseArgs(words: readonly string[], options: OptionTable, operands: OperandTable): Parsed {
  const values = defaults(options)
  const rest: string[] = []
  let wantsHelp = false

  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string
    if (word === '--') {
      rest.push(...words.slice(at + 1))
      break
    }
    if (helpFlags.includes(word)) wantsHelp = true
    else if (word.startsWith('--')) at += long(word, words[at + 1])
    else if (word.startsWith('-') && word !== '-') at += short(word, words[at + 1])
    else rest.push(word)
  }
  return { options: values, operands: wantsHelp ? {} : name(rest, operands), wantsHelp }

  /** `long` and `short` return how many of the following words they consumed. */
  function long(word: string, next: string | undefined): 0 | 1 {
    const equals = word.indexOf('=')
    const flag = word.slice(2, equals === -1 ? undefined : equals)
    const inline = equals === -1 ? undefined : word.slice(equals + 1)
    const negated = flag.startsWith('no-') ? row(flag.slice(3)) : undefined
    const found = row(flag)
    if (found === undefined && negated?.type === 'switch' && inline === undefined) {
      values[flag.slice(3)] = false
      return 0
    }
    if (found === undefined) throw unknownOption(`--${flag}`, options, operands)
    return take({ flag, row: found, inline, next })
  }

  function short(word: string, next: string | undefined): 0 | 1 {
    for (let at = 1; at < word.length; at++) {
      const letter = word[at] as string
      const flag = Object.keys(options).find(key => row(key)?.alias === letter)
      if (flag === undefined) throw unknownOption(`-${letter}`, options, operands)
      const found = row(flag) as OptionRow
      if (found.type === 'switch') {
        values[flag] = true
        continue
      }
      const glued = word.slice(at + 1).replace(/^=/, '')
      return take({ flag, row: found, inline: at + 1 < word.length ? glued : undefined, next })
    }
    return 0
  }

  function take({ flag, row: found, inline, next }: Given): 0 | 1 {
    if (found.type === 'switch') {
      values[flag] = inline === undefined ? true : readSwitch(flag, inline)
      return 0
    }
    const isBare = inline === undefined && found.bare !== undefined && !found.choices?.includes(next ?? '')
    const text = inline ?? (isBare ? found.bare : next)
    if (text === undefined) throw usage(`--${flag}`, `--${flag} needs a value: ${expected(found)}`)
    if (inline === undefined && !isBare && isOption(text)) {
      throw usage(
        `--${flag}`,
        `--${flag} needs a value: "${text}" is itself an option (write --${flag}=${text} to pass it as the value)`
      )
    }
    const value = readValue(flag, found, text)
    if (found.repeatable) (values[flag] as unknown[]).push(value)
    else values[flag] = value
    return inline === undefined && !isBare ? 1 : 0
  }

  function isOption(word: string): boolean {
    if (helpFlags.includes(word) || word === '--') return true
    if (word.startsWith('--')) {
      const flag = word.slice(2).split('=', 1)[0] as string
      return row(flag) !== undefined || (flag.startsWith('no-') && row(flag.slice(3)) !== undefined)
    }
    return word.length === 2 && word.startsWith('-') && Object.values(options).some(found => found.alias === word[1])
  }

  function row(flag: string): OptionRow | undefined {
    return Object.hasOwn(options, flag) ? options[flag] : undefined
  }
}

/** Returns the words that `parseArgs` parses into these values, without the defaults, to start another process. */
export function wordsOf(options: OptionTable, values: Readonly<Record<string, unknown>>): string[] {
  const given = Object.entries(defaults(options)).filter(
    ([flag, value]) => values[flag] !== undefined && values[flag] !== value
  )
  return given.flatMap(([flag]) => {
    const value = values[flag]
    if (value === true) return [`--${flag}`]
    if (value === false) return [`--no-${flag}`]
    return [value].flat().map(each => `--${flag}=${each}`)
  })
}

function defaults(options: OptionTable): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const [flag, row] of Object.entries(options))
    values[flag] = row.repeatable ? [] : row.type === 'switch' ? row.default === true : row.default
  return values
}

function name(words: string[], operands: OperandTable): Parsed['operands'] {
  const rows = Object.entries(operands)
  const extra = rows.at(-1)?.[1].repeatable ? undefined : words[rows.length]
  if (extra !== undefined) throw usage(extra, `Unexpected argument "${extra}": ${acceptedCount(rows.length)}`)
  const named: Parsed['operands'] = {}
  rows.forEach(([operand, row], at) => {
    if (row.required && words[at] === undefined) throw usage(operand, `<${operand}> is missing: ${row.help}`)
    named[operand] = row.repeatable ? words.slice(at) : words[at]
  })
  return named
}

function acceptedCount(operands: number): string {
  if (operands === 0) return 'this command accepts options only'
  return operands === 1 ? 'this command accepts only one argument' : `this command accepts only ${operands} arguments`
}

function readSwitch(flag: string, text: string): boolean {
  if (text === 'true' || text === '1') return true
  if (text === 'false' || text === '0') return false
  throw usage(`--${flag}`, `--${flag} is a switch: "${text}" is neither "true" nor "false"`)
}

/**
 * The names of values that are never empty. An empty one is that of a script whose variable is not set, and would mean
 * something else: all addresses, the current directory.
 */
const neverEmpty: readonly string[] = [
  'address',
  'deployId',
  'dir',
  'directory',
  'file',
  'id',
  'path',
  'project',
  'project id',
  'token',
  'url'
]

function readValue(flag: string, row: OptionRow, text: string): string | number {
  if (text.trim() === '' && row.value !== undefined && row.type === 'text' && neverEmpty.includes(row.value))
    throw usage(`--${flag}`, `--${flag} is empty: ${expected(row)}`)
  if (row.choices !== undefined && !row.choices.includes(text))
    throw usage(`--${flag}`, `--${flag} cannot be "${text}": ${expected(row)}`)
  if (row.type !== 'count') return text
  const number = /^\d{1,15}$/.test(text) ? Number(text) : NaN
  if (!(number >= (row.minimum ?? 0) && number <= (row.maximum ?? Number.MAX_SAFE_INTEGER)))
    throw usage(`--${flag}`, `--${flag} cannot be "${text}": ${expected(row)}`)
  return number
}

function expected(row: OptionRow): string {
  if (row.choices !== undefined) return `choose one of ${row.choices.join(', ')}`
  if (row.type !== 'count') return row.help
  const { minimum = 0, maximum } = row
  return maximum === undefined
    ? `it must be a whole number of at least ${minimum}`
    : `it must be a whole number from ${minimum} to ${maximum}`
}

function unknownOption(flag: string, options: OptionTable, operands: OperandTable): Refusal {
  // Another command has this option: `svc push --project`, but `svc undo <projectId>`.
  const operand = Object.keys(operands).find(key => [`--${key}`, `--${key}`.replace(/Id$/, '')].includes(flag))
  if (operand !== undefined) return usage(flag, `Unknown option "${flag}": give the <${operand}> as a word`)
  const known = [...helpFlags.slice(0, 1), ...Object.entries(options).map(([key, row]) => shownFlag(key, row))]
  const meant = closest(flag, known)
  return usage(flag, `Unknown option "${flag}"${meant === undefined ? '' : `: did you mean "${meant}"?`}`)
}

/** Returns a refusal for wrong usage, which ends with exit code 2. `word` is the word at fault. */
export function usage(word: string, sentence: string): Refusal {
  return new Refusal('usage', 'usage', sentence, { field: word })
}

/** Returns an option as the help shows it: `--no-<flag>` for a switch that is on by default, else `--<flag>`. */
export function shownFlag(flag: string, row: { type: string; default?: unknown }): string {
  return row.type === 'switch' && row.default === true ? `--no-${flag}` : `--${flag}`
}
