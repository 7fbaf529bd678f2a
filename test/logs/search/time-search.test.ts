import { writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { seekTime } from '../../../lib/logs/search/time-search.js'

/** A log on the disk. Returns the line at or after a time. */
async function fileOf(t: Test, lines: string[]) {
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, lines.map(line => `${line}\n`).join(''))
  const handle = await open(path)
  t.teardown(() => handle.close())
  const { size } = await handle.stat()
  let looked = 0
  const timeOf = (line: string): number | null => {
    looked++
    return /^\d+/.test(line) ? Number.parseInt(line, 10) : null
  }
  return {
    looked: () => looked,
    async lineAt(atMs: number): Promise<string | null> {
      const offset = await seekTime({ handle, size }, { atMs, timeOf, signal: new AbortController().signal })
      if (offset === size) return null
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(100), 0, 100, offset)
      return buffer.toString('utf8', 0, bytesRead).split('\n')[0] ?? null
    }
  }
}

t.test('finds the first line at or after a time anywhere in a large file by reading few lines', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 200_000 }, (_, index) => `${String(index * 10).padStart(8, '0')} some words`)
  )
  for (const [atMs, expected] of [
    [-1, '00000000'],
    [0, '00000000'],
    [5, '00000010'],
    [123_450, '00123450'],
    [1_999_990, '01999990']
  ] as const) {
    t.equal((await file.lineAt(atMs))?.slice(0, 8), expected, String(atMs))
  }
  t.equal(await file.lineAt(1_999_991), null, 'no line has this time')
  t.ok(file.looked() < 60_000, `${file.looked()} of 200,000 lines for six searches`)
})

t.test('finds every line of a file by its own time, wherever windows begin', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 9000 }, (_, index) => `${index} ${'é'.repeat(index % 37)}`)
  )
  for (let index = 0; index < 9000; index += 83) t.equal((await file.lineAt(index))?.split(' ')[0], String(index))
})

t.test('skips lines without a time', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 40_000 }, (_, index) => (index % 50 === 0 ? `${index} begins` : '    at some.frame()'))
  )
  t.equal(await file.lineAt(20_001), '20050 begins')
  t.equal(await (await fileOf(t, [])).lineAt(1), null)
})

t.test('refuses a log without times instead of searching all of it', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 1_600_000 }, () => 'no time at all')
  )
  await t.rejects(file.lineAt(1), { code: 'no_times' })
  t.ok(file.looked() < 450_000, `${file.looked()} of 1,600,000 lines`)
})

t.test('finds the first of several lines with the same time', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 30_000 }, (_, index) => `${Math.floor(index / 10_000)} line ${index}`)
  )
  t.equal(await file.lineAt(1), '1 line 10000')
  t.equal(await file.lineAt(2), '2 line 20000')
})

t.test('skips a line that is longer than the windows', async t => {
  const file = await fileOf(t, [
    ...Array.from({ length: 9000 }, (_, index) => `${index} a`),
    `9000 ${'x'.repeat(300_000)}`,
    '9001 b'
  ])
  t.equal((await file.lineAt(9000))?.slice(0, 6), '9000 x')
  t.equal(await file.lineAt(9001), '9001 b')
})

t.test('passes over any number of lines without a time', async t => {
  const dump = Array.from({ length: 20_000 }, () => `"payload": "${'QUJD'.repeat(30)}"`)
  const timed = (from: number): string[] => Array.from({ length: 1000 }, (_, index) => `${from + index} words`)
  const file = await fileOf(t, [...timed(10_000), ...dump, ...timed(20_000), ...dump])
  for (const atMs of [10_000, 10_999, 20_000, 20_500, 20_999]) {
    t.equal((await file.lineAt(atMs))?.split(' ')[0], String(atMs))
  }
  t.equal((await file.lineAt(15_000))?.split(' ')[0], '20000', 'the first line after the dump')
  t.equal(await file.lineAt(30_000), null)
})

t.test('finds times that are only in the middle of a log', async t => {
  const dump = Array.from({ length: 10_000 }, () => `"payload": "${'QUJD'.repeat(30)}"`)
  const timed = Array.from({ length: 1000 }, (_, index) => `${10_000 + index} words`)
  const file = await fileOf(t, [...dump, ...timed, ...dump, ...dump])
  t.equal(await file.lineAt(10_500), '10500 words')
  t.equal(await file.lineAt(1), '10000 words')
  t.equal(await file.lineAt(20_000), null)
})
