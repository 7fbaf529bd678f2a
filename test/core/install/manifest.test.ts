import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ManifestLine } from '../../../lib/model/manifest.js'
import { compareManifests, formatLine, readManifest, readManifestLines } from '../../../lib/core/install/manifest.js'

t.test('compares two manifests', async t => {
  const directory = t.testdir()
  const write = (name: string, files: Record<string, string>): string => {
    const path = join(directory, name)
    writeFileSync(
      path,
      Object.entries(files)
        .map(
          ([path, sha256]) =>
            `${JSON.stringify({ path, size: 1, mode: 0o100644, sha256: sha256.repeat(64), before: null })}\n`
        )
        .join('')
    )
    return path
  }
  const then = write('then', { a: '1', b: '2', c: '3' })
  const now = write('now', { a: '1', b: '9', d: '4' })
  t.strictSame(await compareManifests(readManifest(then), readManifest(now)), {
    added: ['d'],
    changed: ['b'],
    removed: ['c']
  })
})

t.test('refuses a manifest that is torn anywhere, with its own code', async t => {
  const path = join(t.testdir(), 'x.manifest')
  const line = (path: string): string =>
    `${JSON.stringify({ path, size: 1, mode: 0o100644, sha256: 'ab'.repeat(32), before: null })}\n`
  const whole = line('a') + line('b')
  const read = async (): Promise<number> => {
    let count = 0
    for await (const _ of readManifest(path, 2)) count++
    return count
  }
  for (let length = 0; length < whole.length - 1; length++) {
    writeFileSync(path, whole.slice(0, length))
    await t.rejects(read(), { kind: 'conflict', code: 'torn_manifest' }, `${length} bytes`)
  }
  for (const text of [
    '\0'.repeat(whole.length),
    line('a') + '\0'.repeat(line('b').length),
    'null\nnull\n',
    '{}\n[]\n',
    '"a"\n1\n',
    '{"removed":"a"}\n{"made":1}\n'
  ]) {
    writeFileSync(path, text)
    await t.rejects(read(), { kind: 'conflict', code: 'torn_manifest' }, JSON.stringify(text))
  }
  writeFileSync(path, whole)
  t.equal(await read(), 2)
  const file = { path: 'a', size: 1, mode: 0o100644, sha256: 'ab'.repeat(32), before: null }
  const earlier = { size: 1, mode: 0o100644, sha256: 'cd'.repeat(32), mtimeMs: 1, kept: 'archive:dep_1' }
  const good = [
    file,
    { ...file, path: 'b', before: earlier },
    { ...file, path: 'c', before: { ...earlier, kept: 'before' } }
  ]
  const lines = (values: unknown[]): string => values.map(value => `${JSON.stringify(value)}\n`).join('')
  writeFileSync(path, lines(good))
  t.equal(await read(), 3)
  for (const hostile of [
    { ...file, path: '../a' },
    { ...file, path: '/etc/passwd' },
    { ...file, path: 'a/../../b' },
    { ...file, path: 'a\0' },
    { ...file, size: '1' },
    { ...file, mode: null },
    { ...file, sha256: '../../../x' },
    { ...file, mtimeMs: {} },
    { ...file, before: 7 },
    { ...file, before: 'sam' },
    { ...file, size: null, before: 'same' },
    { ...file, sha256: undefined, before: 'same' },
    { removed: 'a', before: 'same' },
    { made: 'a', before: 'same' },
    { ...file, before: { ...earlier, kept: 'archive:../../other' } },
    { ...file, before: { ...earlier, kept: 'elsewhere' } },
    { removed: '../a', before: null },
    { made: '..' }
  ]) {
    writeFileSync(path, lines([...good, hostile]))
    await t.rejects(read(), { code: 'torn_manifest' }, JSON.stringify(hostile))
  }
})

t.test('writes what a file was only once if that is what it is', async t => {
  const path = join(t.testdir(), 'x.manifest')
  const entry = { size: 1, mode: 0o100644, sha256: 'ab'.repeat(32), mtimeMs: 1700000000000.25 }
  const whole = (before: object) => ({ path: 'a', ...entry, ino: 5, before: { ...entry, ...before } })
  const untimed = { size: 1, mode: 0o100644, sha256: 'ab'.repeat(32) }
  const others: ManifestLine[] = [
    ...[{ size: 2 }, { mode: 0o100600 }, { sha256: 'cd'.repeat(32) }, { mtimeMs: 1700000000000 }],
    ...[{ kept: 'before' as const }, { owner: { uid: 1, gid: 1 } }, { gid: 1 }]
  ].map(whole)
  const lines: ManifestLine[] = [
    ...[whole({}), { ...whole({}), gid: 7 }, { path: 'a', ...untimed, before: untimed }],
    ...[...others, { ...whole({}), before: null }, { removed: 'r', before: entry }, { made: 'd', before: entry }]
  ]
  const texts = lines.map(formatLine)
  writeFileSync(path, texts.join(''))
  const read: ManifestLine[] = []
  for await (const line of readManifestLines(path)) read.push(line)
  t.strictSame(read, lines)
  t.strictSame(
    texts.flatMap((text, at) => (text.includes(',"before":"same"') ? [at] : [])),
    [0, 1, 2]
  )
})
