import t from 'tap'
import type { Test } from 'tap'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { once } from 'node:events'
import {
  endJournal,
  extractArchive,
  journalPathOf,
  type OpenExtractions,
  openState,
  putBack,
  recoverTargets,
  removeJournal,
  revertExtraction,
  settleExtraction
} from '../../../../lib/core/install/unpack/extract.js'
import { createExecutors } from '../../../../lib/core/install/unpack/executors.js'
import { extractionStage, type ExtractionStage, refusalOf } from '../../../support/extraction.js'
import { makeZip } from '../../../support/make-zip.js'
import { snapshot } from '../../../support/tree.js'
import { disk as realDisk } from '../../../../lib/core/install/disk.js'
import { journalAt } from '../../../../lib/core/install/journal.js'
import { parseManifest } from '../../../../lib/core/install/manifest.js'
import { type PlacedDecision, recover } from '../../../../lib/core/install/undo.js'
import { bare } from '../../../support/bare.js'
import { repetitions } from '../../../support/thorough.js'
import type { Executor, Outcome } from '../../../../lib/core/install/unpack/extract-threads.js'
import { defaultWithinMs } from '../../../support/until.js'

/** A tree with common names, modes and contents of every kind. */
function writeTree(directory: string, withLink: boolean): void {
  mkdirSync(join(directory, 'sub/empty'), { recursive: true })
  writeFileSync(join(directory, 'index.html'), '<h1>hello</h1>\n'.repeat(500))
  writeFileSync(join(directory, 'sub/run.sh'), '#!/bin/sh\n')
  writeFileSync(join(directory, 'sub/größe 日本.txt'), 'ünïcode')
  writeFileSync(join(directory, '.env'), 'A=1')
  writeFileSync(join(directory, 'zero'), '')
  writeFileSync(join(directory, 'big.bin'), Buffer.alloc(2_000_000, 'abcdefg'))
  chmodSync(join(directory, 'sub/run.sh'), 0o755)
  if (withLink) symlinkSync('sub/run.sh', join(directory, 'link'))
  utimesSync(join(directory, 'index.html'), 1_700_000_000, 1_700_000_000)
}

const python = `
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:
    for root, dirs, files in os.walk('.'):
        for name in dirs + files: z.write(os.path.join(root, name))
`
const pythonStream = `
import os, sys, zipfile
class Out:
    def __init__(self, f): self.f = f
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with open(sys.argv[1], 'wb') as f, zipfile.ZipFile(Out(f), 'w', zipfile.ZIP_DEFLATED) as z:
    for root, dirs, files in os.walk('.'):
        for name in files:
            with z.open(zipfile.ZipInfo.from_file(os.path.join(root, name)), 'w', force_zip64=True) as o:
                o.write(open(os.path.join(root, name), 'rb').read())
`

interface Tool {
  name: string
  command(zip: string): string[]
  keepsLinks?: true
  keepsModes?: true
  keepsEmpty?: true
}

const tools: Tool[] = [
  { name: 'zip', command: zip => ['zip', '-qry', zip, '.'], keepsLinks: true, keepsModes: true, keepsEmpty: true },
  {
    name: 'zip, stored',
    command: zip => ['zip', '-qry0', zip, '.'],
    keepsLinks: true,
    keepsModes: true,
    keepsEmpty: true
  },
  {
    name: 'zip, to a pipe',
    command: zip => ['sh', '-c', `zip -qr - . | cat > '${zip}'`],
    keepsModes: true,
    keepsEmpty: true
  },
  { name: '7z', command: zip => ['7z', 'a', '-tzip', '-bso0', '-bsp0', zip, '.'], keepsModes: true, keepsEmpty: true },
  { name: 'python3', command: zip => ['python3', '-c', python, zip], keepsModes: true, keepsEmpty: true },
  { name: 'python3, streaming with ZIP64', command: zip => ['python3', '-c', pythonStream, zip], keepsModes: true },
  { name: 'jar', command: zip => ['jar', '--create', '--no-manifest', '--file', zip, '.'], keepsEmpty: true }
]

