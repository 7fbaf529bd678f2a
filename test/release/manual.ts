import type { Command, CommandRow, OptionRow } from '../../lib/cli/command.js'
import { shownFlag } from '../../lib/cli/command.js'
import { commandGroups, commands } from '../../lib/cli/command-table.js'

/*
 * The manual pages, man-pages(7), from the table of commands: svc.1, and svc-<command>.1 for each. Roff is written with
 * the macros of man(7) alone, so that groff and mandoc read it.
 */

export interface ManualPage {
  /** The file name: `svc-push.1`. */
  name: string
  text: string
}

interface Edition {
  version: string
  madeAtSeconds: number
}

/** Variables that most commands read. */
const variables: ReadonlyArray<readonly [name: string, what: string]> = [
  ['SVC_HOME', 'The data directory; default ~/.svc.'],
  ['SVC_SERVER_URL', "The server's address."],
  ['SVC_TOKEN', 'The admin token.'],
  ['SVC_DEPLOY_TOKEN', "The project's deploy token."],
  ['HTTP_PROXY, HTTPS_PROXY, NO_PROXY', 'The proxy to the server.'],
  ['NODE_EXTRA_CA_CERTS', 'A file with certificates of further authorities.'],
  ['NO_COLOR, FORCE_COLOR', 'Whether to print in colours.']
]

const files: ReadonlyArray<readonly [path: string, what: string]> = [
  ['svc.config.json', 'The configuration of the project in this directory. It contains no token.'],
  ['svc.config.<name>.json', 'The same for the environment <name> (--env).'],
  ['.env.local', 'Variables of this directory, as SVC_DEPLOY_TOKEN.'],
  ['~/.svc/config.json', 'The global configuration, with the tokens of "svc login".']
]

const statuses: ReadonlyArray<readonly [code: string, what: string]> = [
  ['0', 'Success.'],
  ['1', 'The operation failed.'],
  ['2', 'Wrong usage: an unknown command or option, or a wrong value.'],
  ['130', 'Interrupted by Ctrl-C.']
]

/** Returns every page, for the commands whose family `has` contains. */
export async function manualPages(
  edition: Edition,
  has: (family: string) => boolean = () => true
): Promise<ManualPage[]> {
  const rows = commands.filter(({ family, hidden }) => hidden !== true && family !== null && has(family))
  const loaded = await Promise.all(rows.map(async row => ({ row, command: await row.load() })))
  return [
    { name: 'svc.1', text: overviewPage(rows, edition) },
    ...loaded.map(({ row, command }) => ({ name: `${pageOf(row.name)}.1`, text: commandPage(row, command, edition) }))
  ]
}

function pageOf(name: string): string {
  return `svc-${name.replace(/[ :]/g, '-')}`
}

function overviewPage(rows: readonly CommandRow[], edition: Edition): string {
  const groups = Object.entries(commandGroups).flatMap(([group, heading]) => {
    const own = rows.filter(row => row.group === group)
    if (own.length === 0) return []
    return [
      `.SS ${text(heading)}`,
      ...own.flatMap(({ name, summary }) =>
        tagged(`\\fB${text(`svc ${name}`)}\\fR`, `${sentence(summary)} See ${pageOf(name)}(1).`)
      )
    ]
  })
  return page('SVC', edition, [
    '.SH NAME',
    `svc \\- push a build to your own server, watch it deploy, roll it back`,
    '.SH SYNOPSIS',
    '.B svc',
    '.I command',
    '.RI [ options ]',
    '.SH DESCRIPTION',
    ...paragraph(
      'svc packs the files of a project, uploads them to a server of your own, and puts them in place there: all of them or, if anything fails, none. The server keeps what was deployed, so that each deployment can be rolled back to.'
    ),
    ...paragraph(
      'A first deployment needs two commands, run where the repository is: "svc init" writes svc.config.json, "svc push" deploys.'
    ),
    '.SH COMMANDS',
    ...groups,
    '.SH OPTIONS',
    ...tagged(
      '\\fB\\-h\\fR, \\fB\\-\\-help\\fR',
      'Show the list of commands; after a command, its options and an example.'
    ),
    ...tagged('\\fB\\-V\\fR, \\fB\\-\\-version\\fR', 'Print the version.'),
    ...commonSections(),
    '.SH SEE ALSO',
    rows
      .slice(0, 6)
      .map(({ name }) => `.BR ${text(pageOf(name))} (1)`)
      .join(' ,\n')
      .replaceAll(' ,', ',')
  ])
}

