import t from 'tap'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { guardDrift, type DriftGuard } from '../../lib/install/drift.js'
import { writeOwnedTree } from '../../lib/install/owned-tree.js'
import type { Item } from '../../lib/install/plan.js'
import { createRecords, type Outcome } from '../../lib/install/record.js'
import type { OwnedEntry } from '../../lib/model/tree.js'

const digest = (letter: string): string => letter.repeat(64)
const item = (path: string): Item => ({ path, kind: 'file', size: 1, mode: 0o644, mtimeMs: 0 })

/** Entries of an owned tree by path, each with the letter of its digest. */
async function ownedTree(letters: Record<string, string>): Promise<Buffer> {
  async function* entries(): AsyncGenerator<OwnedEntry> {
    for (const [path, letter] of Object.entries(letters)) {
      yield { path, mode: 0o100644, size: 1, sha256: digest(letter), mtimeMs: 0, ino: 1, since: 'dep_1' }
    }
  }
  const directory = mkdtempSync(join(tmpdir(), 'svc-drift-'))
  try {
    await writeOwnedTree(join(directory, 'tree'), { deployId: 'dep_1', sequence: 1, target: '/srv' }, entries())
    return readFileSync(join(directory, 'tree'))
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** A staging: for each path the outcome, the new digest, and the one that was there. */
function staged(states: Array<[path: string, outcome: Outcome, wanted: string, found: string | null]>) {
  const records = createRecords(states.length)
  for (const [at, [, outcome, wanted, found]] of states.entries()) {
    const sha256 = (letter: string): Buffer => Buffer.from(digest(letter), 'hex')
    records.settle(at, outcome, { mode: 0o100644, sha256: sha256(wanted), mtimeMs: 0, ino: 1 })
    if (found === null) continue
    records.setExisting(at, 'file')
    records.setBefore(at, { size: 1, mode: 0o100644, sha256: sha256(found) }, 0)
  }
  return { items: states.map(([path]) => item(path)), records }
}

t.test('finds the edited files that would be replaced, and no others', async t => {
  const owned = await ownedTree({ a: 'a', b: 'b', c: 'c', d: 'd', f: 'f' })
  const staging = staged([
    ['f', 'staged', 'e', 'd'],
    ['a', 'staged', 'e', 'a'],
    ['b', 'staged', 'e', 'c'],
    ['c', 'unchanged', 'e', 'e'],
    ['d', 'staged', 'e', null],
    ['not-owned', 'staged', 'e', 'a']
  ])
  const edits = await guardDrift({ mode: 'warn', owned }, staging)
  t.strictSame(edits, {
    count: 2,
    files: [
      { path: 'b', since: 'dep_1' },
      { path: 'f', since: 'dep_1' }
    ]
  })
  await t.rejects(guardDrift({ mode: 'refuse', owned }, staging), {
    kind: 'conflict',
    code: 'target_drifted',
    message: /^Nothing was changed: "b", "f" were edited on the server/
  })
})

t.test('lists twenty files, names three, and counts all', async t => {
  const paths = Array.from({ length: 25 }, (_, i) => `f${String(i).padStart(2, '0')}`)
  const owned = await ownedTree(Object.fromEntries(paths.map(path => [path, 'a'])))
  const staging = staged(paths.map(path => [path, 'staged', 'e', 'd']))
  const { count, files } = await guardDrift({ mode: 'warn', owned }, staging)
  t.strictSame([count, files.length], [25, 20])
  await t.rejects(guardDrift({ mode: 'refuse', owned }, staging), { message: '"f00", "f01", "f02", and 22 more were' })
})

t.test('reads no tree if nothing is replaced, and warns without one that is damaged', async t => {
  const broken: DriftGuard = { mode: 'refuse', owned: Buffer.from('damaged') }
  const harmless = staged([['a', 'unchanged', 'a', 'a']])
  t.strictSame(await guardDrift(broken, harmless), { count: 0, files: [] })
  const staging = staged([['a', 'staged', 'a', 'b']])
  await t.rejects(guardDrift(broken, staging))
  t.strictSame(await guardDrift({ ...broken, mode: 'warn' }, staging), { count: 0, files: [] })
})
