import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { open, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { openArchive } from '../../../lib/core/archive/read.js'
import type { ZipSource } from '../../../lib/core/archive/source.js'
import { writeZipFile, type WriteZipFileOptions, type ZipFileHandle } from '../../../lib/core/archive/write-file.js'
import { packsWhatGrows } from './growing.js'

const run = promisify(execFile)
const has = (program: string, flag: string): Promise<boolean> =>
  run(program, [flag]).then(
    () => true,
    () => false
  )
const noUnzip = !(await has('unzip', '-v')) && 'unzip is not on this machine'
const noPython = !(await has('python3', '-V')) && 'python3 is not on this machine'
const mtimeMs = Date.UTC(2024, 1, 3, 4, 5, 7)
const mebibyte = 1024 * 1024

function bytesSource(path: string, bytes: string | Uint8Array, more: Partial<ZipSource> = {}): ZipSource {
  const source = typeof bytes === 'string' ? Buffer.from(bytes) : bytes
  return { path, kind: 'file', source, bytes: source.length, mode: 0o644, mtimeMs, ...more }
}

const fileSource = async (path: string, file: string): Promise<ZipSource> => ({
  path,
  kind: 'file',
  source: file,
  bytes: (await stat(file)).size,
  mode: 0o644,
  mtimeMs
})

async function zipTo(
  path: string,
  sources: Iterable<ZipSource>,
  options?: WriteZipFileOptions,
  through = (file: ZipFileHandle) => file
) {
  const file = await open(path, 'w')
  try {
    return await writeZipFile(sources, through(file), options)
  } finally {
    await file.close()
  }
}

/** Writes only a part of the given bytes, as can happen with a full disk or a signal. */
const inPieces = (file: ZipFileHandle): ZipFileHandle => ({
  datasync: () => file.datasync(),
  write: (bytes, offset, length, position) => file.write(bytes, offset, Math.min(length, 300_007), position)
})

t.test('unzip and Python can read the zip', { skip: noUnzip || noPython }, async t => {
  const directory = t.testdir({})
  const text = Buffer.from('the quick brown fox\n'.repeat(400_000))
  const noise = randomBytes(9 * mebibyte + 7)
  await writeFile(join(directory, 'large.log'), text)
  await writeFile(join(directory, 'large.zip'), noise)
  const sources = [
    bytesSource('a.txt', 'a'.repeat(10_000)),
    bytesSource('ünï ☃/leer', ''),
    { path: 'empty', kind: 'directory', source: '', bytes: 0, mode: 0o750, mtimeMs } as const,
    { path: 'link', kind: 'symlink', source: 'a.txt', bytes: 0, mode: 0o777, mtimeMs } as const,
    await fileSource('large.log', join(directory, 'large.log')),
    await fileSource('large.zip', join(directory, 'large.zip')),
    bytesSource('bytes.zip', noise.subarray(0, 6 * mebibyte)),
    ...Array.from({ length: 50 }, (_, n) => bytesSource(`many/${n}`, `${n} `.repeat(n)))
  ]
  const seen: number[] = []
  const zip = join(directory, 'x.zip')
  const written = await zipTo(zip, sources, { onProgress: ({ bytes }) => seen.push(bytes) }, inPieces)
  t.equal(written.entries, sources.length)
  t.equal(written.zipBytes, (await stat(zip)).size)
  t.equal(seen.at(-1), written.bytes)
  t.match((await run('unzip', ['-t', zip])).stdout, /No errors detected/)
  const program =
    'import zipfile,sys,json; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; ' +
    'print(json.dumps([[i.filename,i.compress_type,i.file_size,i.external_attr>>16] for i in z.infolist()]))'
  t.same(JSON.parse((await run('python3', ['-c', program, zip])).stdout).slice(0, 7), [
    ['a.txt', 8, 10_000, 0o100644],
    ['ünï ☃/leer', 0, 0, 0o100644],
    ['empty/', 0, 0, 0o40750],
    ['link', 0, 5, 0o120777],
    ['large.log', 8, text.length, 0o100644],
    ['large.zip', 0, noise.length, 0o100644],
    ['bytes.zip', 0, 6 * mebibyte, 0o100644]
  ])
  await run('unzip', ['-q', zip, '-d', join(directory, 'out')], { env: { ...process.env, LC_ALL: 'C.UTF-8' } })
  t.ok(text.equals(await readFile(join(directory, 'out/large.log'))))
  t.ok(noise.equals(await readFile(join(directory, 'out/large.zip'))))
  t.equal((await stat(join(directory, 'out/a.txt'))).mtimeMs, mtimeMs, 'to the second')
})

t.test('writes more entries than 16 bits can count', { skip: noUnzip }, async t => {
  const zip = join(t.testdir({}), 'x.zip')
  const many = Array.from({ length: 65_536 }, (_, n) => bytesSource(`${n}`, ''))
  t.equal((await zipTo(zip, many)).entries, 65_536)
  t.match((await run('unzip', ['-Zt', zip])).stdout, /^65536 files, 0 bytes uncompressed/)
})

t.test('writes zip64 for sizes and offsets above 32 bits', { skip: noUnzip || noPython }, async t => {
  const directory = t.testdir({ 'large.log': 'x'.repeat(5 * mebibyte), 'large.zip': 'y'.repeat(5 * mebibyte) })
  const zip = join(directory, 'x.zip')
  const sources = [
    bytesSource('before', 'b'),
    ...(await Promise.all(['large.log', 'large.zip'].map(name => fileSource(name, join(directory, name))))),
    bytesSource('after', 'a')
  ]
  await zipTo(zip, sources, { zip64FromBytes: 4 * mebibyte })
  t.match((await run('unzip', ['-t', zip])).stdout, /No errors detected/)
  const program =
    'import zipfile,sys,json; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; ' +
    'print(json.dumps([[i.filename,i.file_size,i.extract_version] for i in z.infolist()]))'
  t.same(JSON.parse((await run('python3', ['-c', program, zip])).stdout), [
    ['before', 1, 20],
    ['large.log', 5 * mebibyte, 45],
    ['large.zip', 5 * mebibyte, 45],
    ['after', 1, 45]
  ])
  const archive = await openArchive(zip, { maxEntries: 10, maxExtractedBytes: 1e9 })
  t.match(
    archive.entries,
    sources.map(({ path, bytes, mode }) => ({ path, size: bytes, mode, mtimeMs }))
  )
  archive.close()
})

t.test('refuses a source that cannot be read, by its name', async t => {
  const directory = t.testdir({
    'shrunk.zip': 'x'.repeat(5 * mebibyte),
    'grown.zip': 'x'.repeat(5 * mebibyte),
    small: 'xx'
  })
  const source = async (name: string, bytes: number): Promise<ZipSource> => ({
    ...(await fileSource(name, join(directory, name))),
    bytes
  })
  const cases: Array<[what: string, source: ZipSource, code: string]> = [
    ['has shrunk', await source('shrunk.zip', 6 * mebibyte), 'file_changed'],
    ['has grown', await source('grown.zip', 5 * mebibyte - 1), 'file_changed'],
    ['is small, and has changed', await source('small', 1), 'file_changed'],
    ['is gone', { ...(await source('small', 2)), source: join(directory, 'gone') }, 'file_vanished'],
    [
      'is gone, and large',
      { ...(await source('small', 2)), source: join(directory, 'gone'), bytes: 5 * mebibyte },
      'file_vanished'
    ],
    ['leads outside', bytesSource('../x', ''), 'name_not_packable']
  ]
  for (const [what, bad, code] of cases) {
    await t.rejects(
      zipTo(join(directory, 'x.zip'), [bytesSource('a', 'a'), bad, bytesSource('b', 'b')]),
      { code },
      what
    )
  }
})

t.test('throws the reason of an abort and the error of a write unchanged, after all writes have ended', async t => {
  const directory = t.testdir({ 'large.zip': Buffer.alloc(20 * mebibyte, 1) })
  const sources = [await fileSource('large.zip', join(directory, 'large.zip'))]
  const zip = join(directory, 'x.zip')
  const controller = new AbortController()
  const reason = new Error('enough')
  const onProgress = (): void => controller.abort(reason)
  await t.rejects(zipTo(zip, sources, { signal: controller.signal, onProgress }), reason)
  await t.rejects(zipTo(zip, sources, { signal: controller.signal }), reason)
  let writing = 0
  const full = (file: ZipFileHandle): ZipFileHandle => ({
    datasync: () => file.datasync(),
    async write(bytes, offset, length, position) {
      writing++
      try {
        if (position > 10 * mebibyte) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' })
        return await file.write(bytes, offset, length, position)
      } finally {
        writing--
      }
    }
  })
  await t.rejects(zipTo(zip, sources, {}, full), { code: 'ENOSPC' })
  t.equal(writing, 0)
})

t.test('rejects if a sync in the middle fails once', async t => {
  const directory = t.testdir({ 'large.zip': Buffer.alloc(40 * mebibyte, 1) })
  const sources = [await fileSource('large.zip', join(directory, 'large.zip'))]
  let syncs = 0
  const failing = (file: ZipFileHandle): ZipFileHandle => ({
    write: (...what) => file.write(...what),
    async datasync() {
      if (++syncs === 1) throw Object.assign(new Error('a bad block'), { code: 'EIO' })
    }
  })
  await t.rejects(zipTo(join(directory, 'x.zip'), sources, {}, failing), { code: 'EIO' })
  t.equal(syncs, 1)
})

t.test('packs the first bytes of a growing file, passes on the bytes read, and writes the last entry', t =>
  packsWhatGrows(t, zipTo)
)
