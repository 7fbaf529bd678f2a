import t from 'tap'
import { compilePattern } from '../../lib/logs/pattern.js'

t.test('the text that every match contains', async t => {
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
  t.match(compilePattern({ q: 'é', isRegex: true, ignoresCase: true }), { literal: '', isLiteral: false }, 'not certain')
})

t.test('what cannot be searched for is refused, naming q', async t => {
  for (const q of ['', '(', '[', '*', 'a'.repeat(1001)]) {
    t.throws(() => compilePattern({ q, isRegex: true, ignoresCase: false }), { name: 'Refusal', message: /^"q" / }, q.slice(0, 5))
  }
  t.throws(() => compilePattern({ q: 'a\nb', isRegex: false, ignoresCase: false }), { message: /line break/ })
})
