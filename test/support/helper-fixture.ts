import { closeSync, fstatSync, openSync, readFileSync, readSync, readdirSync, writeFileSync } from 'node:fs'
import { Refusal } from '../../lib/base/errors.js'
import { runSync } from '../../lib/core/install/sync-program.js'
import { serveHelper } from '../../lib/core/proc/helper-process.js'
import { firstDescriptor } from '../../lib/core/proc/environment.js'
import { disk } from '../../lib/core/install/disk.js'
import { holdTarget } from '../../lib/core/install/held.js'

/** A helper process that does what its job says, for the tests of helper processes. */
export type Job =
  | { do: 'facts' }
  | { do: 'read'; path: string }
  | { do: 'read given' }
  | { do: 'write'; path: string }
  | { do: 'signal'; pid: number }
  | { do: 'open'; path: string }
  | { do: 'sync'; directory: string }
  | { do: 'become root' }
  | { do: 'refuse' }
  | { do: 'hang' }
  | { do: 'exit' }

serveHelper(async (job: Job): Promise<unknown> => {
  switch (job.do) {
    case 'facts':
      return {
        uid: process.getuid?.(),
        gid: process.getgid?.(),
        groups: process.getgroups?.(),
        umask: process.umask(),
        env: process.env,
        status: readFileSync('/proc/self/status', 'utf8'),
        fds: readdirSync('/proc/self/fd').map(Number)
      }
    case 'read':
      return readFileSync(job.path, 'utf8')
    case 'read given': {
      const bytes = Buffer.alloc(100)
      return bytes.toString('utf8', 0, readSync(firstDescriptor, bytes))
    }
    case 'write':
      return writeFileSync(job.path, 'written')
    case 'signal':
      return process.kill(job.pid, 0)
    case 'open': {
      const fd = openSync(job.path, 'r')
      return { fd, ino: fstatSync(fd).ino }
    }
    case 'sync':
      return runSync(holdTarget(disk, job.directory), new AbortController().signal)
    case 'become root':
      return process.setuid?.(0)
    case 'refuse':
      throw new Refusal('conflict', 'no_way', 'This cannot be done', { field: 'job' })
    case 'hang':
      for (;;) closeSync(openSync('/dev/null', 'r'))
    case 'exit':
      return process.exit(3)
  }
})
