/* The pages of all commands. That of one command is in command-help.ts, so that "svc --help" loads no more than it shows. */
import { wrap } from './terminal/words.js'

/** Name and summary of a command. */
export interface HelpRow {
  name: string
  summary: string
  /** The newer command that does the same. */
  now?: string
}

/** A row of the overview. `group` is a key of the groups. */
export interface OverviewRow extends HelpRow {
  group: string
}

/**
 * Returns the page of `svc` alone, which fits on a terminal of 24 lines: the verbs, and the topics with what they are
 * about.
 */
export function renderStart(verbs: readonly HelpRow[], topics: Readonly<Record<string, string>>): string {
  const width = Math.max(...[...verbs.map(({ name }) => name), ...Object.keys(topics)].map(word => word.length))
  return [
    'svc: deploy builds to your own server. Usage: svc <command> [options]',
    '',
    ...columns(
      // Other names of a command are in its own help.
      verbs.map(({ name, summary }) => [name, withoutAliases(summary)]),
      width
    ),
    '',
    'Topics, for svc help <topic>:',
    ...columns(Object.entries(topics), width),
    '',
    'svc <command> --help: options and examples. svc help --all: all commands.',
    ''
  ].join('\n')
}

/** Returns the page of `svc help <topic>`. */
export function renderTopic(topic: string, about: string, rows: readonly HelpRow[]): string {
  return [
    `svc help ${topic}: ${about}`,
    '',
    ...columns(
      rows.map(({ name, summary }) => [name, summary]),
      Math.max(...rows.map(({ name }) => name.length))
    ),
    '',
    'svc <command> --help: options and examples. svc help --all: all commands.',
    ''
  ].join('\n')
}

/** Returns the page of `svc help --all`: commands by group, in the order of `groups`. */
export function renderOverview(rows: readonly OverviewRow[], groups: Readonly<Record<string, string>>): string {
  const width = Math.max(...rows.map(({ name }) => name.length))
  const sections = Object.entries(groups).flatMap(([group, heading]) => {
    const own = rows.filter(row => row.group === group)
    return own.length === 0
      ? []
      : [
          `${heading}:`,
          ...columns(
            own.map(({ name, summary, now }) => [name, now === undefined ? summary : `now: svc ${now}`]),
            width
          ),
          ''
        ]
  })
  return [
    'svc: deploy builds to your own server, watch them deploy, roll them back',
    '',
    'Usage: svc <command> [options]',
    '',
    ...sections,
    'Options:',
    ...columns(
      [
        ['-h, --help', 'show this page or the help of a command'],
        ['-V, --version', 'print the version of svc']
      ],
      width
    ),
    '',
    'Run "svc <command> --help" for the options and examples of a command.',
    ''
  ].join('\n')
}

/** Default width of a terminal. */
export const pageColumns = 80
const longestLeft = 24

/** Returns rows of two columns as lines. A left part that is too long has a line of its own. */
export function columns(rows: [string, string][], given?: number): string[] {
  const width = given ?? Math.min(longestLeft, Math.max(...rows.map(([left]) => left.length)))
  const indent = ' '.repeat(width + 4)
  return rows.map(([left, right]) => {
    const text = wrap(right, pageColumns - indent.length).join(`\n${indent}`)
    return left.length > width ? `  ${left}\n${indent}${text}` : `  ${left.padEnd(width)}  ${text}`
  })
}

/** Returns a summary without the other names of its command: `(alias: svc deploy)`. */
function withoutAliases(summary: string): string {
  const at = summary.indexOf(' (alias')
  return at === -1 ? summary : summary.slice(0, at)
}
