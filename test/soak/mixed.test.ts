import t from 'tap'
import { soakMixed } from '../support/mixed-soak.js'

const skip = process.platform !== 'linux' && 'descriptors and children are read from /proc'

t.setTimeout(240_000)
t.test('everything at once for some seconds leaves nothing behind', { skip }, async t => {
  await soakMixed(t, { seconds: 2, seed: 7, say: line => t.comment(line) })
})
