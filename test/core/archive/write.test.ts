import t from 'tap'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createWriteStream, existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { chmod, lstat, mkdir, readFile, readlink, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { promisify } from 'node:util'
import { createEntryReader } from '../../../lib/core/archive/entry-data.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import type { ZipSource } from '../../../lib/core/archive/source.js'
import { createJoining, packSegment, writeZip, type WriteZipOptions } from '../../../lib/core/archive/write.js'
import { isThorough } from '../../support/thorough.js'
import { until } from '../../support/until.js'
import { packsWhatGrows } from './growing.js'

const run = promisify(execFile)
const has = (program: string, flag: string): Promise<boolean> =>
  run(program, [flag]).then(
    () => true,
    () => false
  )
const noUnzip = (await has('unzip', '-v')) ? false : 'unzip is not on this machine'
const no7z = !(await has('7z', 'i'))
const noPython = (await has('python3', '-V')) ? false : 'python3 is not on this machine'
const noModes = process.platform === 'win32' ? 'Windows has no permission bits' : false
const root = process.getuid?.() === 0 ? 'root may read everything' : noModes

const noOpenFiles = existsSync('/proc/self/fd') ? false : 'this system has no /proc/self/fd'

function linkOf(fd: string): string | null {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return null
  }
}

const mtimeMs = Date.UTC(2024, 1, 3, 4, 5, 6)

function bytesSource(path: string, bytes: string | Uint8Array, more: Partial<ZipSource> = {}): ZipSource {
  const source = typeof bytes === 'string' ? Buffer.from(bytes) : bytes
  return { path, kind: 'file', source, bytes: source.length, mode: 0o644, mtimeMs, ...more }
}

function directorySource(path: string): ZipSource {
  return { path, kind: 'directory', source: '', bytes: 0, mode: 0o750, mtimeMs }
}

async function fileSource(path: string, file: string): Promise<ZipSource> {
  const { size, mode, mtimeMs } = await stat(file)
  return { path, kind: 'file', source: file, bytes: size, mode, mtimeMs }
}

async function zipTo(path: string, sources: Iterable<ZipSource> | AsyncIterable<ZipSource>, options?: WriteZipOptions) {
  const out = createWriteStream(path)
  const written = await writeZip(sources, out, options)
  await finished(out.end())
  return written
}

async function collect(sources: Iterable<ZipSource>, options?: WriteZipOptions): Promise<Buffer> {
  const chunks: Buffer[] = []
  const out = new Writable({ write: (chunk: Buffer, _, done) => (chunks.push(chunk), done()) })
  await writeZip(sources, out, options)
  return Buffer.concat(chunks)
}

/** Can be compressed by about half. */
function halfRandom(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length)
  let state = seed
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    bytes[at] = at & 512 ? state >>> 24 : 32 + (at % 13)
  }
  return bytes
}

t.test('unzip restores bytes, modes, times, links and empty directories', { skip: noUnzip || noModes }, async t => {
  const directory = t.testdir({ in: { 'run.sh': '#!/bin/sh\n', 'a.txt': 'a'.repeat(10_000) }, out: {} })
  await chmod(join(directory, 'in/run.sh'), 0o755)
  await utimes(join(directory, 'in/a.txt'), 1_700_000_000, 1_700_000_000)
  const large = halfRandom(17 * 1024 * 1024 + 7)
  await writeFile(join(directory, 'in/large.bin'), large)
  await writeFile(join(directory, 'in/large.mp4'), large)
  const zip = join(directory, 'x.zip')
  const progress: number[] = []
  const written = await zipTo(
    zip,
    [
      await fileSource('run.sh', join(directory, 'in/run.sh')),
      await fileSource('d/a.txt', join(directory, 'in/a.txt')),
      bytesSource('ünï ☃/leer', ''),
      directorySource('empty'),
      { path: 'link', kind: 'symlink', source: 'd/a.txt', bytes: 0, mode: 0o777, mtimeMs },
      await fileSource('large.bin', join(directory, 'in/large.bin')),
      await fileSource('large.mp4', join(directory, 'in/large.mp4')),
      bytesSource('last', 'x')
    ],
    { onProgress: ({ bytes }) => progress.push(bytes) }
  )
  t.equal(written.entries, 8)
  t.equal(written.zipBytes, (await stat(zip)).size)
  t.equal(progress.at(-1), written.bytes)
  t.strictSame(
    progress,
    [...progress].sort((a, b) => a - b)
  )

  const out = join(directory, 'out')
  await run('unzip', ['-q', zip, '-d', out], { env: { ...process.env, LC_ALL: 'C.UTF-8' } })
  t.equal(await readFile(join(out, 'd/a.txt'), 'utf8'), 'a'.repeat(10_000))
  t.equal((await stat(join(out, 'd/a.txt'))).mtimeMs, 1_700_000_000_000, 'to two seconds: unzip reads the local header')
  t.equal((await stat(join(out, 'run.sh'))).mode & 0o777, 0o755)
  t.equal((await stat(join(out, 'ünï ☃/leer'))).size, 0)
  t.equal((await stat(join(out, 'empty'))).mode & 0o777, 0o750)
  t.ok((await lstat(join(out, 'link'))).isSymbolicLink())
  t.equal(await readlink(join(out, 'link')), 'd/a.txt')
  t.ok(large.equals(await readFile(join(out, 'large.bin'))))
  t.ok(large.equals(await readFile(join(out, 'large.mp4'))))
})

