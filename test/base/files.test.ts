import t from 'tap'
import { pbkdf2 } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  futimesSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync
} from 'node:fs'
import fs, {
  chmod,
  chown,
  type FileHandle,
  open,
  readdir,
  readFile,
  rm,
  stat,
  utimes,
  writeFile
} from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import {
  fileSeconds,
  freeBytes,
  giveToOwner,
  areNested,
  isInside,
  isProgram,
  linkOrCopy,
  loosenessOf,
  looseParentOf,
  makeDirectories,
  nameError,
  nameOfDescriptor,
  OpenFile,
  ownDescriptors,
  placeOfDescriptor,
  readAt,
  removeLeftovers,
  removeLeftoversIn,
  makeDirectory,
  replaceFile,
  writeNew,
  syncDirectory,
  syncPath,
  trustedUsers,
  withWriteStream,
  throughBeside,
  throughPart
} from '../../lib/base/files.js'
import { reasonOf, sentenceOf, spaceCure } from '../../lib/base/errors.js'
import { ownMark } from '../../lib/base/runtime.js'
import { watchDescriptors } from '../support/descriptors.js'
import { createRandom } from '../support/random.js'
import { smallDisk } from '../support/small-disk.js'

t.test('open file', async t => {
  const path = join(t.testdir(), 'file')
  writeFileSync(path, '0123456789')

  t.test('reads bytes at a position, and fewer only at the end', async t => {
    const file = new OpenFile(path, 'r')
    const four = Buffer.alloc(4)
    t.equal(file.size, 10)
    t.equal(file.readSync(four, 3), 4)
    t.equal(four.toString(), '3456')
    t.equal(await file.read(four, 8), 2)
    t.equal(four.toString(), '8956')
    file.close()
  })

  t.test('writes all bytes, one write after the other', async t => {
    const file = new OpenFile(`${path}.new`, 'wx', 0o600)
    file.writeSync(Buffer.from('first '))
    file.writeSync(Buffer.from('second'))
    file.close()
    t.equal(readFileSync(`${path}.new`, 'utf8'), 'first second')
  })

  t.test('a second close does not close another file with the same number', async t => {
    const watch = watchDescriptors()
    const file = new OpenFile(path, 'r')
    file.close()
    const other = openSync(path, 'r')
    file.close()
    t.doesNotThrow(() => fstatSync(other))
    closeSync(other)
    t.same([await watch.difference(), watch.faults], [[], []])
    watch.stop()
  })

  t.test('refuses any use of a closed file', async t => {
    const file = new OpenFile(path, 'r')
    file.close()
    const other = openSync(path, 'r')
    t.throws(() => file.readSync(Buffer.alloc(1), 0), { code: 'EBADF' })
    t.throws(() => file.writeSync(Buffer.alloc(1)), { code: 'EBADF' })
    t.throws(() => file.size, { code: 'EBADF' })
    await t.rejects(file.read(Buffer.alloc(1), 0), { code: 'EBADF' })
    closeSync(other)
  })

  t.test('a close waits for the reads in progress', async t => {
    const watch = watchDescriptors()
    const file = new OpenFile(path, 'r')
    const ten = Array.from({ length: 20 }, () => Buffer.alloc(10))
    const reads = ten.map(into => file.read(into, 0))
    file.close()
    file.close()
    // Each of these would get the number if it were free now, and would be read instead of the file.
    const others = Array.from({ length: 20 }, () => openSync('/dev/null', 'r'))
    t.same(
      await Promise.all(reads),
      ten.map(() => 10)
    )
    t.ok(ten.every(bytes => bytes.toString() === '0123456789'))
    others.forEach(other => closeSync(other))
    t.same([await watch.difference(), watch.faults], [[], []])
    watch.stop()
  })
})

const noModes = process.platform === 'win32' ? 'Windows has no permission bits' : false

