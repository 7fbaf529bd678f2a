/* Pushes, promotions and undos whose connections are cut, and whose clients, servers and nodes are killed at random. */
import t from 'tap'
import { runPushFaults } from '../../support/push-faults.js'
import { firstSeed, randomCases } from '../../support/thorough.js'

const skip = process.platform !== 'linux' && 'targets are held by descriptors of /proc'

t.test('after each cut and kill, everything is as before or as after it', { skip }, async t => {
  const faults = randomCases(3, 40)
  const directory = t.testdir({})
  const { seen, wrong } = await runPushFaults(t, { seed: firstSeed, faults, untilMs: Infinity, directory })
  t.strictSame(wrong, [], `seed ${firstSeed}: ${JSON.stringify(seen)}`)
  t.ok((seen['faults'] as number) >= faults)
})