t.test('Python can read order, methods and CRCs', { skip: noPython }, async t => {
  const directory = t.testdir({})
  const zip = join(directory, 'x.zip')
  const file = join(directory, 'big.js')
  await writeFile(file, halfRandom(17 * 1024 * 1024))
  await zipTo(zip, [
    bytesSource('b.txt', 'a'.repeat(1000)),
    bytesSource('a.PNG', 'a'.repeat(1000)),
    bytesSource('random', halfRandom(1024).subarray(512)),
    bytesSource('ä', 'x'),
    await fileSource('big.js', file),
    bytesSource('zero', '')
  ])
  const program =
    'import zipfile,sys,json; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; ' +
    'print(json.dumps([[i.filename,i.compress_type,i.file_size] for i in z.infolist()]))'
  const { stdout } = await run('python3', ['-c', program, zip])
  t.strictSame(JSON.parse(stdout), [
    ['b.txt', 8, 1000],
    ['a.PNG', 0, 1000],
    ['random', 0, 512],
    ['ä', 0, 1],
    ['big.js', 8, 17 * 1024 * 1024],
    ['zero', 0, 0]
  ])
})

t.test('our own reader finds kinds, modes, and times to the second', async t => {
  const directory = t.testdir({})
  const zip = join(directory, 'x.zip')
  const odd = mtimeMs + 1000
  // More than a batch, so that some are streamed.
  const many = Array.from({ length: 200 }, (_, i) => bytesSource(`many/f${i}`, 'text '.repeat(i), { mtimeMs: odd }))
  await zipTo(zip, [
    bytesSource('run.sh', '#!/bin/sh\n', { mode: 0o755 }),
    directorySource('empty'),
    { path: 'link', kind: 'symlink', source: 'run.sh', bytes: 0, mode: 0o777, mtimeMs },
    ...many
  ])
  const archive = await openArchive(zip, { maxEntries: 200_000, maxExtractedBytes: 1e9 })
  t.teardown(() => archive.close())
  const seen = archive.entries.map(({ path, kind, size, mode, mtimeMs }) => [path, kind, size, mode, mtimeMs])
  t.strictSame(seen, [
    ['run.sh', 'file', 10, 0o755, mtimeMs],
    ['empty', 'directory', 0, 0o750, mtimeMs],
    ['link', 'symlink', 6, 0o777, mtimeMs],
    ...many.map(({ path, bytes }) => [path, 'file', bytes, 0o644, odd])
  ])
})

t.test('writes an empty zip', { skip: noPython }, async t => {
  const zip = join(t.testdir({}), 'x.zip')
  await zipTo(zip, [])
  const count = 'import zipfile,sys; z=zipfile.ZipFile(sys.argv[1]); print(len(z.infolist()))'
  t.equal((await run('python3', ['-c', count, zip])).stdout.trim(), '0')
})

t.test('writes the same bytes for the same sources, whatever finishes first', async t => {
  const sources = Array.from({ length: 600 }, (_, i) => bytesSource(`f${i}`, halfRandom((i * 7919) % 30_000, i)))
  const [first, second] = [await collect(sources), await collect(sources)]
  t.ok(first.equals(second))
  const stored = await collect(sources, { level: 0 })
  t.ok(stored.length > sources.reduce((sum, { bytes }) => sum + bytes, 0), 'level 0 stores')
})

