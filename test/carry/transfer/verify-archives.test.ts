import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { besideArchive } from '../../../lib/core/archive/pack-set.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { Packs } from '../../../lib/deploy/packs.js'
import { verifyArchives } from '../../../lib/carry/transfer/verify-archives.js'
import { sharedArchives } from '../../support/shared-archive.js'

const limits = { maxEntries: 100, maxExtractedBytes: 1e6 }

/** Flips a bit of the contents of an entry. */
async function spoil(path: string, name: string): Promise<() => void> {
  const archive = await openArchive(path, limits)
  const entry = archive.entries.find(each => each.path === name)
  archive.close()
  const saved = readFileSync(path)
  const bytes = Buffer.from(saved)
  const at = (entry?.limitOffset ?? 0) - 20
  bytes.writeUInt8((bytes[at] as number) ^ 4, at)
  writeFileSync(path, bytes)
  return () => writeFileSync(path, saved)
}

t.test('a flipped bit is found, and every release that it affects is named', async t => {
  const { top, add, pathOf } = await sharedArchives(t)
  const directory = join(top, 'deployments')
  const text = (word: string): string => Array.from({ length: 300 }, (_, n) => `${word}${n * 7919}`).join(' ')
  const [first, second, third, fourth] = [
    (await add({ a: text('a'), b: text('b') })).id,
    (await add({ a: text('a'), b: text('other') })).id,
    (await add({ a: text('a'), b: text('other'), c: text('c') })).id,
    (await add({ a: text('new'), b: text('other') })).id
  ]
  t.match(await verifyArchives(directory), [{ check: 'archives', level: 'ok', message: /4 archives$/ }])

  const mend = await spoil(pathOf(first), 'a')
  const found = await verifyArchives(directory)
  t.match(found, [{ level: 'error', id: first, message: /"a"/, next: /./ }])
  for (const id of [first, second, third]) t.match(found[0]?.message, id)
  t.notMatch(found[0]?.message, fourth, 'it has other contents')
  mend()

  const mendPack = await spoil(besideArchive(pathOf(second), 'pack'), 'b')
  const [damaged] = await verifyArchives(directory)
  t.match(
    damaged?.message,
    new RegExp(`^"${second}.pack" is damaged: .*Affected releases: ${second}, ${third}, ${fourth}$`)
  )
  mendPack()

  const packs = new Packs(directory)
  await packs.remove(first)
  t.match(await verifyArchives(directory), [{ level: 'ok', message: /3 archives$/ }], 'what is left of it is read')
  rmSync(besideArchive(pathOf(first), 'pack'))
  t.match(
    await verifyArchives(directory),
    [{ id: second, message: /it is missing/ }, { id: third }],
    'and it is missed'
  )
  writeFileSync(besideArchive(pathOf(fourth), 'index'), 'no index')
  t.equal((await verifyArchives(directory)).length, 3)
})

t.test('a directory without archives is intact', async t => {
  t.match(await verifyArchives(join(t.testdir({}), 'none')), [{ level: 'ok', message: /0 archives/ }])
})
