import t from 'tap'
import { bunVersion, describeRuntime, missingInRuntime } from '../../lib/base/runtime.js'

t.test('names the runtime with its version, and lacks nothing', async t => {
  // Bun: make runtimes.
  t.same(describeRuntime(), { name: 'node', version: process.version })
  t.equal(bunVersion, undefined)
  t.same(missingInRuntime, { terminal: null })
})