t.test(
  'writes a large file in pieces as one entry for every reader, also with zip64',
  { skip: noUnzip || noPython },
  async t => {
    const directory = t.testdir({})
    const sizes = [1024 * 1024 + 1, 2 * 1024 * 1024, 2_500_000, 8 * 1024 * 1024 + 1]
    const large = halfRandom(8 * 1024 * 1024 + 1)
    const sources = sizes.flatMap(bytes =>
      ['js', 'mp4'].map(type => bytesSource(`${bytes}.${type}`, large.subarray(0, bytes)))
    )
    const small = Array.from({ length: 300 }, (_, i) => bytesSource(`small/${i}`, halfRandom(i)))
    const all = [
      ...sources,
      ...small,
      ...sources.slice(0, 2).map(source => ({ ...source, path: `again/${source.path}` }))
    ]
    const program =
      'import zipfile,sys; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; ' +
      'print(len(z.infolist()), sum(i.file_size for i in z.infolist()))'
    const bytes = all.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const zip64FromBytes of isThorough ? [undefined, 0, 2_000_000] : [2_000_000]) {
      const zip = join(directory, 'x.zip')
      await zipTo(zip, all, zip64FromBytes === undefined ? {} : { zip64FromBytes })
      t.equal(
        (await run('python3', ['-c', program, zip])).stdout,
        `${all.length} ${bytes}\n`,
        `zip64 from ${zip64FromBytes}`
      )
      await run('unzip', ['-tq', zip])
      if (!no7z) await run('7z', ['t', zip])
      const archive = await openArchive(zip, { maxEntries: 1000, maxExtractedBytes: 1e9 })
      const reader = createEntryReader(archive)
      for (const [index, entry] of archive.entries.entries()) {
        const hash = createHash('sha256')
        await reader.readPieces(entry, piece => void hash.update(piece))
        const expected = createHash('sha256')
          .update(all[index]?.source as Uint8Array)
          .digest('hex')
        if (hash.digest('hex') !== expected) t.fail(entry.path)
      }
      archive.close()
    }
  }
)

t.test('writes complete headers of stored files of some megabytes, for readers without the directory', async t => {
  const large = halfRandom(2 * 1024 * 1024)
  const zip = await collect([bytesSource('a.mp4', large), bytesSource('b.js', large)])
  t.equal(zip.readUInt16LE(6) & 0x0008, 0)
  t.equal(zip.readUInt32LE(22), large.length)
})

t.test('threads pack the first bytes of growing files', { skip: noPython }, async t => {
  const directory = t.testdir({ 'grown.log': 'line\n'.repeat(2000) })
  const grown = await fileSource('', join(directory, 'grown.log'))
  // More than fits in a segment: a single segment is packed without a thread.
  const sources = Array.from({ length: 600 }, (_, i) => ({
    ...grown,
    path: `${i}.log`,
    bytes: 500 + i,
    isGrowing: true
  }))
  await zipTo(join(directory, 'x.zip'), sources)
  const program =
    'import zipfile,sys; z=zipfile.ZipFile(sys.argv[1]); print(z.testzip(), sum(i.file_size for i in z.infolist()))'
  t.equal((await run('python3', ['-c', program, join(directory, 'x.zip')])).stdout, `None ${600 * 500 + 599 * 300}\n`)
})

t.test('refuses missing, changed and unreadable files by name', async t => {
  const directory = t.testdir({ a: 'x'.repeat(100), directory: {} })
  const small = await fileSource('a', join(directory, 'a'))
  const path = join(directory, 'large')
  await writeFile(path, Buffer.alloc(17 * 1024 * 1024))
  for (const good of [small, await fileSource('large', path)]) {
    const table: Array<[what: string, wrong: Partial<ZipSource>, code: string, sentence: RegExp]> = [
      ['gone', { source: join(directory, 'none') }, 'file_vanished', /^Cannot pack ".*": it was removed while/],
      [
        'a directory now',
        { source: join(directory, 'directory') },
        'file_changed',
        /it changed while it was packed\. Try/
      ],
      ['shorter', { bytes: good.bytes + 1 }, 'file_changed', /it changed/],
      ['longer', { bytes: good.bytes - 1 }, 'file_changed', /it changed/]
    ]
    for (const [what, wrong, code, sentence] of table) {
      const expected = { kind: 'unavailable', code, field: good.path, message: sentence }
      await t.rejects(collect([bytesSource('before', 'x'), { ...good, ...wrong }]), expected, `${good.path}: ${what}`)
    }
  }
  await t.test('no permission', { skip: root }, async t => {
    for (const name of ['a', 'large']) {
      const closed = await fileSource(name, join(directory, name))
      await chmod(join(directory, name), 0)
      await t.rejects(collect([closed]), { code: 'file_unreadable', message: /permission denied/ })
    }
  })
})

t.test('does not block on a pipe in the place of a file', { skip: noModes }, async t => {
  const pipe = join(t.testdir({}), 'p')
  await run('mkfifo', [pipe])
  for (const bytes of [100, 17 * 1024 * 1024]) {
    await t.rejects(collect([{ ...bytesSource('p', ''), source: pipe, bytes }]), { code: 'file_changed', field: 'p' })
  }
})

