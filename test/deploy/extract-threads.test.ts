import t from 'tap'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createExtractThreads } from '../../lib/deploy/extract-threads.js'
import { extractionStage, type ExtractionStage } from '../support/extraction.js'
import { makeZip } from '../support/make-zip.js'

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

t.test('many jobs share two threads, which end when they have had no work for a while', async t => {
  const threads = createExtractThreads({ idleMs: 150 })
  const all = stages(t.testdir(), 12)
  await Promise.all(all.map(stage => stage.runThreads({ threads })))
  all.forEach(({ target }, i) => t.equal(readFileSync(join(target, 'f0'), 'utf8'), `${i} 0 `.repeat(500)))
  t.strictSame(seen, { started: 2, living: 2 })
  for (const deadline = Date.now() + 20_000; seen.living > 0 && Date.now() < deadline;) await sleep(20)
  t.equal(seen.living, 0)
  await all[0]?.runThreads({ threads })
  await threads.close()
  t.strictSame(seen, { started: 3, living: 0 }, 'closing ends them at once')
})

t.test('nothing stays from one job to the next: not the umask, not a failure, not an abort', async t => {
  const threads = createExtractThreads()
  t.teardown(() => threads.close())
  const [stage] = stages(t.testdir(), 1, 300) as [ExtractionStage]
  const mode = (): number => Number(readFileSync(join(stage.deployments, 'dep_0.manifest'), 'utf8').match(/"mode":(\d+)/)?.[1])
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

t.test('a job that is aborted before its turn never begins', async t => {
  const threads = createExtractThreads()
  t.teardown(() => threads.close())
  const all = stages(t.testdir(), 4, 50)
  const controllers = all.map(() => new AbortController())
  const runs = all.map((stage, i) => stage.runThreads({ threads, signal: controllers[i]?.signal }))
  controllers[2]?.abort(new Error('not any more'))
  await t.rejects(runs[2] as Promise<unknown>, { message: 'not any more' })
  await Promise.all([runs[0], runs[1], runs[3]])
  t.strictSame(all.map(({ target }) => readdirSync(target).length), [50, 50, 0, 50])
})

t.test('a thread that dies fails its own job only, and is replaced', async t => {
  const threads = createExtractThreads({ heapMb: 12 })
  t.teardown(() => threads.close())
  const all = stages(t.testdir(), 4)
  const [deadly] = all as [ExtractionStage]
  writeFileSync(join(deadly.target, 'old'), 'old')
  deadly.put(makeZip({ entries: Array.from({ length: 60_000 }, (_, i) => ({ name: `${'n'.repeat(90)}${i}`, data: '' })) }))
  const before = deadly.state()
  const runs = all.map(stage => stage.runThreads({ threads }))
  await t.rejects(runs[0] as Promise<unknown>, { message: 'The thread that extracted the archive died' })
  await Promise.all(runs.slice(1))
  t.strictSame(deadly.state(), before)
  await all[1]?.runThreads({ threads })
})
