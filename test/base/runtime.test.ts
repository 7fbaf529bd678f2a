import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import {
  bunVersion,
  describeRuntime,
  hasEnded,
  missingInRuntime,
  ownMark,
  processSpace,
  processStart,
  userHome
} from '../../lib/base/runtime.js'

t.test('names the runtime with its version, and lacks nothing', async t => {
  // Bun: make runtimes.
  t.same(describeRuntime(), { name: 'node', version: process.version })
  t.equal(bunVersion, undefined)
  t.same(missingInRuntime, { terminal: null })
})

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

t.test('returns the home directory, or a place where nothing exists', async t => {
  t.match(userHome(), /^\//)
  if (process.getuid?.() !== 0) return t.comment('not without an entry in /etc/passwd: this needs root')
  const module = fileURLToPath(new URL('../../lib/base/runtime.js', import.meta.url))
  const code = `import(${JSON.stringify(module)}).then(m => { process.setuid(54321); console.log(m.userHome()) })`
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', code], { env: {}, encoding: 'utf8' })
  t.equal(stdout, '/dev/null\n', stderr)
})
