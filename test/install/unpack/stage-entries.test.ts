import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { extractionStage } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'

/** More files than fit in one batch, and two that are read in pieces. */
const files = [
  ...Array.from({ length: 200 }, (_, index) => ({
    name: `f${index}`,
    data: `small ${index}`,
    method: index % 2 === 0 ? 8 : 0
  })),
  { name: 'stored', data: Buffer.alloc(1_500_000, 's') },
  { name: 'deflated', data: Buffer.alloc(1_500_000, 'd'), method: 8 }
]

t.test('stages every file of an archive, small and large', async t => {
  const stage = extractionStage(t.testdir({}))
  stage.put(makeZip(files))
  const { changedCount } = await stage.run()
  t.equal(changedCount, files.length)
  for (const { name, data } of files) t.ok(readFileSync(join(stage.target, name)).equals(Buffer.from(data)))
})

t.test('can be aborted between files and within a large one, and leaves the target unchanged', async t => {
  const stage = extractionStage(t.testdir({}))
  stage.put(makeZip(files))
  const before = stage.state()
  for (const after of [1, 150, 205]) {
    let calls = 0
    const check = (): void => {
      if (++calls > after) throw new Error('enough')
    }
    await t.rejects(stage.run({ check }), { message: 'enough' }, `after ${after} calls`)
    t.strictSame(stage.state(), before)
  }
})
