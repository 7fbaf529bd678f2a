import t from 'tap'
import { packZip } from '../../../www/archive/zip.js'
import { readZip, type ZipEntry } from '../../../www/archive/read-zip.js'
import { zipOf } from '../../support/zip.js'

/** What the panel shows of an entry. */
const shown = (entries: readonly ZipEntry[]) =>
  entries.map(({ path, isDirectory, bytes, isEncrypted }) => ({ path, isDirectory, bytes, isEncrypted }))
const named = (bytes: Uint8Array, name = 'a.zip'): File => new File([new Uint8Array(bytes)], name)
const end = (fields: { entries: number; bytes: number; offset: number }, comment = ''): Buffer => {
  const record = Buffer.alloc(22)
  record.writeUInt32LE(0x06054b50, 0)
  record.writeUInt16LE(fields.entries, 8)
  record.writeUInt16LE(fields.entries, 10)
  record.writeUInt32LE(fields.bytes, 12)
  record.writeUInt32LE(fields.offset, 16)
  record.writeUInt16LE(comment.length, 20)
  return Buffer.concat([record, Buffer.from(comment, 'latin1')])
}

/** A directory's header for one name. */
function header(name: Buffer, { bytes = 0, flags = 0, extra = Buffer.alloc(0) } = {}): Buffer {
  const record = Buffer.alloc(46)
  record.writeUInt32LE(0x02014b50, 0)
  record.writeUInt16LE(flags, 8)
  record.writeUInt32LE(bytes, 24)
  record.writeUInt16LE(name.length, 28)
  record.writeUInt16LE(extra.length, 30)
  return Buffer.concat([record, name, extra])
}

t.test('reads the entries of zips that the CLI and the panel write', async t => {
  const files = { 'index.html': 'one', 'größe/文件.txt': 'zwei', 'empty.txt': '' }
  const expected = [
    { path: 'index.html', isDirectory: false, bytes: 3, isEncrypted: false },
    { path: 'größe/文件.txt', isDirectory: false, bytes: 4, isEncrypted: false },
    { path: 'empty.txt', isDirectory: false, bytes: 0, isEncrypted: false }
  ]
  const sorted = (entries: Array<{ path: string }>) => [...entries].sort((a, b) => (a.path < b.path ? -1 : 1))
  t.same(sorted(shown(await readZip(named(await zipOf(files))))), sorted(expected))
  const packed = await packZip([
    ...Object.entries(files).map(([path, text]) => ({
      path,
      file: Object.assign(new Blob([text]), { lastModified: 0 })
    })),
    { path: 'nothing', file: null }
  ])
  t.same(shown(await readZip(new File([packed], 'b.zip'))), [
    ...expected,
    { path: 'nothing/', isDirectory: true, bytes: 0, isEncrypted: false }
  ])
})

t.test('reads rare records: comments, ZIP64, encryption, names in other alphabets', async t => {
  const directory = header(Buffer.from([0x67, 0x72, 0xf6]), { bytes: 5, flags: 1 })
  const [entry] = await readZip(
    named(Buffer.concat([directory, end({ entries: 1, bytes: directory.length, offset: 0 }, 'PK and more')]))
  )
  t.match(entry, { isNameSure: false, path: 'grö', isDirectory: false, bytes: 5, isEncrypted: true })

  const extra = Buffer.alloc(12)
  extra.writeUInt16LE(1, 0)
  extra.writeUInt16LE(8, 2)
  extra.writeBigUInt64LE(5_000_000_000n, 4)
  const large = header(Buffer.from('a'), { bytes: 0xffffffff, extra })
  const end64 = Buffer.alloc(56)
  end64.writeUInt32LE(0x06064b50, 0)
  end64.writeBigUInt64LE(1n, 32)
  end64.writeBigUInt64LE(BigInt(large.length), 40)
  const locator = Buffer.alloc(20)
  locator.writeUInt32LE(0x07064b50, 0)
  locator.writeBigUInt64LE(BigInt(large.length), 8)
  const zip64 = Buffer.concat([large, end64, locator, end({ entries: 0xffff, bytes: 0xffffffff, offset: 0xffffffff })])
  t.same(shown(await readZip(named(zip64))), [
    { path: 'a', isDirectory: false, bytes: 5_000_000_000, isEncrypted: false }
  ])
})

t.test('refuses a file that is not a zip or is truncated', async t => {
  const zip = await zipOf({ 'index.html': 'one', 'b.txt': 'two' })
  const cases: Array<[what: string, bytes: Uint8Array, says: RegExp]> = [
    ['nothing', Buffer.alloc(0), /is an empty file/],
    ['a text', Buffer.from('hello'), /is not a zip archive/],
    ['zeros', Buffer.alloc(100_000), /is not a zip archive/],
    ['cut', zip.subarray(0, -1), /is not a zip archive/],
    ['without its first half', zip.subarray(40), /is not a zip archive/],
    ['a directory outside the file', end({ entries: 1, bytes: 46, offset: 1000 }), /is not a zip archive/],
    ['fewer entries than it says', end({ entries: 3, bytes: 0, offset: 0 }), /is not a zip archive/],
    [
      'ZIP64 without its records',
      end({ entries: 0xffff, bytes: 0xffffffff, offset: 0xffffffff }),
      /is not a zip archive/
    ]
  ]
  for (const [what, bytes, says] of cases)
    await t.rejects(readZip(named(bytes)), { name: 'CannotRead', message: says }, what)
  t.same(await readZip(named(end({ entries: 0, bytes: 0, offset: 0 }))), [], 'a zip without entries is one')
  for (let cut = 1; cut < zip.length; cut++)
    await t.rejects(readZip(named(zip.subarray(0, cut))), { name: 'CannotRead' })
})

t.test('reads where the contents are, the mode and the time of an entry', async t => {
  const file = Object.assign(new Blob(['#!/bin/sh\n']), { lastModified: Date.UTC(2024, 1, 29, 12, 30, 15, 999) })
  const [entry] = await readZip(new File([await packZip([{ path: 'run.sh', file }])], 'a.zip'))
  const mtimeMs = Date.UTC(2024, 1, 29, 12, 30, 15)
  t.match(entry, { offset: 0, method: 0, packedBytes: 10, bytes: 10, unixMode: 0o100755, mtimeMs, isNameSure: true })

  const dos = header(Buffer.from('a'))
  dos.writeUInt16LE((10 << 11) | (20 << 5) | (30 / 2), 12)
  dos.writeUInt16LE(((2024 - 1980) << 9) | (2 << 5) | 29, 14)
  const [old] = await readZip(named(Buffer.concat([dos, end({ entries: 1, bytes: dos.length, offset: 0 })])))
  t.match(old, { unixMode: 0, mtimeMs: new Date(2024, 1, 29, 10, 20, 30).getTime() }, 'DOS time is local time')
})
