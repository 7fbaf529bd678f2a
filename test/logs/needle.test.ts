import t from 'tap'
import { createNeedle } from '../../lib/logs/needle.js'
import { createRandom } from '../support/random.js'

t.test('the text is found wherever it begins, whatever the sample was', async t => {
  const pieces = ['a', 'A', 'b', 'B', 'ab', 'k', 'K', '.', ' ', '50', 'É', '失', '败', '\u212a', 'timed out']
  let ignoring = 0
  let foundCount = 0
  for (let seed = 1; seed <= 3000; seed++) {
    const random = createRandom(seed)
    const ignoresCase = random.below(2) === 0
    const known = ignoresCase ? pieces.filter(piece => !/[É\u212a]/.test(piece)) : pieces
    const text = [random.oneOf(known), ...random.some(4, () => random.oneOf(known))].join('')
    const sample = Buffer.from(random.some(40, () => random.oneOf([...pieces, 'x'.repeat(5_000)])).join(''))
    const block = Buffer.from(random.some(80, () => random.oneOf(random.below(2) === 0 ? pieces : [text])).join(''))
    const needle = createNeedle(text, ignoresCase, sample)
    if (needle === null) continue
    if (ignoresCase) ignoring++
    // Latin1, so that places are those of bytes; only ASCII has two cases there, too.
    const plain = (buffer: Buffer): string =>
      ignoresCase ? buffer.toString('latin1').replace(/[A-Z]+/g, letters => letters.toLowerCase()) : buffer.toString('latin1')
    const find = needle.finder(block)
    for (let from = 0; from < block.length;) {
      const found = find(from)
      const expected = plain(block).indexOf(plain(Buffer.from(text)), from)
      if (found !== expected) t.equal(found, expected, `seed ${seed}: ${JSON.stringify(text)} from ${from} of ${JSON.stringify(block.toString())}`)
      if (expected === -1) break
      foundCount++
      from = expected + 1 + random.below(3)
    }
  }
  t.ok(ignoring > 100, `${ignoring} times, case was ignored`)
  t.ok(foundCount > 3000, `${foundCount} places`)
})

t.test('ignoring the case of a text that is everywhere is left to expressions', async t => {
  t.equal(createNeedle('ab', true, Buffer.from('ab'.repeat(10_000))), null)
  t.not(createNeedle('ab', true, Buffer.from('xy'.repeat(10_000))), null)
  t.not(createNeedle('ab', false, Buffer.from('ab'.repeat(10_000))), null)
})
