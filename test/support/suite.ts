import { statSync } from 'node:fs'
import { env, execPath, stderr } from 'node:process'
import t from 'tap'
import { bare } from './bare.js'

/*
 * `node suite.js <jobs> <file> …` runs test files, so many at once, and writes their TAP as `tap run` would; what it
 * says meanwhile goes to stderr. Each is a bare Node here: `tap run` loads its watch over every module (for coverage,
 * which nobody asks for) into all of them, and shows each assertion anew, which together took two thirds of the time of
 * a small test.
 */

/** Of one file: more than ten times what the slowest takes on two idle cores. */
const timeoutSeconds = 400

const [jobs, ...files] = process.argv.slice(2)

const isOfBrowser = (file: string): boolean => file.includes('/browser/')

/**
 * Large files first, as they take longest, so that none is waited for at the end; those with a browser, which keep both
 * cores busy alone, spread among the others, so that few of them run at once.
 */
function ordered(files: readonly string[]): string[] {
  const bySize = files.map(file => ({ file, size: statSync(file).size })).sort((a, b) => b.size - a.size).map(({ file }) => file)
  const [browsers, others] = [bySize.filter(isOfBrowser), bySize.filter(file => !isOfBrowser(file))]
  const gap = Math.floor(others.length / (browsers.length + 4))
  return [...browsers.flatMap((file, index) => [file, ...others.slice(index * gap, (index + 1) * gap)]), ...others.slice(browsers.length * gap)]
}

// Data directories that a group may write to are refused: tests make theirs as most machines do.
process.umask(0o022)
t.jobs = Number(jobs)
t.setTimeout(0)
t.plan(files.length)
let done = 0
const runs: Array<ReturnType<typeof t.spawn>> = []
for (const file of ordered(files)) {
  const run = t.spawn(...bare(execPath, [file]), {
    name: file,
    buffered: true,
    timeout: timeoutSeconds * 1000,
    // tap would remove a test's directory before what runs in it is stopped.
    env: { ...env, TAP_SAVE_FIXTURE: '1', TAP_TIMEOUT: String(timeoutSeconds) }
  })
  runs.push(run)
  void run.then(results => tell(file, results?.ok === true))
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    for (const { subtest } of runs) subtest?.proc?.kill('SIGTERM')
    process.kill(process.pid, signal)
  })
}

function tell(file: string, isOk: boolean): void {
  const count = `${++done} of ${files.length}`
  if (!isOk) stderr.write(`${stderr.isTTY ? '\r\x1b[K' : ''}failed: ${file}\n`)
  if (stderr.isTTY) stderr.write(`\r\x1b[K${done === files.length ? '' : count}`)
  else if (done % 50 === 0 || done === files.length) stderr.write(`${count}\n`)
}
