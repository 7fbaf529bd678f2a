import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { hasEnded, ownMark, processSpace, processStart } from '../../lib/base/process-start.js'

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

t.test('tells from its mark whether a process has ended', async t => {
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] })
  const markOf = (pid: number): string => ownMark().replace(/-\d+-\d*$/, `-${pid}-${processStart(pid) ?? ''}`)
  const mark = markOf(child.pid as number)
  t.equal(markOf(process.pid), ownMark())
  if (process.platform === 'linux') t.equal(hasEnded(mark), false)
  child.stdin.end()
  await once(child, 'close')
  t.equal(hasEnded(mark), true)
  if (process.platform === 'linux') t.equal(hasEnded(ownMark().replace(/\d+$/, '1')), true, 'its number is used again')
  for (const unknown of ['', 'x', `000000000000-${process.pid}-1`]) t.equal(hasEnded(unknown), null)
})
