import t from 'tap'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createExecutors } from '../../../../lib/core/install/unpack/executors.js'
import { bare } from '../../../support/bare.js'
import { extractionStage, nothingIsSmall, type ExtractionStage } from '../../../support/extraction.js'
import { makeZip } from '../../../support/make-zip.js'
import { snapshot } from '../../../support/tree.js'
import { until } from '../../../support/until.js'

/** Counts the worker threads of this process. */
const seen = { started: 0, living: 0 }
process.on('worker', worker => {
  seen.started++
  seen.living++
  worker.once('exit', () => void seen.living--)
})

function stages(directory: string, count: number, files = 1): ExtractionStage[] {
  return Array.from({ length: count }, (_, i) => {
    mkdirSync(join(directory, `${i}`))
    const stage = extractionStage(join(directory, `${i}`), `dep_${i}`)
    stage.put(makeZip(Array.from({ length: files }, (_, n) => ({ name: `f${n}`, data: `${i} ${n} `.repeat(500) }))))
    return stage
  })
}

t.test('many jobs share two threads, which end after some idle time', async t => {
  const threads = createExecutors({ small: nothingIsSmall, idleMs: 1_000 })
  const all = stages(t.testdir(), 12)
  await Promise.all(all.map(stage => stage.runThreads({ threads })))
  all.forEach(({ target }, i) => t.equal(readFileSync(join(target, 'f0'), 'utf8'), `${i} 0 `.repeat(500)))
  t.strictSame(seen, { started: 2, living: 2 })
  await until(() => seen.living === 0)
  await all[0]?.runThreads({ threads })
  await threads.close()
  t.strictSame(seen, { started: 3, living: 0 }, 'closing ends them at once')
})

t.test('no job affects the next one by its umask, failure or abort', async t => {
  const threads = createExecutors({ small: nothingIsSmall })
  t.teardown(() => threads.close())
  const [stage] = stages(t.testdir(), 1, 300) as [ExtractionStage]
  const mode = (): number =>
    Number(readFileSync(join(stage.deployments, 'dep_0.manifest'), 'utf8').match(/"mode":(\d+)/)?.[1])
  const umask = process.umask(0o077)
  t.teardown(() => process.umask(umask))
  await stage.runThreads({ threads })
  t.equal(mode(), 0o100600)
  process.umask(0o022)
  writeFileSync(join(stage.target, 'f0'), 'another')
  stage.put(makeZip([{ name: 'f0', data: 'x', crc32: 1 }]))
  await t.rejects(stage.runThreads({ threads }), { code: 'crc_mismatch' })
  stage.put(makeZip(Array.from({ length: 5000 }, (_, n) => ({ name: `n${n}`, data: 'x'.repeat(4000) }))))
  const controller = new AbortController()
  setTimeout(() => controller.abort(new Error('enough')), 20)
  await t.rejects(stage.runThreads({ threads, signal: controller.signal }), { message: 'enough' })
  stage.put(makeZip([{ name: 'f0', data: 'new' }]))
  await stage.runThreads({ threads })
  t.equal(mode(), 0o100644)
  t.equal(readFileSync(join(stage.target, 'f0'), 'utf8'), 'new')
})

t.test('never starts a job that is aborted while it is queued', async t => {
  const threads = createExecutors({ small: nothingIsSmall })
  t.teardown(() => threads.close())
  const all = stages(t.testdir(), 4, 50)
  const controllers = all.map(() => new AbortController())
  const runs = all.map((stage, i) => stage.runThreads({ threads, signal: controllers[i]?.signal }))
  controllers[2]?.abort(new Error('not any more'))
  await t.rejects(runs[2] as Promise<unknown>, { message: 'not any more' })
  await Promise.all([runs[0], runs[1], runs[3]])
  t.strictSame(
    all.map(({ target }) => readdirSync(target).length),
    [50, 50, 0, 50]
  )
})

t.test('a thread that dies fails only its own job and is replaced', async t => {
  const threads = createExecutors({ small: nothingIsSmall, heapMb: 12 })
  t.teardown(() => threads.close())
  const all = stages(t.testdir(), 4)
  const [deadly] = all as [ExtractionStage]
  writeFileSync(join(deadly.target, 'old'), 'old')
  deadly.put(
    makeZip({ entries: Array.from({ length: 60_000 }, (_, i) => ({ name: `${'n'.repeat(90)}${i}`, data: '' })) })
  )
  const before = deadly.state()
  const runs = all.map(stage => stage.runThreads({ threads }))
  await t.rejects(runs[0] as Promise<unknown>, { message: 'The thread that extracted the archive died' })
  await Promise.all(runs.slice(1))
  t.strictSame(deadly.state(), before)
  await all[1]?.runThreads({ threads })
})

