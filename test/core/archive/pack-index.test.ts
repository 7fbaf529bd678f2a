import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import t from 'tap'
import { OpenFile } from '../../../lib/base/files.js'
import { sha256 } from '../../../lib/base/digests.js'
import {
  type PackIndex,
  readIndex,
  readNumbers,
  writeIndex,
  writeTrailer
} from '../../../lib/core/archive/pack-index.js'

const index: PackIndex = {
  base: 'dep_a',
  packs: ['dep_a', ''],
  runs: [0, 0, 3, 1, 0, 1],
  paths: [[1, 'moved']],
  modes: [[2, 0o100755]],
  times: [1, 1_700_000_000],
  bytes: 4711,
  directorySha256: 'f'.repeat(64)
}

t.test('an index is read as it was written', async t => {
  t.strictSame(readIndex(writeIndex(index), 'x'), index)
})

function readsAs(bytes: Buffer): boolean {
  try {
    return JSON.stringify(readIndex(bytes, 'x')) === JSON.stringify(index)
  } catch {
    return false
  }
}

t.test('an index of which any bit was flipped is refused', async t => {
  const bytes = writeIndex(index)
  for (let at = 0; at < bytes.length; at++) {
    const other = Buffer.from(bytes)
    other.writeUInt8((other[at] as number) ^ (1 << (at % 8)), at)
    // The last bits of deflated data say nothing.
    const isRead = at === bytes.length - 1 && other.at(-1) !== bytes.at(-1) && readsAs(other)
    if (!isRead) t.throws(() => readIndex(other, 'dep_b.index'), { code: /damaged_index|index_too_new/ }, `byte ${at}`)
  }
  for (const length of [0, 10, 80, bytes.length - 1])
    t.throws(() => readIndex(bytes.subarray(0, length), 'dep_b.index'), { code: 'damaged_index' }, `${length} bytes`)
})

t.test('an index of a newer svc is refused by its format', async t => {
  const json = Buffer.from('{}')
  const line = `svc-index 2 ${sha256(json).toString('hex')}\n`
  t.throws(() => readIndex(Buffer.concat([Buffer.from(line), deflateRawSync(json)]), 'dep_b.index'), {
    code: 'index_too_new',
    message: /format is 2, but this svc supports at most 1/
  })
})

t.test('a trailer says which entries are left in a pack', async t => {
  const path = join(t.testdir({}), 'a.pack')
  const numbersOf = (bytes: Buffer) => {
    writeFileSync(path, bytes)
    const file = new OpenFile(path)
    try {
      return readNumbers(file, 'a')
    } finally {
      file.close()
    }
  }
  const numbers = [0, 1, 2, 7, 9, 10]
  t.strictSame(numbersOf(Buffer.concat([Buffer.from('the zip'), writeTrailer(numbers)])), { zipBytes: 7, numbers })
  t.strictSame(numbersOf(writeTrailer([])), { zipBytes: 0, numbers: [] })
  t.equal(numbersOf(Buffer.from('a zip without a trailer')), null)
  t.equal(numbersOf(Buffer.from('')), null)
  t.throws(() => numbersOf(writeTrailer(numbers).subarray(3)), { code: 'damaged_pack' })
  t.throws(
    () => numbersOf(Buffer.concat([Buffer.from('no list'), Buffer.from([7, 0, 0, 0]), Buffer.from('SVCPACK1')])),
    {
      code: 'damaged_pack'
    }
  )
})
