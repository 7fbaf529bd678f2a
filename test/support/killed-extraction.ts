/* A process that extracts, and kills itself at the n-th call to the disk; or, for `threads`, waits to be killed. */
import { extractArchive } from '../../lib/deploy/extract.js'
import { createExtractThreads } from '../../lib/deploy/extract-threads.js'
import { runExtraction } from '../../lib/deploy/extraction.js'
import { disk as realDisk, type Disk } from '../../lib/target/disk.js'

const [archivePath, target, deployments, n] = process.argv.slice(2) as [string, string, string, string]
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
  await extractArchive(createExtractThreads(), { archivePath, target, deployId: 'dep_killed', home: { deployments }, limits, signal })
} else {
  const job = { archivePath, target, deployId: 'dep_killed', deployments, umask: process.umask(), limits }
  await runExtraction(job, disk, () => {})
}
