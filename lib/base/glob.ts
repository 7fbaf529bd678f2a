/*
 * Globs over paths with `/` between segments, for `files` and for ignore rules (§2.13, §4.13).
 *
 *   *      any characters within a segment, also a leading dot              ?      one character
 *   **     as a whole segment: any number of segments, even none            [a-z]  a class; [!a-z] its complement
 *   {a,b}  either alternative; may be nested                                \x     x itself
 *
 * A pattern is split into segments. Both levels (segments with `**`, characters with `*`) are matched by the same
 * greedy walk, which backtracks only to the last star. Its cost is at most the product of both lengths, whatever the
 * pattern; there is no regular expression with exponential cost.
 *
 * Differences from a shell: dot files match; braces with a single alternative and brackets that never close are
 * literal.
 */
import { Refusal } from './errors.js'

/** A compiled pattern. Paths are relative, without `.` or `..`, and without a slash at either end. */
export type Glob = ReturnType<typeof compileGlob>

/** Maximum number of alternatives that the braces of one pattern may expand to. */
const maxAlternatives = 1_000

/** Compiles a pattern. Refuses (`invalid`, `glob_too_large`) a pattern whose braces expand to too many alternatives. */
export function compileGlob(pattern: string) {
  const texts = expandBraces(pattern).map(splitPath)
  const alternatives = texts.map(segments => segments.map(compileSegment))
  const ends = texts.map(endsOf)
  return {
    /** The beginning and the end of every path that matches: those of one of these. */
    ends,

    matches(path: string): boolean {
      // Beginning and end rule out most paths. measured: bench/pack
      if (!ends.some(({ head, tail }) => path.startsWith(head) && path.endsWith(tail))) return false
      const parts = path.split('/')
      return alternatives.some(segments => matchSegments(segments, parts))
    },

    /** Whether something below this directory could match. If not, the directory need not be walked. */
    mayMatchBelow(directory: string): boolean {
      const parts = directory === '' ? [] : directory.split('/')
      return alternatives.some(segments => isOpenBelow(segments, parts))
    }
  }
}

/** Whether a text has special characters of a glob. */
export function isGlob(text: string): boolean {
  const [bracket, brace] = [text.indexOf('['), text.indexOf('{')]
  return (
    /[*?\\]/.test(text) ||
    (bracket !== -1 && text.lastIndexOf(']') > bracket + 1) ||
    (brace !== -1 && text.slice(brace, text.lastIndexOf('}') + 1).includes(','))
  )
}

function splitPath(pattern: string): string[] {
  return pattern.split('/').filter(segment => segment !== '' && segment !== '.')
}

/**
 * Returns the beginning and the end of every path that matches: the text before the first and after the last special
 * character.
 */
function endsOf(segments: readonly string[]): { head: string; tail: string } {
  const first = /^[^*?[\\]*/.exec(segments[0] ?? '') as RegExpExecArray
  const last = /(?<![^*?\]\\])[^*?\]\\]*$/.exec(segments.at(-1) ?? '') as RegExpExecArray
  const isEscaped = segments.some(text => text.includes('\\'))
  return isEscaped ? { head: '', tail: '' } : { head: first[0], tail: last[0] }
}

interface Elements<P> {
  isStar(element: P): boolean
  /** Whether an element that is not a star matches one item. */
  fits(element: P, item: string): boolean
}

/**
 * Returns a function that says whether items match a pattern with stars. A mismatch backtracks to the last star only,
 * which then takes one item more: any items that an earlier star could take, the last one can take as well.
 */
function createMatch<P>({ isStar, fits }: Elements<P>): (pattern: readonly P[], items: readonly string[]) => boolean {
  return (pattern, items) => {
    let at = 0
    let star = -1
    let taken = 0
    for (let item = 0; item < items.length; ) {
      const element = pattern[at]
      if (element !== undefined && isStar(element)) {
        star = at++
        taken = item
      } else if (element !== undefined && fits(element, items[item] as string)) {
        at++
        item++
      } else if (star !== -1) {
        at = star + 1
        item = ++taken
      } else {
        return false
      }
    }
    while (at < pattern.length && isStar(pattern[at] as P)) at++
    return at === pattern.length
  }
}

