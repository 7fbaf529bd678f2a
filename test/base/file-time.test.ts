import t from 'tap'
import { closeSync, futimesSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileSeconds } from '../../lib/base/file-time.js'
import { createRandom } from '../support/random.js'

t.test('sets the exact microsecond, and again the one that the file has', t => {
  const path = join(t.testdir({ file: '' }), 'file')
  const fd = openSync(path, 'r+')
  const random = createRandom(7)
  const times = [0, 1, 999_999, 1_700_000_000_123_000, 1_700_000_000_999_999, 4_102_444_800_000_001]
  for (let i = 0; i < 2000; i++) times.push(random.below(2_000_000_000) * 1e6 + random.below(1_000_000))
  const wrong: string[] = []
  for (const us of times) {
    futimesSync(fd, 0, fileSeconds(us / 1000))
    const { mtimeNs } = statSync(path, { bigint: true })
    futimesSync(fd, 0, fileSeconds(statSync(path).mtimeMs))
    const again = statSync(path, { bigint: true }).mtimeNs
    if (mtimeNs !== BigInt(us) * 1000n || again !== mtimeNs) wrong.push(`${us} us: ${mtimeNs}, then ${again}`)
  }
  closeSync(fd)
  t.strictSame(wrong, [])
  t.end()
})

t.test('sets times before 1970', t => {
  t.equal(fileSeconds(-1500), -1.5000005)
  t.end()
})