t.test('closes open files when it ends early', { skip: noOpenFiles }, async t => {
  const directory = t.testdir({})
  const path = join(directory, 'large')
  await writeFile(path, halfRandom(17 * 1024 * 1024))
  const large = await fileSource('large', path)
  const open = (): number => readdirSync('/proc/self/fd').filter(fd => linkOf(fd) === path).length
  const control = new AbortController()
  const done = writeZip([large], new PassThrough(), { signal: control.signal })
  await until(() => open() !== 0)
  control.abort(new Error('end'))
  await t.rejects(done, /end/)
  await until(() => open() === 0)
})

t.test('can be aborted before it starts, between batches, and while the output is full', async t => {
  const reason = new Error('enough')
  const sources = (): ZipSource[] => Array.from({ length: 400 }, (_, i) => bytesSource(`f${i}`, halfRandom(50_000, i)))
  await t.rejects(collect(sources(), { signal: AbortSignal.abort(reason) }), reason)
  const between = new AbortController()
  await t.rejects(collect(sources(), { signal: between.signal, onProgress: () => between.abort(reason) }), reason)
  const full = new AbortController()
  setTimeout(() => full.abort(reason), 200)
  await t.rejects(writeZip(sources(), new PassThrough(), { signal: full.signal }), reason)
})

t.test('rejects with the error of a failing output, and with a message for a closed one', async t => {
  const sources = Array.from({ length: 100 }, (_, i) => bytesSource(`f${i}`, halfRandom(50_000, i)))
  const full = new Error('no space')
  const failing = new Writable({ write: (_chunk, _encoding, done) => void setImmediate(done, full) })
  await t.rejects(writeZip(sources, failing), full)
  const closing = new Writable({ write: () => void setImmediate(() => closing.destroy()) })
  await t.rejects(writeZip(sources, closing), /closed before the zip was complete/)
})

t.test('rejects with the error of the sources', async t => {
  const wrong = new Error('wrong')
  async function* sources(): AsyncIterable<ZipSource> {
    yield bytesSource('a', 'x')
    throw wrong
  }
  await t.rejects(writeZip(sources(), new PassThrough()), wrong)
})

t.test('a slow output slows down everything', async t => {
  let asked = 0
  async function* sources(): AsyncIterable<ZipSource> {
    for (; asked < 200; asked++) yield bytesSource(`f${asked}`, Buffer.alloc(1024 * 1024))
  }
  const control = new AbortController()
  const out = new PassThrough({ highWaterMark: 1 })
  const done = writeZip(sources(), out, { signal: control.signal, level: 0 })
  await new Promise(resolve => setTimeout(resolve, 1_000))
  t.ok(asked < 40, `${asked} of 200 sources of 1 MiB were asked for`)
  control.abort(new Error('end'))
  await t.rejects(done, /end/)
})

t.test('creates a directory for each path', { skip: noUnzip }, async t => {
  const directory = t.testdir({})
  const zip = join(directory, 'x.zip')
  await mkdir(join(directory, 'out'))
  await zipTo(zip, [bytesSource('a/b/c/d.txt', 'x')])
  await run('unzip', ['-q', zip, '-d', join(directory, 'out')])
  t.equal(await readFile(join(directory, 'out/a/b/c/d.txt'), 'utf8'), 'x')
})

t.test('packs the first bytes of a growing file, passes on the bytes read, and writes the last entry', t =>
  packsWhatGrows(t, zipTo)
)

const source = (path: string, more: Partial<ZipSource> = {}): ZipSource => ({
  path,
  kind: 'file',
  source: Buffer.from('x'.repeat(100)),
  bytes: 100,
  mode: 0o755,
  mtimeMs: 0,
  ...more
})

t.test('packs a segment as a zip', async t => {
  const zip = await packSegment([source('a.js'), source('d', { kind: 'directory' })], 6)
  t.equal(zip.readUInt32LE(0), 0x04034b50)
})

t.test('refuses a changed file by its name', async t => {
  const directory = t.testdir({ a: 'x' })
  const file = (name: string, bytes: number): ZipSource => source(name, { source: join(directory, name), bytes })
  await t.rejects(packSegment([file('a', 2)], 6), { code: 'file_changed', field: 'a' })
  await t.rejects(packSegment([file('b', 2)], 6), { code: 'file_vanished', field: 'b' })
})

function sourceForJoin(path: string, text: string, more: Partial<ZipSource> = {}): ZipSource {
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
  [
    sourceForJoin('a', 'a'.repeat(1000)),
    sourceForJoin('ü/b', 'b'),
    { ...sourceForJoin('empty', ''), kind: 'directory' }
  ],
  [sourceForJoin('c', 'c'.repeat(70_000))],
  [sourceForJoin('d', ''), { ...sourceForJoin('link', ''), kind: 'symlink', source: 'a' }]
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
  const zip = Buffer.from(await packSegment([sourceForJoin('a', 'a')], 6))
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
