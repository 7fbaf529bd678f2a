import t from 'tap'
import { wrap } from '../../../lib/cli/terminal/wrap.js'

t.test('breaks between words', async t => {
  t.strictSame(wrap('one two three', 7), ['one two', 'three'])
  t.strictSame(wrap('one', 2), ['one'], 'a longer word has its own line')
  t.strictSame(wrap('', 10), [''])
})
