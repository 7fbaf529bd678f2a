import t from 'tap'
import type { Test } from 'tap'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createEntryReader } from '../../../lib/core/archive/entry-data.js'
import { composeArchive, segmentsOf } from '../../../lib/core/archive/compose.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { sha256 } from '../../../lib/base/digests.js'
import { writeZipOf } from '../../support/zips.js'
import { zipOf } from '../../support/zip.js'

const limits = { maxEntries: 100, maxExtractedBytes: 1e9, mayBeEmpty: true }

async function contentsOf(path: string): Promise<Record<string, unknown>> {
  const archive = await openArchive(path, limits)
  const reader = createEntryReader(archive)
  const found: Record<string, unknown> = {}
  for (const entry of archive.entries) {
    const pieces: Buffer[] = []
    if (entry.kind !== 'directory') await reader.read(entry, piece => void pieces.push(Buffer.from(piece)))
    found[entry.path] = { kind: entry.kind, mode: entry.mode, text: Buffer.concat(pieces).toString('latin1') }
  }
  archive.close()
  return found
}

t.test('composes entries of several zips with the modes that are given', async t => {
  const directory = t.testdir({})
  const large = Array.from({ length: 300_000 }, (_, i) => String.fromCharCode(33 + ((i * i) % 90))).join('')
  const [one, two, to] = ['one.zip', 'two.zip', 'to.zip'].map(name => join(directory, name)) as [string, string, string]
  await writeZipOf(one, { a: 'first', 'dir/b': 'second '.repeat(100), unused: 'x', empty: '' })
  await writeZipOf(two, { a: 'other', 'dir/large': large })
  const file = { mode: 0o100640, mtimeMs: 1_700_000_000_000 }
  const composed = await composeArchive(to, [
    { ...file, path: 'a', source: two },
    { path: 'dir', mode: 0o040750, mtimeMs: 0, source: null },
    { ...file, path: 'dir/b', mode: 0o100755, source: one },
    { ...file, path: 'dir/large', source: two },
    { ...file, path: 'empty', source: one }
  ])
  t.strictSame(composed, { bytes: statSync(to).size, sha256: sha256(readFileSync(to)).toString('hex') })
  t.strictSame(await contentsOf(to), {
    a: { kind: 'file', mode: 0o640, text: 'other' },
    dir: { kind: 'directory', mode: 0o750, text: '' },
    'dir/b': { kind: 'file', mode: 0o755, text: 'second '.repeat(100) },
    'dir/large': { kind: 'file', mode: 0o640, text: large },
    empty: { kind: 'file', mode: 0o640, text: '' }
  })
})

t.test('composes a zip without entries', async t => {
  const to = join(t.testdir({}), 'to.zip')
  t.equal((await composeArchive(to, [])).bytes, 22)
  t.strictSame(await contentsOf(to), {})
})

t.test('refuses an entry that its zip does not contain, and leaves no file', async t => {
  const directory = t.testdir({})
  const [one, to] = [join(directory, 'one.zip'), join(directory, 'to.zip')]
  await writeZipOf(one, { a: 'first' })
  const entry = { mode: 0o100644, mtimeMs: 0, source: one }
  await t.rejects(composeArchive(to, [{ ...entry, path: 'b' }]), { code: 'damaged_archive' })
  await t.rejects(composeArchive(to, [{ ...entry, path: 'a', source: join(directory, 'none.zip') }]), {
    code: 'ENOENT'
  })
  t.notOk(existsSync(to) || existsSync(`${to}.tmp`))
})

const reuseLimits = { maxEntries: Infinity, maxExtractedBytes: Infinity }
const text = (seed: number) => Array.from({ length: 900 }, (_, at) => String((at + 1) * seed * 7919)).join(' ')

/** Returns both archives, and the segments of the second one. */
async function compared(t: Test, earlier: Record<string, string>, wanted: Record<string, string>, most = 10) {
  const directory = t.testdir()
  const zips = [await zipOf(earlier), await zipOf(wanted)] as [Buffer, Buffer]
  const archives = []
  for (const [at, zip] of zips.entries()) {
    const path = join(directory, `${at}.zip`)
    writeFileSync(path, zip)
    archives.push(await openArchive(path, reuseLimits))
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
