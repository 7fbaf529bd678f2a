/*
 * The regular expressions of the source code: those that are written down, with the texts that would make a backtracking
 * matcher slow, and those that are computed.
 *
 * A matcher is slow where a repeated part can match the same characters in several ways. So for each repetition the texts
 * are: what leads to it, many times what it repeats, and an end that does not fit.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

/** A regular expression that is written down. */
export interface Expression {
  /** The file, below the top of the project. */
  path: string
  source: string
  flags: string
}

/** What the source code contains. */
export interface Expressions {
  literals: Expression[]
  /** Where an expression is computed, as `path: code`. */
  computed: string[]
}

/** Methods of a string that make an expression of a text. */
const making = new Set(['match', 'matchAll', 'search'])

/** Finds the expressions in the TypeScript files below these directories of the project. */
export function expressionsIn(top: string, directories: readonly string[]): Expressions {
  const found: Expressions = { literals: [], computed: [] }
  for (const directory of directories) {
    for (const name of readdirSync(join(top, directory), { recursive: true, encoding: 'utf8' }).sort()) {
      if (!name.endsWith('.ts') || name.endsWith('.d.ts')) continue
      const path = `${directory}/${name.replaceAll('\\', '/')}`
      collect(ts.createSourceFile(path, readFileSync(join(top, path), 'utf8'), ts.ScriptTarget.Latest, true), found)
    }
  }
  return found
}

function collect(file: ts.SourceFile, { literals, computed }: Expressions): void {
  /** Names of this file that hold an expression which is written down or listed. */
  const known = new Set<string>()
  const code = (node: ts.Node): string => node.getText(file).replace(/\s+/g, ' ').slice(0, 60)
  const isFixed = (node: ts.Node | undefined): boolean => node !== undefined && ts.isRegularExpressionLiteral(node)

  function visit(node: ts.Node): void {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      literals.push({ path: file.fileName, source: node.text.slice(1, end), flags: node.text.slice(end + 1) })
    }
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && isFixed(node.initializer))
      known.add(node.name.text)
    if (ts.isIdentifier(node) && node.text === 'RegExp' && isValue(node))
      computed.push(`${file.fileName}: ${code(node.parent)}`)
    if (
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      making.has(node.expression.name.text)
    ) {
      const [given] = node.arguments
      const isKnown = given !== undefined && ts.isIdentifier(given) && known.has(given.text)
      if (!isFixed(given) && !isKnown) computed.push(`${file.fileName}: ${code(node)}`)
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
}

/** Whether the name is used for more than a type and `instanceof`. */
function isValue({ parent }: ts.Identifier): boolean {
  const isCheck = ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.InstanceOfKeyword
  return !isCheck && !ts.isTypeReferenceNode(parent)
}

type Part =
  | { kind: 'set'; text: string }
  | { kind: 'empty' }
  | { kind: 'all' | 'one'; parts: Part[] }
  | { kind: 'many'; part: Part; least: number; most: number }

/** Repetitions up to this number cannot make a matcher slow. */
const fewRepetitions = 16

/** A text with a long middle: a pump that is repeated. */
export interface HostileText {
  before: string
  pump: string
  end: string
}

/** Returns a hostile text of about this length. */
export function written({ before, pump, end }: HostileText, length: number): string {
  return before + pump.repeat(Math.ceil(length / pump.length)) + end
}

/** Returns the texts that would make a matcher of the expression slow if its repetitions are ambiguous. */
export function* hostileTexts({ source, flags }: Pick<Expression, 'source' | 'flags'>): Generator<HostileText> {
  const tree = read(source)
  const sets = new Set<string>()
  walk(tree, part => part.kind === 'set' && sets.add(part.text))
  const letters = lettersOf([...sets], flags)
  const sample = (part: Part, preferred = ''): string => {
    switch (part.kind) {
      case 'empty':
        return ''
      case 'set': {
        const fits = setOf(part.text, flags)
        return [preferred, ...letters, ...candidates].find(letter => letter !== '' && fits(letter)) ?? ''
      }
      case 'all':
        return part.parts.map(each => sample(each, preferred)).join('')
      case 'one':
        return sample(part.parts[0] as Part, preferred)
      case 'many':
        return sample(part.part, preferred).repeat(part.least)
    }
  }
  const other = candidates.find(letter => ![...sets].some(text => setOf(text, flags)(letter)))
  const ends = ['', other ?? '\0', ...letters].slice(0, 8)
  for (const { before, part } of repetitionsIn(tree, { sample, before: '' })) {
    const choices = part.kind === 'one' ? part.parts : [part]
    const pumps = new Set(choices.flatMap(choice => ['', ...letters].map(letter => sample(choice, letter))))
    // Before each occurrence of the whole, so that each of them is a beginning.
    for (const pump of [...pumps].slice(0, 8)) pumps.add(before + pump)
    pumps.delete('')
    for (const pump of pumps) for (const end of ends) yield { before, pump, end }
  }
}

