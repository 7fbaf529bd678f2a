import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { disk as realDisk } from '../../../lib/install/disk.js'
import { journalAt } from '../../../lib/install/journal-file.js'
import { parseManifest } from '../../../lib/install/manifest.js'
import { recover, type PlacedDecision } from '../../../lib/install/undo.js'
import { createExecutors } from '../../../lib/install/unpack/executors.js'
import { endJournal, extractArchive, recoverTargets } from '../../../lib/install/unpack/extract.js'
import {
  openState,
  revertExtraction,
  settleExtraction,
  type OpenExtractions
} from '../../../lib/install/unpack/open-extraction.js'
import { removeJournal } from '../../../lib/install/unpack/recover-job.js'
import { bare } from '../../support/bare.js'
import { extractionStage, refusalOf, type ExtractionStage } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'
import { repetitions } from '../../support/thorough.js'
import { snapshot } from '../../support/tree.js'

const executors = createExecutors()
t.teardown(() => executors.close())

const zip = makeZip([
  { name: 'index.html', data: 'new page', mode: 0o100644 },
  { name: 'app/a.js', data: 'new a' },
  { name: 'app/b.js', data: 'new b', method: 8 },
  { name: 'app/new.js', data: 'new' },
  { name: 'fresh/x', data: 'x' },
  { name: 'fresh/deep/y', data: 'y' },
  { name: 'fresh/deep/l', data: '../x', mode: 0o120777 },
  { name: 'current', data: 'app/a.js', mode: 0o120777 },
  { name: 'app/same.js', data: 'same' }
])

function furnish({ target, deployments }: ExtractionStage): void {
  for (const each of [target, deployments]) {
    for (const name of readdirSync(each)) rmSync(join(each, name), { recursive: true, force: true })
  }
  mkdirSync(join(target, 'app'), { recursive: true })
  writeFileSync(join(target, 'index.html'), 'old page', { mode: 0o640 })
  for (const name of ['a.js', 'b.js', 'other.js']) writeFileSync(join(target, 'app', name), `old ${name}`)
  symlinkSync('app/b.js', join(target, 'current'))
  writeFileSync(join(target, 'app/same.js'), 'same')
  for (const path of ['app/same.js', 'index.html']) utimesSync(join(target, path), 1_000_000.123456, 1_000_000.123456)
}

