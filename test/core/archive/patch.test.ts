import t from 'tap'
import { sha256 } from '../../../lib/base/digests.js'
import {
  blockBytesOf,
  createPatchReader,
  strongBytesOf,
  sumsBytesOf,
  weakSum
} from '../../../lib/core/archive/patch.js'
import { edited, leb, patched, patchOf, sumsOf } from '../../support/patched.js'
import { createRandom, type Random } from '../../support/random.js'

function bytesOf(random: Random, length: number, values = 256): Buffer {
  return Buffer.from(Array.from({ length }, () => random.below(values)))
}

t.test('the weak sum is the one that other programs compute', t => {
  // Computed with Python: sum = (sum * 0x6ac690c5 + byte) % 2**32.
  for (const [bytes, sum] of [
    [Buffer.alloc(0), 0],
    [Buffer.from('a'), 97],
    [Buffer.from('ab'), 1_966_922_503],
    [Buffer.from('abc'), -1_066_238_778],
    [Buffer.from(Array.from({ length: 256 }, (_, at) => at)), 1_984_014_208],
    [Buffer.alloc(1000, 0xff), 1_198_187_880]
  ] as const)
    t.equal(weakSum(bytes), sum)
  t.equal(weakSum(Buffer.from('xabcx'), 1, 4), weakSum(Buffer.from('abc')), 'also of a part')
  t.end()
})

t.test('blocks and sums have the sizes that the description of the API names', t => {
  const rows = [1, 255, 256, 257, 4096, 8192, 25_000, 5_242_880, 2 ** 30]
  t.strictSame(
    rows.map(bytes => [bytes, blockBytesOf(bytes), strongBytesOf(bytes), sumsBytesOf(bytes)]),
    [
      [1, 256, 1, 5],
      [255, 256, 1, 5],
      [256, 256, 1, 5],
      [257, 256, 1, 10],
      [4096, 256, 1, 80],
      [8192, 256, 1, 160],
      [25_000, 447, 2, 336],
      [5_242_880, 6476, 3, 5670],
      [2 ** 30, 92_681, 5, 104_274]
    ]
  )
  t.end()
})

t.test('the sums are those of the blocks, in whatever pieces the contents come', t => {
  const contents = bytesOf(createRandom(1), 1000)
  const sums = Buffer.concat(
    [0, 256, 512, 768].map(at => {
      const block = contents.subarray(at, at + 256)
      const weak = Buffer.alloc(4)
      weak.writeInt32BE(weakSum(block))
      return Buffer.concat([weak, sha256(block).subarray(0, 1)])
    })
  )
  for (const pieceBytes of [1, 7, 255, 256, 257, 1000])
    t.strictSame(sumsOf(contents, pieceBytes), sums, `${pieceBytes}`)
  t.end()
})

t.test('a block is found at every offset: the sum that follows is the sum', t => {
  const before = bytesOf(createRandom(2), 2000)
  const block = before.subarray(256, 512)
  for (let offset = 0; offset < 700; offset++) {
    const after = Buffer.concat([Buffer.alloc(offset, 1), block, Buffer.alloc(3, 2)])
    const patch = patchOf(before, after) as Buffer
    if (patch.length > offset + 20) t.fail(`offset ${offset}: ${patch.length} bytes`)
    if (!patched(before, patch, after.length).equals(after)) t.fail(`offset ${offset}`)
  }
  t.end()
})

t.test('what a patch makes are the new contents, and it is small where little has changed', t => {
  for (let seed = 1; seed <= 400; seed++) {
    const random = createRandom(seed)
    const before = bytesOf(random, 1 + random.below(8000), random.oneOf([1, 2, 256]))
    const after = edited(random, random.oneOf([before, edited(random, before)]))
    if (!patched(before, patchOf(before, after) as Buffer, after.length).equals(after)) t.fail(`seed ${seed}`)
  }
  const before = bytesOf(createRandom(3), 100_000)
  const block = blockBytesOf(before.length)
  const size = (after: Buffer) => (patchOf(before, after) as Buffer).length
  const cut = (...ends: Array<[number, number]>) => Buffer.concat(ends.map(([from, to]) => before.subarray(from, to)))
  t.ok(size(before) < 10, 'the same')
  t.ok(size(Buffer.concat([before, Buffer.from('a line')])) < 20, 'appended')
  t.ok(size(Buffer.concat([Buffer.from('a line'), before])) < 20, 'prepended')
  t.ok(size(cut([0, 50_000], [50_001, 100_000])) < block + 20, 'a byte is gone')
  t.ok(size(cut([60_000, 100_000], [0, 60_000])) < block + 20, 'parts are exchanged')
  t.ok(size(cut([0, 70_000])) < block + 20, 'cut off')
  t.ok(size(Buffer.alloc(1e6)) > 1e6, 'something else')
  t.end()
})

