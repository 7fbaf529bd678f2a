import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openArchive } from '../../lib/archive/read.js'
import { segmentsOf } from '../../lib/archive/reuse.js'
import { zipOf } from '../support/zip.js'

const limits = { maxEntries: Infinity, maxExtractedBytes: Infinity }
const text = (seed: number) => Array.from({ length: 900 }, (_, at) => String((at + 1) * seed * 7919)).join(' ')

/** Returns both archives, and the segments of the second one. */
async function compared(t: Test, earlier: Record<string, string>, wanted: Record<string, string>, most = 10) {
  const directory = t.testdir()
  const zips = [await zipOf(earlier), await zipOf(wanted)] as [Buffer, Buffer]
  const archives = []
  for (const [at, zip] of zips.entries()) {
    const path = join(directory, `${at}.zip`)
    writeFileSync(path, zip)
    archives.push(await openArchive(path, limits))
  }
  const [before, after] = archives as [(typeof archives)[0], (typeof archives)[0]]
  const end = zips[1].readUInt32LE(zips[1].length - 6)
  const segments = await segmentsOf((after as typeof before).entries, { end, earlier: before as typeof after, most })
  for (const archive of archives) archive.close()
  return { zips, segments, end }
}

t.test('segments have the bytes of the archive, wherever they are in the earlier one', async t => {
  const [a, b, c] = [text(1), text(2), text(3)]
  const { zips, segments, end } = await compared(
    t,
    { 'a.txt': a, 'b.txt': b, 'c.txt': c },
    { 'b.txt': b, 'c.txt': a, 'a.txt': a }
  )
  let at = 0
  let found = 0
  for (const { bytes, from } of segments) {
    if (from !== null) {
      t.strictSame(zips[1].subarray(at, at + bytes), zips[0].subarray(from, from + bytes))
      found++
    }
    at += bytes
  }
  t.equal(at, end)
  t.equal(found, 2, 'a and b, but not c')
})

t.test('small files, and archives without a common file, are one segment', async t => {
  const small = await compared(t, { a: '1', b: '2' }, { a: '1', b: '2' })
  t.same(small.segments, [{ bytes: small.end, from: null }])
  const other = await compared(t, { a: text(1) }, { b: text(1) })
  t.same(other.segments, [{ bytes: other.end, from: null }])
})

t.test('the largest files are found first', async t => {
  const files = { small: text(1).slice(0, 4000), large: text(2), middle: text(3).slice(0, 5000) }
  const { segments } = await compared(t, files, files, 2)
  t.equal(segments.filter(({ from }) => from !== null).length, 2)
  t.equal(
    segments.findIndex(({ from }) => from !== null),
    1,
    'the small one is in the first gap'
  )
})
