import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import t from 'tap'
import { membersOf } from '../../lib/proc/processes.js'

t.test(
  'a session contains its leader, and jobs in groups of their own',
  { skip: !existsSync('/proc/self/stat') && 'there is no /proc' },
  async t => {
    // `set -m` gives each job a process group.
    const shell = spawn('sh', ['-c', 'set -m; sleep 1000 & echo $!; wait'], {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore']
    })
    t.teardown(() => membersOf(shell.pid as number).forEach(pid => process.kill(pid, 'SIGKILL')))
    const [line] = await once(shell.stdout, 'data')
    t.same(membersOf(shell.pid as number).sort(), [shell.pid, Number(line)].sort())
    t.notOk(membersOf(shell.pid as number).includes(process.pid), 'this process is in another session')
  }
)

t.test('a session that does not exist is empty', async t => {
  t.same(membersOf(2 ** 30), [])
})
