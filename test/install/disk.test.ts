import { readFileSync } from 'node:fs'
import * as fs from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { disk, syncDirectory, syncDirectoryAsync, syncOpen, writeFully, type Disk } from '../../lib/install/disk.js'

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
