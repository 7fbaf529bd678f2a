import t from 'tap'
import { compilePattern } from '../../../../lib/operate/logs/search/pattern.js'

t.test('finds the text that every match contains', async t => {
  const cases: Array<[q: string, literal: string, isLiteral: boolean]> = [
    ['error', 'error', true],
    ['a\\.b', 'a.b', true],
    ['error \\d+ in module', ' in module', false],
    ['errors?', 'error', false],
    ['ab*cd', 'cd', false],
    ['ab+cd', 'ab', false],
    ['ab{0,2}', 'a', false],
    ['(foo|bar) qux', ' qux', false],
    ['foo|barbar', '', false],
    ['(?:foo)?bar', 'bar', false],
    ['[abc]xyz', 'xyz', false],
    ['^start', 'start', false],
    ['\\d+', '', false]
  ]
  for (const [q, literal, isLiteral] of cases) {
    t.match(compilePattern({ q, isRegex: true, ignoresCase: false }), { literal, isLiteral }, q)
  }
  t.match(compilePattern({ q: 'é', isRegex: true, ignoresCase: true }), { literal: '', isLiteral: false }, 'unknown')
})

t.test('builds the expression for bytes', async t => {
  const bytes = (text: string): string => Buffer.from(text).toString('latin1')
  const cases: Array<[q: string, bytewise: string | null]> = [
    ['a+b', 'ab'],
    ['" (501|503) [0-9]+ "', '" (501|503) [0-9]+ "'],
    ['\\d\\.\\w+', '\\d\\.\\w+'],
    ['GET .* 50\\d', 'GET .* 50\\d'],
    ['"[^"]*"', '"[^\\r\\n"]*"'],
    ['a.c', null],
    ['a\\s*c', null],
    ['a(?!b)', null],
    ['a[é]', null],
    ['a失+', `a(?:${bytes('失')})+`],
    ['\\p{L}a', null]
  ]
  for (const [q, bytewise] of cases)
    t.equal(compilePattern({ q, isRegex: true, ignoresCase: false }).bytewise, bytewise, q)
  t.equal(compilePattern({ q: 'é+', isRegex: true, ignoresCase: true }).bytewise, null, 'another letter than its bytes')
  t.equal(compilePattern({ q: '失败.', isRegex: false, ignoresCase: true }).bytewise, `${bytes('失败')}\\.`)
})

t.test('removes a repetition at the start', async t => {
  const cases: Array<[q: string, source: string]> = [
    ['.*b', 'b'],
    ['.*.*?b', 'b'],
    ['.+b', '.b'],
    ['a*[^"]*b', 'b'],
    ['.*', ''],
    ['.?b', '.?b'],
    ['(a)*b', '(a)*b'],
    ['^.*b', '^.*b']
  ]
  for (const [q, source] of cases) t.equal(compilePattern({ q, isRegex: true, ignoresCase: false }).source, source, q)
})

t.test('refuses an invalid query with the field q', async t => {
  for (const q of ['', '(', '[', '*', 'a'.repeat(1001)]) {
    t.throws(
      () => compilePattern({ q, isRegex: true, ignoresCase: false }),
      { name: 'Refusal', message: /^"q" / },
      q.slice(0, 5)
    )
  }
  t.throws(() => compilePattern({ q: 'a\nb', isRegex: false, ignoresCase: false }), { message: /line break/ })
})