for (const { name, command, keepsLinks, keepsModes, keepsEmpty } of tools) {
  const program = name.split(',')[0] as string
  const isMissing = spawnSync(program === 'jar' ? 'jar' : program, ['--version']).error !== undefined
  t.test(`extracts a zip made by ${name}`, { skip: isMissing && `${program} is not on this machine` }, async t => {
    const directory = t.testdir({ source: {} })
    const stage = extractionStage(directory)
    const source = join(directory, 'source')
    writeTree(source, keepsLinks ?? false)
    const [file, ...args] = command(stage.archivePath) as [string, ...string[]]
    execFileSync(file, args, {
      cwd: source,
      env: { ...process.env, LC_ALL: 'C.UTF-8' },
      stdio: ['ignore', 'ignore', 'inherit']
    })
    await stage.runThreads()
    const seen = (tree: string): string[] =>
      snapshot(tree)
        .filter(line => keepsEmpty || !line.startsWith('sub/empty'))
        .map(line => (keepsModes ? line : line.replace(/^(\S+?(?: 日本\.txt)?\/?) \d+/, '$1')))
    t.strictSame(seen(stage.target), seen(source))
    if (program !== 'jar') t.equal(statSync(join(stage.target, 'index.html')).mtimeMs, 1_700_000_000_000)
  })
}

t.test('extracts many files as declared', async t => {
  const stage = extractionStage(t.testdir())
  const entries = Array.from({ length: 900 }, (_, i) => ({
    name: `d${i % 20}/f${i}`,
    data: `${i} `.repeat(200 + (i % 100))
  }))
  stage.put(makeZip(entries))
  const { fileCount, changedPaths, bytes } = await stage.runThreads()
  t.equal(fileCount, 900)
  t.equal(changedPaths.length, 900)
  t.equal(
    bytes,
    entries.reduce((sum, { data }) => sum + data.length, 0)
  )
  for (const { name, data } of entries) {
    if (readFileSync(join(stage.target, name), 'utf8') !== data) t.fail(`${name} differs`)
  }
  t.strictSame((await stage.runThreads()).changedPaths, [])
})

t.test('puts the target back after a fault anywhere in the archive', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'f3'), 'old')
  const before = stage.state()
  for (const bad of [0, 200, 399]) {
    const entries = Array.from({ length: 400 }, (_, i) => ({ name: `f${i}`, data: `${i} `.repeat(800) }))
    stage.put(makeZip(entries.map((entry, i) => (i === bad ? { ...entry, crc32: 1 } : entry))))
    const { code, message } = await refusalOf(stage.runThreads())
    t.equal(code, 'crc_mismatch', message)
    t.match(message, `"f${bad}"`)
    t.strictSame(stage.state(), before)
  }
})

t.test('an abort stops the extraction and puts the target back', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'f3'), 'old')
  stage.put(makeZip(Array.from({ length: 800 }, (_, i) => ({ name: `f${i}`, data: `${i} `.repeat(1000) }))))
  const before = stage.state()
  const reason = new Error('cancelled by somebody')
  await t.rejects(stage.runThreads({ signal: AbortSignal.abort(reason) }), reason)
  for (const ms of [0, 30, 80]) {
    const controller = new AbortController()
    setTimeout(() => controller.abort(reason), ms)
    const outcome = await stage.runThreads({ signal: controller.signal }).then(
      () => null,
      error => error as unknown
    )
    if (outcome === null) {
      t.pass(`it was done before ${ms} ms`)
      break
    }
    t.equal(outcome, reason)
    t.strictSame(stage.state(), before)
  }
})

