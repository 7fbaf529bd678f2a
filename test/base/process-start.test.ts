import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { processSpace, processStart } from '../../lib/base/process-start.js'

t.test(
  'returns the start time of a process until it has ended',
  { skip: process.platform !== 'linux' && 'only Linux has /proc' },
  async t => {
    const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] })
    const pid = child.pid as number
    t.match(processStart(pid), /^\d+$/)
    t.equal(processStart(pid), processStart(pid))
    child.stdin.end()
    await once(child, 'close')
    t.equal(processStart(pid), null)
  }
)

t.test('returns the same space in all processes of this machine', async t => {
  t.match(processSpace(), /./)
  t.equal(processSpace(), processSpace())
})
