import type { Refusal } from '../base/errors.js'
import type { Command } from './command.js'

/**
 * Returns the sentence of a refusal with the option of a command in place of the field of the request, which its user has
 * never seen: `"seconds" is 8553600: must be between 60 and 604800` becomes `--for is 99d: must be between 1m and 7d`.
 */
export function inOptions(
  { kind, message, field }: Pick<Refusal, 'kind' | 'message' | 'field'>,
  { fields = {}, options, operands }: Pick<Command, 'fields' | 'options' | 'operands'>
): string {
  // Wrong usage is found here, and names what was typed.
  if (field === undefined || kind === 'usage') return message
  const name = field.replace(/\[\d+\]$/, '')
  const given = Object.hasOwn(fields, name) ? fields[name] : undefined
  const named = Object.hasOwn(options, name) ? `--${name}` : Object.hasOwn(operands, name) ? `<${name}>` : undefined
  const option = typeof given === 'object' ? given.duration : (given ?? named)
  if (option === undefined) return message
  const quoted = `"${field}"`
  // A word without quotes is a name only if a command says so: "name" is also a word of sentences.
  const bare = given === undefined ? null : new RegExp(`(?<![\\w"])${name}(?![\\w"])`, 'g')
  const isQuoted = message.includes(quoted)
  const sentence = isQuoted || bare === null ? message.replaceAll(quoted, option) : message.replace(bare, option)
  return typeof given === 'object'
    ? sentence.replace(/\b\d+\b/g, seconds => durationOfSeconds(Number(seconds)))
    : sentence
}

const units = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60]
] as const

/** Returns a duration as options take it: the largest unit that divides it. */
function durationOfSeconds(seconds: number): string {
  const [unit, size] = units.find(([, size]) => seconds > 0 && seconds % size === 0) ?? ['s', 1]
  return `${seconds / size}${unit}`
}
