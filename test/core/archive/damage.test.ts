import t from 'tap'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findDamage } from '../../../lib/core/archive/damage.js'
import { besideArchive } from '../../../lib/core/archive/pack-set.js'
import { Packs } from '../../../lib/deploy/packs.js'
import { sharedArchives, spoil } from '../../support/shared-archive.js'

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
  t.same(await findDamage(directory), { archives: 4, damages: [] })

  const mend = await spoil(pathOf(first), 'a')
  const { damages } = await findDamage(directory)
  t.match(damages, [{ deployId: first, message: /"a"/, releases: [first, second, third] }], 'the fourth has others')
  mend()

  const mendPack = await spoil(besideArchive(pathOf(second), 'pack'), 'b')
  const [damaged] = (await findDamage(directory)).damages
  t.match(
    damaged?.message,
    new RegExp(`^"${second}.pack" is damaged: .*Affected releases: ${second}, ${third}, ${fourth}$`)
  )
  mendPack()

  const packs = new Packs(directory)
  await packs.remove(first)
  t.same(await findDamage(directory), { archives: 3, damages: [] }, 'what is left of it is read')
  rmSync(besideArchive(pathOf(first), 'pack'))
  t.match(
    (await findDamage(directory)).damages,
    [{ releases: [second], message: /it is missing/ }, { releases: [third] }],
    'and it is missed'
  )
  writeFileSync(besideArchive(pathOf(fourth), 'index'), 'no index')
  t.equal((await findDamage(directory)).damages.length, 3)
})

t.test('a directory without archives is intact', async t => {
  t.same(await findDamage(join(t.testdir({}), 'none')), { archives: 0, damages: [] })
})
