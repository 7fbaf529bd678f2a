import t from 'tap'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { treeOfKept } from '../../../lib/core/archive/pack-set.js'
import { type Files, stageAssembly } from '../../support/assembly-stage.js'
import { edited, leb, sumsOf } from '../../support/patched.js'
import { createRandom } from '../../support/random.js'

const unlimited = { maxEntries: Infinity, maxExtractedBytes: Infinity }
const treeOf = async (path: string) => (await treeOfKept(path, unlimited, new AbortController().signal)).treeSha256

function bytesOf(seed: number, length: number): Buffer {
  const random = createRandom(seed)
  return Buffer.from(Array.from({ length }, () => random.below(256)))
}

t.test('differences within files make the archive that whole files make', async t => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = createRandom(seed)
    const { top, keep, push } = await stageAssembly(t, random.oneOf([0, Infinity]))
    const before: Record<string, Buffer> = {}
    for (const path of ['a.txt', 'b/c.png', 'b/ü', 'z'])
      before[path] = bytesOf(random.below(1000), random.oneOf([0, 1, 5000, 30_000]))
    const after: Files = { moved: before['a.txt'] as Buffer, new: 'new' }
    for (const [path, contents] of Object.entries(before))
      after[path] = random.oneOf([contents, edited(random, contents), { link: 'new' }, 'other'])
    await keep(before)
    const { to, treeSha256, came, patched, sent } = await push(after, undefined, { isPatched: true })
    t.equal(await treeOf(to), treeSha256, `seed ${seed}`)
    t.equal(came, sent + patched)
    t.strictSame(
      readdirSync(top).filter(name => /rebuilt|earlier/.test(name)),
      [],
      'nothing stays beside it'
    )
  }
})

t.test('files of any size, and those that are stored', async t => {
  const { keep, push } = await stageAssembly(t)
  const sizes = { small: 600_000, 'large.txt': 1_500_000, 'stored.png': 1_200_000, 'shrinks.bin': 900_000 }
  const before = Object.fromEntries(Object.entries(sizes).map(([path, size], at) => [path, bytesOf(at, size)]))
  const middle = (contents: Buffer): Buffer =>
    Buffer.concat([contents.subarray(400_000), Buffer.from('new'), contents.subarray(0, 300_000)])
  const after = Object.fromEntries(Object.entries(before).map(([path, contents]) => [path, middle(contents)]))
  await keep(before)
  const one = await push(after, undefined, { isPatched: true })
  t.equal(await treeOf(one.to), one.treeSha256)
  t.strictSame([one.came, one.patched, one.sent], [4, 4, 0])
  await t.rejects(
    push(after, sent => (sent.maxArchiveBytes = 500_000), { isPatched: true }),
    { code: 'too_large' }
  )
})

t.test('sums are those of the contents, and only those of files', async t => {
  const { base, thread, keep } = await stageAssembly(t)
  const [a, z] = [bytesOf(1, 1000), bytesOf(2, 700_000)]
  await keep({ a, b: { link: 'a' }, 'c/': '', z })
  t.strictSame(Buffer.from(await thread.readSums(base, [2, 0])), Buffer.concat([sumsOf(z), sumsOf(a)]))
  for (const line of [1, 3, 200_000]) {
    const message = new RegExp(`"lines" has ${line}: the tree of the release has no file in this line`)
    await t.rejects(thread.readSums(base, [0, line]), { code: 'invalid_field', message })
  }
  await t.rejects(thread.readSums(base, Array<number>(1600).fill(2)), {
    code: 'invalid_field',
    message: /more than 1.0 GB in total/
  })
  writeFileSync(base.archive, readFileSync(base.archive).fill('x', 50, 60))
  await t.rejects(thread.readSums(base, [0]), { code: 'base_gone' }, 'a damaged release')
})

t.test('refuses differences that are not those of the tree, and makes nothing', async t => {
  const { top, place, base, keep, push } = await stageAssembly(t)
  await keep({ a: bytesOf(1, 5000), b: bytesOf(2, 5000), 'c.txt': 'earlier', link: { link: 'a' } })
  const files = { a: bytesOf(3, 6000), b: bytesOf(4, 5000), 'c.txt': 'earlier', link: 'no link', new: 'x' }
  const empty = Buffer.alloc(0)
  const copied = leb(0, 5000, 0)
  const hostile: Record<
    string,
    [(sent: Parameters<NonNullable<Parameters<typeof push>[1]>>[0]) => void, { code: string; message?: RegExp }]
  > = {
    'other contents than the tree names': [
      sent => (sent.patches = Buffer.concat([leb(1), copied])),
      { code: 'assembly_differs', message: /"b": the differences that were sent do not make it. Push again/ }
    ],
    'too few contents': [sent => (sent.patches = Buffer.concat([leb(0), copied])), { code: 'invalid_patch' }],
    'a line that the delta does not have': [
      sent => (sent.patches = Buffer.concat([leb(4), copied])),
      { code: 'invalid_patch', message: /line 4 of the changes is not a file that the earlier release has/ }
    ],
    'a file that is new': [
      sent => (sent.patches = Buffer.concat([leb(3), leb(1), Buffer.from('x'), leb(0)])),
      { code: 'invalid_patch', message: /line 3/ }
    ],
    'a file that was a link': [
      sent => (sent.patches = Buffer.concat([leb(2), leb(7), Buffer.from('no link'), leb(0)])),
      { code: 'invalid_patch', message: /line 2/ }
    ],
    'a file that came whole, too': [
      sent => void sent.paths.add('b'),
      { code: 'invalid_patch', message: /"b" came whole, too/ }
    ],
    'not all of the files': [
      sent => (sent.patches = empty),
      { code: 'assembly_incomplete', message: /2 files: "a", "b"/ }
    ],
    'no entry of this name': [
      sent => (sent.name = 'other'),
      { code: 'invalid_patch', message: /does not contain "other"/ }
    ],
    'an entry that nobody names': [
      sent => (sent.name = undefined),
      { code: 'assembly_differs', message: /".patches"/ }
    ],
    'the name of a file of the tree': [
      sent => (sent.name = 'new'),
      { code: 'invalid_patch', message: /"new" is a file of the tree/ }
    ],
    'more than is held in memory': [
      sent => (sent.patches = Buffer.alloc(33 * 1024 * 1024)),
      { code: 'invalid_patch', message: /they have more than 32 MB/ }
    ],
    'bytes after the last one': [
      sent => (sent.patches = Buffer.concat([sent.patches as Buffer, Buffer.from([0x80])])),
      { code: 'invalid_patch', message: /end in the middle/ }
    ]
  }
  for (const [what, [spoil, refusal]] of Object.entries(hostile)) {
    await t.rejects(push(files, spoil, { isPatched: true }), refusal, what)
    t.notOk(existsSync(place('whole.zip')))
    t.strictSame(
      readdirSync(top).filter(name => /rebuilt|earlier|whole/.test(name)),
      [],
      'nothing stays'
    )
  }
  t.equal((await push(files, undefined, { isPatched: true })).patched, 2)
  const damage = (): void => writeFileSync(base.archive, readFileSync(base.archive).fill('x', 50, 60))
  await t.rejects(push(files, damage, { isPatched: true }), { code: 'base_gone' }, 'the earlier release is damaged')
})
