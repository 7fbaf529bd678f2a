import { join } from 'node:path'
import { statSync } from 'node:fs'
import t from 'tap'
import { realDisk } from '../../lib/store/disk.js'
import { encodeLine, encodeTransaction, readRedo } from '../../lib/store/redo.js'
import { openRedoFile, type RedoFile } from '../../lib/store/redo-file.js'
import { createFaultyDisk } from './stage.js'

const line = (n: number) => encodeLine(n, [encodeTransaction([{ sql: 'INSERT', values: [n] }])])
const content = (path: string) => readRedo(realDisk.read(path) as Uint8Array, path)
const numbers = (path: string) => content(path).lines.map(({ first }) => first)

async function begun(t: Scene, disk = realDisk): Promise<{ redo: RedoFile; path: string }> {
  const path = join(t.testdir(), 'svc.db.redo')
  const redo = openRedoFile({ disk, path, end: 0, torn: false })
  await redo.restart(0, 0)
  t.teardown(() => redo.close())
  return { redo, path }
}

interface Scene {
  testdir(): string
  teardown(close: () => Promise<void>): void
}

t.test('appends lines one after another into reserved room', async t => {
  const { redo, path } = await begun(t)
  const bytes = statSync(path).size
  for (let n = 1; n <= 100; n++) await redo.append(line(n))
  t.same(
    numbers(path),
    Array.from({ length: 100 }, (_, n) => n + 1)
  )
  t.equal(statSync(path).size, bytes, 'the file is no longer than before')
  t.equal(content(path).end, redo.end)
})

t.test('writes a line that is longer than the reserved room, and the lines after it', async t => {
  const { redo, path } = await begun(t)
  await redo.append(encodeLine(1, [encodeTransaction([{ sql: 'INSERT', values: ['x'.repeat(3_000_000)] }])]))
  await redo.append(line(2))
  t.same(numbers(path), [1, 2])
})

t.test('continues a log at its end and first cuts off a torn line', async t => {
  const { redo, path } = await begun(t)
  await redo.append(line(1))
  const { end } = redo
  await redo.append(line(2))
  await redo.close()
  const again = openRedoFile({ disk: realDisk, path, end, torn: true })
  await again.append(line(7))
  await again.close()
  t.same(numbers(path), [1, 7])
})

t.test('keeps the lines from a byte on when restarting', async t => {
  const { redo, path } = await begun(t)
  await redo.append(line(1))
  const from = redo.end
  await redo.append(line(2))
  await redo.append(line(3))
  await redo.restart(1, from)
  await redo.append(line(4))
  t.same(numbers(path), [2, 3, 4])
  t.equal(content(path).after, 1)
})

t.test('writes the next line at the right place after a failed append, whatever part reached the disk', async t => {
  for (const share of [0, 0.5, 1]) {
    for (const step of [1, 2]) {
      const disk = createFaultyDisk(realDisk)
      const { redo, path } = await begun(t, disk)
      await redo.append(line(1))
      Object.assign(disk, { steps: 0, failAt: step, share })
      await t.rejects(redo.append(line(2)), { code: 'EIO' })
      await redo.append(line(2))
      t.same(numbers(path), [1, 2], `step ${step}, share ${share}`)
    }
  }
})

t.test('leaves a usable log if a restart fails at any step', async t => {
  for (let step = 1; ; step++) {
    const disk = createFaultyDisk(realDisk)
    const { redo, path } = await begun(t, disk)
    const from = redo.end
    await redo.append(line(1))
    Object.assign(disk, { steps: 0, failAt: step })
    const isDone = await redo.restart(0, from).then(
      () => disk.steps < step,
      () => false
    )
    disk.failAt = 0
    await redo.append(line(2))
    t.same(numbers(path), [1, 2], `step ${step}`)
    if (isDone) break
  }
})

t.test('writes a line into existing room on a full disk', async t => {
  const disk = createFaultyDisk(realDisk)
  const { redo, path } = await begun(t, disk)
  // Two steps make the room smaller than usual: after the long line, nothing can be reserved.
  Object.assign(disk, { steps: 0, failAt: 2, code: 'ENOSPC' })
  await redo.append(encodeLine(1, [encodeTransaction([{ sql: 'INSERT', values: ['x'.repeat(2_000_000)] }])]))
  disk.failAt = 0
  await redo.append(line(2))
  t.same(numbers(path), [1, 2])
})
