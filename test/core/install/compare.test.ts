import t, { type Test } from 'tap'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  watch,
  writeFileSync
} from 'node:fs'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OwnedEntry } from '../../../lib/model/manifest.js'
import { disk, type Disk } from '../../../lib/core/install/disk.js'
import { writeOwnedTree } from '../../../lib/core/install/owned-tree.js'
import { compareTreePaths } from '../../../lib/base/shared/tree-text.js'
import { planOf } from '../../support/planned.js'

const sha256 = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex')
const since = 'dep_1'

function stage(t: Test, site: object, target: object): { site: string; target: string } {
  const directory = t.testdir({ site, target } as never)
  return { site: join(directory, 'site'), target: join(directory, 'target') }
}

/** The owned tree of what is in the target now. */
function ownedOf(target: string, paths: string[]): OwnedEntry[] {
  return paths.sort(compareTreePaths).map(path => {
    const { mode, size, mtimeMs, ino } = statSync(join(target, path))
    return { path, mode, size, mtimeMs, ino, sha256: sha256(readFileSync(join(target, path))), since }
  })
}

/** The contents of an owned tree. */
async function given(t: Test, entries: OwnedEntry[]): Promise<Buffer> {
  async function* all(): AsyncGenerator<OwnedEntry> {
    yield* entries
  }
  const path = join(mkdtempSync(join(tmpdir(), 'svc-owned-')), 'tree')
  t.teardown(() => rmSync(join(path, '..'), { recursive: true }))
  await writeOwnedTree(path, { deployId: since, sequence: 1, target: '/srv/shop' }, all())
  return readFileSync(path)
}

const sameTime = (...paths: string[]): void => {
  for (const path of paths) utimesSync(path, 1_700_000_000, 1_700_000_000)
}

t.test('sorts the paths by what a deployment would do to them', async t => {
  const same = { same: 'x', time: 'x', mode: 'x', contents: 'x', kind: 'x' }
  const { site, target } = stage(t, { ...same, sub: { added: 'x' } }, { ...same, contents: 'y', other: 'not of svc' })
  for (const name of Object.keys(same)) sameTime(join(site, name), join(target, name))
  utimesSync(join(target, 'time'), 1_600_000_000, 1_600_000_000)
  chmodSync(join(target, 'mode'), 0o600)
  rmSync(join(target, 'kind'))
  symlinkSync('same', join(target, 'kind'))
  const { counts, paths, bytes, expected } = await planOf(site, target)
  t.match(counts, { added: 1, changed: 3, timeOnly: 1, unchanged: 1, kept: 0, drifted: 0, conflicts: 0 })
  t.match(paths, {
    added: ['sub/added'],
    changed: ['contents', 'kind', 'mode'],
    timeOnly: ['time'],
    unchanged: ['same']
  })
  t.match(bytes, { changed: 4, extracted: 6 })
  t.not(expected, null)
  const masked = await planOf(site, target, { job: { umask: 0o077 } })
  t.match(
    masked.paths,
    { changed: ['contents', 'kind', 'same', 'time'], unchanged: ['mode'] },
    'a umask of the project'
  )
})

t.test('links are compared by their text, and never followed', async t => {
  const { site, target } = stage(t, { a: 'x' }, { a: 'x', secret: {} })
  for (const directory of [site, target]) symlinkSync('a', join(directory, 'same'))
  symlinkSync('a', join(site, 'other'))
  symlinkSync('secret', join(target, 'other'))
  const opened: string[] = []
  const openSync = ((path: string, ...rest: [never]) => {
    opened.push(path)
    return disk.openSync(path, ...rest)
  }) as Disk['openSync']
  const { paths } = await planOf(site, target, { tools: { disk: { ...disk, openSync } } })
  t.match(paths, { changed: ['other'], conflicts: [] })
  t.ok(paths.unchanged.includes('same'))
  t.notOk(
    opened.some(path => path.endsWith('/same') || path.endsWith('/other')),
    'no link is opened'
  )
})

t.test('lists what svc owns, and what was edited or removed since', async t => {
  const { site, target } = stage(
    t,
    { edited: 'new', same: 'x', gone: 'x', chmod: 'x' },
    { edited: 'old', same: 'x', gone: 'x', chmod: 'x', kept: 'x', keptEdited: 'x', keptGone: 'x', mine: 'x' }
  )
  const names = ['edited', 'same', 'gone', 'chmod', 'kept', 'keptEdited', 'keptGone']
  const owned = ownedOf(target, names)
  writeFileSync(join(target, 'edited'), 'by hand')
  writeFileSync(join(target, 'keptEdited'), 'by hand')
  for (const name of ['gone', 'keptGone']) rmSync(join(target, name))
  chmodSync(join(target, 'chmod'), 0o600)
  const { counts, paths } = await planOf(site, target, { job: { owned: await given(t, owned) } })
  t.strictSame(paths.kept, ['kept', 'keptEdited'])
  t.match(counts, { kept: 2, drifted: 4, added: 1 })
  const found = sha256('by hand')
  t.match(paths.drifted, [
    { path: 'edited', owned: sha256('old'), found, size: 7, since, overwritten: true, mtime: /Z$/ },
    { path: 'gone', owned: sha256('x'), found: null, size: null, mtime: null, overwritten: true },
    { path: 'keptEdited', found, overwritten: false },
    { path: 'keptGone', found: null, overwritten: false }
  ])
})

