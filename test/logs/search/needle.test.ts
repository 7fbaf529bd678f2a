import t from 'tap'
import { createNeedle } from '../../../lib/logs/search/needle.js'
import { createRandom } from '../../support/random.js'
import { repetitions } from '../../support/thorough.js'

t.test('finds the text at every position, for every sample', async t => {
  const pieces = ['a', 'A', 'b', 'B', 'ab', 'k', 'K', '.', ' ', '50', 'É', '失', '败', '\u212a', 'timed out']
  let ignoring = 0
  let foundCount = 0
  for (let seed = 1; seed <= repetitions(300, 3000); seed++) {
    const random = createRandom(seed)
    const ignoresCase = random.below(2) === 0
    const known = ignoresCase ? pieces.filter(piece => !/[É\u212a]/.test(piece)) : pieces
    const text = [random.oneOf(known), ...random.some(4, () => random.oneOf(known))].join('')
    const sample = Buffer.from(random.some(40, () => random.oneOf([...pieces, 'x'.repeat(5_000)])).join(''))
    const block = Buffer.from(random.some(80, () => random.oneOf(random.below(2) === 0 ? pieces : [text])).join(''))
    const needle = createNeedle(text, ignoresCase, sample)
    if (needle === null) continue
    if (ignoresCase) ignoring++
    // Latin1, so that positions are those of bytes; there too only ASCII has two cases.
    const plain = (buffer: Buffer): string =>
      ignoresCase
        ? buffer.toString('latin1').replace(/[A-Z]+/g, letters => letters.toLowerCase())
        : buffer.toString('latin1')
    const find = needle.finder(block)
    for (let from = 0; from < block.length; ) {
      const found = find(from)
      const expected = plain(block).indexOf(plain(Buffer.from(text)), from)
      if (found !== expected)
        t.equal(
          found,
          expected,
          `seed ${seed}: ${JSON.stringify(text)} from ${from} of ${JSON.stringify(block.toString())}`
        )
      if (expected === -1) break
      foundCount++
      from = expected + 1 + random.below(3)
    }
  }
  t.ok(ignoring > 100, `${ignoring} times, case was ignored`)
  t.ok(foundCount > 3000, `${foundCount} places`)
})

t.test('returns null for a frequent text without regard to case, because expressions are faster', async t => {
  t.equal(createNeedle('ab', true, Buffer.from('ab'.repeat(10_000))), null)
  t.not(createNeedle('ab', true, Buffer.from('xy'.repeat(10_000))), null)
  t.not(createNeedle('ab', false, Buffer.from('ab'.repeat(10_000))), null)
})
