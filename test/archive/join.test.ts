import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createEntryReader } from '../../lib/archive/entry-data.js'
import { createJoining } from '../../lib/archive/join.js'
import { openArchive } from '../../lib/archive/read.js'
import { packSegment } from '../../lib/archive/segment.js'
import type { ZipSource } from '../../lib/archive/source.js'

function source(path: string, text: string, more: Partial<ZipSource> = {}): ZipSource {
  return {
    path,
    kind: 'file',
    source: Buffer.from(text),
    bytes: Buffer.byteLength(text),
    mode: 0o640,
    mtimeMs: Date.UTC(2024, 1, 3),
    ...more
  }
}

const parts: ZipSource[][] = [
  [source('a', 'a'.repeat(1000)), source('ü/b', 'b'), { ...source('empty', ''), kind: 'directory' }],
  [source('c', 'c'.repeat(70_000))],
  [source('d', ''), { ...source('link', ''), kind: 'symlink', source: 'a' }]
]

/** Passes only the part of each zip that a caller must have: all of it, or its end. */
async function joined(zip64FromBytes: number | undefined, tailOf: (zip: Buffer) => Buffer): Promise<Buffer> {
  const joining = createJoining(zip64FromBytes === undefined ? {} : { zip64FromBytes })
  const pieces: Buffer[] = []
  for (const part of parts) {
    const zip = Buffer.from(await packSegment(part, 6))
    pieces.push(zip.subarray(0, joining.take(Buffer.from(tailOf(zip)), zip.length)))
  }
  return Buffer.concat([...pieces, joining.end()])
}

const expected = [
  ['a', 1000, 0o640],
  ['ü/b', 1, 0o640],
  ['empty', 0, 0o640],
  ['c', 70_000, 0o640],
  ['d', 0, 0o640],
  ['link', 1, 0o777]
]

t.test('joins zips into one with all their entries, also with zip64 offsets', async t => {
  const path = join(t.testdir(), 'x.zip')
  for (const zip64FromBytes of [undefined, 0, 60, 400]) {
    writeFileSync(path, await joined(zip64FromBytes, zip => zip))
    const archive = await openArchive(path, { maxEntries: 10, maxExtractedBytes: 1e9 })
    const reader = createEntryReader(archive)
    t.strictSame(
      archive.entries.map(({ path, size, mode }) => [path, size, mode]),
      expected,
      `zip64 from ${zip64FromBytes}`
    )
    for (const entry of archive.entries) t.equal(reader.readWhole(entry).length, entry.size, 'with their CRCs')
    archive.close()
    if (spawnSync('unzip', ['-v']).error === undefined) execFileSync('unzip', ['-tq', path])
  }
})

t.test('needs only the directory of a zip', async t => {
  const whole = await joined(undefined, zip => zip)
  t.ok(whole.equals(await joined(undefined, zip => zip.subarray(zip.indexOf('PK\x01\x02')))))
})

t.test('moves entries that are already zip64', async t => {
  const far = createJoining({ zip64FromBytes: 0 })
  const zip = Buffer.from(await packSegment([source('a', 'a')], 6))
  const contents = zip.subarray(0, far.take(Buffer.from(zip), zip.length))
  const zip64 = Buffer.concat([contents, far.end()])
  const near = createJoining()
  const first = zip.subarray(0, near.take(Buffer.from(zip), zip.length))
  const other = Buffer.from(zip64)
  other.write('b', other.indexOf('PK\x01\x02') + 46)
  other.write('b', 30)
  const second = other.subarray(0, near.take(Buffer.from(other), other.length))
  const path = join(t.testdir(), 'x.zip')
  writeFileSync(path, Buffer.concat([first, second, near.end()]))
  const archive = await openArchive(path, { maxEntries: 10, maxExtractedBytes: 1e9 })
  t.teardown(() => archive.close())
  t.strictSame(
    archive.entries.map(({ path, headerOffset }) => [path, headerOffset]),
    [
      ['a', 0],
      ['b', contents.length]
    ]
  )
  t.equal(readFileSync(path).readUInt32LE(contents.length), 0x04034b50)
})
