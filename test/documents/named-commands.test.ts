import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseArgs } from '../../lib/cli/command.js'
import { commands } from '../../lib/cli/command-table.js'
import { documents, top } from './document.js'

/* A message, a comment or a document that names a command names one that svc accepts. */

/** Texts after "svc" that are no commands, but words of a sentence. */
const noCommands = /^(?:-|needs Node|agent runs)/
const firstWords = new Set(
  commands.flatMap(({ name, aliases = [] }) => [name, ...aliases]).map(each => each.split(' ')[0] as string)
)
const patterns: Record<string, Pattern[]> = {
  // A command in quotes, and one at the end of a message.
  ts: [{ text: /["“]svc ([^"”\n]+)["”]/g }, { text: /: svc ([a-z][^'`"\n]*)['`]/g, mayBeSentence: true }],
  md: [{ text: /`svc ([^`\n]+)`/g }]
}

interface Pattern {
  text: RegExp
  /** Whether what begins with no command is a sentence. */
  mayBeSentence?: boolean
}

interface Named {
  at: string
  text: string
}

function filesBelow(directory: string, kind: string): string[] {
  if (directory.endsWith(`.${kind}`)) return [directory]
  return readdirSync(join(top, directory), { recursive: true })
    .map(name => join(directory, String(name)))
    .filter(path => path.endsWith(`.${kind}`))
}

function namedIn(path: string, kind: string): Named[] {
  const source = readFileSync(join(top, path), 'utf8')
  return (patterns[kind] as Pattern[]).flatMap(({ text: pattern, mayBeSentence = false }) =>
    [...source.matchAll(pattern)]
      .map(({ index, 1: text = '' }) => ({ at: `${path}:${source.slice(0, index).split('\n').length}`, text }))
      .filter(({ text }) => !noCommands.test(text) && (!mayBeSentence || firstWords.has(wordsOf(text)[0] as string)))
  )
}

/** Returns the words that a user would type, with "x" in place of each value. */
function wordsOf(text: string): string[] {
  const plain = text
    .replace(/\$\{[^{}]*\}|<[^<>]*>|\{\w+\}/g, 'x')
    .replace(/\$\{.*$/, '')
    .replace(/\s*(?:[|>&;#)]|\$\(|[.,] | {3}).*$/, '')
    .replace(/[…[\]]/g, ' ')
    .replace(/[.,]$/, '')
  return (plain.match(/(?:"[^"]*"|'[^']*'|\S)+/g) ?? []).map(word => word.replace(/["']/g, ''))
}

/** Returns why svc would refuse a command line as wrong; null if it accepts the words, or only misses some. */
async function faultOf(words: readonly string[]): Promise<string | null> {
  const rows = commands.filter(({ name, aliases = [] }) =>
    [name, ...aliases].some(each => each === words.slice(0, each.split(' ').length).join(' '))
  )
  // "svc logs sources list" is not "svc logs".
  const row = rows.sort((one, other) => other.name.length - one.name.length)[0]
  // A group, such as "svc cluster", or the name of any command.
  if (row === undefined)
    return words[0] === 'x' || (words.length === 1 && firstWords.has(words[0] as string)) ? null : 'no such command'
  if (row.name === 'help') return null
  const command = await row.load()
  const used = [row.name, ...(row.aliases ?? [])].find(each => words.join(' ').startsWith(each)) as string
  try {
    parseArgs(words.slice(used.split(' ').length), command.options, command.operands)
    return null
  } catch (error) {
    const { message } = error as Error
    return /^Unknown option|^Unexpected argument/.test(message) ? message : null
  }
}

for (const [directory, kind] of [
  ['lib', 'ts'],
  ['www', 'ts'],
  ['docs', 'md'],
  ['README.md', 'md']
] as const) {
  t.test(`every command that ${directory} names is one`, async t => {
    const named = filesBelow(directory, kind).flatMap(path => namedIn(path, kind))
    const found: string[] = []
    for (const { at, text } of named) {
      const fault = await faultOf(wordsOf(text))
      if (fault !== null) found.push(`${at}: svc ${text}: ${fault}`)
    }
    t.strictSame(found, [])
    t.ok(named.length > 5, `${named.length}`)
  })
}

/** Words in code that are names of other programs, by the program. */
const foreign: Readonly<Record<string, readonly string[]>> = {
  rsync: ['--delete', '--exclude'],
  'Capistrano and Deployer': ['linked_dirs', 'shared_dirs', 'keep_releases', 'deploy_path'],
  'nginx, Caddy and Prometheus': ['reverse_proxy', 'file_server', 'metrics_path'],
  'Python and etcdctl': ['--directory', '--prefix'],
  'CI systems': ['svc_deploy_token'],
  // Codes that svc puts together from two words.
  'svc, in two parts': ['backup_failed', 'export_failed', 'no_bun', 'no_node']
}

/** The help of the commands, and the descriptions of the routes. */
const isReference = /^docs\/(cli\.md|openapi\.json)$/

/** Returns the options, fields and codes in the code spans of Markdown, and the options in a reference. */
function wordsInCode(text: string, isOutput: boolean): string[] {
  const prose = text.replace(/^ *```[^]*?^ *```/gm, '')
  const spans = isOutput ? [text] : [...prose.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span)
  return spans.flatMap(span => [
    ...(span.match(/(?<![\w-])--[a-z][a-z0-9-]*/g) ?? []),
    ...(/^[a-z]+(?:[A-Z][a-z0-9]*|_[a-z0-9]+)+$/.test(span) ? [span] : [])
  ])
}

t.test('every option, field and code that a document names is one', async t => {
  const loaded = await Promise.all(commands.filter(({ name }) => name !== 'help').map(row => row.load()))
  const names = loaded.flatMap(({ options }) => Object.keys(options ?? {}))
  const known = new Set([...Object.values(foreign).flat(), '--help', '--version'])
  for (const name of names) known.add(`--${name}`).add(`--no-${name}`)
  const sources = [...filesBelow('lib', 'ts'), ...filesBelow('www', 'ts'), 'docs/openapi.json']
  for (const path of sources)
    for (const [word] of readFileSync(join(top, path), 'utf8').matchAll(/\w+/g)) known.add(word)
  const unknown = (path: string, text: string): string[] =>
    wordsInCode(text, isReference.test(path))
      .filter(word => !known.has(word))
      .map(word => `${path}: ${word}`)
  const found = [...documents, 'docs/openapi.json'].flatMap(path =>
    unknown(path, readFileSync(join(top, path), 'utf8'))
  )
  t.strictSame([...new Set(found)], [])
  t.strictSame(unknown('x', 'Use `--prunes`, `svc push --fource` and `keepArchivez`'), [
    'x: --prunes',
    'x: --fource',
    'x: keepArchivez'
  ])
})

/** Sources whose sentences only the command shows that has the option: the start of a server, and commands for its data. */
const ofOneCommand = /^lib\/(cli|server|http|base|cluster|carry\/backup)\//

/** Returns the sentences that name an option without its command, or a server that runs with it. */
function bareOptions(source: string): string[] {
  const code = source.replace(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '')
  const sentences = code.match(/(?:(['`])(?:(?!\1)[^\n])*\1(?:\s*\+\s*)?)+/g)
  return (sentences ?? []).filter(each => /[ (]--[a-z]/.test(each) && !/\bsvc [a-z]| runs with --/.test(each))
}

t.test('an answer of the server that names an option names its command, too', t => {
  t.strictSame(
    filesBelow('lib', 'ts')
      .filter(path => !ofOneCommand.test(path))
      .flatMap(path => bareOptions(readFileSync(join(top, path), 'utf8')).map(sentence => `${path}: ${sentence}`)),
    []
  )
  t.equal(bareOptions("const sentence =\n  'It is so. Use ' +\n  'it with --force'").length, 1)
  t.strictSame(bareOptions("const sentence = 'It is so. Use ' + '\"svc push --force\"'"), [])
  t.end()
})

t.test('a command that svc would refuse is found', async t => {
  t.equal(await faultOf(wordsOf('cluster remove <hub>')), 'no such command')
  t.match(await faultOf(wordsOf('cluster forget <hub> --force')), /^Unknown option/)
  t.match(await faultOf(wordsOf('cluster leave ${name}')), /^Unexpected argument/)
  t.equal(await faultOf(wordsOf('cluster forget <hub>. Then start it')), null)
})
