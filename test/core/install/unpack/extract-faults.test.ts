import t from 'tap'
import type { Test } from 'tap'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { recoverTargets } from '../../../../lib/core/install/unpack/extract.js'
import { createExecutors } from '../../../../lib/core/install/unpack/executors.js'
import { disk as realDisk, type Disk } from '../../../../lib/core/install/disk.js'
import { extractionStage, refusalOf, type ExtractionStage } from '../../../support/extraction.js'
import { pruningOf } from '../../../support/pruning.js'
import { makeZip } from '../../../support/make-zip.js'
import { createRandom } from '../../../support/random.js'
import { snapshot } from '../../../support/tree.js'
import { bare } from '../../../support/bare.js'
import { repetitions } from '../../../support/thorough.js'

const threads = createExecutors()

/** New and replaced files, two that only get another time, new directories, links, a large file, other types. */
const zip = makeZip([
  { name: 'index.html', data: 'new page', mode: 0o100644 },
  { name: 'app/a.js', data: 'new a' },
  { name: 'app/b.js', data: 'new b', method: 8 },
  { name: 'app/new.js', data: 'new' },
  { name: 'fresh/', mode: 0o040750 },
  { name: 'fresh/x', data: 'x' },
  { name: 'fresh/deep/y', data: 'y' },
  { name: 'fresh/deep/l', data: '../x', mode: 0o120777 },
  { name: 'current', data: 'app/a.js', mode: 0o120777 },
  { name: 'page', data: 'a directory before' },
  { name: 'leaf/z', data: 'a file before' },
  { name: 'turn', data: 'app', mode: 0o120777 },
  { name: 'large', data: Buffer.alloc(700_000, 'z'), method: 8 },
  { name: 'app/same.js', data: 'same' },
  { name: 'same', data: Buffer.alloc(600_000, 's'), method: 8 }
])

function furnish(stage: ExtractionStage): void {
  for (const each of [stage.target, stage.deployments]) {
    for (const name of readdirSync(each)) rmSync(join(each, name), { recursive: true, force: true })
  }
  mkdirSync(join(stage.target, 'app'), { recursive: true })
  writeFileSync(join(stage.target, 'index.html'), 'old page', { mode: 0o640 })
  writeFileSync(join(stage.target, 'app/a.js'), 'old a')
  writeFileSync(join(stage.target, 'app/b.js'), 'old b')
  writeFileSync(join(stage.target, 'app/other.js'), 'stays')
  symlinkSync('app/b.js', join(stage.target, 'current'))
  mkdirSync(join(stage.target, 'old/deep'), { recursive: true, mode: 0o750 })
  mkdirSync(join(stage.target, 'page/deep'), { recursive: true, mode: 0o750 })
  mkdirSync(join(stage.target, 'turn'))
  for (const [path, contents] of Object.entries(pruned)) writeFileSync(join(stage.target, path), contents)
  stage.ownership = ownership
  writeFileSync(join(stage.target, 'app/same.js'), 'same')
  writeFileSync(join(stage.target, 'same'), Buffer.alloc(600_000, 's'))
  for (const path of dated) utimesSync(join(stage.target, path), 1000, 1000)
}

const dated = ['app/same.js', 'same']

/** Files that are removed, of which some give way to another type, and two that were edited since or replaced. */
const given = { leaf: 'leaf', 'page/x': 'x', 'page/deep/y': 'y', 'turn/w': 'w' }
const pruned = { dropped: 'dropped', 'old/gone.js': 'gone', 'old/deep/z': 'z', ...given }
const ownership = await pruningOf({
  ...pruned,
  'old/': '',
  'old/deep/': '',
  'page/': '',
  'page/deep/': '',
  'app/a.js': 'old a',
  'app/other.js': 'x'
})

/** The target, with the times of the files whose time is the only change. */
function stateOf({ target }: ExtractionStage): string[] {
  return [...snapshot(target), ...dated.map(path => `${path} at ${Math.round(statSync(join(target, path)).mtimeMs)}`)]
}

const ext4 = 0xef53

/** A disk of type ext4 whose n-th call fails. */
function failingDisk(n: number, code: string): { disk: Disk; calls(): number } {
  let calls = 0
  const wrap = <K extends keyof Disk>(name: K): Disk[K] =>
    ((...args: unknown[]) => {
      if (++calls === n) throw Object.assign(new Error(`${code}: test`), { code, syscall: name })
      return (realDisk[name] as (...args: unknown[]) => unknown)(...args)
    }) as unknown as Disk[K]
  const disk = Object.fromEntries(
    Object.keys(diskCalls).map(name => [name, wrap(name as keyof Disk)])
  ) as unknown as Disk
  return {
    disk: { ...disk, statfsSync: ((path: string) => ({ ...disk.statfsSync(path), type: ext4 })) as Disk['statfsSync'] },
    calls: () => calls
  }
}

