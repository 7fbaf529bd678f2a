import t from 'tap'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { disk } from '../../lib/install/disk.js'
import { differingMarks, markBytes, markTarget } from '../../lib/install/marks.js'
import { directoryMode, noContents, ownedContents } from '../../lib/install/owned-tree.js'

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