t.test('writes a file with its mode, and leaves no temporary file', { skip: noModes }, async t => {
  const directory = t.testdir({})
  const path = join(directory, 'a')
  await replaceFile(path, 'one', 0o600)
  await replaceFile(path, 'two', 0o600)
  t.equal(await readFile(path, 'utf8'), 'two')
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.strictSame(await readdir(directory), ['a'])
})

t.test('a failure leaves the old file, and no temporary file', async t => {
  const directory = t.testdir({ a: {} })
  await t.rejects(replaceFile(join(directory, 'a'), 'x', 0o600), 'a directory stands there')
  await t.rejects(replaceFile(join(directory, 'none', 'a'), 'x', 0o600), { code: 'ENOENT' })
  t.strictSame(await readdir(directory), ['a'])
})

t.test('concurrent readers see the old or the new contents', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const texts = ['x'.repeat(100_000), 'y'.repeat(100_000)]
  await writeFile(path, texts[0] as string)
  await chmod(path, 0o600)
  let isWriting = true
  const writing = (async () => {
    for (let round = 0; round < 20; round++) await replaceFile(path, texts[round % 2] as string, 0o600)
    isWriting = false
  })()
  let whole = true
  while (isWriting) whole &&= texts.includes(await readFile(path, 'utf8'))
  await writing
  t.ok(whole)
})

t.test('removes old temporary files of killed processes, but not those that may be in use', async t => {
  const directory = t.testdir({
    'a.0123456789ab.tmp': 'secret',
    'a.ba9876543210.tmp': 'in use',
    'b.0123456789ab.tmp': 'of another',
    'a.tmp': 'not ours'
  })
  const old = new Date('2020-01-01T00:00:00Z')
  for (const name of await readdir(directory))
    if (name !== 'a.ba9876543210.tmp') await utimes(join(directory, name), old, old)
  const future = new Date('2100-01-01T00:00:00Z')
  await writeFile(join(directory, 'a.0123456789ff.tmp'), 'written before the clock was set back')
  await utimes(join(directory, 'a.0123456789ff.tmp'), future, future)
  await replaceFile(join(directory, 'a'), 'one', 0o600)
  t.strictSame((await readdir(directory)).sort(), ['a', 'a.ba9876543210.tmp', 'a.tmp', 'b.0123456789ab.tmp'])
})

t.test('also next to the target of a link', async t => {
  const top = t.testdir({ place: { a: '1', 'a.0123456789ab.tmp': 'secret' }, a: t.fixture('symlink', 'place/a') })
  t.strictSame(await removeLeftovers(join(top, 'a'), Date.now() + 1000), [join(top, 'place/a.0123456789ab.tmp')])
  t.strictSame(await readdir(join(top, 'place')), ['a'])
})

t.test('of any file of a directory', async t => {
  const names = ['a.0123456789ab.tmp', 'b.key.ba9876543210.tmp', 'c.tmp', 'a', 'a.0123456789ab.tmp.x']
  const directory = t.testdir(Object.fromEntries(names.map(name => [name, ''])))
  const removed = await removeLeftoversIn(directory, Date.now() + 1000)
  t.strictSame(removed.sort(), [join(directory, 'a.0123456789ab.tmp'), join(directory, 'b.key.ba9876543210.tmp')])
  t.strictSame((await readdir(directory)).sort(), ['a', 'a.0123456789ab.tmp.x', 'c.tmp'])
})

t.test('gives the file a second name', async t => {
  const directory = t.testdir({ a: 'one' })
  await linkOrCopy(join(directory, 'a'), join(directory, 'b'))
  t.equal((await stat(join(directory, 'b'))).ino, (await stat(join(directory, 'a'))).ino)
})

t.test('rejects for a missing file and for a name that is taken', async t => {
  const directory = t.testdir({ a: 'one', b: 'two' })
  await t.rejects(linkOrCopy(join(directory, 'none'), join(directory, 'c')), { code: 'ENOENT' })
  await t.rejects(linkOrCopy(join(directory, 'a'), join(directory, 'b')), { code: 'EEXIST' })
  t.equal(await readFile(join(directory, 'b'), 'utf8'), 'two')
})