t.test('ends a thread that does not answer an abort, and puts the target back', async t => {
  const threads = createExecutors({ small: nothingIsSmall, graceMs: 0 })
  t.teardown(() => threads.close())
  const [stage] = stages(t.testdir(), 1, 400) as [ExtractionStage]
  let ended = 0
  for (let round = 0; round < 12; round++) {
    rmSync(stage.target, { recursive: true })
    mkdirSync(stage.target)
    for (let n = 0; n < 400; n += 2) writeFileSync(join(stage.target, `f${n}`), 'old')
    rmSync(join(stage.deployments, 'dep_0.manifest'), { force: true })
    const before = stage.state()
    const controller = new AbortController()
    setTimeout(() => controller.abort(new Error('enough')), 5 + round * 10)
    const outcome = await stage.runThreads({ threads, signal: controller.signal }).then(
      () => 'done',
      (error: Error) => error.message
    )
    if (outcome === 'done') continue
    t.equal(outcome, 'enough')
    const isComplete = readFileSync(join(stage.target, 'f398'), 'utf8') !== 'old'
    if (!isComplete)
      t.strictSame(
        snapshot(stage.target),
        before.filter(line => line.startsWith('f')),
        `round ${round}`
      )
    t.strictSame(
      readdirSync(stage.deployments).filter(name => name.endsWith('.undo')),
      [],
      'no journal remains'
    )
    ended++
  }
  t.ok(ended > 0, `${ended} were ended`)
})

const hasPipes = process.platform !== 'win32'

t.test(
  'a thread that is stuck in a system call does not delay other jobs',
  { skip: !hasPipes && 'a pipe without a reader is needed' },
  async t => {
    const threads = createExecutors({ small: nothingIsSmall, graceMs: 50 })
    t.teardown(() => threads.close())
    const all = stages(t.testdir(), 4)
    const [first, second, ...others] = all as [ExtractionStage, ExtractionStage, ...ExtractionStage[]]
    const pipes = [first, second].map(({ deployments }, i) => join(deployments, `dep_${i}.manifest.tmp`))
    for (const pipe of pipes) execFileSync('mkfifo', [pipe])
    const controller = new AbortController()
    const stuck = [first, second].map(stage => stage.runThreads({ threads, signal: controller.signal }))
    const waiting = others.map(stage => stage.runThreads({ threads }))
    // With their only file staged, the abort is not checked before the list of files is opened, which is a pipe.
    await until(() =>
      [first, second].every(({ target }, i) => existsSync(join(target, `.svc-staging-dep_${i}/files/f0`)))
    )
    controller.abort(new Error('cancelled'))
    await Promise.all(stuck.map(run => t.rejects(run, { message: 'cancelled' })))
    await Promise.all(waiting)
    others.forEach(({ target }) => t.strictSame(readdirSync(target), ['f0']))
    t.equal(threads.as(null).isStuck('dep_0'), true)
    await t.rejects(
      first.runThreads({ threads }),
      { code: 'target_stuck', kind: 'unavailable' },
      'its late call could still take effect'
    )
    for (const pipe of pipes) closeSync(openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK))
    await until(() => !threads.as(null).isStuck('dep_0'))
    rmSync(pipes[0] as string)
    await first.runThreads({ threads })
    t.strictSame(readdirSync(first.target), ['f0'], 'once it has ended, the target is put back and deployed to')
    t.strictSame(readdirSync(first.deployments), ['dep_0.manifest'])
  }
)

t.test('a process with a stuck thread can end', { skip: !hasPipes && 'a pipe without a reader is needed' }, async t => {
  const [stage] = stages(t.testdir(), 1) as [ExtractionStage]
  execFileSync('mkfifo', [join(stage.deployments, 'dep_0.manifest.tmp')])
  const program = fileURLToPath(new URL('../../../support/stuck-extraction.js', import.meta.url))
  const child = spawn(
    ...bare(process.execPath, [program, stage.archivePath, stage.target, stage.deployments, 'dep_0']),
    { stdio: ['ignore', 'pipe', 'inherit'] }
  )
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  child.stdout.on('data', (piece: Buffer) => {
    output += piece.toString()
  })
  const [status, signal] = (await once(child, 'exit')) as [number | null, string | null]
  t.strictSame([status, signal, output], [null, 'SIGTERM', 'cancelled\n'])
})
