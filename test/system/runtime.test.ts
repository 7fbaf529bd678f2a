import t from 'tap'
import { describeRuntime } from '../../lib/system/runtime.js'

t.test('what runs this is named with its version', async t => {
  t.match(describeRuntime(), { name: /^(node|bun)$/, version: /^v\d+\.\d+/ })
})