t.test('several concurrent extractions do not block the event loop', async t => {
  const directory = t.testdir()
  const stages = [0, 1, 2].map(i => {
    mkdirSync(join(directory, `${i}`))
    const stage = extractionStage(join(directory, `${i}`), `dep_${i}`)
    stage.put(makeZip(Array.from({ length: 200 }, (_, n) => ({ name: `f${n}`, data: `${i} ${n}`.repeat(300) }))))
    return stage
  })
  const delay = monitorEventLoopDelay({ resolution: 5 })
  delay.enable()
  await Promise.all(stages.map(stage => stage.runThreads()))
  delay.disable()
  t.comment(`event loop p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms`)
  stages.forEach(({ target }, i) => t.equal(readFileSync(join(target, 'f7'), 'utf8'), `${i} 7`.repeat(300)))
})

t.test('puts back an earlier extraction into the same target first', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'old'), 'old')
  mkdirSync(join(stage.target, '.svc-staging-dep_gone/files'), { recursive: true, mode: 0o700 })
  writeFileSync(join(stage.deployments, 'dep_gone.undo'), `svc-undo 1\ntarget ${stage.target}\n`)
  stage.put(makeZip([{ name: 'a', data: 'x' }]))
  await stage.runThreads()
  t.strictSame(readdirSync(stage.target), ['a', 'old'])
  t.strictSame(readdirSync(stage.deployments), ['dep_test.manifest'])
})

t.test('recovery continues after a missing target and an unreadable journal', async t => {
  const { deployments } = extractionStage(t.testdir())
  writeFileSync(join(deployments, 'dep_a.undo'), 'svc-undo 1\ntarget /nowhere/at/all\nready 0 0\n')
  writeFileSync(join(deployments, 'dep_b.undo'), 'svc-un')
  t.strictSame(await recoverTargets(createExecutors(), { home: { deployments } }), [])
  t.strictSame(readdirSync(deployments), ['dep_a.undo'], 'its disk may come back')
})

t.test('a missing archive is not a refusal', async t => {
  const { target, deployments, archivePath } = extractionStage(t.testdir())
  await t.rejects(
    extractArchive(createExecutors(), {
      archivePath,
      target,
      deployId: 'd',
      home: { deployments },
      limits: { maxEntries: 1, maxExtractedBytes: 1 },
      signal: new AbortController().signal
    }),
    { code: 'ENOENT' }
  )
})

t.test('the process can end after an extraction', async t => {
  const stage = extractionStage(t.testdir())
  stage.put(makeZip([{ name: 'a', data: 'x' }]))
  const program = fileURLToPath(new URL('../../../support/killed-extraction.js', import.meta.url))
  execFileSync(process.execPath, [program, stage.archivePath, stage.target, stage.deployments, 'threads'], {
    timeout: defaultWithinMs
  })
  t.strictSame(readdirSync(stage.target), ['a'])
  rmSync(stage.target, { recursive: true })
})

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

const killer = fileURLToPath(new URL('../../../support/killed-extraction.js', import.meta.url))

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

const { signal } = new AbortController()
const job = { journalPath: '/nowhere/dep_a.undo', placed: 'revert' } as const

function executorOf(outcome: Outcome): Executor {
  return { run: async () => outcome, isStuck: () => false }
}

t.test('resolves with what a recovery did, and throws if it could not be done', async t => {
  const recovered: Outcome = { kind: 'recovered', recovery: 'put back', displaced: null }
  t.strictSame(await putBack(executorOf(recovered), job, signal), recovered)
  const error = new Error('EIO')
  await t.rejects(putBack(executorOf({ kind: 'failed', error }), job, signal), error)
  for (const kind of ['died', 'stuck'] as const) {
    await t.rejects(putBack(executorOf({ kind }), job, signal), { message: /not put back yet/ })
  }
})

t.test('removes a journal, also one that does not exist', async t => {
  const home = { deployments: t.testdir() }
  writeFileSync(journalPathOf(home, 'dep_a'), '')
  await removeJournal(home, 'dep_a')
  await removeJournal(home, 'dep_a')
  t.notOk(existsSync(journalPathOf(home, 'dep_a')))
})
