import {
  chmodSync,
  linkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
  openSync,
  closeSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ZipSource } from '../../lib/archive/source.js'
import { blocksOf, readInto, readWhole, withFile } from '../../lib/archive/source-bytes.js'

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

t.test('refuses a file that is written with the same size while it is read', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const rewrite = (): void => {
    const fd = openSync(path, 'r+')
    writeSync(fd, '9876543210')
    closeSync(fd)
  }
  const table: Array<[what: string, change: () => void, isRefused: boolean]> = [
    ['rewritten in place', rewrite, true],
    [
      'rewritten, and its time set back',
      () => {
        const { atime, mtime } = statSync(path)
        rewrite()
        utimesSync(path, atime, mtime)
      },
      true
    ],
    [
      'replaced by a new file',
      () => (writeFileSync(`${path}.new`, '9876543210'), renameSync(`${path}.new`, path)),
      false
    ],
    ['linked', () => linkSync(path, `${path}.linked`), false],
    ['with another mode', () => chmodSync(path, 0o600), false]
  ]
  const long = new Date(1e12)
  for (const [what, change, isRefused] of table) {
    const prepared = (): void => {
      writeFileSync(path, '0123456789')
      utimesSync(path, long, long)
      chmodSync(path, 0o644)
      rmSync(`${path}.linked`, { force: true })
      // File systems note times in ticks of some milliseconds.
      do writeFileSync(`${path}.tick`, '')
      while (statSync(`${path}.tick`).ctimeMs === statSync(path).ctimeMs)
    }
    prepared()
    const blocks: string[] = []
    const reading = (async () => {
      for await (const block of blocksOf(file(path), async () => Buffer.from(new ArrayBuffer(4)))) {
        if (blocks.push(block.toString()) === 1) change()
      }
    })()
    if (isRefused) await t.rejects(reading, { code: 'file_changed', field: 'a' }, what)
    else await t.resolves(reading, what)
    prepared()
    const read = (): string => withFile(file(path), fd => (change(), String(fd > 0)))
    if (isRefused) t.throws(read, { code: 'file_changed', field: 'a' }, what)
    else t.equal(read(), 'true', what)
    if (!isRefused) t.equal(blocks.join(''), '0123456789', what)
  }
})
