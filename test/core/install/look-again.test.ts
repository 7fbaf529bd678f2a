import t from 'tap'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sha256 } from '../../../lib/base/digests.js'
import { beforeAt } from '../../../lib/core/install/before-images.js'
import { disk } from '../../../lib/core/install/disk.js'
import { differingMarks, lookAgain, markBytes, markTarget } from '../../../lib/core/install/look-again.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import type { OwnedEntry } from '../../../lib/model/manifest.js'
import { directoryMode, noContents, ownedContents } from '../../../lib/core/install/owned-tree.js'

t.test('looks at entries that were touched, and copies what is new', async t => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-look-'))
  const [target, imagesPath] = [mkdtempSync(join(directory, 'target-')), join(directory, 'images.zip')]
  const place = (path: string): string => join(target, path)
  const entry = (path: string): OwnedEntry => {
    const { mode, size, mtimeMs, ino } = statSync(place(path))
    return { path, mode, size, mtimeMs, ino, sha256: sha256(Buffer.from('1')).toString('hex'), since: 'dep_1' }
  }
  const names = ['big', 'gone', 'mode', 'new', 'same']
  for (const name of names) writeFileSync(place(name), '1')
  const entries = names.map(entry)
  writeFileSync(place('big'), 'x'.repeat(1000))
  rmSync(place('gone'))
  chmodSync(place('mode'), 0o600)
  writeFileSync(place('new'), 'other')
  const look = (maxBytes: number) => {
    const job = { target, rules: { home: '/nowhere', allowSystemPaths: true }, entries, maxBytes }
    return lookAgain(job, beforeAt(disk, imagesPath), { disk })
  }
  t.match(await look(100), [
    { index: 0, kept: 'none', now: { size: 1000 } },
    { index: 1, kept: 'before', now: null },
    { index: 2, kept: 'before', now: { mode: 0o100600 } },
    { index: 3, kept: 'scripted', now: { size: 5, sha256: sha256(Buffer.from('other')).toString('hex') } }
  ])
  const archive = await openArchive(imagesPath, { maxEntries: 10, maxExtractedBytes: 1e6 })
  t.strictSame(
    archive.entries.map(({ path }) => path),
    ['new']
  )
  archive.close()
  rmSync(imagesPath)
  t.match(await look(0), [{ kept: 'none' }, {}, {}, { kept: 'none' }])
  t.notOk(existsSync(imagesPath))
  chmodSync(place('mode'), 0o6750)
  t.match((await look(0))[2], { now: { mode: 0o106750 } })
  if (process.getuid?.() !== 0) return
  chownSync(place('mode'), 7, 0)
  chmodSync(place('mode'), 0o6750)
  t.match(
    (await look(0))[2],
    { now: { mode: 0o100750 } },
    'nothing is kept that would run with rights of somebody else'
  )
})

const paths = ['a', 'b', 'd', 'd/c', 'e']

async function* entries() {
  for (const path of paths) {
    const mode = path === 'd' ? directoryMode : 0o100644
    yield { path, mode, size: 0, sha256: noContents, mtimeMs: null, ino: null, since: 'dep_1' }
  }
}

t.test('marks show what was touched, without a clock', async t => {
  const target = mkdtempSync(join(tmpdir(), 'svc-marks-'))
  mkdirSync(join(target, 'd'))
  for (const path of ['a', 'b', 'd/c']) writeFileSync(join(target, path), 'x')
  const owned = await ownedContents({ deployId: 'dep_1', sequence: 1, target }, entries())
  const mark = () => markTarget({ target, rules: { home: '/nowhere', allowSystemPaths: true }, owned }, { disk })
  const touched = async (work: () => void): Promise<string[]> => {
    const before = await mark()
    t.equal(before.length, paths.length * markBytes)
    work()
    return [...differingMarks(before, await mark())].map(at => paths[at] as string)
  }
  const place = (path: string): string => join(target, path)
  t.strictSame(await touched(() => {}), [])
  t.strictSame(await touched(() => appendFileSync(place('a'), 'y')), ['a'])
  t.strictSame(await touched(() => chmodSync(place('b'), 0o600)), ['b'])
  t.strictSame(await touched(() => rmSync(place('b'))), ['b'])
  t.strictSame(await touched(() => symlinkSync('a', place('b'))), ['b'])
  t.strictSame(await touched(() => writeFileSync(place('d/new'), '')), [], 'what svc does not own')
  t.strictSame(await touched(() => renameSync(place('d'), place('f'))), ['d', 'd/c'])
  t.strictSame(await touched(() => symlinkSync('f', place('d'))), [], 'nothing is found through a link')
})
