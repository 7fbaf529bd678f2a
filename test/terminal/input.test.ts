import t from 'tap'
import { createSessionInput } from '../../lib/terminal/input.js'

/** An input whose terminal accepts what it was given when `accept` is called, and at most `limit` pieces. */
function start(limit = Infinity) {
  const typed: string[] = []
  const waiting: Array<() => void> = []
  const input = createSessionInput({
    write(text, onTaken = () => {}) {
      if (typed.length === limit) return false
      typed.push(text)
      waiting.push(onTaken)
      return true
    }
  })
  let calls = 0
  const type = (data: string, at?: number): string =>
    input.type({ type: 'input', data, ...(at === undefined ? {} : { at }) }, () => calls++)
  return { input, typed, type, accept: () => waiting.shift()?.(), calls: () => calls }
}

t.test('joins characters that were cut between two inputs', async t => {
  const { type, typed, input } = start()
  for (const data of ['a\ud83d', '\ude80b\ud83d', '\ude80']) type(data)
  t.same(typed, ['a', '\u{1f680}b', '\u{1f680}'])
  t.equal(input.received, 4 + 7 + 3, 'as each message alone has them')
})

t.test('tells a client that counts what was accepted', async t => {
  const { input, type, accept, calls } = start()
  type('é', 0)
  type('b', 2)
  t.notOk(input.isTakenDue)
  accept()
  t.ok(input.isTakenDue)
  t.equal(input.tell(), 2)
  t.notOk(input.isTakenDue)
  accept()
  t.equal(input.tell(), 3)
  t.equal(calls(), 2)
  input.attach()
  type('c')
  accept()
  t.notOk(input.isTakenDue, 'another client, which does not count')
})

t.test('skips what it has, and refuses a gap and what nobody reads', async t => {
  const { input, type, typed } = start(2)
  t.same(
    [type('ab', 0), type('ab', 0), type('bc', 1), type('e', 4), type('d', 3)],
    ['typed', 'typed', 'typed', 'gap', 'overflow']
  )
  t.same(typed, ['ab', 'c'])
  t.equal(input.received, 3)
})