const diskCalls: Record<keyof Disk, true> = {
  openSync: true,
  closeSync: true,
  readSync: true,
  writeSync: true,
  fstatSync: true,
  lstatSync: true,
  fchmodSync: true,
  fchownSync: true,
  lchownSync: true,
  chmodSync: true,
  futimesSync: true,
  utimesSync: true,
  lutimesSync: true,
  mkdirSync: true,
  readdirSync: true,
  readlinkSync: true,
  realpathSync: true,
  symlinkSync: true,
  linkSync: true,
  renameSync: true,
  unlinkSync: true,
  unlink: true,
  rmdirSync: true,
  fsyncSync: true,
  ftruncateSync: true,
  fdatasyncSync: true,
  statfsSync: true,
  fsync: true,
  fdatasync: true
}

/** Unusual targets: their path, the way to them, or their owner. Each returns the directory to extract to. */
const fixtures: Array<[what: string, make: (directory: string) => string]> = [
  ['an ordinary target', directory => make(join(directory, 'target'))],
  ['a newline in its path', directory => make(join(directory, 'a\nready 0 0\ndone\n'))],
  [
    'spaces in its path, and reached through a link',
    directory => {
      make(join(directory, ' real place '))
      symlinkSync(' real place ', join(directory, 'link'))
      return join(directory, 'link')
    }
  ],
  [
    'a newline in the text of a link',
    directory => {
      make(join(directory, 'a\nstaging b'))
      symlinkSync('a\nstaging b', join(directory, 'link'))
      return join(directory, 'link')
    }
  ],
  [
    'another owner',
    directory => {
      const path = make(join(directory, 'target'))
      if (process.geteuid?.() === 0) chownSync(path, nobody, nobody)
      return path
    }
  ]
]
const nobody = 65534

function make(path: string): string {
  mkdirSync(path)
  return path
}

/** In memory, where the syncs of so many deployments cost nothing; the disk reports another file system type. */
function inMemory(t: Test): string {
  const directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'svc-faults-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

const faults = ['EIO', 'ENOSPC', 'EDQUOT', 'EACCES'] as const

for (const [index, [what, makeTarget]] of fixtures.entries()) {
  t.test(
    `after a failure of any call, the target is unchanged or complete, and the next deployment works: ${what}`,
    async t => {
      const directory = inMemory(t)
      const stage = extractionStage(directory, 'dep_test', makeTarget(directory))
      stage.put(zip)
      furnish(stage)
      const before = stateOf(stage)
      await stage.run()
      const after = stateOf(stage)
      const random = createRandom(index + 1)
      let failures = 0
      // An ordinary target with a failure at every call if there is time, the other targets at some of them.
      const steps = index === 0 ? repetitions(9, 1) : repetitions(45, 9)
      for (let n = 1; ; n += 1 + random.below(steps)) {
        furnish(stage)
        const code = random.oneOf(faults)
        const { disk, calls } = failingDisk(n, code)
        const outcome = await stage.run({ disk }).then(
          () => 'done',
          error => String(error)
        )
        if (calls() < n) break
        // The next start repairs a failure that occurred while putting back.
        await recoverTargets(threads, {
          home: stage,
          onProblem: (_id, error) => {
            throw error
          }
        })
        const now = stateOf(stage)
        const expected = outcome === 'done' || JSON.stringify(now) === JSON.stringify(after) ? after : before
        if (outcome !== 'done') failures++
        if (JSON.stringify(now) !== JSON.stringify(expected))
          t.strictSame(now, expected, `call ${n} fails (${code}): ${outcome}`)
        if (left(stage).length > 0) t.strictSame(left(stage), [], `call ${n}: nothing is left behind`)
        if (random.below(3) > 0) continue
        await stage.run()
        const { changedCount } = await stage.run()
        if (changedCount !== 0) t.fail(`call ${n}: a deployment of the same changes ${changedCount}`)
        if (JSON.stringify(stateOf(stage)) !== JSON.stringify(after))
          t.strictSame(stateOf(stage), after, `call ${n}: the next deployments`)
        if (left(stage).length > 0)
          t.strictSame(left(stage), [], `call ${n}: nothing is left behind by the next deployments`)
      }
      t.ok(failures > repetitions(3, 15), `${failures} calls failed, one at a time`)
    }
  )
}

t.test('a target that cannot be put back, because the disk stays full, says so and is put back later', async t => {
  const stage = extractionStage(inMemory(t))
  stage.put(zip)
  furnish(stage)
  const before = stateOf(stage)
  let isFull = false
  const refusing =
    <K extends 'renameSync' | 'mkdirSync' | 'linkSync'>(name: K) =>
    (...args: unknown[]): void => {
      isFull ||= name === 'renameSync' && String(args[1]).endsWith('/a.js')
      if (isFull) throw Object.assign(new Error('ENOSPC: test'), { code: 'ENOSPC', syscall: name.slice(0, -4) })
      ;(realDisk[name] as (...args: unknown[]) => void)(...args)
    }
  const calls = { renameSync: refusing('renameSync'), mkdirSync: refusing('mkdirSync'), linkSync: refusing('linkSync') }
  const refused = { code: 'no_space', message: /^Cannot put the target back: .*Free some space .* the next deployment/ }
  await t.rejects(stage.run({ disk: { ...realDisk, ...calls } as Disk }), refused)
  await recoverTargets(threads, { home: stage })
  t.strictSame(stateOf(stage), before)
  t.strictSame(left(stage), [])
})

/** Everything that a deployment leaves besides its files. */
function left({ deployments, target }: ExtractionStage): string[] {
  const isComplete = existsSync(join(deployments, 'dep_test.manifest'))
  const kept = isComplete ? ['dep_test.manifest', 'dep_test.before.zip'] : []
  const files = readdirSync(deployments).filter(name => !kept.includes(name))
  return [...files, ...readdirSync(target).filter(name => name.startsWith('.svc'))]
}

const killer = fileURLToPath(new URL('../../../support/killed-extraction.js', import.meta.url))

t.test('after a kill at any call, the next start puts the target back', async t => {
  const stage = extractionStage(t.testdir())
  stage.put(zip)
  furnish(stage)
  const before = stateOf(stage)
  await stage.run()
  const after = stateOf(stage)
  let putBack = 0
  let complete = 0
  for (let n = 1; ; n += repetitions(37, 11)) {
    furnish(stage)
    const child = spawn(
      ...bare(process.execPath, [killer, stage.archivePath, stage.target, stage.deployments, String(n)]),
      {
        stdio: ['ignore', 'ignore', 'inherit'],
        env: {
          ...process.env,
          OWNERSHIP: JSON.stringify({ ...ownership, tree: ownership.tree && [...ownership.tree] })
        }
      }
    )
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null]
    if (signal === null) break
    await recoverTargets(threads, {
      home: stage,
      onProblem: (_id, error) => {
        throw error
      }
    })
    const now = JSON.stringify(stateOf(stage))
    if (now === JSON.stringify(before)) putBack++
    else if (now === JSON.stringify(after)) complete++
    else t.strictSame(stateOf(stage), before, `killed at call ${n}`)
    t.strictSame(
      readdirSync(stage.deployments).filter(name => name.endsWith('.undo')),
      [],
      'no journal remains'
    )
  }
  t.ok(putBack > repetitions(1, 5), `${putBack} times it was put back`)
  t.ok(complete > 0, `${complete} times it was complete already`)
})

