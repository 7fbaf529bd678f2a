import t from 'tap'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { discardFiles } from '../../lib/install/discard.js'
import { disk, type Disk } from '../../lib/install/disk.js'

function filled(directory: string, files: number): string {
  const path = join(directory, 'aside')
  mkdirSync(path)
  for (let i = 0; i < files; i++) writeFileSync(join(path, String(i)), 'x')
  return path
}

/** Each call takes some time, as on a slow disk. */
function slow(): { disk: Disk; abreast(): number } {
  let [running, most] = [0, 0]
  const unlinkSync: Disk['unlinkSync'] = path => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    disk.unlinkSync(path)
  }
  const unlink = ((path: string, done: (error: NodeJS.ErrnoException | null) => void) => {
    most = Math.max(most, ++running)
    disk.unlink(path, error => {
      running--
      done(error)
    })
  }) as unknown as Disk['unlink']
  return { disk: { ...disk, unlinkSync, unlink }, abreast: () => most }
}

t.test('removes every file, on a fast and on a slow disk', async t => {
  for (const files of [0, 1, 32, 33, 500]) {
    const quick = filled(t.testdir(), files)
    await discardFiles(disk, quick)
    t.strictSame(readdirSync(quick), [], `${files} files`)
    const waiting = slow()
    const path = filled(t.testdir(), files)
    await discardFiles(waiting.disk, path)
    t.strictSame(readdirSync(path), [], `${files} files on a slow disk`)
    t.equal(waiting.abreast(), files <= 32 ? 0 : Math.min(3, files - 32), 'several calls wait together')
  }
})

t.test('rejects if a file cannot be removed', async t => {
  const { disk } = slow()
  const unlink = ((_path: string, done: (error: Error) => void) => done(new Error('EIO'))) as unknown as Disk['unlink']
  await t.rejects(discardFiles({ ...disk, unlink }, filled(t.testdir(), 40)), { message: 'EIO' })
})
