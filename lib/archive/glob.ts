/*
 * Globs over paths with `/` between segments, for `files` and for ignore rules (§2.13, §4.13).
 *
 *   *      any run of characters within a segment, also a leading dot       ?      one character
 *   **     as a whole segment: any number of segments, none included        [a-z]  one of a class; [!a-z] none of it
 *   {a,b}  either; may be nested                                            \x     x itself
 *
 * A pattern is cut into segments, and both levels (segments with `**`, characters with `*`) are matched by the same
 * walk: greedy, going back only to the last star. Its cost is length times length whatever the pattern; there is no
 * regular expression that could be made to take years.
 *
 * Differences from a shell: dot files match; braces with a single alternative, and brackets that never close, stand for
 * themselves.
 */
import { Refusal } from '../base/refusal.js'

/** A compiled pattern. Paths are relative, without `.` or `..`, without a slash at either end. */
export interface Glob {
  matches(path: string): boolean
  /** Whether something below this directory could match: where not, it need not be walked. */
  mayMatchBelow(directory: string): boolean
}

/** Alternatives that the braces of one pattern may multiply to. */
const maxAlternatives = 1_000

/** Refuses (`invalid`, `glob_too_large`) a pattern whose braces multiply beyond reason. */
export function compileGlob(pattern: string): Glob {
  const texts = expandBraces(pattern).map(splitPath)
  const alternatives = texts.map(segments => segments.map(compileSegment))
  const ends = texts.map(endsOf)
  return {
    matches(path) {
      // Most paths are told apart by how they begin and end. measured: bench/pack
      if (!ends.some(({ head, tail }) => path.startsWith(head) && path.endsWith(tail))) return false
      const parts = path.split('/')
      return alternatives.some(segments => walk(segments, parts, isGlobstar, (segment, part) => segment.matches(part)))
    },
    mayMatchBelow(directory) {
      const parts = directory === '' ? [] : directory.split('/')
      return alternatives.some(segments => isOpenBelow(segments, parts))
    }
  }
}

/** Whether a text means more than itself as a glob. */
export function isGlob(text: string): boolean {
  return /[*?\\]|\[[^]+\]|\{[^]*,[^]*\}/.test(text)
}

function splitPath(pattern: string): string[] {
  return pattern.split('/').filter(segment => segment !== '' && segment !== '.')
}

/** How every path begins and ends that matches: what stands before the first and behind the last special character. */
function endsOf(segments: readonly string[]): { head: string; tail: string } {
  const first = /^[^*?[\\]*/.exec(segments[0] ?? '') as RegExpExecArray
  const last = /[^*?\]\\]*$/.exec(segments.at(-1) ?? '') as RegExpExecArray
  const isEscaped = segments.some(text => text.includes('\\'))
  return isEscaped ? { head: '', tail: '' } : { head: first[0], tail: last[0] }
}

/**
 * Whether `items` match `pattern`, in which some elements are stars. A mismatch goes back to the last star only, and
 * lets it take one item more: what an earlier star could take instead, the last one can as well.
 */
function walk<P, I>(
  pattern: readonly P[], items: ArrayLike<I>, isStar: (element: P) => boolean, fits: (element: P, item: I) => boolean
): boolean {
  let at = 0
  let star = -1
  let taken = 0
  for (let item = 0; item < items.length; ) {
    const element = pattern[at]
    if (element !== undefined && isStar(element)) {
      star = at++
      taken = item
    } else if (element !== undefined && fits(element, items[item] as I)) {
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

function isOpenBelow(segments: readonly Segment[], parts: readonly string[]): boolean {
  for (const [at, part] of parts.entries()) {
    const segment = segments[at]
    if (segment === undefined) return false
    if (isGlobstar(segment)) return true
    if (!segment.matches(part)) return false
  }
  return segments.length > parts.length
}

interface Segment {
  isGlobstar: boolean
  matches(name: string): boolean
}

const isGlobstar = (segment: Segment): boolean => segment.isGlobstar

/** One character of a pattern: itself, a star, or a test of one character. */
type Token = '*' | { test(character: string): boolean }

const isStarToken = (token: Token): boolean => token === '*'
const passes = (token: Token, character: string): boolean => token !== '*' && token.test(character)

function compileSegment(text: string): Segment {
  if (text === '**') return { isGlobstar: true, matches: () => true }
  if (!/[*?[\\]/.test(text)) return { isGlobstar: false, matches: name => name === text }
  const tokens = readTokens(text)
  return { isGlobstar: false, matches: name => walk(tokens, Array.from(name), isStarToken, passes) }
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

/** The `]` that closes; one that comes first is a member. */
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
      const why = `its braces stand for more than ${maxAlternatives} patterns`
      throw new Refusal('invalid', 'glob_too_large', `the pattern "${pattern.slice(0, 100)}" cannot be used: ${why}`)
    }
    if (brace === null) done.push(next)
    else waiting.push(...alternativesOf(next, brace))
  }
  return done
}

interface Brace {
  open: number
  /** Where each alternative ends: at a comma, the last at the closing brace. */
  cuts: number[]
}

function alternativesOf(pattern: string, { open, cuts }: Brace): string[] {
  const before = pattern.slice(0, open)
  const after = pattern.slice((cuts.at(-1) as number) + 1)
  return cuts.map((end, i) => before + pattern.slice((i === 0 ? open : (cuts[i - 1] as number)) + 1, end) + after)
}

/** The first brace that has alternatives and closes. One walk: what is open is on a stack. */
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
