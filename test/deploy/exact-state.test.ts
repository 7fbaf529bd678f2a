import t from 'tap'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exactStateOf, findScripted, pathOfSource, type Undone, type WantedFrom } from '../../lib/deploy/exact-state.js'
import { directoryMode, noContents } from '../../lib/core/install/owned-tree.js'
import type { EarlierFile, ManifestFile, ManifestLine, OwnedEntry } from '../../lib/model/manifest.js'
import { createFiles } from '../../lib/deploy/files.js'
import { writeScripted } from '../../lib/core/install/scripted-file.js'

const [one, two, three] = ['1', '2', '3'].map(digit => digit.repeat(64)) as [string, string, string]
const mode = 0o100644

const earlier = (sha256: string, more: Partial<EarlierFile> = {}): EarlierFile => {
  return { size: 1, mode, sha256, mtimeMs: 1000.25, ...more }
}
const put = (path: string, sha256: string, before: EarlierFile | null): ManifestFile => {
  return { path, size: 1, mode, sha256, mtimeMs: 2000, ino: 1, before }
}
const own = (path: string, sha256: string, more: Partial<OwnedEntry> = {}): OwnedEntry => {
  return { path, mode, size: 1, sha256, mtimeMs: 2000, ino: 1, since: 'dep_9', ...more }
}
async function* stream<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values
}
const undone = (id: string, lines: readonly ManifestLine[]): Undone => ({ id, lines: () => stream(lines) })

t.test('the oldest deployment determines the earlier state', async t => {
  const state = await exactStateOf(
    [
      undone('dep_3', [put('a', three, earlier(two, { kept: 'archive:dep_2' })), put('new', three, null)]),
      undone('dep_2', [put('a', two, earlier(one, { kept: 'archive:dep_1' })), put('b', two, null)])
    ],
    stream([own('a', three), own('b', two), own('new', three), own('other', one)])
  )
  t.strictSame(state, {
    wanted: [
      { path: 'a', mode, size: 1, sha256: one, mtimeMs: 1000.25, source: { kind: 'archive', deployId: 'dep_1' } }
    ],
    removed: ['b', 'new'],
    directories: []
  })
})

t.test('a path that is already as it was needs nothing', async t => {
  const back = undone(
    'dep_2',
    [
      put('same', two, earlier(one, { kept: 'archive:dep_1' })),
      put('time', one, earlier(one)),
      put('mode', one, earlier(one, { mode: 0o100600 }))
    ].sort((a, b) => (a.path < b.path ? -1 : 1))
  )
  const owned = [
    own('mode', one, { mtimeMs: 1000.25 }),
    own('same', one, { mtimeMs: 1000.25 }),
    own('time', one, { mtimeMs: 1000.252 })
  ]
  const { wanted } = await exactStateOf([back], stream(owned))
  const source = { kind: 'archive', deployId: 'dep_2' }
  t.match(wanted, [
    { path: 'mode', source },
    { path: 'time', source }
  ])
})

t.test('removed entries come back, and new directories go', async t => {
  const state = await exactStateOf(
    [
      undone('dep_2', [
        { made: 'made' },
        { removed: 'old', before: { size: 0, mode: 0o040750, sha256: noContents, mtimeMs: 1 } },
        { removed: 'old/file', before: earlier(one, { kept: 'before' }) }
      ])
    ],
    stream([own('made', noContents, { mode: directoryMode, size: 0 })])
  )
  t.match(state, {
    wanted: [
      { path: 'old', mode: 0o040750, mtimeMs: null, source: null },
      { path: 'old/file', source: { kind: 'before', deployId: 'dep_2' } }
    ],
    removed: [],
    directories: ['made']
  })
})

t.test('contents and times that were not kept are refused by the name of the deployment', async t => {
  const refused = (before: EarlierFile): Promise<unknown> =>
    exactStateOf([undone('dep_2', [put('a', two, before)])], stream([own('a', two)]))
  await t.rejects(refused(earlier(one, { kept: 'none' })), { code: 'not_exact', message: 'dep_2' })
  await t.rejects(refused(earlier(one)), { code: 'not_exact', message: 'dep_2' })
  const { mtimeMs: _, ...older } = earlier(one, { kept: 'archive:dep_1' })
  await t.rejects(refused(older), { code: 'not_exact', message: 'dep_2' })
})

