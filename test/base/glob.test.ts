import t from 'tap'
import { compileGlob, isGlob } from '../../lib/base/glob.js'
import { createRandom, type Random } from '../support/random.js'
import { repetitions } from '../support/thorough.js'

t.test('a glob matches the paths it describes', t => {
  const table: Array<[pattern: string, matching: string[], others: string[]]> = [
    ['a.txt', ['a.txt'], ['b/a.txt', 'a.txtx', 'A.txt', 'aXtxt']],
    ['./a/b', ['a/b'], ['b', 'a']],
    ['*', ['a', '.a', 'a.b'], ['a/b']],
    ['*.js', ['a.js', '.js', 'a.b.js'], ['a.jsx', 'd/a.js', 'js']],
    ['a*b*c', ['abc', 'aXbYc', 'abbcc', 'abcbc'], ['ab', 'acb', 'abcd']],
    ['?', ['a', 'ä', '😀'], ['', 'ab']],
    ['a?c', ['abc', 'a.c'], ['ac', 'a/c']],
    ['[a-c]x', ['ax', 'cx'], ['dx', 'x', '-x']],
    ['[!a-c]x', ['dx', '-x'], ['ax', 'x']],
    ['[^a]', ['b'], ['a']],
    ['[]x]', [']', 'x'], ['[']],
    ['[a-]', ['a', '-'], ['b']],
    ['[ab', ['[ab'], ['a']],
    ['**', ['a', 'a/b', '.a/.b'], []],
    ['**/*', ['a', 'a/b', '.env', 'a/.b/c'], []],
    ['**/*.js', ['a.js', 'a/b.js', 'a/b/c.js'], ['a.jsx']],
    ['dir/**', ['dir/a', 'dir/a/b', 'dir/.a', 'dir'], ['dirx/a', 'x/dir/a']],
    ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b', 'a/b/b'], ['a/bx', 'b', 'x/a/b']],
    ['**/a/**', ['a', 'a/b', 'x/a', 'x/a/y'], ['xa/b']],
    ['a/*/c', ['a/b/c'], ['a/c', 'a/b/b/c']],
    ['a**b', ['ab', 'axb'], ['a/b']],
    ['{a,b}', ['a', 'b'], ['ab', '{a,b}']],
    ['*.{js,css}', ['x.js', 'x.css'], ['x.html']],
    ['{a,b/c}/d', ['a/d', 'b/c/d'], ['b/d']],
    ['{a,{b,c}d}', ['a', 'bd', 'cd'], ['ad', 'b']],
    ['x{,y}', ['x', 'xy'], ['xyy']],
    ['{a}', ['{a}'], ['a']],
    ['{a,b', ['{a,b'], ['a']],
    ['a,b}', ['a,b}'], ['a']],
    ['{a,b}{c,d}', ['ac', 'bd'], ['ab']],
    ['\\*', ['*'], ['a']],
    ['\\{a,b}', ['{a,b}'], ['a']],
    ['a\\[b]', ['a[b]'], ['ab']],
    ['(a|b)+.$^', ['(a|b)+.$^'], ['a', 'ab']],
    ['', [], ['a']],
    ['a//b/', ['a/b'], []]
  ]
  for (const [pattern, matching, others] of table) {
    const glob = compileGlob(pattern)
    for (const path of matching) t.ok(glob.matches(path), `${pattern} matches ${path}`)
    for (const path of others) t.notOk(glob.matches(path), `${pattern} does not match ${path}`)
  }
  t.end()
})

t.test('finds the directories that may contain a match', t => {
  const table: Array<[pattern: string, open: string[], closed: string[]]> = [
    ['a/b/*.js', ['', 'a', 'a/b'], ['b', 'a/c', 'a/b/c']],
    ['*.js', [''], ['a']],
    ['**/x', ['', 'a', 'a/b'], []],
    ['a/**', ['', 'a', 'a/b/c'], ['b']],
    ['{a,b/c}/x', ['', 'a', 'b', 'b/c'], ['c', 'a/c']]
  ]
  for (const [pattern, open, closed] of table) {
    const glob = compileGlob(pattern)
    for (const directory of open) t.ok(glob.mayMatchBelow(directory), `${pattern} below "${directory}"`)
    for (const directory of closed) t.notOk(glob.mayMatchBelow(directory), `${pattern} not below "${directory}"`)
  }
  t.end()
})

t.test('hostile patterns are cheap', t => {
  // An implementation that tries every combination, or expands every brace, would exceed the test's timeout.
  t.notOk(compileGlob(`${'*a'.repeat(500)}b`).matches('a'.repeat(1000)))
  t.notOk(compileGlob(`${'**/a/'.repeat(100)}b`).matches(`${'a/'.repeat(500)}c`))
  t.notOk(compileGlob('?*'.repeat(300)).matches('a'.repeat(299)))
  t.notOk(compileGlob('{'.repeat(50_000)).matches('a'))
  t.notOk(compileGlob('['.repeat(50_000)).matches('a'))
  t.throws(() => compileGlob('{a,b}'.repeat(30)), { code: 'glob_too_large' })
  t.throws(() => compileGlob(`{${','.repeat(100_000)}}`), { code: 'glob_too_large' })
  t.end()
})

