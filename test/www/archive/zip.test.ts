import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { packZip, type PackEntry } from '../../../www/archive/zip.js'

const run = promisify(execFile)
const has = (program: string, flag: string): Promise<boolean> =>
  run(program, [flag]).then(
    () => true,
    () => false
  )
const noUnzip = (await has('unzip', '-v')) ? false : 'unzip is not on this machine'
const noPython = (await has('python3', '-V')) ? false : 'python3 is not on this machine'

const mtimeMs = Date.UTC(2024, 1, 3, 4, 5, 7)
const file = (path: string, bytes: string | Uint8Array<ArrayBuffer>): PackEntry => ({
  path,
  file: Object.assign(new Blob([bytes]), { lastModified: mtimeMs })
})

const noise = new Uint8Array(randomBytes(600_000).buffer.slice(0))
const contents: Record<string, string | Uint8Array<ArrayBuffer>> = {
  'index.html': '<h1>hällo</h1>'.repeat(1000),
  'bin/start.sh': '#!/bin/sh\necho started\n',
  'empty.txt': '',
  'größe/文件.txt': 'a name of many bytes',
  'large.txt': 'a line that comes again and again\n'.repeat(40_000),
  'noise.bin': noise,
  'noise.png': noise,
  short: 'abc'
}
const entries: PackEntry[] = [
  ...Object.entries(contents).map(([path, bytes]) => file(path, bytes)),
  { path: 'nothing/inside', file: null }
]

async function packed(
  t: { testdir(): string },
  given = entries
): Promise<{ zip: string; directory: string; bytes: number }> {
  const directory = t.testdir()
  const zip = join(directory, 'packed.zip')
  const blob = await packZip(given)
  writeFileSync(zip, new Uint8Array(await blob.arrayBuffer()))
  return { zip, directory, bytes: blob.size }
}

t.test('unzip tests and extracts it, with names, times and permissions', { skip: noUnzip }, async t => {
  const { zip, directory, bytes } = await packed(t)
  t.match((await run('unzip', ['-t', zip])).stdout, 'No errors detected')
  const out = join(directory, 'out')
  mkdirSync(out)
  await run('unzip', ['-q', zip, '-d', out])
  for (const [path, content] of Object.entries(contents)) {
    t.same(readFileSync(join(out, path)), Buffer.from(content), path)
    t.equal(statSync(join(out, path)).mtimeMs, mtimeMs, `${path} is as old as it was`)
  }
  t.equal(statSync(join(out, 'bin/start.sh')).mode & 0o777, 0o755)
  t.equal(statSync(join(out, 'short')).mode & 0o777, 0o644)
  t.ok(statSync(join(out, 'nothing/inside')).isDirectory())
  t.ok(bytes < 1_250_000, 'text is deflated')
})

t.test('python reads it, and compressed files are stored', { skip: noPython }, async t => {
  const { zip } = await packed(t)
  const script =
    'import json,sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n' +
    'print(json.dumps({i.filename:[i.compress_type,i.file_size,i.date_time[0]] for i in z.infolist()}))'
  const found = JSON.parse((await run('python3', ['-c', script, zip])).stdout) as Record<string, number[]>
  t.same(
    Object.keys(found),
    entries.map(({ path, file }) => (file === null ? `${path}/` : path)),
    'in the order given'
  )
  t.equal(found['large.txt']?.[0], 8)
  for (const path of ['noise.png', 'noise.bin', 'empty.txt', 'short']) t.equal(found[path]?.[0], 0, `${path} is stored`)
})

t.test('stores everything if the browser cannot deflate', { skip: noUnzip }, async t => {
  const own = globalThis.CompressionStream
  t.teardown(() => void (globalThis.CompressionStream = own))
  Reflect.deleteProperty(globalThis, 'CompressionStream')
  const { zip } = await packed(t)
  t.match((await run('unzip', ['-t', zip])).stdout, 'No errors detected')
  t.notMatch((await run('unzip', ['-v', zip])).stdout, /Defl/)
})

t.test('counts every byte once as progress, and stops when cancelled', async t => {
  let last = 0
  await packZip(entries, { onProgress: bytes => (last = bytes) })
  t.equal(
    last,
    entries.reduce((sum, { file }) => sum + (file?.size ?? 0), 0)
  )
  const stop = new AbortController()
  const packing = packZip(entries, { signal: stop.signal, onProgress: () => stop.abort(new Error('enough')) })
  await t.rejects(packing, { message: 'enough' })
})

t.test('refuses what a zip cannot contain before reading a byte', async t => {
  const huge = Object.assign(new Blob([]), { lastModified: 0 })
  Object.defineProperty(huge, 'size', { value: 3 * 1024 ** 3 })
  const unread = { path: 'a', file: huge }
  await t.rejects(packZip([unread, { ...unread, path: 'b' }]), { name: 'CannotPack', message: /4 GiB/ })
  const many = Array.from({ length: 65_536 }, (_, at) => ({ path: `${at}`, file: null }))
  await t.rejects(packZip(many), { name: 'CannotPack', message: /65,535/ })
  await t.rejects(packZip([file('a', '1'), file('a', '2')]), {
    name: 'CannotPack',
    message: 'Two of the files would be called “a”.'
  })
})

t.test('packs the same files to the same bytes', async t => {
  const { now } = Date
  t.teardown(() => void (Date.now = now))
  let hours = 0
  Date.now = () => now() + 3_600_000 * hours++
  const sum = async (): Promise<string> =>
    createHash('sha256')
      .update(new Uint8Array(await (await packZip(entries)).arrayBuffer()))
      .digest('hex')
  t.equal(await sum(), await sum())
})
