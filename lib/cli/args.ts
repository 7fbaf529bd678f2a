import { Refusal } from '../base/errors.js'
import { closest } from '../base/text.js'
import { shownFlag, type OperandTable, type OptionRow, type OptionTable } from './option-table.js'

/** The values of one command line. */
export interface Parsed {
  options: Record<string, unknown>
  operands: Record<string, string | undefined>
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
    if (found === undefined) throw unknownOption(`--${flag}`, options)
    return take({ flag, row: found, inline, next })
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
  for (const [flag, row] of Object.entries(options)) {
    values[flag] = row.repeatable ? [] : row.type === 'switch' ? row.default === true : row.default
  }
  return values
}

function name(words: string[], operands: OperandTable): Record<string, string | undefined> {
  const rows = Object.entries(operands)
  const extra = words[rows.length]
  if (extra !== undefined) throw usage(extra, `Unexpected argument "${extra}": ${acceptedCount(rows.length)}`)
  const named: Record<string, string | undefined> = {}
  rows.forEach(([operand, row], at) => {
    if (row.required && words[at] === undefined) throw usage(operand, `<${operand}> is missing: ${row.help}`)
    named[operand] = words[at]
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
  if (row.choices !== undefined) return `choose one of ${row.choices.join(', ')}`
  if (row.type !== 'count') return row.help
  const { minimum = 0, maximum } = row
  return maximum === undefined
    ? `it must be a whole number of at least ${minimum}`
    : `it must be a whole number from ${minimum} to ${maximum}`
}

function unknownOption(flag: string, options: OptionTable): Refusal {
  const known = [...helpFlags.slice(0, 1), ...Object.entries(options).map(([key, row]) => shownFlag(key, row))]
  const meant = closest(flag, known)
  return usage(flag, `Unknown option "${flag}"${meant === undefined ? '' : `: did you mean "${meant}"?`}`)
}

/** Returns a refusal for wrong usage, which ends with exit code 2. `word` is the word at fault. */
export function usage(word: string, sentence: string): Refusal {
  return new Refusal('usage', 'usage', sentence, { field: word })
}
