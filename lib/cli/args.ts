import { Refusal } from '../base/refusal.js'
import { shownFlag } from './help.js'
import { closest } from '../base/suggest.js'

/** Values that a shell asks svc for (commands/values.ts). */
export type CompletedValues = 'environments' | 'deployments' | 'projects'

/** One option of a command, for the parser, the help and the suggestions. Its flag is its key in the table. */
export interface OptionRow {
  type: 'text' | 'count' | 'switch'
  /** One letter, for `-f`. */
  alias?: string
  /** What its value is called in the help: `url`, `name`. */
  value?: string
  /** The only values allowed. */
  choices?: readonly string[]
  /** Of an option with choices: its value where none follows. */
  bare?: string
  /** A switch that is on by default is listed, and turned off, as `--no-<flag>`. */
  default?: string | number | boolean
  /** Given more than once, its values add up. */
  repeatable?: boolean
  /** What a shell offers for its value. */
  complete?: CompletedValues
  /** Of a count. */
  minimum?: number
  maximum?: number
  help: string
}

export type OptionTable = Readonly<Record<string, OptionRow>>

/** One word that is not an option. Its name is its key in the table; the order of the keys is that of the words. */
export interface OperandRow {
  required?: boolean
  /** What a shell offers for it; absent: files. */
  complete?: CompletedValues
  help: string
}

export type OperandTable = Readonly<Record<string, OperandRow>>

type Plain<R extends OptionRow> = R['type'] extends 'switch' ? boolean : R['type'] extends 'count' ? number : string
type Value<R extends OptionRow> = R extends { repeatable: true }
  ? string[]
  : R['type'] extends 'switch'
    ? boolean
    : R extends { default: string | number }
      ? Plain<R>
      : Plain<R> | undefined

export type Options<O extends OptionTable> = { [K in keyof O]: Value<O[K]> }
export type Operands<P extends OperandTable> = {
  [K in keyof P]: P[K] extends { required: true } ? string : string | undefined
}

export interface Parsed {
  options: Record<string, unknown>
  operands: Record<string, string | undefined>
  wantsHelp: boolean
}

/** What every command understands besides its own table. */
const helpFlags = ['--help', '-h']

/**
 * Words → values: `--k=v`, `--k v`, `-k v`, `-kv`, `-ab` for switches, `--no-k`, and `--`, after which every word is
 * an operand. A word after an option that needs a value is that value, even with a leading dash (a token may begin with
 * one), unless it is itself an option of this command. Refuses with the kind `usage`, naming the word.
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

  /** Both answer how many of the following words they took. */
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
    if (found === undefined) throw unknownOption(`--${flag}`, options)
    return take(flag, found, inline, next)
  }

  function short(word: string, next: string | undefined): 0 | 1 {
    for (let at = 1; at < word.length; at++) {
      const letter = word[at] as string
      const flag = Object.keys(options).find(key => row(key)?.alias === letter)
      if (flag === undefined) throw unknownOption(`-${letter}`, options)
      const found = row(flag) as OptionRow
      if (found.type === 'switch') {
        values[flag] = true
        continue
      }
      const glued = word.slice(at + 1).replace(/^=/, '')
      return take(flag, found, at + 1 < word.length ? glued : undefined, next)
    }
    return 0
  }

  function take(flag: string, found: OptionRow, inline: string | undefined, next: string | undefined): 0 | 1 {
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
        `--${flag} needs a value: "${text}" is itself an option (write --${flag}=${text} to mean it)`
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

/** Values as the words that `parseArgs` makes them of, those that are no default: for another process. */
export function wordsOf(options: OptionTable, values: Readonly<Record<string, unknown>>): string[] {
  const given = Object.entries(defaults(options)).filter(([flag, value]) => values[flag] !== undefined && values[flag] !== value)
  return given.flatMap(([flag]) => {
    const value = values[flag]
    if (value === true) return [`--${flag}`]
    if (value === false) return [`--no-${flag}`]
    return [value].flat().map(each => `--${flag}=${each}`)
  })
}

function defaults(options: OptionTable): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const [flag, row] of Object.entries(options)) {
    values[flag] = row.repeatable ? [] : row.type === 'switch' ? row.default === true : row.default
  }
  return values
}

function name(words: string[], operands: OperandTable): Record<string, string | undefined> {
  const rows = Object.entries(operands)
  const extra = words[rows.length]
  if (extra !== undefined) throw usage(extra, `unexpected word "${extra}": ${countOf(rows.length)} expected`)
  const named: Record<string, string | undefined> = {}
  rows.forEach(([operand, row], at) => {
    if (row.required && words[at] === undefined) throw usage(operand, `<${operand}> is missing: ${row.help}`)
    named[operand] = words[at]
  })
  return named
}

function countOf(operands: number): string {
  return operands === 0
    ? 'no word besides options is'
    : operands === 1
      ? 'only one word is'
      : `only ${operands} words are`
}

function readSwitch(flag: string, text: string): boolean {
  if (text === 'true' || text === '1') return true
  if (text === 'false' || text === '0') return false
  throw usage(`--${flag}`, `--${flag} is a switch: "${text}" is neither "true" nor "false"`)
}

function readValue(flag: string, row: OptionRow, text: string): string | number {
  if (row.choices !== undefined && !row.choices.includes(text)) {
    throw usage(`--${flag}`, `--${flag} cannot be "${text}": ${expected(row)}`)
  }
  if (row.type !== 'count') return text
  const number = /^\d{1,15}$/.test(text) ? Number(text) : NaN
  if (!(number >= (row.minimum ?? 0) && number <= (row.maximum ?? Number.MAX_SAFE_INTEGER))) {
    throw usage(`--${flag}`, `--${flag} cannot be "${text}": ${expected(row)}`)
  }
  return number
}

function expected(row: OptionRow): string {
  if (row.choices !== undefined) return `it is one of ${row.choices.join(', ')}`
  if (row.type !== 'count') return row.help
  const { minimum = 0, maximum } = row
  return maximum === undefined
    ? `it is a whole number from ${minimum}`
    : `it is a whole number from ${minimum} to ${maximum}`
}

function unknownOption(flag: string, options: OptionTable): Refusal {
  const known = [...helpFlags.slice(0, 1), ...Object.entries(options).map(([key, row]) => shownFlag(key, row))]
  const meant = closest(flag, known)
  return usage(flag, `unknown option "${flag}"${meant === undefined ? '' : `: did you mean "${meant}"?`}`)
}

/** A wrong usage: exit code 2. `word` is what is at fault. */
export function usage(word: string, sentence: string): Refusal {
  return new Refusal('usage', 'usage', sentence, { field: word })
}
