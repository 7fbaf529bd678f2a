import t from 'tap'
import { checkMessage, durationOption, sharedOptions } from '../../lib/cli/common-options.js'
import { maxMessageLength } from '../../lib/model/deployment.js'

t.test('refuses a message that the server would refuse', async t => {
  checkMessage(undefined)
  checkMessage('x'.repeat(maxMessageLength))
  t.throws(() => checkMessage('x'.repeat(maxMessageLength + 1)), { code: 'usage' })
  for (const hidden of ['two\nlines', 'a\u001b[31m', '\u0000']) {
    t.throws(() => checkMessage(hidden), { code: 'usage' }, JSON.stringify(hidden))
  }
})

t.test('short forms of shared options differ', async t => {
  const letters = Object.values(sharedOptions).flatMap(option => ('alias' in option ? [option.alias] : []))
  t.equal(new Set(letters).size, letters.length)
})

t.test('an option with a duration refuses any other text', async t => {
  t.equal(durationOption('--for', '2h'), 7_200_000)
  t.throws(() => durationOption('--for', 'long'), { code: 'usage', message: /--for cannot be "long"/ })
})
