import t from 'tap'
import type { Test } from 'tap'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { disk } from '../../../lib/core/install/disk.js'
import { checkMissingTarget, createLists, createWrites, failed, passed } from '../../../lib/core/install/findings.js'
import { holdFolders, holdTarget } from '../../../lib/core/install/held.js'
import type { Folder, Item } from '../../../lib/core/install/plan.js'
import type { Refusal } from '../../../lib/base/errors.js'
import type { Compared } from '../../../lib/core/install/compare.js'
import { createExecutors } from '../../../lib/core/install/unpack/executors.js'
import { extractArchive } from '../../../lib/core/install/unpack/extract.js'
import type { PlanCheck } from '../../../lib/model/plan.js'
import { findIdentity, maySwitchUser, type Rights } from '../../../lib/core/proc/identity.js'
import { refusalOf } from '../../support/extraction.js'
import { openDirectory } from '../../support/open-directory.js'
import { treeBody, zipDirectory } from '../../support/planned.js'
import { smallDisk } from '../../support/small-disk.js'
import { snapshot } from '../../support/tree.js'

const item = (path: string, size: number): Item => ({ path, kind: 'file', size, mode: null, mtimeMs: null })

t.test('counts everything, and lists as much as asked for', t => {
  const lists = createLists(1)
  lists.path('added', 'a')
  t.equal(lists.paths.truncated, false)
  lists.path('added', 'b')
  lists.path('kept', 'c')
  lists.conflict({ path: 'd', code: 'file_in_the_way', message: 'in the way' })
  const drifted = { path: 'e', owned: 'x', found: null, mtime: null, size: null, since: 'dep_1', overwritten: true }
  lists.drift(drifted)
  t.match(lists.counts, { added: 2, kept: 1, conflicts: 1, drifted: 1, changed: 0 })
  t.match(lists.paths, { added: ['a'], kept: ['c'], drifted: [drifted], truncated: true })
  t.equal(lists.paths.added.length, 1)
  t.end()
})

t.test('collects the directories that would be written, new ones included', async t => {
  const root = holdTarget(disk, t.testdir({ a: { file: 'x' } }))
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  const top: Folder = { path: '', parent: null, exists: true, item: null }
  const a: Folder = { path: 'a', parent: top, exists: true, item: null }
  const b: Folder = { path: 'a/b', parent: a, exists: false, item: null }
  const c: Folder = { path: 'a/b/c', parent: b, exists: false, item: null }
  const writes = createWrites({ disk, root, folders })
  const stats = statSync(`${root.path}/a/file`)
  writes.add(item('a/b/c/d', 5), c, null)
  writes.add(item('a/b/e', 6), b, null)
  writes.add(item('a/file', 7), a, { kind: 'file', mode: stats.mode, gid: stats.gid, size: 1, sha256: '', stats })
  const { written, sizes, entries, foreign } = writes.all()
  t.strictSame([...written].sort(), ['', 'a'])
  t.strictSame([...sizes], [5, 6, 7])
  t.equal(entries, 5, 'three files and two directories')
  t.equal(writes.bytes(), 18)
  t.strictSame(foreign, [])
})

/*
 * The checks of a target. Each cause is also given to a deployment, which must fail with the code that the check names.
 * They run as the user "nobody", because root may do everything.
 */

const options = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }
const nobody = 65534