t.test(
  'copies to another file system',
  { skip: !existsSync('/dev/shm') && 'there is no second file system' },
  async t => {
    const directory = t.testdir({ a: 'one' })
    const other = join('/dev/shm', `svc-link-or-copy-${process.pid}`)
    t.teardown(() => rm(other, { force: true }))
    await linkOrCopy(join(directory, 'a'), other)
    t.equal(await readFile(other, 'utf8'), 'one')
    await t.rejects(linkOrCopy(join(directory, 'a'), other), 'a copy replaces nothing')
  }
)

t.test('reads at a position, and less only at the end of the file', async t => {
  const file = await open(join(t.testdir({ a: 'abcdef' }), 'a'))
  t.teardown(() => file.close())
  t.equal(String(await readAt(file, 1, 3)), 'bcd')
  t.equal(String(await readAt(file, 4, 10)), 'ef')
  t.equal((await readAt(file, 6, 1)).length, 0)
})

t.test('continues after a short read', async t => {
  const bytes = Buffer.from('abcdef')
  const file = {
    async read(into: Buffer, offset: number, length: number, position: number) {
      return { bytesRead: bytes.copy(into, offset, position, position + Math.min(length, 2)) }
    }
  } as unknown as FileHandle
  t.equal(String(await readAt(file, 0, 5)), 'abcde')
})

t.test('the file is written and closed when it returns', async t => {
  const path = join(t.testdir(), 'file')
  const out = await withWriteStream(path, {}, async out => {
    await new Promise<void>(resolve => void out.end('written', resolve))
    return out
  })
  t.ok(out.closed)
  t.equal(readFileSync(path, 'utf8'), 'written')
})

t.test('a file that is removed after a failed open does not reappear', async t => {
  const path = join(t.testdir(), 'file')
  // All threads of the pool are busy, so the file cannot be opened before the work fails.
  const busy = Promise.all([1, 2, 3, 4].map(() => promisify(pbkdf2)('a', 'b', 150_000, 64, 'sha512')))
  await t.rejects(
    withWriteStream(path, {}, async () => {
      throw new Error('no')
    }),
    /^no$/
  )
  rmSync(path, { force: true })
  await busy
  await sleep(50)
  t.notOk(existsSync(path))
})

t.test('a failed open rejects the work and does not crash the process', async t => {
  const path = join(t.testdir(), 'missing/file')
  await t.rejects(
    withWriteStream(path, {}, out => new Promise((_, reject) => out.once('error', reject))),
    { code: 'ENOENT' }
  )
})

t.test('syncs files and directories; a missing one is an error only for syncPath', async t => {
  const directory = t.testdir({})
  await writeFile(join(directory, 'a'), 'x')
  await syncPath(join(directory, 'a'))
  await syncPath(directory)
  await syncDirectory(directory)
  await t.rejects(syncPath(join(directory, 'none')), { code: 'ENOENT' })
  await syncDirectory(join(directory, 'none'))
})

t.test('sets the exact microsecond, and again the one that the file has', t => {
  const path = join(t.testdir({ file: '' }), 'file')
  const fd = openSync(path, 'r+')
  const random = createRandom(7)
  const times = [0, 1, 999_999, 1_700_000_000_123_000, 1_700_000_000_999_999, 4_102_444_800_000_001]
  for (let i = 0; i < 2000; i++) times.push(random.below(2_000_000_000) * 1e6 + random.below(1_000_000))
  const wrong: string[] = []
  for (const us of times) {
    futimesSync(fd, 0, fileSeconds(us / 1000))
    const { mtimeNs } = statSync(path, { bigint: true })
    futimesSync(fd, 0, fileSeconds(statSync(path).mtimeMs))
    const again = statSync(path, { bigint: true }).mtimeNs
    if (mtimeNs !== BigInt(us) * 1000n || again !== mtimeNs) wrong.push(`${us} us: ${mtimeNs}, then ${again}`)
  }
  closeSync(fd)
  t.strictSame(wrong, [])
  t.end()
})

