import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Refusal } from '../../../lib/base/errors.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { readSettings, writeSetting } from '../../../lib/core/store/tables/server.js'
import { onDisk } from './stage.js'

const sizeKiB = 4096

/** Returns a small disk, or the reason why there is none. */
function mountSmallDisk(): { directory: string; unmount(): void } | string {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root on Linux can mount a small disk'
  const directory = mkdtempSync(join(tmpdir(), 'svc-full-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeKiB}k,mode=700`, 'tmpfs', directory], { stdio: 'pipe' })
  } catch (error) {
    rmSync(directory, { recursive: true })
    return `a small disk cannot be mounted here (${(error as Error).message.split('\n').at(-2)})`
  }
  return {
    directory,
    unmount() {
      execFileSync('umount', ['-l', directory])
      rmSync(directory, { recursive: true })
    }
  }
}

const disk = mountSmallDisk()

t.test(
  'refuses writes on a really full disk, keeps acknowledged ones, and recovers when there is space',
  { skip: typeof disk === 'string' && disk },
  async t => {
    if (typeof disk === 'string') return
    t.teardown(() => disk.unmount())
    const { directory } = disk
    const store = await openStore({ directory })
    const ballast = join(directory, 'ballast')
    writeFileSync(ballast, Buffer.alloc(1024 * 1024))
    const acknowledged: string[] = []
    let refusal: Refusal | undefined
    for (let n = 0; n < 200 && refusal === undefined; n++) {
      await store
        .write(tx => writeSetting(tx, `k${n}`, 'x'.repeat(100_000)))
        .then(
          () => acknowledged.push(`k${n}`),
          error => (refusal = error)
        )
    }
    t.ok(acknowledged.length > 5, `${acknowledged.length} writes went through`)
    t.match(refusal, { name: 'Refusal', code: 'disk_full' })
    t.match(store.state(), { ok: false, error: 'no space left on device' })
    t.same(Object.keys(readSettings(store)).sort(), [...acknowledged].sort(), 'memory contains the acknowledged writes')
    t.same(
      Object.keys((await onDisk(directory)).settings).sort(),
      [...acknowledged].sort(),
      'the disk contains them too'
    )

    rmSync(ballast)
    await store.write(tx => writeSetting(tx, 'after', 'x'))
    t.equal(store.state().ok, true)
    await store.close()
    const again = await openStore({ directory })
    t.same(Object.keys(readSettings(again)).sort(), [...acknowledged, 'after'].sort())
    await again.close()
  }
)
