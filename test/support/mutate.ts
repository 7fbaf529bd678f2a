/*
 * `make mutate`: does a test notice when a condition of lib is wrong? `node mutate.js <count> <seed> [room]` changes
 * one condition at a time, chosen at random, in a copy of what was compiled, and runs the tests of the room that it
 * stands in, those of the same file first, until one fails. It prints what survives: a condition that no test needs.
 *
 * A test that fails without any change is left out and named. A test that takes ten times as long has noticed the
 * change.
 */
import { roomOf } from './rooms.js'
import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bare } from './bare.js'
import { findMutations, mutated, type Mutation } from './mutations.js'
import { createRandom } from './random.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
/** Not copied: it is shared, or it would be copied into itself. */
const leftOut = new Set(['node_modules', '.git', '.tap'])
const slowdown = 10
const leastMs = 15_000
const mostMs = 300_000

interface Change extends Mutation {
  /** Below `dist/lib`. */
  module: string
}

interface Test {
  path: string
  /** Duration without a change; undefined if it was not run yet. */
  tookMs: number | undefined
  /** Whether it passes without a change. */
  isSound: boolean
}

async function main([count = '', seed = '', room = '']: string[]): Promise<void> {
  const copy = realpathSync(mkdtempSync(join(tmpdir(), 'mutate-')))
  process.once('exit', () => {
    unmountBelow(copy)
    rmSync(copy, { recursive: true, force: true })
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  cpSync(root, copy, { recursive: true, filter: path => !leftOut.has(relative(root, path).split(sep)[0] ?? '') })
  symlinkSync(realpathSync(join(root, 'node_modules')), join(copy, 'node_modules'))
  const rooms = createRooms(copy)
  let survived = 0
  const chosen = choose(copy, { count: Number(count), seed: Number(seed), room })
  for (const [index, change] of chosen.entries()) {
    const by = await noticedBy(copy, change, rooms)
    if (by === null) survived++
    const what = `lib/${change.module.replace(/\.js$/, '.ts')}: ${oneLine(change.text)} → ${oneLine(change.replacement)}`
    process.stdout.write(
      `${index + 1} of ${chosen.length} ${by === null ? 'SURVIVED' : 'noticed'} ${what}${by === null ? '' : ` (${by})`}\n`
    )
  }
  process.stdout.write(`${survived} of ${chosen.length} survived (seed ${seed})\n`)
}

/** Unmounts what a test that was ended left mounted. */
function unmountBelow(directory: string): void {
  const mounted = existsSync('/proc/self/mounts') ? readFileSync('/proc/self/mounts', 'utf8').split('\n') : []
  const places = mounted.map(line => line.split(' ')[1] ?? '').filter(place => place.startsWith(`${directory}/`))
  for (const place of places.reverse()) spawnSync('umount', ['-l', place])
}

/** Chooses some of all possible changes, each at most once. */
function choose(copy: string, { count, seed, room }: { count: number; seed: number; room: string }): Change[] {
  const directory = join(copy, 'dist/lib')
  const modules = filesBelow(directory, '.js')
    .map(path => relative(directory, path))
    .filter(name => name.startsWith(room))
  const all = modules.flatMap(module =>
    findMutations(readFileSync(join(directory, module), 'utf8')).map(one => ({ ...one, module }))
  )
  const random = createRandom(seed)
  const chosen: Change[] = []
  while (chosen.length < count && all.length > 0) chosen.push(...all.splice(random.below(all.length), 1))
  return chosen
}

/** Returns the tests of each room. Each is measured without a change before it is first used. */
function createRooms(copy: string) {
  const rooms = new Map<string, Test[]>()

  async function measure(test: Test): Promise<void> {
    const startedMs = performance.now()
    test.isSound = await passes(copy, test.path, mostMs)
    test.tookMs = performance.now() - startedMs
    if (!test.isSound) process.stdout.write(`left out, as it fails without any change: ${relative(copy, test.path)}\n`)
  }

  return {
    measure,
    /** Returns the tests of a module's room: first the test of its name, then the others from fast to slow. */
    testsFor(module: string): Test[] {
      const room = roomOf(module.replaceAll(sep, '/'))
      const all =
        rooms.get(room) ??
        filesBelow(join(copy, 'dist/test', room), '.test.js').map(path => ({ path, tookMs: undefined, isSound: true }))
      rooms.set(room, all)
      const own = join(copy, 'dist/test', module.replace(/\.js$/, '.test.js'))
      const tests = [...all].sort((a, b) => (a.tookMs ?? mostMs) - (b.tookMs ?? mostMs))
      return [...tests.filter(({ path }) => path === own), ...tests.filter(({ path }) => path !== own)]
    }
  }
}

/** Returns the test that fails because of a change, or null. */
async function noticedBy(
  copy: string,
  change: Change,
  { testsFor, measure }: ReturnType<typeof createRooms>
): Promise<string | null> {
  const path = join(copy, 'dist/lib', change.module)
  const source = readFileSync(path, 'utf8')
  for (const test of testsFor(change.module)) {
    if (test.tookMs === undefined) await measure(test)
    if (!test.isSound) continue
    writeFileSync(path, mutated(source, change))
    try {
      if (!(await passes(copy, test.path, Math.max(leastMs, (test.tookMs as number) * slowdown))))
        return relative(join(copy, 'dist/test'), test.path)
    } finally {
      writeFileSync(path, source)
    }
  }
  return null
}

/** Whether a test passes within the time limit. Its processes have ended afterwards. */
function passes(copy: string, path: string, limitMs: number): Promise<boolean> {
  const [program, words] = bare(process.execPath, [path])
  // Its own limit would end a test that is slow on a busy machine.
  const env = { ...process.env, TAP_TIMEOUT: String(mostMs / 1000) }
  const child = spawn(program, words, { cwd: copy, stdio: 'ignore', detached: true, env })
  const end = (): void => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL')
    } catch {
      // All of them have ended.
    }
  }
  const timer = setTimeout(end, limitMs)
  process.once('exit', end)
  return new Promise(resolve => {
    child.once('exit', code => {
      clearTimeout(timer)
      process.off('exit', end)
      end()
      resolve(code === 0)
    })
  })
}

function filesBelow(directory: string, ending: string): string[] {
  if (!existsSync(directory)) return []
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith(ending))
  return names.sort().map(name => join(directory, name))
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ')
  return line.length > 120 ? `${line.slice(0, 117)}…` : line
}

await main(process.argv.slice(2))
