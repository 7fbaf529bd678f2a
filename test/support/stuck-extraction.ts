/* A process whose extraction is stuck in a system call and is cancelled. It has no other work and must end. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { extractArchive } from '../../lib/core/install/unpack/extract.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { nothingIsSmall } from './extraction.js'

const [archivePath, target, deployments, deployId] = process.argv.slice(2) as [string, string, string, string]
process.on('SIGTERM', () => process.stdout.write('a listener for signals\n'))
const controller = new AbortController()
const staged = join(target, `.svc-staging-${deployId}`, 'files/f0')
const looking = setInterval(() => {
  // Its only file is staged, so nothing asks for the abort before the list of files is opened, which is a pipe.
  if (!existsSync(staged)) return
  clearInterval(looking)
  controller.abort(new Error('cancelled'))
}, 10)
const limits = { maxEntries: 200_000, maxExtractedBytes: 1e9 }
const threads = createExecutors({ small: nothingIsSmall, graceMs: 100 })
await extractArchive(threads, {
  archivePath,
  target,
  deployId,
  home: { deployments },
  limits,
  signal: controller.signal
}).catch((error: Error) => process.stdout.write(`${error.message}\n`))
await threads.close()
