import t from 'tap'
import { formatBytes } from '../../lib/shared/size.js'

t.test('formats bytes for people', async t => {
  const cases: Array<[bytes: number, text: string]> = [
    [0, '0 B'],
    [1, '1 B'],
    [1023, '1023 B'],
    [1024, '1.0 KB'],
    [1536, '1.5 KB'],
    [4300, '4.2 KB'],
    [10 * 1024, '10 KB'],
    [1023.6 * 1024, '1.0 MB'],
    [1024 ** 2 - 1, '1.0 MB'],
    [5 * 1024 ** 2, '5.0 MB'],
    [500 * 1024 ** 2, '500 MB'],
    [1.5 * 1024 ** 3, '1.5 GB'],
    [2000 * 1024 ** 4, '2000 TB']
  ]
  for (const [bytes, text] of cases) t.equal(formatBytes(bytes), text)
})