t.test('recovers from a kill at any moment while two threads stage', async t => {
  const stage = extractionStage(t.testdir())
  const entries = Array.from({ length: 1200 }, (_, i) => ({ name: `app/f${i}.js`, data: `${i} `.repeat(3000) }))
  stage.put(makeZip(entries))
  const deadline = Date.now() + repetitions(3000, 6000)
  let killed = 0
  for (let round = 0; round < repetitions(3, 12) && Date.now() < deadline; round++) {
    furnish(stage)
    for (let i = 0; i < 600; i += 3) writeFileSync(join(stage.target, `app/f${i}.js`), 'old')
    const before = snapshot(stage.target)
    const child = spawn(
      ...bare(process.execPath, [killer, stage.archivePath, stage.target, stage.deployments, 'threads']),
      {
        stdio: ['ignore', 'pipe', 'inherit']
      }
    )
    const exit = once(child, 'exit')
    await once(child.stdout, 'data')
    setTimeout(() => child.kill('SIGKILL'), 20 + round * 25)
    const [, signal] = (await exit) as [number | null, string | null]
    if (signal !== null) killed++
    await recoverTargets(threads, {
      home: stage,
      onProblem: (_id, error) => {
        throw error
      }
    })
    const now = snapshot(stage.target)
    const isComplete = now.some(line => line.startsWith('app/f1199.js'))
    if (!isComplete) t.strictSame(now, before, `round ${round}`)
    else t.equal(now.filter(line => line.endsWith(' old')).length, 0, `round ${round}: complete`)
  }
  t.ok(killed > 0, `${killed} times it was killed`)
})

function cannotMount(): string | false {
  const probe = mkdtempSync(join(tmpdir(), 'svc-test-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', probe], { stdio: 'ignore' })
    execFileSync('umount', [probe])
    return false
  } catch {
    return 'mounting a small tmpfs needs root'
  } finally {
    rmSync(probe, { recursive: true, force: true })
  }
}

t.test('leaves the target unchanged if the disk is full', { skip: cannotMount() }, async t => {
  const mount = mkdtempSync(join(tmpdir(), 'svc-test-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', mount])
  t.teardown(() => {
    execFileSync('umount', ['-l', mount])
    rmSync(mount, { recursive: true, force: true })
  })
  const full = extractionStage(mount)
  furnish(full)
  const before = snapshot(full.target)
  for (const size of [100_000, 3_000_000]) {
    full.put(
      makeZip(Array.from({ length: 30 }, (_, i) => ({ name: `app/${i}`, data: Buffer.alloc(size, i), method: 8 })))
    )
    const refusal = await refusalOf(full.runThreads())
    t.equal(refusal.code, 'no_space', refusal.message)
    t.equal(refusal.kind, 'unavailable')
    t.strictSame(snapshot(full.target), before)
  }
  t.strictSame(readdirSync(full.deployments), [])
})
