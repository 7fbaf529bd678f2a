import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { readAt } from '../../lib/base/read-at.js'

t.test('reads at a position, and less only at the end of the file', async t => {
  const file = await open(join(t.testdir({ a: 'abcdef' }), 'a'))
  t.teardown(() => file.close())
  t.equal(String(await readAt(file, 1, 3)), 'bcd')
  t.equal(String(await readAt(file, 4, 10)), 'ef')
  t.equal((await readAt(file, 6, 1)).length, 0)
})

t.test('continues after a short read', async t => {
  const bytes = Buffer.from('abcdef')
  const file = {
    async read(into: Buffer, offset: number, length: number, position: number) {
      return { bytesRead: bytes.copy(into, offset, position, position + Math.min(length, 2)) }
    }
  } as unknown as FileHandle
  t.equal(String(await readAt(file, 0, 5)), 'abcde')
})
