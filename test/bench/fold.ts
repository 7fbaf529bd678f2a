/*
 * The event loop of the server while the owned tree of 200,000 files is folded with a manifest of as many files: in a
 * thread, as the server does it, and without one. The figure is the time for which the loop was busy.
 *
 *   node fold.js
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createFoldThreads, type FoldThreads } from '../../lib/core/install/owned-tree.js'
import type { ManifestFile } from '../../lib/model/manifest.js'
import { compare, machine, sized } from '../support/bench.js'

const files = sized(200_000, 500)
const filesPerDirectory = 400

function manifestLine(at: number): string {
  const file: ManifestFile = {
    path: `assets/d${String(Math.floor(at / filesPerDirectory)).padStart(3, '0')}/file-${String(at).padStart(6, '0')}.js`,
    mode: 0o100644,
    size: 2048,
    sha256: createHash('sha256').update(String(at)).digest('hex'),
    mtimeMs: 1_700_000_000_000 + at * 1000,
    ino: at + 1,
    before: null
  }
  return JSON.stringify(file)
}

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-fold-'))
const manifest = join(directory, 'manifest')
const path = join(directory, 'proj.tree')
writeFileSync(manifest, `${Array.from({ length: files }, (_, at) => manifestLine(at)).join('\n')}\n`)

/** Returns the time for which the event loop was busy during a fold, in milliseconds. */
async function busyTime(threads: FoldThreads, isAnew = false): Promise<number> {
  const before = performance.eventLoopUtilization()
  const manifests = [{ path: manifest, deployId: 'dep_1', fileCount: files }]
  await threads.run({ kind: 'fold', path, head: { deployId: 'dep_1', sequence: 1, target: '/srv' }, isAnew, manifests })
  return performance.eventLoopUtilization(before).active
}

const thread = createFoldThreads()
const none = createFoldThreads({ threadBytes: Infinity })
try {
  console.log(machine())
  await busyTime(thread, true)
  await compare({
    name: `time of the event loop for the fold of ${files} files`,
    unit: 'ms',
    contestants: { 'in a thread': () => busyTime(thread), 'without a thread': () => busyTime(none) }
  })
} finally {
  await thread.close()
  rmSync(directory, { recursive: true, force: true })
}
