import t from 'tap'
import { createRecentOutput } from '../../../lib/deploy/output/recent-output.js'
import { createRandom } from '../../support/random.js'

t.test('returns the lines from any kept offset to the end of its block', async t => {
  const random = createRandom(7)
  const recent = createRecentOutput(1000)
  t.equal(recent.at(1000), null)
  let all: Buffer = Buffer.alloc(0)
  for (let round = 0; round < 200; round++) {
    const lines = random.some(40, () => `${'x'.repeat(random.below(random.below(30) === 0 ? 100_000 : 200))}\n`)
    const bytes = Buffer.from(lines.join(''))
    recent.add(bytes)
    all = Buffer.concat([all, bytes])
    t.equal(recent.end, 1000 + all.length)
  }
  let offset = recent.end
  while (recent.at(offset - 1) !== null) offset--
  const kept = recent.end - offset
  t.ok(kept > 64 * 1024 && kept <= 256 * 1024, `${kept} bytes are kept`)
  for (let at = offset; at < recent.end; ) {
    const block = recent.at(at)
    if (block === null) throw new Error(`nothing at ${at}`)
    const { bytes } = block
    if (!bytes.equals(all.subarray(at - 1000, at - 1000 + bytes.length))) t.fail(`other bytes at ${at}`)
    if (bytes.at(-1) !== 10) t.fail(`the block at ${at} ends within a line`)
    if (bytes.length > 64 * 1024 && bytes.indexOf(10) !== bytes.length - 1) t.fail(`the block at ${at} is too large`)
    if (recent.at(at) !== block) t.fail(`two followers at ${at} do not share`)
    at += bytes.length
  }
  t.equal(recent.at(recent.end), null)
  t.equal(recent.at(0), null)
})