t.test('sets times before 1970', t => {
  t.equal(fileSeconds(-1500), -1.5000005)
  t.end()
})

t.test('free space', async t => {
  const realStatfs = fs.statfs

  t.afterEach(() => {
    fs.statfs = realStatfs
  })

  t.test('the free space of a directory, and of one that does not exist yet', async t => {
    const directory = t.testdir()
    const { blocks, bsize } = statfsSync(directory)
    for (const path of [directory, join(directory, 'not/yet')]) {
      const free = await freeBytes(path)
      t.ok(free !== null && free > 0 && free <= blocks * bsize, path)
    }
  })

  t.test('space that cannot be known is null, not 0', async t => {
    const directory = t.testdir({ file: '' })
    t.equal(await freeBytes(join(directory, 'file/below')), null, 'below a file')
    fs.statfs = (async () => ({ blocks: 0, bavail: 0, bsize: 4096 })) as unknown as typeof fs.statfs
    t.equal(await freeBytes(directory), null, 'a file system that counts no blocks')
    fs.statfs = undefined as unknown as typeof fs.statfs
    t.equal(await freeBytes(directory), null, 'Node before 18.15')
  })
})

const skip = process.getuid === undefined && 'Windows has other rights'

t.test('reports a file that another user owns or can write to', { skip }, async t => {
  const cases: Array<
    [what: string, stats: { uid: number; gid: number; mode: number }, privateGroup: boolean, why: RegExp | null]
  > = [
    ['its owner alone', { uid: 1000, gid: 1000, mode: 0o100600 }, false, null],
    ['others may read', { uid: 1000, gid: 50, mode: 0o100644 }, false, null],
    ['root’s', { uid: 0, gid: 0, mode: 0o100644 }, false, null],
    ['another user’s', { uid: 1001, gid: 1000, mode: 0o100600 }, false, /"\/a" belongs to the user 1001/],
    [
      'others may write',
      { uid: 1000, gid: 1000, mode: 0o100602 },
      false,
      /other users may write to "\/a" \(mode 0602\)/
    ],
    ['the group may write', { uid: 1000, gid: 1000, mode: 0o100660 }, false, /mode 0660/],
    ['a private group may write', { uid: 1000, gid: 1000, mode: 0o100660 }, true, null],
    ['a shared group may write', { uid: 1000, gid: 50, mode: 0o100660 }, true, /mode 0660/],
    ['others may write, private group or not', { uid: 1000, gid: 1000, mode: 0o100666 }, true, /mode 0666/]
  ]
  for (const [what, stats, privateGroup, why] of cases) {
    const loose = loosenessOf('/a', stats, { owners: [1000, 0], privateGroup })
    if (why === null) t.equal(loose, null, what)
    else t.match(loose, { path: '/a', why, cure: /^Run "ch(mod go-w|own 1000) \/a"$/ }, what)
  }
})

t.test('reports a parent directory that others can write to, unless it is sticky', { skip }, async t => {
  const top = realpathSync(t.testdir())
  const file = join(top, 'middle', 'file')
  mkdirSync(join(top, 'middle'))
  t.equal(await looseParentOf(file), null)
  chmodSync(top, 0o777)
  t.match(await looseParentOf(file), { path: top, cure: `Run "chmod go-w ${top}"` }, 'also not the nearest one')
  chmodSync(top, 0o1777)
  t.equal(await looseParentOf(file), null)
  chmodSync(top, 0o755)
})

t.test('trusts this user and root', { skip }, async t => {
  t.same(trustedUsers(), [...new Set([process.getuid?.(), 0])])
})

const noRoot = process.getuid?.() === 0 ? false : 'only root can give files away'

t.test('root gives a file to the owner of its directory', { skip: noRoot }, async t => {
  const directory = t.testdir({})
  await chown(directory, 65_534, 65_534)
  const file = await open(join(directory, 'a'), 'wx')
  t.teardown(() => file.close())
  giveToOwner(file.fd, directory)
  t.match(await file.stat(), { uid: 65_534, gid: 65_534 })
})

