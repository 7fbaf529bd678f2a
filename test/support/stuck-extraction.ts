/* A process whose extraction is stuck in a system call, and cancelled; it has nothing to do then, and must end. */
import { extractArchive } from '../../lib/deploy/extract.js'
import { createExtractThreads } from '../../lib/deploy/extract-threads.js'

const [archivePath, target, deployments, deployId] = process.argv.slice(2) as [string, string, string, string]
process.on('SIGTERM', () => process.stdout.write('a listener for signals\n'))
const controller = new AbortController()
setTimeout(() => controller.abort(new Error('cancelled')), 300)
const limits = { maxEntries: 200_000, maxExtractedBytes: 1e9 }
const threads = createExtractThreads({ graceMs: 100 })
await extractArchive(threads, { archivePath, target, deployId, home: { deployments }, limits, signal: controller.signal })
  .catch((error: Error) => process.stdout.write(`${error.message}\n`))
await threads.close()
