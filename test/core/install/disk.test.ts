import t from 'tap'
import * as fs from 'node:fs'
import {
  closeSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { execFileSync } from 'node:child_process'
import {
  abreast,
  changeTime,
  discardFiles,
  disk,
  type Disk,
  isLocalTree,
  listMounts,
  openRegular,
  parseMounts,
  syncDirectory,
  syncDirectoryAsync,
  syncOpen,
  writeFully
} from '../../../lib/core/install/disk.js'
import { createDigester } from '../../../lib/core/install/found-entry.js'

const failing = (call: keyof Disk, code: string): Disk => ({
  ...disk,
  [call]: () => {
    throw Object.assign(new Error(code), { code })
  }
})

t.test('continues after a short write', async t => {
  const path = join(t.testdir(), 'file')
  const slow = {
    ...disk,
    writeSync: (fd: number, bytes: Uint8Array, at: number) =>
      fs.writeSync(fd, bytes, at, Math.min(3, bytes.length - at))
  } as Disk
  const fd = fs.openSync(path, 'w')
  writeFully(slow, fd, Buffer.from('0123456789'))
  fs.closeSync(fd)
  t.equal(readFileSync(path, 'utf8'), '0123456789')
})

t.test('throws the error of a write', async t => {
  t.throws(() => writeFully(failing('writeSync', 'ENOSPC'), 1, Buffer.from('x')), { code: 'ENOSPC' })
})

t.test('syncs a directory if possible, and throws any other error', async t => {
  const directory = t.testdir()
  syncDirectory(disk, directory)
  syncDirectory(failing('fsyncSync', 'EINVAL'), directory)
  t.throws(() => syncDirectory(failing('fsyncSync', 'EIO'), directory), { code: 'EIO' })
  t.throws(() => syncDirectory(disk, join(directory, 'none')), { code: 'ENOENT' })
})

t.test('syncs without blocking the thread, with the same errors', { skip: process.platform === 'win32' }, async t => {
  const directory = t.testdir({ file: 'x' })
  const failingLate = (code: string): Disk => ({
    ...disk,
    fsync: ((_fd: number, done: (error: Error) => void) =>
      setImmediate(done, Object.assign(new Error(code), { code }))) as unknown as Disk['fsync']
  })
  await syncDirectoryAsync(disk, directory)
  await syncDirectoryAsync(failingLate('EINVAL'), directory)
  await t.rejects(syncDirectoryAsync(failingLate('EIO'), directory), { code: 'EIO' })
  const fd = fs.openSync(join(directory, 'file'), 'r+')
  await syncOpen(disk, 'fdatasync', fd)
  fs.closeSync(fd)
  await t.rejects(syncOpen(disk, 'fdatasync', fd), { code: 'EBADF' })
})

t.test('opens only regular files, and does not wait', async t => {
  const directory = t.testdir({ file: 'contents' })
  symlinkSync('file', join(directory, 'link'))
  symlinkSync('/dev/zero', join(directory, 'device'))
  mkdirSync(join(directory, 'directory'))
  if (process.platform !== 'win32') execFileSync('mkfifo', [join(directory, 'pipe')])
  const opened = openRegular(disk, join(directory, 'file'))
  t.ok(opened)
  const buffer = Buffer.alloc(20)
  t.equal(readSync(opened?.fd as number, buffer), 8)
  closeSync(opened?.fd as number)
  for (const name of ['link', 'device', 'directory', 'pipe', 'missing', 'file/below']) {
    t.equal(openRegular(disk, join(directory, name)), null, name)
    t.equal(createDigester(disk).file(join(directory, name)), null, `${name} has no digest`)
    if (name !== 'link' && name !== 'device')
      t.equal(createDigester(disk).link(join(directory, name)), null, `${name} is no link`)
  }
})

t.test('sets the time of the expected file only', async t => {
  const directory = t.testdir({ file: 'x', other: 'x', named: 'x' })
  const place = (name: string): string => join(directory, name)
  for (const name of ['file', 'other', 'named']) utimesSync(place(name), 1, 1)
  symlinkSync('other', place('link'))
  linkSync(place('named'), place('again'))
  t.equal(changeTime(disk, place('file'), { toMs: 5000, isExpected: ({ mtimeMs }) => mtimeMs === 1000 }), true)
  t.equal(statSync(place('file')).mtimeMs, 5000)
  t.equal(changeTime(disk, place('file'), { toMs: 9000, isExpected: ({ mtimeMs }) => mtimeMs === 1000 }), false)
  for (const name of ['link', 'again', 'missing'])
    t.equal(changeTime(disk, place(name), { toMs: 9000, isExpected: () => true }), false, name)
  t.strictSame(
    ['file', 'other', 'named'].map(name => statSync(place(name)).mtimeMs),
    [5000, 1000, 1000]
  )
})

t.test('runs three at a time, and each item once', async t => {
  const seen: number[] = []
  let running = 0
  let most = 0
  await abreast(
    Array.from({ length: 20 }, (_, i) => i),
    async item => {
      most = Math.max(most, ++running)
      seen.push(item)
      await new Promise(setImmediate)
      running--
    }
  )
  t.strictSame(
    seen,
    Array.from({ length: 20 }, (_, i) => i)
  )
  t.equal(most, 3)
  await abreast([], async () => void t.fail('there is nothing to do'))
})

t.test('starts no more work after a failure', async t => {
  const seen: number[] = []
  const work = async (item: number): Promise<void> => {
    seen.push(item)
    await new Promise(setImmediate)
    if (item === 1) throw new Error('the second')
  }
  await t.rejects(
    abreast(
      Array.from({ length: 20 }, (_, i) => i),
      work
    ),
    /the second/
  )
  await new Promise(setImmediate)
  t.ok(seen.length <= 6, `${seen.length} were begun`)
})

function filled(directory: string, files: number): string {
  const path = join(directory, 'aside')
  mkdirSync(path)
  for (let i = 0; i < files; i++) writeFileSync(join(path, String(i)), 'x')
  return path
}

/** One call in `each` takes some time: all on a slow disk, some on a busy machine. */
function slow(each = 1): { disk: Disk; abreast(): number } {
  let [running, most, calls] = [0, 0, 0]
  const unlinkSync: Disk['unlinkSync'] = path => {
    if (calls++ % each === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, each)
    disk.unlinkSync(path)
  }
  const unlink = ((path: string, done: (error: NodeJS.ErrnoException | null) => void) => {
    most = Math.max(most, ++running)
    disk.unlink(path, error => {
      running--
      done(error)
    })
  }) as unknown as Disk['unlink']
  return { disk: { ...disk, unlinkSync, unlink }, abreast: () => most }
}

t.test('removes every file, on a fast and on a slow disk', async t => {
  for (const files of [0, 1, 32, 33, 500]) {
    const quick = filled(t.testdir(), files)
    await discardFiles(disk, quick)
    t.strictSame(readdirSync(quick), [], `${files} files`)
    const waiting = slow()
    const path = filled(t.testdir(), files)
    await discardFiles(waiting.disk, path)
    t.strictSame(readdirSync(path), [], `${files} files on a slow disk`)
    t.equal(waiting.abreast(), files <= 32 ? 0 : Math.min(3, files - 32), 'several calls wait together')
    const busy = slow(4)
    await discardFiles(busy.disk, filled(t.testdir(), files))
    t.equal(busy.abreast(), 0, 'a busy machine is not a slow disk')
  }
})

t.test('rejects if a file cannot be removed', async t => {
  const { disk } = slow()
  const unlink = ((_path: string, done: (error: Error) => void) => done(new Error('EIO'))) as unknown as Disk['unlink']
  await t.rejects(discardFiles({ ...disk, unlink }, filled(t.testdir(), 40)), { message: 'EIO' })
})

const listed = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
30 27 0:40 / /srv/net rw - nfs4 files:/srv rw
31 27 0:41 / /srv/with\\040blank rw,relatime - fuse.sshfs a:/ rw
32 27 0:42 / /tmp rw - tmpfs tmpfs rw
33 32 0:43 / /tmp rw - fuse.tool tool rw
34 27 0:44 / /data rw - fuse.tool tool rw
35 34 0:45 / /data rw - xfs /dev/sdb rw
`

t.test('parses points and types, with decoded points', async t => {
  t.strictSame(
    parseMounts(listed).map(({ point, type }) => `${point} ${type}`),
    [
      '/proc proc',
      '/ ext4',
      '/srv/net nfs4',
      '/srv/with blank fuse.sshfs',
      '/tmp tmpfs',
      '/tmp fuse.tool',
      '/data fuse.tool',
      '/data xfs'
    ]
  )
})

t.test('a tree is local if it is on one local file system, with no other below it', async t => {
  const mounts = parseMounts(listed)
  for (const [path, isLocal] of [
    ['/srv/site', true],
    ['/srv/network', true],
    ['/srv/net', false],
    ['/srv/net/site', false],
    ['/srv', false],
    ['/', false],
    ['/srv/with blank/x', false],
    ['/tmp/x', false],
    ['/data/x', true],
    ['/proc/1', false]
  ] as const)
    t.equal(isLocalTree(mounts, path), isLocal, path)
  t.equal(isLocalTree([], '/srv'), false, 'nothing is known')
})

t.test(
  'lists the mounts of this machine',
  { skip: process.platform !== 'linux' && 'only Linux lists them' },
  async t => {
    const mounts = await listMounts()
    t.ok(mounts.some(({ point }) => point === '/'))
    t.equal(isLocalTree(mounts, realpathSync('/proc/self')), false)
  }
)