t.test('a file in a directory of the same user keeps its owner', async t => {
  const directory = t.testdir({})
  const file = await open(join(directory, 'a'), 'wx')
  t.teardown(() => file.close())
  giveToOwner(file.fd, directory)
  t.equal((await file.stat()).uid, process.getuid?.() ?? 0)
})

t.test('a program is an executable file', async t => {
  const directory = t.testdir({ program: '', text: '', below: {} })
  await chmod(join(directory, 'program'), 0o755)
  await chmod(join(directory, 'text'), 0o644)
  t.equal(await isProgram(join(directory, 'program')), true)
  if (process.platform !== 'win32') t.equal(await isProgram(join(directory, 'text')), false)
  t.equal(await isProgram(join(directory, 'below')), false)
  t.equal(await isProgram(join(directory, 'none')), false)
})

const cases: Array<[directory: string, path: string, inside: boolean]> = [
  ['/srv/site', '/srv/site', true],
  ['/srv/site', '/srv/site/a/b', true],
  ['/srv/site', '/srv/site/..config', true],
  ['/srv/site', '/srv/site-old', false],
  ['/srv/site', '/srv', false],
  ['/srv/site', '/', false],
  ['/', '/srv', true]
]

for (const [directory, path, inside] of cases) {
  t.test(`${path} is ${inside ? '' : 'not '}inside ${directory}`, async t => {
    t.equal(isInside(directory, path), inside)
    t.equal(areNested(path, directory), inside || path === '/srv' || path === '/')
  })
}

t.test('only Linux shows descriptors', async t => t.equal(ownDescriptors === null, process.platform !== 'linux'))

t.test(
  'finds the location of an open file, even after its name was reused',
  { skip: ownDescriptors === null && 'this system does not say' },
  async t => {
    const directory = realpathSync(t.testdir({ a: { file: 'x' }, b: { file: 'y', other: 'z' } }))
    symlinkSync('a', join(directory, 'link'))
    const file = openSync(join(directory, 'link/file'), 'r')
    t.equal(placeOfDescriptor(file), join(directory, 'a/file'))
    closeSync(file)
    const opened = openSync(join(directory, 'a'), constants.O_RDONLY | constants.O_DIRECTORY)
    t.teardown(() => closeSync(opened))
    renameSync(join(directory, 'a'), join(directory, 'moved'))
    symlinkSync('b', join(directory, 'a'))
    t.equal(placeOfDescriptor(opened), join(directory, 'moved'))
    t.strictSame(readdirSync(nameOfDescriptor(opened, join(directory, 'a'))), ['file'])
  }
)

t.test('creates the directories that are missing, and ends where none can be made', async t => {
  const directory = t.testdir({ file: '', there: {} })
  const made = await makeDirectories(join(directory, 'a/b/c'), 0o700)
  t.equal(made, join(directory, 'a'))
  t.equal(statSync(join(directory, 'a/b/c')).mode & 0o777, 0o700)
  t.equal(await makeDirectories(join(directory, 'a/b/c')), undefined)
  t.equal(await makeDirectories(join(directory, 'there/x')), join(directory, 'there/x'))
  await t.rejects(makeDirectories(join(directory, 'file')), { code: 'EEXIST' })
  await t.rejects(makeDirectories(join(directory, 'file/x')), { code: 'ENOTDIR' })
  const both = await Promise.all([1, 2].map(() => makeDirectories(join(directory, 'p/q/r'))))
  t.ok(
    both.some(each => each !== undefined),
    'two at once'
  )
  if (process.platform === 'linux') await t.rejects(makeDirectories('/proc/svc-none/x'), { code: 'ENOENT' })
})

t.test('a file that is written beside its path is there whole or not at all', async t => {
  const directory = t.testdir({})
  const path = join(directory, 'a')
  await throughBeside(path, beside => writeFile(beside, 'one'))
  const failing = async (beside: string): Promise<void> => {
    await writeFile(beside, 'tw')
    throw Object.assign(new Error('full'), { code: 'ENOSPC' })
  }
  await t.rejects(throughBeside(path, failing), { code: 'ENOSPC' })
  t.equal(readFileSync(path, 'utf8'), 'one')
  t.same(readdirSync(directory), ['a'])
})

