import t from 'tap'
import type { Test } from 'tap'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createEntryReader } from '../../../lib/core/archive/entry-data.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { sha256 } from '../../../lib/base/digests.js'
import {
  beforeAt,
  type BeforeImage,
  beforePathOf,
  createDisplacing,
  fitBeforeImages,
  type PlacedFile,
  publishDisplaced,
  removeBeforeImages,
  writeBeforeImages
} from '../../../lib/core/install/before-images.js'
import { disk, type Disk } from '../../../lib/core/install/disk.js'
import { holdFolders, holdTarget } from '../../../lib/core/install/held.js'
import { snapshot } from '../../support/tree.js'

/** A target with these files, and their images as staging would note them. */
function scene(t: Test, files: Record<string, Buffer>) {
  const top = t.testdir({ target: { dir: {} }, home: {} })
  const target = join(top, 'target')
  const images = Object.entries(files).map(([path, contents]): BeforeImage => {
    const place = join(target, path)
    if (path === 'link') symlinkSync(contents.toString(), place)
    else writeFileSync(place, contents)
    const digest = sha256(contents).toString('hex')
    return { path, mode: lstatSync(place).mode, size: contents.length, mtimeMs: 0, sha256: digest }
  })
  const root = holdTarget(disk, target)
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  return { target, images, path: join(top, 'home/dep_1.before.zip'), needs: { disk, folders, check: () => {} } }
}

t.test('keeps small, large, compressible and linked contents', async t => {
  const large = Buffer.alloc(5 * 1024 * 1024, 'large')
  const files = {
    'dir/a': Buffer.from('text '.repeat(99)),
    b: Buffer.from('b'),
    large,
    link: Buffer.from('nowhere/../x')
  }
  const { images, path, needs } = scene(t, files)
  const bytes = await writeBeforeImages(beforeAt(disk, path), images, needs)
  t.equal(lstatSync(path).size, bytes)
  t.equal(lstatSync(path).mode & 0o777, 0o600)
  const archive = await openArchive(path, { maxEntries: 10, maxExtractedBytes: 1e9 })
  const reader = createEntryReader(archive)
  t.strictSame(
    archive.entries.map(entry => entry.kind),
    ['file', 'file', 'file', 'symlink']
  )
  for (const entry of archive.entries) {
    const pieces: Buffer[] = []
    await reader.read(entry, piece => pieces.push(Buffer.from(piece)))
    t.ok(Buffer.concat(pieces).equals(files[entry.path as keyof typeof files]), entry.path)
  }
  archive.close()
  removeBeforeImages(disk, join(path, '../dep_1.undo'))
  t.notOk(existsSync(path))
  t.equal(beforePathOf('/x/dep_1.undo'), '/x/dep_1.before.zip')
})

t.test('refuses an entry that changed since it was read', async t => {
  const changes: Array<[string, (place: string) => void]> = [
    ['b', place => writeFileSync(place, 'c')],
    ['b', place => writeFileSync(place, '')],
    ['large', place => writeFileSync(place, Buffer.alloc(5 * 1024 * 1024, 'y'))]
  ]
  for (const [name, change] of changes) {
    const { target, images, path, needs } = scene(t, { b: Buffer.from('b'), large: Buffer.alloc(5 * 1024 * 1024) })
    change(join(target, name))
    await t.rejects(writeBeforeImages(beforeAt(disk, path), images, needs), { code: 'target_changed', message: name })
    beforeAt(disk, path).remove()
    t.notOk(existsSync(path))
  }
  t.end()
})

t.test('leaves out the largest until the others fit', async t => {
  const images = [3, 1, 2].map(size => ({ size }))
  const sizes = (maxBytes: number): number[] =>
    [...fitBeforeImages(images, { maxBytes, isRequired: false })].map(({ size }) => size)
  t.strictSame([6, 5, 2, 0].map(sizes), [[3, 1, 2], [1, 2], [1], []])
  t.throws(() => fitBeforeImages(images, { maxBytes: 5, isRequired: true }), { code: 'before_too_large' })
  t.end()
})

t.test('blames the disk of the data directory if that is full', async t => {
  const { images, path, needs } = scene(t, { b: Buffer.from('b') })
  const full = {
    ...disk,
    writeSync(): number {
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
    }
  } as Disk
  const refused = { code: 'no_space', message: /the disk of the data directory is full/ }
  await t.rejects(writeBeforeImages(beforeAt(full, path), images, { ...needs, disk: full }), refused)
  t.end()
})

const placed = (contents: string, mtimeMs?: number): PlacedFile => ({
  size: Buffer.byteLength(contents),
  sha256: createHash('sha256').update(contents).digest('hex'),
  ...(mtimeMs !== undefined && { mtimeMs })
})

const later = 60_000

function stage(t: Test, { files, on = disk }: { files: Record<string, PlacedFile>; on?: Disk }) {
  const target = t.testdir({ '.staging': {}, app: {} })
  const staging = join(target, '.staging')
  const displacing = (placedAtMs: number) =>
    createDisplacing({ disk: on, staging, placedAtMs, files: new Map(Object.entries(files)) })
  return { target, staging, displacing }
}