t.test('reads no file that the owned tree proves to be untouched', async t => {
  const { site, target } = stage(t, { a: 'x', b: 'x', c: 'x' }, { a: 'x', b: 'x', c: 'x', kept: 'x' })
  const owned = ownedOf(target, ['a', 'b', 'c', 'kept'])
  utimesSync(join(target, 'b'), 1, 1)
  const withoutStats = owned.map(entry => (entry.path === 'c' ? { ...entry, mtimeMs: null, ino: null } : entry))
  const read: string[] = []
  const openSync = ((path: string, ...rest: [never]) => {
    read.push(path.slice(path.lastIndexOf('/') + 1))
    return disk.openSync(path, ...rest)
  }) as Disk['openSync']
  const tools = { disk: { ...disk, openSync } }
  const { counts } = await planOf(site, target, { tools, job: { owned: await given(t, withoutStats) } })
  t.match(counts, { drifted: 0, kept: 1 })
  t.strictSame(read.filter(name => ['a', 'b', 'c', 'kept'].includes(name)).sort(), ['b', 'c'])
})

t.test('lists every entry in the way, and nothing below one', async t => {
  const { site, target } = stage(
    t,
    { a: { b: { c: 'x' }, d: 'x' }, e: 'x', f: 'x' },
    { a: 'file', e: { own: 'x' }, f: 'x' }
  )
  const { counts, paths, checks } = await planOf(site, target)
  t.match(counts, { conflicts: 2, added: 0 })
  t.strictSame(
    paths.conflicts.map(({ path, code }) => [path, code]),
    [
      ['a', 'file_in_the_way'],
      ['e', 'directory_in_the_way']
    ]
  )
  t.ok(checks.every(({ ok }) => ok))
})

t.test('a limit of paths cuts the lists, but not the counts', async t => {
  const files = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`f${i}`, 'x']))
  const { site, target } = stage(t, files, {})
  const { counts, paths } = await planOf(site, target, { job: { listed: 5 } })
  t.strictSame([counts.added, paths.added.length, paths.truncated], [20, 5, true])
})

t.test('a comparison that takes too long is incomplete, and cannot be held to', async t => {
  const files = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`f${i}`, 'x']))
  const { site, target } = stage(t, files, {})
  let now = 0
  const { counts, expected } = await planOf(site, target, { job: { limitMs: 10 }, tools: { elapsedMs: () => now++ } })
  t.ok(counts.added > 0 && counts.added < 20, String(counts.added))
  t.equal(expected, null)
  const owned = ownedOf(site, Object.keys(files))
  const kept = await given(
    t,
    owned.map(entry => ({ ...entry, path: `kept-${entry.path}` }))
  )
  const late = { job: { limitMs: 3, owned: kept }, tools: { elapsedMs: () => now++ } }
  t.equal((await planOf(site, target, late)).expected, null)
})

t.test('stops as soon as the check throws', async t => {
  const { site, target } = stage(t, { a: 'x', b: 'x' }, {})
  const reason = new Error('enough')
  const check = (): void => {
    throw reason
  }
  await t.rejects(planOf(site, target, { tools: { check } }), reason)
})

t.test('a missing target gets everything, and is not created', async t => {
  const { site, target } = stage(t, { a: 'x', sub: { b: 'x' } }, {})
  rmSync(target, { recursive: true })
  const { counts, bytes, checks, expected } = await planOf(site, target)
  t.match(counts, { added: 2, conflicts: 0 })
  t.ok((bytes.diskFree as number) > 0)
  t.ok(checks.every(({ ok }) => ok))
  t.not(expected, null)
  t.equal(lstatSync(target, { throwIfNoEntry: false }), undefined)
})

t.test('a target that cannot be used fails a check with the code of the deployment', async t => {
  const { site, target } = stage(t, { a: 'x' }, { file: 'x' })
  const { checks, expected } = await planOf(site, join(target, 'file'))
  t.match(checks, [{ name: 'target_writable', ok: false, code: 'target_is_a_file' }])
  t.equal(expected, null)
  const { checks: others } = await planOf(site, '/etc')
  t.match(others, [{ name: 'target_writable', ok: false, code: 'invalid_field' }])
})

t.test('an unreadable file is a conflict', async t => {
  const { site, target } = stage(t, { a: 'x', b: 'x' }, { a: 'x' })
  const openSync = ((path: string, ...rest: [never]) => {
    if (path.endsWith('/a')) throw Object.assign(new Error('EACCES'), { code: 'EACCES' })
    return disk.openSync(path, ...rest)
  }) as Disk['openSync']
  const { paths } = await planOf(site, target, { tools: { disk: { ...disk, openSync } } })
  t.match(paths, { conflicts: [{ path: 'a', code: 'not_permitted' }], added: ['b'], changed: [] })
})

t.test('changes nothing, not even for a moment', async t => {
  const { site, target } = stage(t, { a: 'x', sub: { b: 'y' } }, { a: 'z', sub: { b: 'x' } })
  mkdirSync(join(target, 'empty'))
  const events: string[] = []
  const places = [target, join(target, 'sub'), join(target, 'empty')]
  const watchers = places.map(path => watch(path, (event, name) => void events.push(`${event} ${name}`)))
  for (let i = 0; i < 20; i++) await planOf(site, target)
  for (const watcher of watchers) watcher.close()
  t.strictSame(events, [])
})
