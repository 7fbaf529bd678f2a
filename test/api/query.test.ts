import t from 'tap'
import { queryChoice, queryLimit, queryOffset, queryPath, switchText } from '../../lib/api/query.js'

t.test('query parameters', async t => {
  const query = new URLSearchParams('limit=7&big=9999&zero=0&word=x&status=failed&empty=')
  const limits = { fallback: 100, max: 500 }
  t.equal(queryLimit(query, 'limit', limits), 7)
  t.equal(queryLimit(query, 'big', limits), 500, 'a value above the maximum becomes the maximum')
  t.equal(queryLimit(query, 'absent', limits), 100)
  t.equal(queryLimit(query, 'empty', limits), 100)
  t.throws(() => queryLimit(query, 'zero', limits), { code: 'invalid_field', field: 'zero' })
  t.throws(() => queryLimit(query, 'word', limits), { code: 'invalid_field', field: 'word' })
  t.equal(queryChoice(query, 'status', ['failed', 'success']), 'failed')
  t.equal(queryChoice(query, 'empty', ['failed']), undefined)
  t.throws(() => queryChoice(query, 'word', ['failed']), { code: 'invalid_field', field: 'word' })
})

t.test('switches in text', async t => {
  for (const [given, meant] of [
    ['true', true],
    ['1', true],
    ['false', false],
    ['0', false],
    ['', undefined],
    [null, undefined]
  ]) {
    t.equal(switchText(given as string | null, 'postDeployAsync'), meant)
  }
  t.throws(() => switchText('yes', 'postDeployAsync'), { code: 'invalid_field', field: 'postDeployAsync' })
})

t.test('a byte offset', async t => {
  const read = (text: string): number | undefined => queryOffset(new URLSearchParams(text), 'at')
  t.strictSame(['', 'at=', 'at=0', 'at=123456789012345'].map(read), [undefined, undefined, 0, 123456789012345])
  for (const text of ['at=-1', 'at=1.5', 'at=x', 'at=1234567890123456'])
    t.throws(() => read(text), { code: 'invalid_field', message: /expected a byte offset/ })
})

t.test('a path has no control characters', async t => {
  const read = (path: string): string | undefined => queryPath(new URLSearchParams({ path }), 'path')
  t.strictSame(['', 'a b/\u00e9'].map(read), [undefined, 'a b/\u00e9'])
  t.throws(() => read('a\nb'), { code: 'invalid_field', message: /must not contain control characters/ })
})
