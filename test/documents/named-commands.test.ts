import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseArgs } from '../../lib/cli/command.js'
import { commands } from '../../lib/cli/command-table.js'
import { top } from './document.js'

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
  const row = commands.find(({ name, aliases = [] }) =>
    [name, ...aliases].some(each => each === words.slice(0, each.split(' ').length).join(' '))
  )
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
  ['docs', 'md']
] as const) {
  t.test(`every command that ${directory} names is one`, async t => {
    const named = filesBelow(directory, kind).flatMap(path => namedIn(path, kind))
    const found: string[] = []
    for (const { at, text } of named) {
      const fault = await faultOf(wordsOf(text))
      if (fault !== null) found.push(`${at}: svc ${text}: ${fault}`)
    }
    t.strictSame(found, [])
    t.ok(named.length > 10, `${named.length}`)
  })
}

t.test('a command that svc would refuse is found', async t => {
  t.equal(await faultOf(wordsOf('cluster remove <hub>')), 'no such command')
  t.match(await faultOf(wordsOf('cluster forget <hub> --force')), /^Unknown option/)
  t.match(await faultOf(wordsOf('cluster leave ${name}')), /^Unexpected argument/)
  t.equal(await faultOf(wordsOf('cluster forget <hub>. Then start it')), null)
})
