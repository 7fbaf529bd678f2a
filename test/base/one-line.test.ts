import t from 'tap'
import { hasControlCharacter, oneLine, unprintableIn } from '../../lib/base/one-line.js'

const bad = [
  '\0',
  '\n',
  '\r',
  '\t',
  '\x1b',
  '\x7f',
  '\x85',
  '\x9b',
  '\u2028',
  '\u2029',
  '\u202e',
  '\u2066',
  '\u200f',
  '\u061c',
  '\ud800',
  '\udc00'
]

t.test('finds and escapes each character that forges, hides or reorders text', async t => {
  for (const character of bad) {
    const code = `U+${character.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`
    t.equal(unprintableIn(`a${character}b`), code)
    t.equal(unprintableIn(oneLine(`a${character}b${character}`)), null, code)
    t.equal(oneLine(oneLine(`a${character}b`)), oneLine(`a${character}b`))
  }
  t.equal(oneLine('a\nb\u202ec\ud800'), 'a\\nb\\u202ec\\ud800')
})

t.test('leaves other text unchanged', async t => {
  for (const text of ['', 'Shop', 'Ünïcödé 商店 עברית', '😀👩‍🚀', '\\n', 'a b', '\ufeffx', 'e\u0301']) {
    t.equal(unprintableIn(text), null)
    t.equal(oneLine(text), text)
  }
})

t.test('finds control characters, and no others', async t => {
  t.strictSame(['a\n', '\0', '\x1b', '\x7f', '\x85'].map(hasControlCharacter), [true, true, true, true, true])
  t.strictSame(['', 'a b', '\u200f', '\u2028', '\u00e9'].map(hasControlCharacter), [false, false, false, false, false])
})
