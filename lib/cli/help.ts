import type { OptionRow } from './args.js'
import type { Command } from './command.js'

export interface HelpRow {
  name: string
  summary: string
}

/** The page of `svc --help`. */
export function renderOverview(rows: readonly HelpRow[]): string {
  return [
    'svc: push a build to your own server, watch it deploy, roll it back',
    '',
    'Usage: svc <command> [options]',
    '',
    'Commands:',
    ...columns(rows.map(row => [row.name, row.summary])),
    '',
    'Options:',
    ...columns([
      ['-h, --help', 'this page, or that of a command'],
      ['-V, --version', 'the version of svc']
    ]),
    '',
    'Run "svc <command> --help" for the options and an example of one command.',
    ''
  ].join('\n')
}

/** The page of `svc <command> --help`, from the command's tables. */
export function renderCommand(row: HelpRow, command: Command): string {
  const operands = Object.entries(command.operands)
  const options = Object.entries(command.options)
  const words = operands.map(([name, operand]) => (operand.required ? ` <${name}>` : ` [${name}]`)).join('')
  const lines = [`svc ${row.name}: ${row.summary}`, '', `Usage: svc ${row.name}${words} [options]`, '']
  if (operands.length > 0) {
    lines.push('Operands:', ...columns(operands.map(([name, operand]) => [name, operand.help])), '')
  }
  lines.push('Options:', ...columns([...options.map(describe), ['-h, --help', 'this page']]), '')
  if (command.details !== undefined) lines.push(command.details, '')
  lines.push(command.examples.length > 1 ? 'Examples:' : 'Example:')
  for (const [line, what] of command.examples) lines.push(`  svc ${line}`, `      ${what}`)
  return lines.join('\n') + '\n'
}

/** How an option is written in the help: a switch that is on by default is only ever turned off. */
export function shownFlag(flag: string, row: OptionRow): string {
  return row.type === 'switch' && row.default === true ? `--no-${flag}` : `--${flag}`
}

function describe([flag, row]: [string, OptionRow]): [string, string] {
  const name = row.value ?? row.choices?.join('|') ?? 'value'
  const value = row.type === 'switch' ? '' : row.bare === undefined ? ` <${name}>` : ` [${name}]`
  const left = `${row.alias === undefined ? '' : `-${row.alias}, `}${shownFlag(flag, row)}${value}`
  const notes = [
    row.repeatable ? 'repeatable' : '',
    row.type !== 'switch' && row.default !== undefined && row.default !== '' ? `default ${row.default}` : '',
    row.maximum === undefined ? '' : `at most ${row.maximum}`
  ].filter(Boolean)
  return [left, notes.length === 0 ? row.help : `${row.help} (${notes.join(', ')})`]
}

const pageColumns = 110
const longestLeft = 30

function columns(rows: [string, string][]): string[] {
  const width = Math.min(longestLeft, Math.max(...rows.map(([left]) => left.length)))
  const indent = ' '.repeat(width + 4)
  return rows.map(([left, right]) => {
    const text = wrap(right, pageColumns - indent.length).join(`\n${indent}`)
    return left.length > width ? `  ${left}\n${indent}${text}` : `  ${left.padEnd(width)}  ${text}`
  })
}

function wrap(text: string, columns: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line)
      line = ''
    }
    line += line === '' ? word : ` ${word}`
  }
  return [...lines, line]
}
