import t from 'tap'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createEntryReader } from '../../lib/archive/entry-data.js'
import { composeArchive } from '../../lib/archive/compose.js'
import { openArchive } from '../../lib/archive/read.js'
import { sha256 } from '../../lib/base/digests.js'
import { writeZipOf } from '../support/zips.js'

const limits = { maxEntries: 100, maxExtractedBytes: 1e9, mayBeEmpty: true }

async function contentsOf(path: string): Promise<Record<string, unknown>> {
  const archive = await openArchive(path, limits)
  const reader = createEntryReader(archive)
  const found: Record<string, unknown> = {}
  for (const entry of archive.entries) {
    const pieces: Buffer[] = []
    if (entry.kind !== 'directory') await reader.read(entry, piece => void pieces.push(Buffer.from(piece)))
    found[entry.path] = { kind: entry.kind, mode: entry.mode, text: Buffer.concat(pieces).toString('latin1') }
  }
  archive.close()
  return found
}

t.test('composes entries of several zips with the modes that are given', async t => {
  const directory = t.testdir({})
  const large = Array.from({ length: 300_000 }, (_, i) => String.fromCharCode(33 + ((i * i) % 90))).join('')
  const [one, two, to] = ['one.zip', 'two.zip', 'to.zip'].map(name => join(directory, name)) as [string, string, string]
  await writeZipOf(one, { a: 'first', 'dir/b': 'second '.repeat(100), unused: 'x', empty: '' })
  await writeZipOf(two, { a: 'other', 'dir/large': large })
  const file = { mode: 0o100640, mtimeMs: 1_700_000_000_000 }
  const composed = await composeArchive(to, [
    { ...file, path: 'a', source: two },
    { path: 'dir', mode: 0o040750, mtimeMs: 0, source: null },
    { ...file, path: 'dir/b', mode: 0o100755, source: one },
    { ...file, path: 'dir/large', source: two },
    { ...file, path: 'empty', source: one }
  ])
  t.strictSame(composed, { bytes: statSync(to).size, sha256: sha256(readFileSync(to)).toString('hex') })
  t.strictSame(await contentsOf(to), {
    a: { kind: 'file', mode: 0o640, text: 'other' },
    dir: { kind: 'directory', mode: 0o750, text: '' },
    'dir/b': { kind: 'file', mode: 0o755, text: 'second '.repeat(100) },
    'dir/large': { kind: 'file', mode: 0o640, text: large },
    empty: { kind: 'file', mode: 0o640, text: '' }
  })
})

t.test('composes a zip without entries', async t => {
  const to = join(t.testdir({}), 'to.zip')
  t.equal((await composeArchive(to, [])).bytes, 22)
  t.strictSame(await contentsOf(to), {})
})

t.test('refuses an entry that its zip does not contain, and leaves no file', async t => {
  const directory = t.testdir({})
  const [one, to] = [join(directory, 'one.zip'), join(directory, 'to.zip')]
  await writeZipOf(one, { a: 'first' })
  const entry = { mode: 0o100644, mtimeMs: 0, source: one }
  await t.rejects(composeArchive(to, [{ ...entry, path: 'b' }]), { code: 'damaged_archive' })
  await t.rejects(composeArchive(to, [{ ...entry, path: 'a', source: join(directory, 'none.zip') }]), {
    code: 'ENOENT'
  })
  t.notOk(existsSync(to) || existsSync(`${to}.tmp`))
})
