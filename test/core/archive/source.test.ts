import t from 'tap'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync
} from 'node:fs'
import { join } from 'node:path'
import {
  blocksOf,
  checkSourceName,
  digestBytes,
  digestSources,
  type Entry,
  isWorthDeflating,
  newEntry,
  readInto,
  readWhole,
  withFile,
  type ZipSource
} from '../../../lib/core/archive/source.js'
import { packedMode } from '../../../lib/base/shared/tree-text.js'
import { crc32 } from '../../../lib/base/digests.js'
import {
  defaultZip64FromBytes,
  directoryOf,
  endBytes,
  localHeader,
  localHeaderBytes
} from '../../../lib/base/shared/zip-records.js'
import { findProgram } from '../../support/programs.js'

function file(path: string, more: Partial<ZipSource> = {}): ZipSource {
  return { path, kind: 'file', source: `/root/${path}`, bytes: 1000, mode: 0o4755, mtimeMs: 0, ...more }
}

t.test('the mode of an entry contains its type and permission bits only', async t => {
  t.equal(packedMode(file('a.js')), 0o100755)
  t.equal(packedMode(file('d', { kind: 'directory', mode: 0o41777 })), 0o040777)
  t.equal(packedMode(file('l', { kind: 'symlink', mode: 0 })), 0o120777)
})

t.test('deflates only sources that may get smaller', async t => {
  const table: Array<[source: ZipSource, expected: boolean]> = [
    [file('a.js'), true],
    [file('png'), true],
    [file('b.PNG'), false],
    [file('d/c.tar.gz'), false],
    [file('short.js', { bytes: 16 }), false],
    [file('l.js', { kind: 'symlink' }), false]
  ]
  for (const [source, expected] of table) t.equal(isWorthDeflating(source), expected, source.path)
})

t.test('refuses ambiguous names', async t => {
  for (const path of ['a\\b', '/a', 'a/', '../a', 'a/../b', '', 'C:x', 'a\0b', 'a\ufffd', 'x'.repeat(70_000)]) {
    t.throws(() => checkSourceName(file(path)), { code: 'name_not_packable' }, path.slice(0, 10))
  }
  t.doesNotThrow(() => checkSourceName(file('ünï ☃/..a/b..')))
})

function fileForSourceBytes(source: string | Uint8Array, more: Partial<ZipSource> = {}): ZipSource {
  return { path: 'a', kind: 'file', source, bytes: 10, mode: 0o644, mtimeMs: 0, ...more }
}

async function inBlocks(source: ZipSource): Promise<string[]> {
  const blocks: string[] = []
  for await (const block of blocksOf(source, async () => Buffer.from(new ArrayBuffer(4)))) blocks.push(block.toString())
  return blocks
}

async function into(source: ZipSource): Promise<string> {
  const room = Buffer.alloc(source.bytes + 1)
  readInto(room, source)
  return room.toString('utf8', 0, source.bytes)
}

t.test('reads a file, memory, and the first bytes of a growing file', async t => {
  const path = join(t.testdir({ a: '0123456789' }), 'a')
  for (const source of [fileForSourceBytes(path), fileForSourceBytes(Buffer.from('0123456789'))]) {
    t.equal(readWhole(source).toString(), '0123456789')
    t.equal(await into(source), '0123456789')
    t.strictSame(await inBlocks(source), ['0123', '4567', '89'])
  }
  const growing = fileForSourceBytes(path, { bytes: 5, isGrowing: true })
  t.equal(readWhole(growing).toString(), '01234')
  t.equal(await into(growing), '01234')
  t.strictSame(await inBlocks(growing), ['0123', '4'])
})

t.test('passes each piece to the listener', async t => {
  const heard: string[] = []
  const onRead = (piece: Uint8Array): void => void heard.push(Buffer.from(piece).toString())
  await inBlocks(fileForSourceBytes(Buffer.from('0123456789'), { onRead }))
  readWhole(fileForSourceBytes(Buffer.from('abc'), { onRead }))
  t.strictSame(heard, ['0123', '4567', '89', 'abc'])
})

t.test('refuses a changed file, however it is read', async t => {
  const directory = t.testdir({ a: '', d: {} })
  writeFileSync(join(directory, 'a'), '0123456789')
  const table: Array<[source: ZipSource, code: string]> = [
    [fileForSourceBytes(join(directory, 'a'), { bytes: 9 }), 'file_changed'],
    [fileForSourceBytes(join(directory, 'a'), { bytes: 11 }), 'file_changed'],
    [fileForSourceBytes(join(directory, 'd')), 'file_changed'],
    [fileForSourceBytes(join(directory, 'none')), 'file_vanished'],
    [fileForSourceBytes(join(directory, 'a/b')), 'file_vanished'],
    [
      fileForSourceBytes('/proc/self/mem', { mayBeExchanged: true }),
      process.platform === 'linux' ? 'file_changed' : 'file_vanished'
    ]
  ]
  for (const [source, code] of table) {
    const expected = { kind: 'unavailable', code, field: 'a' }
    t.throws(() => readWhole(source), expected)
    await t.rejects(into(source), expected)
    await t.rejects(inBlocks(source), expected)
  }
})