/** Returns texts of the characters that formats use, each alone and in pairs, after a beginning. */
export function* plainHostileTexts(before: string): Generator<HostileText> {
  const common = candidates.slice(0, 16)
  const pairs = common.flatMap(a => common.flatMap(b => (a === b ? [] : [a + b])))
  for (const pump of [...candidates, ...pairs]) yield { before, pump, end: '\0' }
}

const candidates = [...' \t\n0a"\'\\/:;=,.-_()[]{}<>#$%*?!@&|+~^`9fAFgzZ\r\0\u001b\u00e9\u4e2d\u{1f600}']

/** Returns one letter for each combination of sets that contain it. */
function lettersOf(sets: readonly string[], flags: string): string[] {
  const tests = sets.map(text => setOf(text, flags))
  const byKind = new Map<string, string>()
  for (const letter of [...new Set([...sets.filter(text => text.length === 1), ...candidates])]) {
    const kind = tests.map(fits => (fits(letter) ? '1' : '0')).join('')
    if (kind.includes('1') && !byKind.has(kind)) byKind.set(kind, letter)
  }
  return [...byKind.values()].slice(0, 14)
}

function setOf(text: string, flags: string): (letter: string) => boolean {
  const expression = new RegExp(`^(?:${text})$`, flags.replace(/[gym]/g, ''))
  return letter => expression.test(letter)
}

interface Repetition {
  before: string
  part: Part
}

function* repetitionsIn(
  part: Part,
  { sample, before }: { sample: (part: Part) => string; before: string }
): Generator<Repetition> {
  if (part.kind === 'many') {
    if (part.most > fewRepetitions) yield { before, part: part.part }
    yield* repetitionsIn(part.part, { sample, before })
  } else if (part.kind === 'one') {
    for (const each of part.parts) yield* repetitionsIn(each, { sample, before })
  } else if (part.kind === 'all') {
    let sofar = before
    for (const each of part.parts) {
      yield* repetitionsIn(each, { sample, before: sofar })
      sofar += sample(each)
    }
  }
}

function walk(part: Part, visit: (part: Part) => void): void {
  visit(part)
  if (part.kind === 'many') walk(part.part, visit)
  else if (part.kind === 'all' || part.kind === 'one') for (const each of part.parts) walk(each, visit)
}

const tokens =
  /\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\c[A-Za-z]|\\k<[^>]*>|\\[^]|\[(?:\\[^]|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]|<[^>]*>))?|[*+?]\??|\{\d+(?:,\d*)?\}\??|[^]/gu

/** Reads the source of an expression. Assertions and references match nothing here. */
function read(source: string): Part {
  const texts = source.match(tokens) ?? []
  let at = 0

  function alternatives(): Part {
    const found: Part[] = []
    for (;;) {
      found.push(sequence())
      if (texts[at] !== '|') return found.length === 1 ? (found[0] as Part) : { kind: 'one', parts: found }
      at++
    }
  }

  function sequence(): Part {
    const parts: Part[] = []
    for (; at < texts.length && texts[at] !== '|' && texts[at] !== ')'; ) parts.push(repeated(atom()))
    return { kind: 'all', parts }
  }

  function atom(): Part {
    const text = texts[at++] as string
    if (text.startsWith('(')) {
      const inner = alternatives()
      at++
      return /^\(\?<?!/.test(text) ? { kind: 'empty' } : inner
    }
    if (text === '^' || text === '$' || /^\\(?:[bB1-9]|k<)/.test(text)) return { kind: 'empty' }
    return { kind: 'set', text }
  }

  function repeated(part: Part): Part {
    const [, least, comma, most] = /^\{(\d+)(,?)(\d*)\}/.exec(texts[at] ?? '') ?? []
    const sign = least === undefined ? /^[*+?]/.exec(texts[at] ?? '')?.[0] : undefined
    if (least === undefined && sign === undefined) return part
    at++
    if (sign !== undefined)
      return { kind: 'many', part, least: sign === '+' ? 1 : 0, most: sign === '?' ? 1 : Infinity }
    return { kind: 'many', part, least: Number(least), most: comma === '' ? Number(least) : Number(most || Infinity) }
  }

  return alternatives()
}