t.test('each cause is found by the plan, and stops the deployment with the same code', options, async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const rights: Rights = { identity: await findIdentity('nobody'), umask: null }

  /** Plans, deploys, and returns the failed check of the plan and the refusal of the deployment. */
  async function attempt(t: Test, target: string, files: object): Promise<[PlanCheck[], Refusal]> {
    const home = t.testdir({ site: files, deployments: {} } as never)
    const archivePath = join(home, 'archive.zip')
    await zipDirectory(join(home, 'site'), archivePath)
    const tree = await treeBody(join(home, 'site'))
    const { signal } = new AbortController()
    const rules = { home }
    const compare = { target, rules, tree, owned: null, umask: null, listed: 10, limitMs: 60_000, nowMs: Date.now() }
    const before = snapshot(target)
    const outcome = await executors.comparing(rights).run({ kind: 'compare', compare }, signal)
    const { compared } = outcome as { compared: Compared }
    t.strictSame(snapshot(target), before, 'the plan changes nothing')
    const limits = { maxEntries: 1000, maxExtractedBytes: 1e9 }
    const deployments = join(home, 'deployments')
    const refusal = await refusalOf(
      extractArchive(executors, {
        archivePath,
        target,
        rights,
        deployId: 'dep_t',
        home: { deployments },
        limits,
        signal
      })
    )
    t.strictSame(snapshot(target), before, 'the deployment leaves the target as it was')
    return [compared.checks.filter(({ ok }) => !ok), refusal]
  }

  function ownTarget(t: Test): string {
    const target = join(openDirectory(t), 'target')
    mkdirSync(target)
    chownSync(target, nobody, nobody)
    return target
  }

  t.test('a directory that cannot be written', async t => {
    const target = ownTarget(t)
    mkdirSync(join(target, 'assets'))
    const [[check, ...others], refusal] = await attempt(t, target, { assets: { a: 'x' }, b: 'x' })
    t.match(check, { name: 'target_writable', code: refusal.code, paths: ['assets'] })
    t.match(check?.message, /^Cannot write in "assets" of the target: permission denied/i)
    t.strictSame(others, [])
  })

  t.test('a file of another user in a directory with the sticky bit', async t => {
    const target = ownTarget(t)
    const shared = join(target, 'shared')
    mkdirSync(shared)
    chmodSync(shared, 0o1777)
    writeFileSync(join(shared, 'of-root'), 'x')
    const [[check, ...others], refusal] = await attempt(t, target, { shared: { 'of-root': 'new' } })
    t.match(check, { name: 'entries_owned_by_others', code: refusal.code, paths: ['shared/of-root'] })
    t.match(check?.message, /^1 file belongs to root and cannot be replaced/)
    t.strictSame(others, [])
  })

  t.test('a target on a full disk', async t => {
    const directory = smallDisk(t, 256 * 1024)
    if (directory === null) return
    chmodSync(directory, 0o755)
    const target = join(directory, 'target')
    mkdirSync(target)
    chownSync(target, nobody, nobody)
    const [[check, ...others], refusal] = await attempt(t, target, { large: 'x'.repeat(400_000) })
    t.match(check, { name: 'space_target', code: refusal.code })
    t.match(check?.message, /^The deployment needs .* in the target, and .* are free$/)
    t.strictSame(others, [])
  })

  t.test('a disk without free inodes', async t => {
    const directory = mkdtempSync(join(tmpdir(), 'svc-inodes-'))
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=20,mode=755', 'tmpfs', directory], { stdio: 'pipe' })
    } catch (error) {
      rmSync(directory, { recursive: true })
      return t.comment(`left out, a small disk cannot be mounted: ${String(error)}`)
    }
    t.teardown(() => {
      execFileSync('umount', ['-l', directory])
      rmSync(directory, { recursive: true, force: true })
    })
    const target = join(directory, 'target')
    mkdirSync(target)
    chownSync(target, nobody, nobody)
    const files = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`f${i}`, 'x']))
    const [[check, ...others], refusal] = await attempt(t, target, files)
    t.match(check, { name: 'inodes', code: refusal.code })
    t.strictSame(others, [])
  })

  t.test('a read-only file system', async t => {
    const directory = smallDisk(t, 256 * 1024)
    if (directory === null) return
    chmodSync(directory, 0o755)
    const target = join(directory, 'target')
    mkdirSync(target)
    chownSync(target, nobody, nobody)
    execFileSync('mount', ['-o', 'remount,ro', directory])
    const [[check], refusal] = await attempt(t, target, { a: 'x' })
    t.match(check, { name: 'target_writable', code: refusal.code, message: /read-only.*ReadWritePaths/i })
  })
})

t.test('a missing target needs a directory that can be written', async t => {
  const directory = t.testdir({ file: 'x' })
  const { checks, diskFree } = checkMissingTarget(disk, join(directory, 'a/b'), 10)
  t.match(checks, [passed('target_writable'), passed('space_target')])
  t.ok((diskFree as number) > 0)
  const { checks: full } = checkMissingTarget(disk, join(directory, 'a'), 2 ** 50)
  t.match(full[1], { name: 'space_target', ok: false, code: 'no_space' })
  t.strictSame(failed('inodes', 'no_space', 'full'), { name: 'inodes', ok: false, code: 'no_space', message: 'full' })
})

t.test('free space is unknown in Node before 18.15, which has no statfs', async t => {
  const oldDisk = { ...disk, statfsSync: undefined as never }
  const { checks, diskFree } = checkMissingTarget(oldDisk, join(t.testdir(), 'a'), 2 ** 50)
  t.equal(diskFree, null)
  t.match(checks[1], { name: 'space_target', ok: true, message: 'The free space of the target is unknown' })
})
