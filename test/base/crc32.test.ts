import { randomBytes } from 'node:crypto'
import t from 'tap'
import { crc32 } from '../../lib/base/crc32.js'
import { crc32 as tableCrc32 } from '../../lib/shared/crc32.js'

t.test("the runtime's CRC-32 and the table's are the same, also in two pieces", async t => {
  const bytes = randomBytes(10_000)
  t.equal(crc32(bytes), tableCrc32(bytes))
  t.equal(crc32(bytes.subarray(1000), crc32(bytes.subarray(0, 1000))), tableCrc32(bytes))
})
