import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from '../../../lib/base/digests.js'
import { openArchive, type ArchiveEntry } from '../../../lib/core/archive/read.js'
import { Refusal } from '../../../lib/base/errors.js'
import { makeZip, type EntryPlan, type ZipPlan } from '../../support/make-zip.js'

const limits = { maxEntries: 1000, maxExtractedBytes: 1024 * 1024 }
const directory = t.testdir()
const path = join(directory, 'x.zip')

async function read(zip: ZipPlan | EntryPlan[] | Buffer): Promise<readonly ArchiveEntry[]> {
  writeFileSync(path, Buffer.isBuffer(zip) ? zip : makeZip(zip))
  const archive = await openArchive(path, limits)
  archive.close()
  return archive.entries
}

async function refusal(zip: ZipPlan | EntryPlan[] | Buffer): Promise<Refusal> {
  try {
    await read(zip)
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('It was not refused')
}

function unicodePath(raw: Buffer, name: string, crc = crc32(raw)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUInt16LE(0x7075, 0)
  head.writeUInt16LE(5 + Buffer.byteLength(name), 2)
  head[4] = 1
  head.writeUInt32LE(crc, 5)
  return Buffer.concat([head, Buffer.from(name)])
}

t.test('reads names in every encoding of the format', async t => {
  const cp437 = Buffer.from([0x82, 0x2e, 0x74]) // é.t in CP437
  const names = async (entry: EntryPlan): Promise<string | undefined> => (await read([entry]))[0]?.path
  t.equal(await names({ name: 'ä/日本.txt' }), 'ä/日本.txt', 'UTF-8 with its flag')
  t.equal(await names({ name: cp437 }), 'é.t', 'CP437 without')
  t.equal(await names({ name: cp437, extra: unicodePath(cp437, '日.t') }), '日.t', 'Info-ZIP Unicode Path')
  t.equal(await names({ name: cp437, extra: unicodePath(cp437, '日.t', 1) }), 'é.t', 'Unicode Path of another name')
  t.equal(await names({ name: Buffer.from('日.t'), mode: 0o100644 }), '日.t', 'UTF-8 without its flag, written on UNIX')
  t.equal(await names({ name: cp437, mode: 0o100644 }), 'é.t', 'not UTF-8, written on UNIX')
  t.equal((await refusal([{ name: Buffer.from([0xff, 0xfe]), flags: 0x800 }])).code, 'undecodable_name')
})

t.test('reads kinds, modes and times', async t => {
  const entries = await read([
    { name: 'plain' },
    { name: 'exe', mode: 0o100755 },
    { name: 'setuid', mode: 0o106755 },
    { name: 'dir/', mode: 0o040750 },
    { name: 'dir2', mode: 0o040755 },
    { name: 'link', mode: 0o120777, data: 'exe' },
    { name: 'none', mode: 0o100000 }
  ])
  t.strictSame(
    entries.map(({ path, kind, mode }) => [path, kind, mode]),
    [
      ['plain', 'file', null],
      ['exe', 'file', 0o755],
      ['setuid', 'file', 0o755],
      ['dir', 'directory', 0o750],
      ['dir2', 'directory', 0o755],
      ['link', 'symlink', 0o777],
      ['none', 'file', null]
    ]
  )
  t.equal(entries[0]?.mtimeMs, new Date(2024, 5, 15, 12, 30, 0).getTime(), 'the DOS time is local')
  t.equal(
    (await read([{ name: 'a', extra: extendedTimestamp() }]))[0]?.mtimeMs,
    1_700_000_000_000,
    'the extended timestamp is UTC'
  )
})

function extendedTimestamp(): Buffer {
  const field = Buffer.alloc(9)
  field.writeUInt16LE(0x5455, 0)
  field.writeUInt16LE(5, 2)
  field[4] = 1
  field.writeInt32LE(1_700_000_000, 5)
  return field
}

t.test('reads ZIP64 structures, comments, prefixes and data descriptors', async t => {
  t.equal((await read({ entries: [{ name: 'a', data: 'x' }], zip64: true }))[0]?.size, 1)
  t.equal((await read({ entries: [{ name: 'a' }], comment: 'hello' })).length, 1)
  t.equal((await read({ entries: [{ name: 'a' }], prefix: Buffer.from('#!/bin/sh\n') })).length, 1)
  t.equal((await read([{ name: 'a', data: 'hello', method: 8, descriptor: true }]))[0]?.size, 5)
})

const a = { name: 'a', data: 'hello' }
const good = makeZip([a, { name: 'b', data: 'world' }])
const cases: Array<[zip: ZipPlan | EntryPlan[] | Buffer, code: string, what: string]> = [
  [Buffer.alloc(0), 'not_a_zip', 'nothing'],
  [Buffer.from('hello'), 'not_a_zip', 'some text'],
  [Buffer.alloc(100_000, 'x'), 'not_a_zip', 'much text'],
  [good.subarray(0, good.length - 1), 'truncated_zip', 'one byte short'],
  [good.subarray(0, good.length - 30), 'truncated_zip', 'without its end'],
  [good.subarray(0, 20), 'truncated_zip', 'the first bytes only'],
  [Buffer.concat([good, Buffer.from('more')]), 'damaged_zip', 'bytes after the end'],
  [[], 'empty_zip', 'no entries'],
  [[{ name: './' }], 'empty_zip', 'nothing but the target itself'],
  [{ entries: [a], claimedEntries: 2 }, 'truncated_zip', 'an entry fewer than claimed'],
  [{ entries: [a, { name: 'b' }], claimedEntries: 1 }, 'damaged_zip', 'an entry more than claimed'],
  [{ entries: Array.from({ length: 1001 }, (_, i) => ({ name: `f${i}` })) }, 'too_many_entries', 'too many'],
  [[{ ...a, flags: 1 }], 'encrypted_entry', 'encrypted'],
  [[{ ...a, flags: 0x41 }], 'encrypted_entry', 'strongly encrypted'],
  [[{ ...a, flags: 0x2000 }], 'encrypted_entry', 'encrypted headers'],
  [[{ ...a, method: 12 }], 'unsupported_method', 'bzip2'],
  [[{ ...a, size: 6 }], 'size_mismatch', 'stored, two sizes'],
  [[{ ...a, mode: 0o020666 }], 'unsupported_entry', 'a device'],
  [[{ ...a, mode: 0o010644 }], 'unsupported_entry', 'a pipe'],
  [[{ name: 'a/', data: 'x' }], 'unsupported_entry', 'a directory with contents'],
  [[{ name: 'a', headerOffset: 1e9 }], 'damaged_zip', 'bytes beyond the end'],
  [[{ name: 'a', data: 'x', method: 8, compressedSize: 5000 }], 'damaged_zip', 'longer than the archive'],
  [[a, { name: 'b', data: 'hello', sharesBytesOf: 0 }], 'overlapping_entries', 'the same bytes twice'],
  [[a, { name: 'b', data: 'x', headerOffset: 10 }], 'overlapping_entries', 'bytes within another'],
  [[{ name: 'a', data: 'x', method: 8, size: 2 * 1024 * 1024 }], 'extracted_too_large', 'declares too much'],
  [[{ name: '../a' }], 'path_leaves_target', 'a name from names.ts'],
  [[{ name: '' }], 'empty_name', 'no name at all']
]

t.test('refuses broken and hostile archives', async t => {
  for (const [zip, code, what] of cases) t.equal((await refusal(zip)).code, code, what)
})

t.test('says in words of its own what is broken at the end of a zip', async t => {
  t.match((await refusal(Buffer.concat([good, Buffer.from('more')]))).message, /: bytes follow its end, or/)
  t.match((await refusal(makeZip({ entries: [a], comment: 'hello' }).subarray(0, -2))).message, /its comment is cut$/)
  const said = new Set<string>()
  for (const zip64 of [false, true]) {
    const whole = makeZip({ entries: [a], comment: 'hello', zip64 })
    const changes = [0, 1, 0xff].flatMap(byte =>
      Array.from(whole, (_, at) => Buffer.from(whole).fill(byte, at, at + 1))
    )
    const cuts = Array.from(whole, (_, at) => whole.subarray(0, at))
    for (const broken of [...changes, ...cuts]) {
      const { message = '', cause } = await refusal(broken).catch(() => ({ message: '', cause: undefined }))
      if (cause instanceof Error && message.includes(cause.message)) said.add(message)
    }
  }
  t.strictSame([...said], [])
})

t.test('names the entry in the message', async t => {
  t.equal(
    (await refusal([{ name: 'x/y', flags: 1 }])).message,
    'Cannot extract the archive: "x/y": it is encrypted. Pack it without a password'
  )
})

t.test('refuses a zip that is cut anywhere', async t => {
  for (let length = 0; length < good.length; length++) {
    const { kind } = await refusal(good.subarray(0, length))
    if (kind !== 'invalid') t.equal(kind, 'invalid', `${length} bytes`)
  }
})

t.test('does not block the event loop while it reads a long directory', async t => {
  const path = join(t.testdir(), 'many.zip')
  writeFileSync(path, makeZip(Array.from({ length: 10_000 }, (_, index) => ({ name: `${index}` }))))
  let turns = 0
  const immediate = (): void => {
    turns++
    next = setImmediate(immediate)
  }
  let next = setImmediate(immediate)
  const archive = await openArchive(path, { maxEntries: 10_000, maxExtractedBytes: 1 })
  clearImmediate(next)
  archive.close()
  t.ok(turns >= 4, `${turns} turns`)
})

t.test('refuses extra fields of unusual size', async t => {
  const entries = Array.from({ length: 100 }, (_, index) => ({ name: `${index}`, extra: Buffer.alloc(60_000) }))
  t.match(await refusal(entries), { kind: 'too_large', code: 'names_too_large' })
  t.equal(
    (await read(Array.from({ length: 100 }, (_, index) => ({ name: `${'d/'.repeat(1500)}${index}` })))).length,
    100
  )
})
