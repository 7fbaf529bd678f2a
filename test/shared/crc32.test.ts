import t from 'tap'
import { crc32 } from '../../lib/shared/crc32.js'

const cases: Array<[text: string, expected: number]> = [
  ['', 0],
  ['123456789', 0xcbf43926],
  ['The quick brown fox jumps over the lazy dog', 0x414fa339]
]

t.test('computes the check values of the standard, whole and in two pieces', async t => {
  for (const [text, expected] of cases) {
    const bytes = Buffer.from(text)
    t.equal(crc32(bytes), expected, text)
    for (let cut = 0; cut <= bytes.length; cut++)
      t.equal(crc32(bytes.subarray(cut), crc32(bytes.subarray(0, cut))), expected, `${text} cut at ${cut}`)
  }
})