function commandPage({ name, aliases = [], summary }: CommandRow, command: Command, edition: Edition): string {
  const operands = Object.entries(command.operands)
  const words = operands.map(([operand, { required }]) =>
    required ? `.I ${text(operand)}` : `.RI [ ${text(operand)} ]`
  )
  const also = aliases.length === 0 ? [] : paragraph(`Other names: ${aliases.map(alias => `svc ${alias}`).join(', ')}.`)
  const details = (command.details ?? '')
    .split(/\n{2,}/)
    .filter(Boolean)
    .flatMap(part => paragraph(part.replaceAll('\n', ' ')))
  return page(pageOf(name).toUpperCase(), edition, [
    '.SH NAME',
    `${text(pageOf(name))} \\- ${text(summary)}`,
    '.SH SYNOPSIS',
    `.B svc ${text(name)}`,
    ...words,
    '.RI [ options ]',
    '.SH DESCRIPTION',
    ...(details.length + also.length === 0 ? paragraph(sentence(summary)) : [...details, ...also]),
    ...(operands.length === 0
      ? []
      : [
          '.SH OPERANDS',
          ...operands.flatMap(([operand, { help }]) => tagged(`\\fI${text(operand)}\\fR`, sentence(help)))
        ]),
    '.SH OPTIONS',
    ...Object.entries(command.options).flatMap(optionLines),
    ...tagged('\\fB\\-h\\fR, \\fB\\-\\-help\\fR', 'Show the options and an example.'),
    ...commonSections(),
    '.SH EXAMPLES',
    ...command.examples.flatMap(([line, what]) => [
      ...paragraph(`${sentence(what)}`),
      '.RS 4',
      '.nf',
      text(`svc ${line}`),
      '.fi',
      '.RE'
    ]),
    '.SH SEE ALSO',
    '.BR svc (1)'
  ])
}

function optionLines([flag, row]: [string, OptionRow]): string[] {
  const value = row.value ?? row.choices?.join('|') ?? 'value'
  const letter = row.alias === undefined ? '' : `\\fB\\-${row.alias}\\fR, `
  const argument =
    row.type === 'switch' ? '' : row.bare === undefined ? ` \\fI${text(value)}\\fR` : ` [\\fI${text(value)}\\fR]`
  const notes = [
    row.repeatable ? 'May be given several times.' : '',
    row.choices === undefined ? '' : `One of ${row.choices.join(', ')}.`,
    row.type !== 'switch' && row.default !== undefined && row.default !== '' ? `Default: ${row.default}.` : '',
    row.maximum === undefined ? '' : `At most ${row.maximum}.`
  ].filter(Boolean)
  return tagged(`${letter}\\fB${text(shownFlag(flag, row))}\\fR${argument}`, [sentence(row.help), ...notes].join(' '))
}

function commonSections(): string[] {
  const list = (rows: ReadonlyArray<readonly [string, string]>): string[] =>
    rows.flatMap(([term, what]) => tagged(`\\fB${text(term)}\\fR`, what))
  return ['.SH ENVIRONMENT', ...list(variables), '.SH FILES', ...list(files), '.SH EXIT STATUS', ...list(statuses)]
}

function page(title: string, { version, madeAtSeconds }: Edition, lines: readonly string[]): string {
  const date = new Date(madeAtSeconds * 1000).toISOString().slice(0, 10)
  // A heading begins a paragraph.
  const body = lines.filter((line, at) => line !== '.PP' || !/^\.S[HS]/.test(lines[at - 1] ?? ''))
  return `${[`.\\" Generated from the table of commands.`, `.TH ${text(title)} 1 "${date}" "svc ${text(version)}" "svc manual"`, '.nh', '.ad l', ...body].join('\n')}\n`
}

function paragraph(words: string): string[] {
  return ['.PP', text(words)]
}

/** Formats an item. `term` is already roff. */
function tagged(term: string, words: string): string[] {
  return ['.TP', term, text(words)]
}

function sentence(words: string): string {
  const first = /^(svc\b|[a-z]+\.)/.test(words) ? words[0] : words[0]?.toUpperCase()
  return `${first}${words.slice(1)}${/[.!?]$/.test(words) ? '' : '.'}`
}

/** Escapes text for roff: escapes, hyphens as minus signs, and no request at the start of a line. */
function text(words: string): string {
  const plain = words
    .replace(/\s+/g, ' ')
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('…', '...')
    .replaceAll('→', '\\(->')
  return plain.replace(/^([.'])/, '\\&$1')
}
