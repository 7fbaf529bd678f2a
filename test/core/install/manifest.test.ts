import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compareManifests, readManifest } from '../../../lib/core/install/manifest.js'

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
    { ...file, before: { ...earlier, kept: 'archive:../../other' } },
    { ...file, before: { ...earlier, kept: 'elsewhere' } },
    { removed: '../a', before: null },
    { made: '..' }
  ]) {
    writeFileSync(path, lines([...good, hostile]))
    await t.rejects(read(), { code: 'torn_manifest' }, JSON.stringify(hostile))
  }
})
