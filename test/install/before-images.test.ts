import t, { type Test } from 'tap'
import { existsSync, lstatSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createEntryReader } from '../../lib/archive/entry-data.js'
import { openArchive } from '../../lib/archive/read.js'
import { sha256 } from '../../lib/base/digests.js'
import {
  beforeAt,
  beforePathOf,
  fitBeforeImages,
  removeBeforeImages,
  writeBeforeImages,
  type BeforeImage
} from '../../lib/install/before-images.js'
import { disk, type Disk } from '../../lib/install/disk.js'
import { holdFolders } from '../../lib/install/folders.js'
import { holdTarget } from '../../lib/install/reach.js'

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
