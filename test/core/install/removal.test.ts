import t from 'tap'
import { checkExactly, createAsked, isTooMuch, pruneTooMuch, setExactly } from '../../../lib/core/install/removal.js'
import { sha256 } from '../../../lib/base/digests.js'
import type { Exact, WantedEntry } from '../../../lib/core/install/ownership.js'
import { createRecords, type Item } from '../../../lib/core/install/plan.js'

t.test('asks for nothing, for named files, or for all that are not protected', t => {
  const paths = ['a', 'a/b', 'b', 'c', 'uploads/x']
  const asked = (removes: Parameters<typeof createAsked>[0]): string[] => paths.filter(createAsked(removes))
  t.strictSame(asked(null), [])
  t.strictSame(asked({ kind: 'listed', paths: Buffer.from('0\na/b\nc\n') }), ['a/b', 'c'])
  t.strictSame(asked({ kind: 'listed', paths: Buffer.from('') }), [])
  t.strictSame(asked({ kind: 'absent', protect: ['uploads/**', 'b'], isForced: false }), ['a', 'a/b', 'c'])
  t.end()
})

t.test('most of the files are more than fifty and more than half', t => {
  t.notOk(isTooMuch(50, 50))
  t.ok(isTooMuch(51, 101))
  t.notOk(isTooMuch(51, 102))
  t.match(pruneTooMuch(51, 60), { kind: 'conflict', code: 'prune_too_much' })
  t.end()
})

const item = (path: string, kind: Item['kind']): Item => ({ path, kind, size: 0, mode: 0o600, mtimeMs: 1 })
const digest = (text: string): Buffer => sha256(Buffer.from(text))
const exactOf = (entries: WantedEntry[]): Exact => ({
  wanted: Buffer.from(entries.map(entry => `${JSON.stringify(entry)}\n`).join('')),
  directories: Buffer.from('')
})
const wanted = (path: string, mode: number, mtimeMs: number | null): WantedEntry => ({
  path,
  mode,
  size: 0,
  sha256: digest(path).toString('hex'),
  mtimeMs
})

t.test('gives items their exact modes and times, and knows their contents', t => {
  const items = [item('b', 'file'), item('a', 'symlink'), item('d', 'directory')]
  const entries = [wanted('a', 0o120777, 3.25), wanted('b', 0o104755, 2.125), wanted('d', 0o040710, null)]
  const digests = setExactly(items, exactOf(entries))
  t.strictSame(
    items.map(({ mode, mtimeMs }) => [mode, mtimeMs]),
    [
      [0o4755, 2.125],
      [null, 3.25],
      [0o710, null]
    ]
  )
  const given = [item('b', 'file')]
  setExactly(given, exactOf([{ ...wanted('b', 0o106755, 1), owner: { uid: 7, gid: 8 } }]))
  t.match(
    given,
    [{ mode: 0o755, owner: { uid: 7, gid: 8 } }],
    'nothing of another owner runs with the rights of that owner'
  )
  const grouped = [item('b', 'file'), item('d', 'directory'), item('l', 'symlink'), item('o', 'file')]
  const [b, d, l, o] = [
    wanted('b', 0o106755, 1),
    wanted('d', 0o042750, null),
    wanted('l', 0o120777, 1),
    wanted('o', 0, 1)
  ]
  setExactly(grouped, exactOf([...[b, d, l].map(each => ({ ...each, gid: 8 })), { ...o, gid: null }]))
  t.strictSame(
    grouped.map(({ mode, gid }) => [mode, gid]),
    [
      [0o755, 8],
      [0o2750, 8],
      [null, undefined],
      [0, process.getegid?.()]
    ],
    'or with those of its group'
  )
  const records = createRecords(3)
  const settle = (at: number, text: string): void =>
    records.settle(at, 'staged', { mode: 0, gid: 0, sha256: digest(text), mtimeMs: 0, ino: 0 })
  settle(0, 'b')
  settle(1, 'a')
  t.doesNotThrow(() => checkExactly(digests, { items, records }))
  settle(0, 'other')
  t.throws(() => checkExactly(digests, { items, records }), { code: 'damaged_archive', message: /of "b" are not/ })
  t.throws(() => setExactly(items, exactOf([wanted('c', 0o100644, 0)])), { code: 'damaged_archive' })
  t.end()
})