t.test('two that write one file at once do not meet, and what a killed one has left goes', async t => {
  const elsewhere = 'a.other-1-1.part'
  const directory = t.testdir({ [elsewhere]: '', [`a.${ownMark().replace(/-\d+-/, '-999999999-')}.part`]: 'left' })
  const path = join(directory, 'a')
  const write = async (part: string): Promise<string> => {
    t.match(readdirSync(directory).sort(), [elsewhere, basename(part)].sort())
    t.equal(statSync(part).mode & 0o777, 0o600)
    await writeFile(part, 'one')
    return 'done'
  }
  t.equal(await throughPart(path, write), 'done')
  await t.rejects(
    throughPart(path, async () => Promise.reject(new Error('full'))),
    { message: 'full' }
  )
  t.equal(readFileSync(path, 'utf8'), 'one')
  t.strictSame(readdirSync(directory).sort(), ['a', elsewhere])
})

t.test('an error names the directory that a descriptor holds', { skip: ownDescriptors === null }, async t => {
  const directory = realpathSync(t.testdir({}))
  const fd = openSync(directory, 'r')
  t.teardown(() => closeSync(fd))
  const here = nameOfDescriptor(fd, directory)
  const missing = `${directory}/a/b`
  t.match(nameError(failureOf(() => mkdirSync(`${here}/a/b`))), { path: missing, message: `mkdir '${missing}'` })
  const renamed = { path: missing, dest: `${directory}/c`, message: `rename '${missing}' -> '${directory}/c'` }
  t.match(nameError(failureOf(() => renameSync(`${here}/a/b`, `${here}/c`))), renamed)
})

t.test('ENOSPC without a free inode says so, and what to do', async t => {
  const disk = smallDisk(t, 1024 * 1024, 2)
  if (disk === null) return
  writeFileSync(join(disk, 'a'), '')
  const error = failureOf(() => mkdirSync(join(disk, 'b')))
  t.strictSame([reasonOf(error), spaceCure(error)], ['no inodes left on device', 'Remove some files'])
  nameError(error)
  unlinkSync(join(disk, 'a'))
  t.strictSame([reasonOf(error), spaceCure(error)], ['no inodes left on device', 'Remove some files'], 'also later')
  const full = { code: 'ENOSPC', path: join(disk, 'b') }
  t.strictSame([reasonOf(full), spaceCure(full)], ['no space left on device', 'Free some space'])
})

function failureOf(work: () => void): unknown {
  try {
    return void work()
  } catch (error) {
    return error
  }
}

t.test('a directory is made only in one that is there', async t => {
  const directory = t.testdir({})
  await makeDirectory(join(directory, 'a'), 0o700)
  await makeDirectory(join(directory, 'a'), 0o700)
  await t.rejects(makeDirectory(join(directory, 'gone', 'a'), 0o700), { code: 'ENOENT' })
  t.same(readdirSync(directory), ['a'])
  writeFileSync(join(directory, 'b'), '')
  await t.rejects(makeDirectory(join(directory, 'b'), 0o700), { code: 'EEXIST' })
})

t.test('a file that does not fit on the disk is named, and nothing of it stays', async t => {
  const disk = smallDisk(t, 64 * 1024)
  if (disk === null) return
  const [path, text] = [join(disk, 'a'), 'x'.repeat(256 * 1024)]
  for (const write of [writeNew, replaceFile]) {
    const error = await write(path, text, 0o600).catch((error: unknown) => error)
    t.equal(sentenceOf(error), `Cannot write "${path}": no space left on device`)
    t.strictSame(readdirSync(disk), [])
  }
  await writeNew(path, 'one', 0o600)
  await t.rejects(writeNew(path, 'two', 0o600), { code: 'EEXIST' })
  t.equal(readFileSync(path, 'utf8'), 'one')
})
