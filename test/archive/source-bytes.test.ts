import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ZipSource } from '../../lib/archive/source.js'
import { blocksOf, readInto, readWhole } from '../../lib/archive/source-bytes.js'

function file(source: string | Uint8Array, more: Partial<ZipSource> = {}): ZipSource {
  return { path: 'a', kind: 'file', source, bytes: 10, mode: 0o644, mtimeMs: 0, ...more }
}

async function inBlocks(source: ZipSource): Promise<string[]> {
  const blocks: string[] = []
  for await (const block of blocksOf(source, async () => Buffer.from(new ArrayBuffer(4)))) blocks.push(block.toString())
  return blocks
}

async function into(source: ZipSource): Promise<string> {
  const room = Buffer.alloc(source.bytes + 1)
  readInto(room, source)
  return room.toString('utf8', 0, source.bytes)
}

t.test('reads a file, memory, and the first bytes of a growing file', async t => {
  const path = join(t.testdir({ a: '0123456789' }), 'a')
  for (const source of [file(path), file(Buffer.from('0123456789'))]) {
    t.equal(readWhole(source).toString(), '0123456789')
    t.equal(await into(source), '0123456789')
    t.strictSame(await inBlocks(source), ['0123', '4567', '89'])
  }
  const growing = file(path, { bytes: 5, isGrowing: true })
  t.equal(readWhole(growing).toString(), '01234')
  t.equal(await into(growing), '01234')
  t.strictSame(await inBlocks(growing), ['0123', '4'])
})

t.test('passes each piece to the listener', async t => {
  const heard: string[] = []
  const onRead = (piece: Uint8Array): void => void heard.push(Buffer.from(piece).toString())
  await inBlocks(file(Buffer.from('0123456789'), { onRead }))
  readWhole(file(Buffer.from('abc'), { onRead }))
  t.strictSame(heard, ['0123', '4567', '89', 'abc'])
})

t.test('refuses a changed file, however it is read', async t => {
  const directory = t.testdir({ a: '', d: {} })
  writeFileSync(join(directory, 'a'), '0123456789')
  const table: Array<[source: ZipSource, code: string]> = [
    [file(join(directory, 'a'), { bytes: 9 }), 'file_changed'],
    [file(join(directory, 'a'), { bytes: 11 }), 'file_changed'],
    [file(join(directory, 'd')), 'file_changed'],
    [file(join(directory, 'none')), 'file_vanished'],
    [file(join(directory, 'a/b')), 'file_vanished'],
    [file('/proc/self/mem', { mayBeExchanged: true }), process.platform === 'linux' ? 'file_changed' : 'file_vanished']
  ]
  for (const [source, code] of table) {
    const expected = { kind: 'unavailable', code, field: 'a' }
    t.throws(() => readWhole(source), expected)
    await t.rejects(into(source), expected)
    await t.rejects(inBlocks(source), expected)
  }
})