t.test('keeps nothing that is as it was placed, whatever its change time says', async t => {
  const { target, displacing } = stage(t, { files: { 'app/a': placed('a') } })
  writeFileSync(join(target, 'app/a'), 'a')
  t.notOk(displacing(0).keep('app/a', join(target, 'app/a'), 'link'), 'its contents are compared')
  t.notOk(displacing(Date.now() + later).keep('app/a', join(target, 'app/a'), 'link'))
  t.notOk(displacing(0).keep('app/gone', join(target, 'app/gone'), 'move'), 'it does not exist')
  mkdirSync(join(target, 'app/directory'))
  t.notOk(displacing(0).keep('app/directory', join(target, 'app/directory'), 'move'), 'svc placed no directory')
})

t.test('does not read a file of another size: its owner may make it as large as any file', async t => {
  const on: Disk = {
    ...disk,
    readSync() {
      throw new Error('It was read')
    }
  }
  const { target, displacing } = stage(t, { files: { 'app/a': placed('a') }, on })
  writeFileSync(join(target, 'app/a'), '')
  truncateSync(join(target, 'app/a'), 900 * 2 ** 30)
  t.ok(displacing(0).keep('app/a', join(target, 'app/a'), 'move'))
})

t.test('finds an edit of the same size by the change time, even if the modification time was set back', async t => {
  const { target, displacing, staging } = stage(t, { files: { 'app/a': placed('old') } })
  const path = join(target, 'app/a')
  writeFileSync(path, 'old')
  utimesSync(path, 1000, 1000)
  const placedAtMs = Date.now()
  await sleep(100)
  writeFileSync(path, 'new')
  utimesSync(path, 1000, 1000)
  t.ok(displacing(placedAtMs).keep('app/a', path, 'link'))
  t.equal(readFileSync(join(staging, 'displaced/app/a'), 'utf8'), 'new')
  t.equal(readFileSync(path, 'utf8'), 'new', 'it has two names')
  t.ok(displacing(placedAtMs).keep('app/a', path, 'link'), 'again, after an interruption')
})

t.test('finds an edit by the size or the modification time if the clock was set back', async t => {
  const { target, displacing } = stage(t, { files: { a: placed('a', 1_000_000), b: placed('b', 1_000_000) } })
  for (const name of ['a', 'b']) writeFileSync(join(target, name), name)
  utimesSync(join(target, 'a'), 1000, 1000)
  const future = displacing(Date.now() + later)
  t.notOk(future.keep('a', join(target, 'a'), 'link'))
  writeFileSync(join(target, 'a'), 'longer')
  writeFileSync(join(target, 'b'), 'c')
  t.ok(future.keep('a', join(target, 'a'), 'link'))
  t.ok(future.keep('b', join(target, 'b'), 'link'))
})

t.test('keeps links that lead elsewhere, and files that the manifest does not name', async t => {
  const { target, displacing, staging } = stage(t, { files: { same: placed('x'), other: placed('x') } })
  symlinkSync('x', join(target, 'same'))
  symlinkSync('y', join(target, 'other'))
  writeFileSync(join(target, 'unknown'), '')
  t.notOk(displacing(0).keep('same', join(target, 'same'), 'move'))
  t.ok(displacing(0).keep('other', join(target, 'other'), 'move'))
  t.ok(displacing(0).keep('unknown', join(target, 'unknown'), 'move'))
  t.equal(readlinkSync(join(staging, 'displaced/other')), 'y')
  t.equal(lstatSync(join(target, 'other'), { throwIfNoEntry: false }), undefined)
})

t.test('moves a file if the file system has no hard links', async t => {
  const on: Disk = {
    ...disk,
    linkSync() {
      throw Object.assign(new Error('EPERM'), { code: 'EPERM' })
    }
  }
  const { target, displacing, staging } = stage(t, { files: { a: placed('a') }, on })
  writeFileSync(join(target, 'a'), 'edited')
  t.ok(displacing(0).keep('a', join(target, 'a'), 'link'))
  t.equal(readFileSync(join(staging, 'displaced/a'), 'utf8'), 'edited')
})

t.test('publishes what was kept under a free name that only the owner can enter', async t => {
  const { target, displacing, staging } = stage(t, { files: {} })
  const root = holdTarget(disk, target)
  t.teardown(() => root.close())
  const publish = () => publishDisplaced(disk, { root, staging, deployId: 'dep_a' })
  t.equal(publish(), null)
  for (const directory of ['.svc-displaced-dep_a', '.svc-displaced-dep_a-2']) {
    mkdirSync(join(target, 'app/deep'), { recursive: true })
    for (const name of ['app/deep/b', 'app/a']) writeFileSync(join(target, name), 'edited')
    for (const name of ['app/deep/b', 'app/a']) displacing(0).keep(name, join(target, name), 'move')
    t.strictSame(publish(), { directory, paths: ['app/a', 'app/deep/b'], count: 2 })
    t.equal(statSync(join(target, directory)).mode & 0o777, 0o700)
  }
  rmSync(staging, { recursive: true })
  t.ok(snapshot(target).includes('.svc-displaced-dep_a/app/deep/b 644 edited'))
})
