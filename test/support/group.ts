/*
 * `node group.js <file> …` runs test files in this process, one after the other. To start Node and to load tap takes
 * longer than most test files, so one process runs many of them.
 *
 * Each file is a subtest of the file's name. A file writes `t.test(…)` on the one `t` of the process; while the file
 * runs, `t` is its subtest, so its directories, teardowns and settings are its own.
 */
import { relative, resolve } from 'node:path'
import { processorSeconds } from './processor-time.js'
import { closeShared, share } from './shared-in-process.js'
import { withoutDomains } from './without-domains.js'

withoutDomains()
const { default: t } = await import('tap')

const timeoutMs = Number(process.env['TAP_TIMEOUT']) * 1000
const files = process.argv.slice(2)
/** Time that what is open at the end has to close. */
const lingerMs = 60_000
/** Members of `t` that test files use at their top level, directly or through a function. */
const members = [
  'test',
  'teardown',
  'before',
  'comment',
  'jobs',
  'setTimeout',
  'testdir',
  'ok',
  'equal',
  'fail'
] as const

type Root = typeof t
let current: Root = t

function redirect(): void {
  for (const member of members) {
    const own = t[member]
    Object.defineProperty(t, member, {
      get: () => {
        if (current === t) return own
        const value: unknown = current[member]
        return typeof value === 'function' ? value.bind(current) : value
      },
      set: (value: never) => (current[member] = value)
    })
  }
}

function innermost(test: Root): Root {
  const [active] = (test as Partial<Root>).activeSubtests ?? []
  return active === undefined ? test : innermost(active as Root)
}

t.setTimeout(0)
const runTest = t.test.bind(t)
redirect()
share()
// An error that nothing catches fails the test that runs, and the files after it still run.
process.setUncaughtExceptionCaptureCallback(error => innermost(current).threw(error))
for (const file of files) {
  const before = processorSeconds()
  const beforeHere = process.cpuUsage()
  await runTest(file, { timeout: timeoutMs }, async subtest => {
    current = subtest as unknown as Root
    // As if the file were the program: a socket in it has a path of at most 107 bytes.
    subtest.testdirName = resolve('.tap/fixtures', relative('.', file).replaceAll('/', '-'))
    await import(resolve(file))
  })
  current = t
  const here = process.cpuUsage(beforeHere)
  const seconds = processorSeconds() - before
  const ofChildren = Math.max(0, seconds - (here.user + here.system) / 1e6)
  t.comment(`processor time ${seconds.toFixed(2)} s ${file}, ${ofChildren.toFixed(2)} s of it in other processes`)
}
await closeShared()
// A process that a failed test left behind would keep this one alive, and every file of the group without a result.
setTimeout(() => {
  console.error(`${files[0]}: open at the end: ${process.getActiveResourcesInfo().join(' ')}`)
  process.exit(1)
}, lingerMs).unref()
