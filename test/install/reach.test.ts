import t from 'tap'
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { disk } from '../../lib/install/disk.js'
import { canHoldDirectories } from '../../lib/install/held.js'
import { holdTarget, type ReachOptions } from '../../lib/install/reach.js'

/** Returns where a path leads. */
function reach(path: string, options?: ReachOptions): string {
  const held = holdTarget(disk, path, options)
  held.close()
  return held.real
}

const ways = canHoldDirectories ? [true, false] : [false]

t.test('follows links of the operator, and creates directories', async t => {
  for (const canHold of ways) {
    const directory = realpathSync(t.testdir({ real: { deep: {} }, file: 'x' }))
    symlinkSync('real', join(directory, 'link'))
    symlinkSync(join(directory, 'link/deep'), join(directory, 'absolute'))
    symlinkSync('../link/./deep/../deep', join(directory, 'real/up'))
    t.equal(reach(join(directory, 'link'), { canHold }), join(directory, 'real'))
    t.equal(reach(join(directory, 'absolute'), { canHold }), join(directory, 'real/deep'))
    t.equal(reach(join(directory, 'link/up'), { canHold }), join(directory, 'real/deep'))
    t.throws(() => reach(join(directory, 'link/new'), { canHold }), { code: 'ENOENT' })
    t.equal(reach(join(directory, 'link/new/er'), { canHold, make: true }), join(directory, 'real/new/er'))
    t.throws(() => reach(join(directory, 'file'), { canHold }), { code: 'target_is_a_file' })
    symlinkSync('circle', join(directory, 'circle'))
    t.throws(() => reach(join(directory, 'circle'), { canHold }), { code: 'ELOOP' })
  }
})

const isRoot = process.geteuid?.() === 0
const stranger = 65534

t.test(
  "follows a link of another user only to that user's directories",
  { skip: isRoot ? false : 'giving files to another user needs root' },
  async t => {
    const directory = mkdtempSync(join(realpathSync(tmpdir()), 'svc-test-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const theirs = join(directory, 'theirs')
    mkdirSync(join(theirs, 'site'), { recursive: true })
    mkdirSync(join(directory, 'ours/site'), { recursive: true })
    for (const path of [theirs, join(theirs, 'site')]) chownSync(path, stranger, stranger)
    const link = (text: string, name: string, owner = stranger): string => {
      symlinkSync(text, join(theirs, name))
      lchownSync(join(theirs, name), owner, owner)
      return join(theirs, name)
    }
    t.equal(reach(link('site', 'current')), join(theirs, 'site'))
    const outward = link('../ours/site', 'outward')
    t.throws(() => reach(outward), { code: 'target_through_link', message: /"outward"/ })
    t.throws(
      () => reach(join(link('../ours', 'above'), 'site')),
      { code: 'target_through_link' },
      'a link in the middle'
    )
    t.throws(() => reach(link('current/../../ours/site', 'around')), { code: 'target_through_link' })
    t.throws(
      () => reach(link('../ours/site', 'moved', 0)),
      { code: 'target_through_link' },
      'a link that the user may have moved there'
    )
    t.throws(() => reach(join(link('../ours', 'maker'), 'made'), { make: true }), { code: 'target_through_link' })
    t.throws(() => reach(link('../ours/dangling', 'dangling'), { make: true }), { code: 'target_through_link' })
    t.notOk(
      existsSync(join(directory, 'ours/made')) || existsSync(join(directory, 'ours/dangling')),
      'nothing was created'
    )
    t.equal(reach(join(theirs, 'new/site'), { make: true }), join(theirs, 'new/site'), 'works as usual without links')
    t.equal(lstatSync(join(theirs, 'new')).uid, 0)
  }
)

t.test(
  "by path, no directory above a target may be another user's",
  { skip: isRoot ? false : 'giving files to another user needs root' },
  async t => {
    const directory = mkdtempSync(join(realpathSync(tmpdir()), 'svc-test-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const target = join(directory, 'a/b')
    mkdirSync(target, { recursive: true })
    t.equal(reach(target, { canHold: false }), target)
    for (const change of [() => chownSync(target, stranger, stranger), () => chmodSync(join(directory, 'a'), 0o777)]) {
      chownSync(target, 0, 0)
      change()
      t.throws(() => reach(target, { canHold: false }), { code: 'target_not_guarded' })
    }
  }
)