/** Contents, modes and times to the nanosecond, and the inodes of all files. */
function stateOf({ target }: ExtractionStage): string[] {
  const files = readdirSync(target, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
  const facts = files.map(entry => {
    const path = join(entry.parentPath, entry.name)
    const { mtimeNs, ino } = statSync(path, { bigint: true })
    return `${path} ${ino} ${mtimeNs}`
  })
  return [...snapshot(target), ...facts.sort()]
}

interface OpenStage extends ExtractionStage {
  open(): Promise<void>
}

function openStage(t: Test): OpenStage {
  const stage = extractionStage(t.testdir())
  stage.put(zip)
  furnish(stage)
  const { archivePath, target, deployments } = stage
  const open = async (): Promise<void> => {
    await extractArchive(executors, {
      archivePath,
      target,
      deployId: 'dep_test',
      home: { deployments },
      limits: { maxEntries: 1000, maxExtractedBytes: 1e6 },
      signal: new AbortController().signal,
      staysOpen: true
    })
  }
  return { ...stage, open }
}

t.test('reverts to the same files, times and inodes', async t => {
  const stage = openStage(t)
  const before = stateOf(stage)
  await stage.open()
  t.equal(openState(stage, 'dep_test'), 'placed')
  t.equal(
    snapshot(stage.target).find(line => line.startsWith('index.html')),
    'index.html 644 new page'
  )
  t.equal(await revertExtraction(executors, stage, 'dep_test'), null)
  t.strictSame(stateOf(stage), before)
  t.equal(openState(stage, 'dep_test'), 'reverting', 'the journal stays until the record says so')
  t.equal(await revertExtraction(executors, stage, 'dep_test'), null, 'again, after an interruption')
  t.notOk(await settleExtraction(executors, stage, 'dep_test'), 'it cannot be settled any more')
  await removeJournal(stage, 'dep_test')
  t.equal(openState(stage, 'dep_test'), null)
  t.strictSame(stateOf(stage), before)
})

t.test('settles: the earlier files are removed', async t => {
  const stage = openStage(t)
  await stage.open()
  t.ok(await settleExtraction(executors, stage, 'dep_test'))
  t.equal(openState(stage, 'dep_test'), null)
  t.notOk(readdirSync(stage.target).some(name => name.startsWith('.svc')))
  await t.rejects(revertExtraction(executors, stage, 'dep_test'), { code: 'revert_failed' })
  t.ok(existsSync(join(stage.target, 'fresh/deep/y')))
  await endJournal(stage, { deployId: 'dep_test', target: stage.target })
  t.strictSame(readdirSync(stage.deployments), ['dep_test.manifest'])
})

t.test('keeps files that were edited meanwhile, and what was made beside them', async t => {
  const stage = openStage(t)
  await stage.open()
  const { target } = stage
  appendFileSync(join(target, 'index.html'), ', edited')
  writeFileSync(join(target, 'app/new.js'), 'NEW')
  writeFileSync(join(target, 'fresh/deep/y'), 'edited')
  writeFileSync(join(target, 'fresh/upload'), 'made by the application')
  const displaced = await revertExtraction(executors, stage, 'dep_test')
  const directory = '.svc-displaced-dep_test'
  t.strictSame(displaced, { directory, paths: ['app/new.js', 'fresh/deep/y', 'index.html'], count: 3 })
  t.strictSame(snapshot(target), [
    `${directory}/ 700`,
    `${directory}/app/ 700`,
    `${directory}/app/new.js 644 NEW`,
    `${directory}/fresh/ 700`,
    `${directory}/fresh/deep/ 700`,
    `${directory}/fresh/deep/y 644 edited`,
    `${directory}/index.html 644 new page, edited`,
    'app/ 755',
    'app/a.js 644 old a.js',
    'app/b.js 644 old b.js',
    'app/other.js 644 old other.js',
    'app/same.js 644 same',
    'current -> app/b.js',
    'fresh/ 755',
    'fresh/upload 644 made by the application',
    'index.html 640 old page'
  ])
})

t.test('refuses if the earlier files are gone', async t => {
  const stage = openStage(t)
  await stage.open()
  renameSync(stage.target, `${stage.target}-away`)
  const absent = await refusalOf(revertExtraction(executors, stage, 'dep_test'))
  t.match(absent, { kind: 'unavailable', code: 'revert_failed', message: /does not exist/ })
  renameSync(`${stage.target}-away`, stage.target)
  t.equal(openState(stage, 'dep_test'), 'reverting', 'the journal stays')
  rmSync(join(stage.target, '.svc-staging-dep_test'), { recursive: true })
  t.match(await refusalOf(revertExtraction(executors, stage, 'dep_test')), { code: 'revert_failed' })
})

t.test('an extraction that fails after "placed" was written puts everything back', async t => {
  const stage = openStage(t)
  const before = stateOf(stage)
  let isPlaced = false
  const disk = {
    ...realDisk,
    writeSync: ((fd: number, bytes: Uint8Array, ...rest: []) => {
      isPlaced ||= Buffer.from(bytes).toString().startsWith('placed ')
      return realDisk.writeSync(fd, bytes, ...rest)
    }) as typeof realDisk.writeSync,
    fdatasync: ((fd: number, done: (error: Error | null) => void) =>
      isPlaced
        ? setImmediate(done, Object.assign(new Error('EIO: test'), { code: 'EIO' }))
        : realDisk.fdatasync(fd, done)) as unknown as typeof realDisk.fdatasync,
    fdatasyncSync(fd: number) {
      if (isPlaced) throw Object.assign(new Error('EIO: test'), { code: 'EIO' })
      realDisk.fdatasyncSync(fd)
    }
  }
  await t.rejects(stage.run({ disk, staysOpen: true }))
  // The next start finishes what the disk did not allow.
  await recoverTargets(executors, { home: stage })
  t.strictSame(stateOf(stage), before)
  t.strictSame(
    readdirSync(stage.deployments).filter(name => name.endsWith('.undo')),
    []
  )
})

t.test('the next extraction into the target is refused while another one is held, or ends it', async t => {
  const stage = openStage(t)
  await stage.open()
  const reverted: string[] = []
  let decision: PlacedDecision = 'leave'
  const open: OpenExtractions = {
    decide: () => decision,
    onReverted: async deployId => void reverted.push(deployId)
  }
  const next = () =>
    extractArchive(executors, {
      archivePath: stage.archivePath,
      target: stage.target,
      deployId: 'dep_next',
      home: stage,
      limits: { maxEntries: 1000, maxExtractedBytes: 1e6 },
      signal: new AbortController().signal,
      open
    })
  t.match(await refusalOf(next()), { kind: 'conflict', code: 'target_held' })
  t.equal(openState(stage, 'dep_test'), 'placed')
  decision = 'revert'
  t.equal((await next()).changedCount, 8, 'compared with the earlier files')
  t.strictSame(reverted, ['dep_test'])
  t.equal(openState(stage, 'dep_test'), null)
})

const killer = fileURLToPath(new URL('../../support/killed-extraction.js', import.meta.url))

for (const action of ['leave', 'settle', 'revert'] as const) {
  t.test(
    `after a kill at any call of an open extraction and its end (${action}), the target is old or new`,
    async t => {
      const stage = extractionStage(t.testdir())
      stage.put(zip)
      furnish(stage)
      const before = JSON.stringify(snapshot(stage.target))
      await stage.run()
      const after = JSON.stringify(snapshot(stage.target))
      const seen = { before: 0, after: 0 }
      for (let n = 1; ; n += repetitions(19, 1)) {
        furnish(stage)
        const given = [killer, stage.archivePath, stage.target, stage.deployments, String(n), action]
        const child = spawn(...bare(process.execPath, given), { stdio: ['ignore', 'ignore', 'inherit'] })
        const [, signal] = (await once(child, 'exit')) as [number | null, string | null]
        const reverted: string[] = []
        // Whether the journal says "reverting" decides, not what the next start would like.
        const decision: PlacedDecision = action === 'leave' ? (n % 2 === 0 ? 'leave' : 'settle') : action
        await recoverTargets(executors, {
          home: stage,
          onProblem: (_id, error) => {
            throw error
          },
          open: { decide: () => decision, onReverted: async id => void reverted.push(id) }
        })
        const isHeld = openState(stage, 'dep_killed') !== null
        if (isHeld) {
          recover(realDisk, journalAt(realDisk, join(stage.deployments, 'dep_killed.undo')), {
            files: () => parseManifest('')
          })
        }
        const now = JSON.stringify(snapshot(stage.target).filter(line => !line.startsWith('.svc-displaced')))
        if (now !== before && now !== after) t.strictSame(now, before, `killed at call ${n}`)
        seen[now === before ? 'before' : 'after']++
        if (reverted.length > 0) t.equal(now, before, `call ${n}: it was reported as reverted`)
        const left = readdirSync(stage.deployments).filter(name => name.endsWith('.undo'))
        t.strictSame(left, isHeld ? ['dep_killed.undo'] : [], `call ${n}: journals`)
        const staging = readdirSync(stage.target).filter(name => name.startsWith('.svc-staging'))
        if (staging.length > 0) t.strictSame(staging, [], `call ${n}: staging`)
        if (signal === null) break
      }
      t.ok(seen.before > 0, JSON.stringify(seen))
      if (action !== 'revert') t.ok(seen.after > 0, JSON.stringify(seen))
    }
  )
}
