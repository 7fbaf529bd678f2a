import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { env, execPath, stderr } from 'node:process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { bare } from './bare.js'
import { inMemory } from './in-memory.js'
import { newDatabase } from './new-database.js'
import { findProgram } from './programs.js'
import { isThorough } from './thorough.js'
import { processorSeconds } from './processor-time.js'

/*
 * `node suite.js <jobs> <file> …` runs test files in groups, `jobs` groups at once, and writes one TAP stream;
 * progress goes to stderr. Each group is one bare Node (group.js). `tap run` would start a process per file, load its
 * watch over every module into it, and print each assertion a second time: together four fifths of the time of a small
 * file.
 *
 * A file that reads or changes what belongs to the whole process runs by itself. With one job, each file does.
 */

/**
 * Time limit of one file: more than twenty times the slowest on two idle cores. No file has another one, because a
 * limit that only a busy machine reaches says nothing about svc.
 */
const timeoutSeconds = isThorough ? 4000 : 1000
/**
 * What files take on two busy cores, roughly and in seconds; others take one. The longest begin first, so that none runs on
 * alone at the end.
 */
const usual: ReadonlyArray<[files: RegExp, seconds: number]> = [
  [/\/(benches|browser\/weights|push-broken|waiting-failover)\.test/, 60],
  [
    /\/(push-failover|overview-broken|deploy\/recovery|browser\/fleet|documents\/commands|browser\/roles|cluster\/hub)\.test/,
    45
  ],
  [/\/(canary|etcd-set-back|etcd-away|axe|versions|browser\/(deployment|project-pieces|log-levels))\.test/, 25],
  [/\/(script-processes|scripted|stalled-reader|server-killed|faults\/listener|server\/agent)\.test/, 25],
  [/\/(expressions|bundle|streams|meanwhile|http\/core\/memory)\.test/, 25],
  [/\/(browser|cluster|unpack)\//, 12],
  [/\/(deploy|server|documents|faults|proxy|core\/proc)\//, 5],
  [/\/(api|core\/install|core\/archive|cli\/commands|cli\/pack|cli\/service)\//, 3]
]
/** Files that mostly wait: for a page, a lease, a reconnection. Others compute meanwhile. */
const waiting = /\/(browser|cluster)\/|\/(benches|push-broken)\./
/** Size of a group. Starting one takes a third of a second, and that of a browser two; small ones spread better. */
const [groupSeconds, browserGroupSeconds] = [30, 90]
/**
 * V8 begins with a heap of a few megabytes, and cleans the whole of it at each small growth: a sixth of a group's
 * processor time. It also optimises what has run for a moment, which no group runs long enough for: a tenth of its time,
 * with the budget of seven times as much. What measures memory or time starts as svc does.
 */
const roomy = ['--initial-old-space-size=200', '--min-semi-space-size=8', '--interrupt-budget=1000000']
const ofMeasure = /process\.(memoryUsage|cpuUsage)/
const groupProgram = fileURLToPath(new URL('group.js', import.meta.url))

/**
 * Signs of a file that measures its own process, or changes it: memory, descriptors, handlers, timers, the environment.
 */
const ofProcess =
  /process\.(on|once|umask\(|exit|chdir|memoryUsage|cpuUsage|env\[[^\]]*\] =(?!=))|globalThis|syncBuiltin|openFiles|node:test|\/proc\/self/

const [jobs, ...files] = process.argv.slice(2)

const isOfBrowser = (file: string): boolean => file.includes('/browser/')
const isAlone = (file: string): boolean => ofProcess.test(readFileSync(file, 'utf8'))
const isMeasure = (file: string): boolean => ofMeasure.test(readFileSync(file, 'utf8'))

const secondsOf = (file: string): number => usual.find(([files]) => files.test(file))?.[1] ?? 1
const sum = (files: readonly string[]): number => files.reduce((seconds, file) => seconds + secondsOf(file), 0)

/** Returns groups of neighbouring files, which load the same modules, of about the same time. */
function cut(files: readonly string[], atMost: number): string[][] {
  const groups: string[][] = []
  for (const file of files) {
    const last = groups.at(-1)
    if (last !== undefined && sum(last) + secondsOf(file) <= atMost) last.push(file)
    else groups.push([file])
  }
  return groups
}

/** Puts the longest first, each with the part of all the time that is before it. */
function inOrder(groups: string[][]): Array<[group: string[], at: number]> {
  const all = sum(groups.flat())
  let before = 0
  return groups
    .sort((a, b) => sum(b) - sum(a))
    .map(group => {
      const at = before / all
      before += sum(group)
      return [group, at]
    })
}

/** Returns the groups in the order of their beginning: those that wait beside those that compute, from first to last. */
function grouped(): string[][] {
  if (Number(jobs) === 1) return files.map(file => [file])
  const alone = files.filter(isAlone)
  const rest = files.filter(file => !alone.includes(file))
  const others = rest.filter(file => !isOfBrowser(file))
  const groups = [
    ...cut(rest.filter(isOfBrowser), browserGroupSeconds),
    ...alone.map(file => [file]),
    ...cut(others, groupSeconds)
  ]
  const isWaiting = ([first = '']: string[]): boolean => waiting.test(first)
  return [...inOrder(groups.filter(isWaiting)), ...inOrder(groups.filter(group => !isWaiting(group)))]
    .sort(([, a], [, b]) => a - b)
    .map(([group]) => group)
}

/** Returns the PATH, with Python itself before a shim of pyenv, which starts a dozen shells each time. */
function pathOfTests(): string {
  const { PATH = '' } = env
  if (!findProgram('python3')?.includes('/shims/')) return PATH
  const { stdout } = spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' })
  return stdout ? `${dirname(stdout)}${delimiter}${PATH}` : PATH
}

// Data directories that a group may write to are refused: tests make theirs as most machines do.
process.umask(0o022)
t.jobs = Number(jobs)
t.setTimeout(0)
const [database, fixtures] = [resolve('.tap/new.db'), resolve('.tap/fixtures')]
mkdirSync(fixtures, { recursive: true })
writeFileSync(database, await newDatabase())
const PATH = pathOfTests()
const shared = mkdtempSync(join(tmpdir(), 'svc-'))
chmodSync(shared, 0o755)
const end = (): void => rmSync(shared, { recursive: true, force: true })
process.once('exit', end)
mkdirSync(join(shared, 'begun'))

/** Makes a directory for temporary files: a server that starts removes what others left in its own. */
function temporaryOf(group: number): string {
  const path = join(shared, String(group))
  mkdirSync(path)
  chmodSync(path, 0o1777)
  return path
}

let done = 0
const runs: Array<ReturnType<typeof t.spawn>> = []
for (const [index, group] of grouped().entries()) {
  const temporary = temporaryOf(index)
  const flags = group.some(isMeasure) ? [] : roomy
  const run = t.spawn(...inMemory(temporary, fixtures, bare(execPath, [...flags, groupProgram, ...group])), {
    name: `group of ${group.length}, from ${group[0]}`,
    buffered: true,
    timeout: timeoutSeconds * 1000 * group.length,
    // tap would remove a test's directory before what runs in it is stopped.
    env: {
      ...env,
      PATH,
      TAP_SAVE_FIXTURE: '1',
      TAP_TIMEOUT: String(timeoutSeconds),
      NEW_DATABASE: database,
      BEGUN_COMMANDS: join(shared, 'begun'),
      TMPDIR: temporary
    }
  })
  runs.push(run)
  void run.then(results => {
    // A process that ended early has not run the rest of its files.
    const missing = group.slice(results?.count ?? 0)
    for (const file of missing) t.fail(file)
    tell(group.length, [...missing, ...(results?.failures ?? []).map(({ name }) => name)])
  })
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    for (const { subtest } of runs) subtest?.proc?.kill('SIGTERM')
    end()
    process.kill(process.pid, signal)
  })
}

function tell(ended: number, failed: readonly string[]): void {
  done += ended
  for (const name of failed) stderr.write(`${stderr.isTTY ? '\r\x1b[K' : ''}failed: ${name}\n`)
  if (stderr.isTTY) stderr.write(`\r\x1b[K${done === files.length ? '' : `${done} of ${files.length}`}`)
  else stderr.write(`${done} of ${files.length}\n`)
  if (done === files.length) stderr.write(`${Math.round(processorSeconds())} s of processor time\n`)
}