t.test('what the goal put there counts, not what somebody made of it afterwards', async t => {
  const edited = earlier(three, { kept: 'before' })
  const back = undone('dep_2', [
    put('changed', two, edited),
    put('equal', three, earlier(three)),
    put('foreign', two, edited),
    put('gone', two, null),
    put('same', two, earlier(one, { kept: 'archive:dep_0' }))
  ])
  const [first, second] = [
    undone('dep_0', [put('changed', two, null), put('same', one, null)]),
    undone(
      'dep_1',
      ['changed', 'equal', 'gone', 'same'].map(path => put(path, one, null))
    )
  ]
  const owned = ['changed', 'equal', 'foreign', 'gone', 'same'].map(path => own(path, path === 'equal' ? three : two))
  const { wanted, removed } = await exactStateOf([back], stream(owned), [first, second])
  const source = { kind: 'archive', deployId: 'dep_1' }
  t.match(wanted, [
    { path: 'changed', sha256: one, source },
    { path: 'equal', sha256: one, source },
    { path: 'foreign', sha256: three, source: { kind: 'before', deployId: 'dep_2' } },
    { path: 'gone', sha256: one, source },
    { path: 'same', sha256: one, source: { kind: 'archive', deployId: 'dep_0' } }
  ])
  t.strictSame(removed, [])
})

t.test('its permissions and its time count, too, if only those were changed', async t => {
  const before = { ...earlier(one, { kept: 'archive:dep_0' }), mode: 0o100604, mtimeMs: 1 }
  const goal = put('a', one, null)
  const { wanted } = await exactStateOf([undone('dep_2', [put('a', two, before)])], stream([own('a', two)]), [
    undone('dep_1', [goal])
  ])
  const { mode, mtimeMs } = goal as { mode: number; mtimeMs: number }
  t.match(wanted, [{ path: 'a', sha256: one, mode, mtimeMs, source: { kind: 'archive', deployId: 'dep_0' } }])
})

const digest = (digit: string): string => digit.repeat(64)

t.test('contents that a script made are in its copies, and those that it left as they were in an archive', async t => {
  const deployments = mkdtempSync(join(tmpdir(), 'svc-contents-'))
  const files = createFiles({ directory: deployments, deployments, tmp: deployments })
  const line = { mode: 0o100644, size: 1, mtimeMs: 1 }
  await writeScripted(files.scripted('dep_2'), [
    { ...line, path: 'a', sha256: digest('a'), kept: 'scripted' },
    { ...line, path: 'b', sha256: digest('b'), kept: 'archive:dep_1' },
    { ...line, path: 'c', sha256: digest('c') },
    { ...line, path: 'd', sha256: digest('d'), kept: 'none' },
    { removed: 'e' }
  ])
  await writeScripted(files.scripted('dep_1'), [{ ...line, path: 'b', sha256: digest('b'), kept: 'scripted' }])
  const never = (): never => t.fail('nothing is lost') as never
  const find = async (path: string, sha256: string, onNone: Parameters<typeof findScripted>[2] = never) => {
    const entry: WantedFrom = { ...line, path, sha256, source: { kind: 'archive', deployId: 'dep_2' } }
    await findScripted(files, [entry], onNone)
    return pathOfSource(files, entry.source as NonNullable<WantedFrom['source']>)
  }
  t.equal(await find('a', digest('a')), files.scriptedImages('dep_2'))
  t.equal(await find('a', digest('f')), files.archive('dep_2'), 'what the archive has')
  t.equal(await find('b', digest('b')), files.scriptedImages('dep_1'))
  for (const path of ['c', 'e', 'f']) t.equal(await find(path, digest(path)), files.archive('dep_2'))
  const lost = find('d', digest('d'), ({ path }, deployId) => {
    throw new Error(`${deployId} ${path}`)
  })
  await t.rejects(lost, { message: 'dep_2 d' })
  t.equal(pathOfSource(files, { kind: 'before', deployId: 'dep_2' }), files.before('dep_2'))
})
