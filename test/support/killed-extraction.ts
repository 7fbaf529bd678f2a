/*
 * A process that extracts, and kills itself at the n-th call to the disk; or, for `threads`, waits to be killed. With a
 * fifth argument the extraction stays open, and is then left, settled or reverted. OWNERSHIP contains what it is told.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { extractArchive } from '../../lib/core/install/unpack/extract.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { filesAt, runExtraction } from '../../lib/core/install/unpack/extraction.js'
import { disk as realDisk, type Disk } from '../../lib/core/install/disk.js'
import { journalAt } from '../../lib/core/install/journal.js'
import type { Ownership } from '../../lib/core/install/ownership.js'
import { parseManifest } from '../../lib/core/install/manifest.js'
import { type PlacedDecision, recover } from '../../lib/core/install/undo.js'

const [archivePath, target, deployments, n, open] = process.argv.slice(2) as [string, string, string, string, string?]
let calls = 0

const disk = new Proxy(realDisk, {
  get(real, name) {
    const call = real[name as keyof Disk] as (...args: unknown[]) => unknown
    if (typeof call !== 'function') return call
    return (...args: unknown[]) => {
      if (++calls === Number(n)) process.kill(process.pid, 'SIGKILL')
      return call(...args)
    }
  }
})

const limits = { maxEntries: 200_000, maxExtractedBytes: 1e9 }
if (n === 'threads') {
  const signal = new AbortController().signal
  process.stdout.write('begin\n')
  await extractArchive(createExecutors(), {
    archivePath,
    target,
    deployId: 'dep_killed',
    home: { deployments },
    limits,
    signal
  })
} else {
  const staysOpen = open !== undefined
  const umask = process.umask()
  const given = process.env['OWNERSHIP']
  const told = given === undefined ? undefined : (JSON.parse(given) as Ownership)
  const ownership = told && { ...told, tree: Buffer.from(told.tree as Uint8Array) }
  const job = {
    ownership,
    target,
    deployId: 'dep_killed',
    umask,
    masksModes: false,
    limits,
    isDurable: true,
    staysOpen
  }
  const [journalPath, manifestPath] = [join(deployments, 'dep_killed.undo'), join(deployments, 'dep_killed.manifest')]
  await runExtraction(job, filesAt(disk, { archivePath, journalPath, manifestPath }), { disk })
  if (open !== undefined) {
    recover(disk, journalAt(disk, journalPath), {
      placed: open as PlacedDecision,
      files: () => parseManifest(readFileSync(manifestPath, 'utf8'))
    })
  }
}
