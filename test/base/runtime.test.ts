import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  bunVersion,
  collectGarbage,
  createRest,
  describeRuntime,
  hasEnded,
  missingInRuntime,
  ownMark,
  processSpace,
  processStart,
  userHome
} from '../../lib/base/runtime.js'
import { until } from '../support/until.js'

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

/** A process whose memory is what `bytes` says, and that notes each collection. */
function aProcess() {
  const seen = { bytes: 100e6, collections: 0 }
  const worked = createRest({
    ms: 5,
    rssBytes: () => seen.bytes,
    collect: async () => {
      seen.collections++
      seen.bytes = 100e6
    }
  })
  return { seen, worked }
}

t.test('collects once after work that left something', async t => {
  const { seen, worked } = aProcess()
  seen.bytes = 200e6
  worked()
  await until(() => seen.collections === 1)
  for (let n = 0; n < 5; n++) {
    worked()
    await sleep(10)
  }
  t.equal(seen.collections, 1, 'not again while nothing has grown')
  seen.bytes = 150e6
  worked()
  await until(() => seen.collections === 2)
})

t.test('does nothing while there is much to do', async t => {
  const { seen, worked } = aProcess()
  seen.bytes = 200e6
  const endMs = performance.now() + 100
  while (performance.now() < endMs) {
    for (let n = 0; n < 50; n++) worked()
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal(seen.collections, 0)
  await until(() => seen.collections === 1)
})

t.test('a collection frees what nothing refers to', async t => {
  let held: object | null = { big: new Array(1e6).fill(1) }
  const weak = new WeakRef(held)
  t.ok(weak.deref())
  held = null
  await sleep(1)
  await collectGarbage()
  t.equal(weak.deref(), undefined)
})
