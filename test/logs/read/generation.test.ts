import { appendFileSync, truncateSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createGeneration, markOf } from '../../../lib/logs/read/generation.js'

async function follow(t: Test, before: string, offset = 0) {
  const path = join(t.testdir({}), 'app.log')
  writeFileSync(path, before)
  const handle = await open(path)
  const contents = { handle, size: before.length, isCompressed: false, release: () => handle.close() }
  const mark = Buffer.from(before.slice(0, offset))
  const generation = createGeneration({ identity: 'file', contents, offset, mark, mtimeMs: 7 })
  t.teardown(() => generation.release())
  return { path, generation }
}

t.test('returns lines when they end, and an incomplete line as the rest', async t => {
  const { path, generation } = await follow(t, 'one\ntwo\nhal')
  t.same(await generation.read(), { lines: ['one', 'two'], isEnd: true })
  t.equal(generation.offset, 11)
  t.equal(generation.place().offset, 8)
  appendFileSync(path, 'f\n')
  t.same(await generation.read(), { lines: ['half'], isEnd: true })
  appendFileSync(path, 'rest')
  t.same(await generation.read(), { lines: [], isEnd: true })
  t.same(generation.rest(), ['rest'])
})

t.test('continues in the middle of a line whose beginning was shown', async t => {
  const { generation } = await follow(t, 'shown\nnew\n', 5)
  t.same((await generation.read())?.lines, ['new'], 'the end of a line that was shown is not a line')
})

t.test('detects a rewritten file, even if it is longer than before', async t => {
  const { path, generation } = await follow(t, 'old line\n')
  await generation.read()
  truncateSync(path, 0)
  writeFileSync(path, 'other contents, and more of them\n')
  t.equal(await generation.read(), null)
})

t.test('returns a long file in several reads', async t => {
  const { generation } = await follow(t, 'x'.repeat(99).concat('\n').repeat(5000))
  let lines = 0
  for (let isEnd = false; !isEnd; ) {
    const read = await generation.read()
    lines += read?.lines.length ?? 0
    isEnd = read?.isEnd ?? true
  }
  t.equal(lines, 5000)
})

t.test('its place is after the last whole line, with the checksum of the 64 bytes before it', async t => {
  const text = `${'é'.repeat(100)}\nshort\n`
  const { path, generation } = await follow(t, '')
  for (const byte of Buffer.from(`${text}${'x'.repeat(300)}`)) {
    appendFileSync(path, Buffer.from([byte]))
    await generation.read()
  }
  const place = { offset: Buffer.byteLength(text), identity: 'file', mark: markOf(Buffer.from(text)), mtimeMs: 7 }
  t.same(generation.place(), place)
  t.same(generation.rest(), ['x'.repeat(300)])
  t.match(generation.place(), { offset: place.offset + 300, mark: markOf(Buffer.from('x'.repeat(64))) })
})
