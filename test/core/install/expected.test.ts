import t from 'tap'
import { utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createContentsDigest } from '../../../lib/model/manifest.js'
import { buildExpected, planOutdated, refuseOutdated, type Expected } from '../../../lib/core/install/expected.js'
import { disk } from '../../../lib/core/install/disk.js'
import { holdFolders, holdTarget } from '../../../lib/core/install/held.js'
import { canonicalOrder } from '../../../lib/core/install/manifest-writer.js'
import { createRecords, type Item } from '../../../lib/core/install/plan.js'
import { nothingReckoned } from './nothing-reckoned.js'

const plannedAtMs = Date.UTC(2026, 0, 2, 3, 4, 5)
/** The first half of the digest of `xy` is that of `x`. */
const digest = ([first = '', second = first]: string): string => first.repeat(32) + second.repeat(32)
const item = (path: string, size = 1): Item => ({ path, kind: 'file', size, mode: 0o644, mtimeMs: 0 })

interface State {
  path: string
  wanted: string
  found: string | null
}

function planned(states: State[], digits = 64, marksOf: 'found' | 'lines' = 'found'): Expected {
  const contents = createContentsDigest()
  for (const { path, wanted } of states) contents.add({ path, mode: 0o100600, size: 1, sha256: digest(wanted) })
  const builder = buildExpected(digits, { contentsSha256: contents.end(), marksOf })
  for (const { path, wanted, found } of states) {
    const before = found === null ? null : { mode: 0o100644, gid: 0, size: 1, sha256: digest(found) }
    builder.add({ path, kind: 'file', size: 1, sha256: digest(wanted).slice(0, digits) }, before)
  }
  return builder.end(plannedAtMs)
}

t.test('a staging is held to what the plan wanted and found', async t => {
  const directory = t.testdir({ b: 'x' })
  const root = holdTarget(disk, directory)
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  const states: State[] = [
    { path: 'a', wanted: 'a', found: null },
    { path: 'b', wanted: 'b', found: 'c' },
    { path: 'd/e', wanted: 'd', found: 'd' }
  ]

  /** Holds a staging with these findings, in the order of another archive, to the plan. */
  function hold(now: State[], plan = planned(states)): void {
    const items: Item[] = [{ ...item('d'), kind: 'directory' }, ...[...now].reverse().map(({ path }) => item(path))]
    const records = createRecords(items.length)
    for (const [at, { wanted, found }] of [...now].reverse().entries()) {
      const sha256 = (letter: string): Buffer => Buffer.from(digest(letter), 'hex')
      records.settle(at + 1, 'staged', { mode: 0o100644, gid: 0, sha256: sha256(wanted), mtimeMs: 0, ino: 1 })
      if (found === null) continue
      records.setExisting(at + 1, 'file')
      records.setBefore(
        at + 1,
        { size: 1, mode: 0o100644, gid: 0, sha256: sha256(found) },
        { mtimeMs: 0, uid: 0, gid: 0 }
      )
    }
    const order = canonicalOrder(items)
    refuseOutdated(plan, { disk, folders, items, order, records, reckoned: nothingReckoned })
  }
  const changed = (path: string, patch: Partial<State>): State[] =>
    states.map(state => (state.path === path ? { ...state, ...patch } : state))

  t.doesNotThrow(() => hold(states))
  t.throws(() => hold(changed('b', { wanted: 'e' })), { kind: 'conflict', code: 'tree_changed' })
  t.throws(() => hold(states.slice(1)), { code: 'tree_changed' })
  const short = planned(states, 16)
  t.doesNotThrow(() => hold(states, short), 'a plan of short digests')
  for (const wanted of ['e', 'be']) {
    const why = `${wanted}: it is also held to the digits that it did not get`
    t.throws(() => hold(changed('b', { wanted }), short), { code: 'tree_changed' }, why)
  }
  const lie = { ...short, wantedSha256: planned(changed('b', { wanted: 'e' }), 16).wantedSha256 }
  t.throws(() => hold(states, lie), { code: 'tree_changed' }, 'the lines of the plan, and the digest at its end')
  const place = join(directory, 'b')
  utimesSync(place, new Date(plannedAtMs + 60_000), new Date(plannedAtMs + 60_000))
  t.throws(() => hold(changed('b', { found: 'f' })), {
    code: 'plan_outdated',
    message: '"b" was changed at 2026-01-02 03:05:05 UTC, after the plan of 2026-01-02 03:04:05 UTC'
  })
  writeFileSync(place, 'older')
  utimesSync(place, 1, 1)
  t.throws(() => hold(changed('b', { found: 'f' })), { message: '"b" was changed, after the plan of 2026-01-02' })
  t.throws(() => hold(changed('d/e', { found: null })), { message: '"d/e" was removed, after' })
  t.throws(() => hold(changed('a', { found: 'a' })), { code: 'plan_outdated', message: '"a"' })
  const earlier = planned(states, 64, 'lines')
  t.notOk('marksOf' in earlier, 'a plan of an earlier version')
  t.doesNotThrow(() => hold(states, earlier))
  t.throws(() => hold(changed('d/e', { found: null }), earlier), { message: '"d/e" was removed, after' })
  const unnamed = { ...planned(states), foundSha256: digest('0') }
  t.throws(() => hold(states, unnamed), { message: 'Nothing was changed: files were changed, after the plan of 2026' })
})

t.test('the refusal says what to do', t => {
  t.match(planOutdated('it is old'), { code: 'plan_outdated', message: 'Nothing was changed: it is old. Plan again' })
  t.end()
})