t.test('recognizes a glob', t => {
  for (const text of ['*', 'a/**', 'a?', '[ab]', '{a,b}', 'a\\b']) t.ok(isGlob(text), text)
  for (const text of ['a', 'a/b.c', '{a}', '[', 'a]b', '!a']) t.notOk(isGlob(text), text)
  t.end()
})

type Token = { kind: 'character' | 'class' | 'other class'; of: string } | { kind: 'star' } | { kind: 'one' }
type Part = 'globstar' | Token[]

const letters = ['a', 'b', '.', '-', 'ä', '😀']

/** A pattern as it is written, and everything that its braces expand to. */
interface Drawn {
  text: string
  alternatives: Part[][]
}

function drawPart(random: Random): { text: string; alternatives: Part[] } {
  if (random.below(5) === 0) return { text: '**', alternatives: ['globstar'] }
  let text = ''
  let alternatives: Token[][] = [[]]
  for (let count = 1 + random.below(4); count > 0; count--) {
    const drawn = random.below(6) === 0 ? [drawToken(random), drawToken(random)] : [drawToken(random)]
    text += drawn.length === 1 ? drawn[0]?.text : `{${drawn.map(({ text }) => text).join(',')}}`
    alternatives = alternatives.flatMap(before => drawn.map(({ token }) => [...before, token]))
  }
  // Braces are expanded first, as in a shell, so `*{*,a}` also means `**`; and `.` is ignored.
  const isSpecial = alternatives.some(
    tokens => tokens.length < 3 && tokens.every(({ kind, ...of }) => kind === 'star' || ('of' in of && of.of === '.'))
  )
  const a: Token = { kind: 'character', of: 'a' }
  return isSpecial
    ? { text: `a${text}`, alternatives: alternatives.map(tokens => [a, ...tokens]) }
    : { text, alternatives }
}

function drawToken(random: Random): { text: string; token: Token } {
  const letter = random.oneOf(letters)
  switch (random.below(6)) {
    case 0:
      return { text: '*', token: { kind: 'star' } }
    case 1:
      return { text: '?', token: { kind: 'one' } }
    case 2:
      return {
        text: `[a${letter === '-' ? '' : letter}]`,
        token: { kind: 'class', of: `a${letter === '-' ? '' : letter}` }
      }
    case 3:
      return { text: '[!b]', token: { kind: 'other class', of: 'b' } }
    case 4:
      return { text: `\\${letter}`, token: { kind: 'character', of: letter } }
    default:
      return { text: letter, token: { kind: 'character', of: letter } }
  }
}

function draw(random: Random): Drawn {
  const parts = Array.from({ length: 1 + random.below(3) }, () => drawPart(random))
  const alternatives = parts.reduce<Part[][]>(
    (all, part) => all.flatMap(before => part.alternatives.map(one => [...before, one])),
    [[]]
  )
  return { text: parts.map(({ text }) => text).join('/'), alternatives }
}

/** Tries all combinations, one after the other. */
function fitsPath([part, ...parts]: readonly Part[], names: readonly string[]): boolean {
  if (part === undefined) return names.length === 0
  if (part === 'globstar')
    return fitsPath(parts, names) || (names.length > 0 && fitsPath([part, ...parts], names.slice(1)))
  return names.length > 0 && fitsName(part, Array.from(names[0] as string)) && fitsPath(parts, names.slice(1))
}

function fitsName([token, ...tokens]: readonly Token[], name: readonly string[]): boolean {
  if (token === undefined) return name.length === 0
  if (token.kind === 'star')
    return fitsName(tokens, name) || (name.length > 0 && fitsName([token, ...tokens], name.slice(1)))
  const [first, ...rest] = name
  if (first === undefined || !fitsName(tokens, rest)) return false
  return token.kind === 'one' || Array.from(token.of).includes(first) !== (token.kind === 'other class')
}

t.test('any pattern matches the same as an exhaustive search', async t => {
  let matched = 0
  for (let seed = 1; seed <= repetitions(300, 3000); seed++) {
    const random = createRandom(seed)
    const { text, alternatives } = draw(random)
    const glob = compileGlob(text)
    for (let count = 0; count < 8; count++) {
      const path = Array.from(
        { length: 1 + random.below(3) },
        () => random.oneOf(['a', 'b', '😀', '.a']) + random.some(4, () => random.oneOf(letters)).join('')
      )
      const expected = alternatives.some(parts => fitsPath(parts, path))
      if (expected) matched++
      if (glob.matches(path.join('/')) !== expected)
        t.fail(`seed ${seed}: "${text}" and "${path.join('/')}": ${!expected}`)
      const isBelow = path.some((_, depth) => !glob.mayMatchBelow(path.slice(0, depth).join('/')))
      if (expected && isBelow)
        t.fail(`seed ${seed}: "${text}" matches "${path.join('/')}", but the directory is not searched`)
    }
  }
  t.ok(matched > repetitions(200, 2000), `${matched} matches`)
})
