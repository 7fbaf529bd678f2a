import { type Command, type OptionRow, shownFlag } from './command.js'
import { columns, type HelpRow, pageColumns } from './help.js'
import { wrap } from './terminal/words.js'

/** Returns the page of `svc <command> --help`, generated from the tables of the command. */
export function renderCommand(row: HelpRow, command: Command): string {
  const operands = Object.entries(command.operands)
  const options = Object.entries(command.options)
  const words = operands
    .map(([name, { required, repeatable }]) => (required ? ` <${name}>` : ` [${name}]`) + (repeatable ? '...' : ''))
    .join('')
  const lines = [`svc ${row.name}: ${row.summary}`, '', `Usage: svc ${row.name}${words} [options]`, '']
  if (row.now !== undefined) lines.push(`The newer name is "svc ${row.now}". Both stay.`, '')
  if (operands.length > 0)
    lines.push('Operands:', ...columns(operands.map(([name, operand]) => [name, operand.help])), '')
  lines.push('Options:', ...columns([...options.map(describe), ['-h, --help', 'show this page']]), '')
  if (command.details !== undefined)
    lines.push(...paragraphs(command.details).flatMap(text => [...wrap(text, pageColumns), '']))
  lines.push(command.examples.length > 1 ? 'Examples:' : 'Example:')
  for (const [line, what] of command.examples)
    lines.push(...commandLine(`svc ${line}`), ...indented(wrap(what, pageColumns - 6), 6))
  return `${lines.join('\n')}\n`
}

function describe([flag, row]: [string, OptionRow]): [string, string] {
  const name = row.value ?? row.choices?.join('|') ?? 'value'
  const value =
    row.type === 'switch'
      ? ''
      : row.bare === undefined
        ? ` <${name}>`
        : row.choices === undefined
          ? `[=${name}]`
          : ` [${name}]`
  const left = `${row.alias === undefined ? '' : `-${row.alias}, `}${shownFlag(flag, row)}${value}`
  const notes = [
    row.repeatable ? 'repeatable' : '',
    row.type !== 'switch' && row.default !== undefined && row.default !== '' ? `default ${row.default}` : '',
    row.maximum === undefined ? '' : `at most ${row.maximum}`
  ].filter(Boolean)
  return [left, notes.length === 0 ? row.help : `${row.help} (${notes.join(', ')})`]
}

/** Splits `details` into paragraphs at blank lines. Any other line break becomes a space. */
function paragraphs(text: string): string[] {
  return text.split(/\n{2,}/).map(paragraph => paragraph.replaceAll('\n', ' '))
}

/** Breaks a long command line with backslashes, as a shell accepts it. An option stays on the line of its value. */
function commandLine(line: string): string[] {
  const words = line.match(/(?:--\S+ (?=[^-|]))?(?:"[^"]*"|[^ "])+/g) ?? []
  const lines: string[] = []
  for (const word of words) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= pageColumns - 4)
      lines[lines.length - 1] = `${last} ${word}`
    else lines.push(last === undefined ? `  ${word}` : `    ${word}`)
  }
  return lines.map((text, at) => (at === lines.length - 1 ? text : `${text} \\`))
}

function indented(lines: readonly string[], columns: number): string[] {
  return lines.map(line => ' '.repeat(columns) + line)
}
