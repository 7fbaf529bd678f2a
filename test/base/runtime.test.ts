import t from 'tap'
import { bunVersion, describeRuntime, missingInRuntime } from '../../lib/base/runtime.js'

t.test('what runs this is named with its version, and lacks nothing', async t => {
  // Bun: make runtimes.
  t.same(describeRuntime(), { name: 'node', version: process.version })
  t.equal(bunVersion, undefined)
  t.same(missingInRuntime, { terminal: null })
})