t.test('refuses a file that is written with the same size while it is read', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const rewrite = (): void => {
    const fd = openSync(path, 'r+')
    writeSync(fd, '9876543210')
    closeSync(fd)
  }
  const table: Array<[what: string, change: () => void, isRefused: boolean]> = [
    ['rewritten in place', rewrite, true],
    [
      'rewritten, and its time set back',
      () => {
        const { atime, mtime } = statSync(path)
        rewrite()
        utimesSync(path, atime, mtime)
      },
      true
    ],
    [
      'replaced by a new file',
      () => (writeFileSync(`${path}.new`, '9876543210'), renameSync(`${path}.new`, path)),
      false
    ],
    ['linked', () => linkSync(path, `${path}.linked`), false],
    ['with another mode', () => chmodSync(path, 0o600), false]
  ]
  const long = new Date(1e12)
  for (const [what, change, isRefused] of table) {
    const prepared = (): void => {
      writeFileSync(path, '0123456789')
      utimesSync(path, long, long)
      chmodSync(path, 0o644)
      rmSync(`${path}.linked`, { force: true })
      // File systems note times in ticks of some milliseconds.
      do writeFileSync(`${path}.tick`, '')
      while (statSync(`${path}.tick`).ctimeMs === statSync(path).ctimeMs)
    }
    prepared()
    const blocks: string[] = []
    const reading = (async () => {
      for await (const block of blocksOf(fileForSourceBytes(path), async () => Buffer.from(new ArrayBuffer(4)))) {
        if (blocks.push(block.toString()) === 1) change()
      }
    })()
    if (isRefused) await t.rejects(reading, { code: 'file_changed', field: 'a' }, what)
    else await t.resolves(reading, what)
    prepared()
    const read = (): string => withFile(fileForSourceBytes(path), fd => (change(), String(fd > 0)))
    if (isRefused) t.throws(read, { code: 'file_changed', field: 'a' }, what)
    else t.equal(read(), 'true', what)
    if (!isRefused) t.equal(blocks.join(''), '0123456789', what)
  }
})

const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex')

function fileForSourceDigest(directory: string, path: string, contents: Buffer): ZipSource {
  const source = join(directory, path)
  writeFileSync(source, contents)
  const { size, mode, mtimeMs } = statSync(source)
  return { path, kind: 'file', source, bytes: size, mode, mtimeMs }
}

t.test('digests files of every size, bytes in memory, and the text of links', async t => {
  const directory = t.testdir()
  const contents = [0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 700_000].map(size => Buffer.alloc(size, 'abc'))
  const sources: ZipSource[] = contents.map((bytes, at) => fileForSourceDigest(directory, `f${at}`, bytes))
  sources.push({ path: 'link', kind: 'symlink', source: 'f0/ü', bytes: 0, mode: 0o777, mtimeMs: 0 })
  sources.push({ path: 'memory', kind: 'file', source: Buffer.from('xyz'), bytes: 3, mode: 0o644, mtimeMs: 0 })
  const digests = Buffer.from(digestSources(sources))
  const found = sources.map((_, at) => digests.subarray(at * digestBytes, (at + 1) * digestBytes).toString('hex'))
  t.strictSame(found, [...contents, 'f0/ü', 'xyz'].map(sha256))
})

t.test('refuses files that changed since they were found', async t => {
  const directory = t.testdir()
  for (const size of [3, 300_000]) {
    for (const after of [size - 1, size + 1, size * 2]) {
      const source = fileForSourceDigest(directory, 'a', Buffer.alloc(size))
      writeFileSync(source.source as string, Buffer.alloc(after))
      t.throws(() => digestSources([source]), { code: 'file_changed', field: 'a' }, `${size} to ${after} bytes`)
    }
  }
  const gone = fileForSourceDigest(directory, 'b', Buffer.alloc(3))
  rmSync(gone.source as string)
  t.throws(() => digestSources([gone]), { code: 'file_vanished', field: 'b' })
})

const source = (path: string, text: string): ZipSource =>
  ({ kind: 'file', path, bytes: text.length, mode: 0o644, mtimeMs: Date.UTC(2026, 0, 2, 3, 4, 6) }) as ZipSource

/** A zip with stored entries, built only from records and contents. */
function zipOf(files: Record<string, string>, zip64FromBytes: number): Buffer {
  const pieces: Buffer[] = []
  const entries: Entry[] = []
  let offset = 0
  for (const [path, text] of Object.entries(files)) {
    const contents = Buffer.from(text)
    const entry = newEntry(source(path, text), offset, zip64FromBytes)
    Object.assign(entry, { crc: crc32(contents), packedBytes: contents.length })
    entries.push(entry)
    const header = localHeader(entry)
    t.equal(header.length, localHeaderBytes(entry), 'a header has the calculated length')
    pieces.push(Buffer.from(header), contents)
    offset += header.length + contents.length
  }
  return Buffer.concat([...pieces, Buffer.from(directoryOf(entries, offset, zip64FromBytes))])
}

const python = findProgram('python3')
const files = { 'a.txt': 'one', 'folder/ü.txt': 'two two', empty: '' }

for (const [what, zip64FromBytes] of [
  ['plain', defaultZip64FromBytes],
  ['with every number in zip64', 0]
] as const) {
  t.test(`Python can read records ${what}`, { skip: python === null && 'python3 is not installed' }, async t => {
    const path = join(t.testdir({}), 'records.zip')
    writeFileSync(path, zipOf(files, zip64FromBytes))
    const script = `import json, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
print(json.dumps({i.filename: [z.read(i).decode(), oct(i.external_attr >> 16)] for i in z.infolist()}))`
    const { stdout, stderr } = spawnSync(python as string, ['-c', script, path], { encoding: 'utf8' })
    t.equal(stderr, '')
    const expected = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, [text, '0o100644']]))
    t.strictSame(JSON.parse(stdout), expected)
  })
}

t.test('a directory without entries is only its end record', async t => {
  const end = Buffer.from(directoryOf([], 0, defaultZip64FromBytes))
  t.equal(end.length, endBytes)
  t.equal(end.readUInt32LE(0), 0x06054b50)
})