function isOpenBelow(segments: readonly Segment[], parts: readonly string[]): boolean {
  for (const [at, part] of parts.entries()) {
    const segment = segments[at]
    if (segment === undefined) return false
    if (segment.isGlobstar) return true
    if (!segment.matches(part)) return false
  }
  return segments.length > parts.length
}

interface Segment {
  isGlobstar: boolean
  matches(name: string): boolean
}

const matchSegments = createMatch<Segment>({
  isStar: segment => segment.isGlobstar,
  fits: (segment, name) => segment.matches(name)
})

/** One element of a pattern: a star, or a test of one character. */
type Token = '*' | { test(character: string): boolean }

const matchCharacters = createMatch<Token>({
  isStar: token => token === '*',
  fits: (token, character) => token !== '*' && token.test(character)
})

function compileSegment(text: string): Segment {
  if (text === '**') return { isGlobstar: true, matches: () => true }
  if (!/[*?[\\]/.test(text)) return { isGlobstar: false, matches: name => name === text }
  const tokens = readTokens(text)
  return { isGlobstar: false, matches: name => matchCharacters(tokens, Array.from(name)) }
}

function readTokens(text: string): Token[] {
  const tokens: Token[] = []
  const characters = Array.from(text)
  const lastClose = characters.lastIndexOf(']')
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] as string
    const classEnd = character === '[' && at < lastClose ? findClassEnd(characters, at) : -1
    if (character === '*') {
      if (tokens.at(-1) !== '*') tokens.push('*')
    } else if (character === '?') {
      tokens.push({ test: () => true })
    } else if (classEnd !== -1) {
      tokens.push(readClass(characters.slice(at + 1, classEnd)))
      at = classEnd
    } else {
      const itself = character === '\\' && at + 1 < characters.length ? (characters[++at] as string) : character
      tokens.push({ test: other => other === itself })
    }
  }
  return tokens
}

/** Returns the index of the closing `]`. A `]` in first position is a member of the class. */
function findClassEnd(characters: readonly string[], open: number): number {
  const first = open + 1 + (/[!^]/.test(characters[open + 1] ?? '') ? 1 : 0)
  return characters.indexOf(']', first + 1)
}

function readClass(members: readonly string[]): Token {
  const isNegated = members[0] === '!' || members[0] === '^'
  const ranges: Array<[low: string, high: string]> = []
  for (let at = isNegated ? 1 : 0; at < members.length; at++) {
    const low = members[at] as string
    const isRange = members[at + 1] === '-' && at + 2 < members.length
    ranges.push([low, isRange ? (members[at + 2] as string) : low])
    if (isRange) at += 2
  }
  return { test: character => ranges.some(([low, high]) => low <= character && character <= high) !== isNegated }
}

function expandBraces(pattern: string): string[] {
  const done: string[] = []
  const waiting = [pattern]
  while (waiting.length > 0) {
    const next = waiting.pop() as string
    const brace = findBrace(next)
    if (done.length + waiting.length + (brace?.cuts.length ?? 0) > maxAlternatives) {
      const why = `its braces expand to more than ${maxAlternatives} patterns`
      throw new Refusal('invalid', 'glob_too_large', `Cannot use the pattern "${pattern.slice(0, 100)}": ${why}`)
    }
    if (brace === null) done.push(next)
    else waiting.push(...alternativesOf(next, brace))
  }
  return done
}

interface Brace {
  open: number
  /** The end of each alternative: a comma, and for the last one the closing brace. */
  cuts: number[]
}

function alternativesOf(pattern: string, { open, cuts }: Brace): string[] {
  const before = pattern.slice(0, open)
  const after = pattern.slice((cuts.at(-1) as number) + 1)
  return cuts.map((end, i) => before + pattern.slice((i === 0 ? open : (cuts[i - 1] as number)) + 1, end) + after)
}

/** Finds the first brace that has alternatives and is closed. Walks once, with the open braces on a stack. */
function findBrace(pattern: string): Brace | null {
  const stack: Brace[] = []
  let found: Brace | null = null
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at]
    if (character === '\\') at++
    else if (character === '{') stack.push({ open: at, cuts: [] })
    else if (character === ',') stack.at(-1)?.cuts.push(at)
    else if (character === '}') {
      const brace = stack.pop()
      if (brace === undefined || brace.cuts.length === 0 || (found !== null && found.open < brace.open)) continue
      brace.cuts.push(at)
      found = brace
    }
  }
  return found
}