t.test('contents that are longer than what is in memory', t => {
  const random = createRandom(4)
  const before = Buffer.concat(Array.from({ length: 90 }, () => Buffer.alloc(100_000, bytesOf(random, 997))))
  const after = Buffer.concat([
    Buffer.from('new'),
    before.subarray(0, 4_194_300),
    Buffer.from('new'),
    before.subarray(4_194_303),
    Buffer.alloc(5_000_000, 'x'),
    before.subarray(-1000)
  ])
  const patch = patchOf(before, after) as Buffer
  t.ok(patched(before, patch, after.length).equals(after))
  t.ok(patch.length < 5_050_000, `${patch.length} bytes`)
  t.equal(patchOf(before, after, 1_000_000), null, 'too large a patch is none')
  t.ok(patchOf(Buffer.alloc(6e6), Buffer.alloc(7e6))?.length, 'equal blocks')
  t.end()
})

t.test('numbers of any size are read as they were written', t => {
  const numbers = [0, 1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 32 + 5, 2 ** 53 - 1]
  const reader = createPatchReader(leb(...numbers))
  t.strictSame(
    numbers.map(() => reader.next()),
    numbers
  )
  t.equal(reader.next(), null)
  t.end()
})

t.test('refuses patches that make something else, before it is made', t => {
  const some = Buffer.from('abc')
  const hostile: Record<string, [number, Buffer[], RegExp]> = {
    'an empty part': [3, [leb(0, 0)], /a part of one is empty/],
    'cut off in a number': [3, [Buffer.from([0x83])], /end in the middle/],
    'cut off in new bytes': [4, [leb(4), some], /end in the middle/],
    'cut off after new bytes': [3, [leb(3), some], /end in the middle/],
    'cut off before a place': [3, [leb(0, 3)], /end in the middle/],
    'nothing at all': [3, [], /end in the middle/],
    'more new bytes than the file has': [2, [leb(3), some, leb(0)], /more than the 2 bytes/],
    'more copied bytes than the file has': [2, [leb(0, 3, 0)], /more than the 2 bytes/],
    'a bomb': [2, [leb(0, 1, 0), leb(0, 2 ** 50, 0)], /more than the 2 bytes/],
    'behind the end': [3, [leb(0, 3, 2 * 8)], /copies bytes 8 to 11 of a file of 10 bytes/],
    'before the beginning': [3, [leb(0, 3, 1)], /copies bytes -1 to 2 of a file/],
    'before the beginning, from another place': [4, [leb(0, 3, 4), leb(0, 1, 2 * 6 - 1)], /copies bytes -1 to 0/],
    'far behind': [3, [leb(0, 3, 2 ** 53 - 1)], /copies bytes/],
    'a number that is too large': [3, [Buffer.alloc(8, 0xff), leb(1)], /a number is too large/],
    'a number without an end': [3, [Buffer.alloc(1000, 0x80)], /a number is too large|end in the middle/]
  }
  for (const [what, [bytes, parts, message]] of Object.entries(hostile)) {
    const patch = Buffer.concat([leb(0), ...parts])
    t.throws(() => patched(Buffer.alloc(10), patch, bytes), { code: 'invalid_patch', message }, what)
  }
  t.throws(() => createPatchReader(Buffer.from([0x80])).next(), { code: 'invalid_patch' })
  const lines = createPatchReader(leb(3, 3, 2))
  lines.next()
  t.throws(() => lines.next(), { code: 'invalid_patch', message: /line 3 comes after line 3/ }, 'twice')
  t.throws(() => lines.next(), { code: 'invalid_patch', message: /line 2 comes after line 3/ }, 'not in order')
  t.strictSame(patched(Buffer.from('0123456789'), Buffer.concat([leb(0, 0, 3, 4, 0, 2, 9)]), 5), Buffer.from('23401'))
  t.end()
})
