import t from 'tap'
import { crc32, createTableCrc32 } from '../../lib/base/crc32.js'

const cases: Array<[text: string, expected: number]> = [
  ['', 0],
  ['123456789', 0xcbf43926],
  ['The quick brown fox jumps over the lazy dog', 0x414fa339]
]

for (const [which, sum] of Object.entries({ 'the runtime': crc32, 'the table': createTableCrc32() })) {
  t.test(`crc32 by ${which}: the check values of the standard, whole and in two pieces`, async t => {
    for (const [text, expected] of cases) {
      const bytes = Buffer.from(text)
      t.equal(sum(bytes), expected, text)
      for (let cut = 0; cut <= bytes.length; cut++) {
        t.equal(sum(bytes.subarray(cut), sum(bytes.subarray(0, cut))), expected, `${text} cut at ${cut}`)
      }
    }
  })
}
