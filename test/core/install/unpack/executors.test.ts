import t from 'tap'
import type { Extracted } from '../../../../lib/core/install/unpack/extraction.js'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  createExecutors,
  defaultSmall,
  helperProgram,
  isSmallExtraction
} from '../../../../lib/core/install/unpack/executors.js'
import { extractionStage, type ExtractionStage, nothingIsSmall, pathsOf } from '../../../support/extraction.js'
import { emptyDisk, fillDisk } from '../../../support/full-disk.js'
import { makeZip } from '../../../support/make-zip.js'
import { smallDisk } from '../../../support/small-disk.js'
import { snapshot } from '../../../support/tree.js'
import type { Job } from '../../../../lib/core/install/unpack/extract-threads.js'
import { pruningOf } from '../../../support/pruning.js'
import {
  endJournal,
  extractArchive,
  openState,
  recoverTargets,
  removeJournal,
  revertExtraction,
  settleExtraction
} from '../../../../lib/core/install/unpack/extract.js'
import { findIdentity, maySwitchUser, type Rights } from '../../../../lib/core/proc/identity.js'
import { disk } from '../../../../lib/core/install/disk.js'
import { journalAt } from '../../../../lib/core/install/journal.js'
import { describeJournal, writeOwner } from '../../../../lib/core/install/undo.js'
import { bootId, knownProcess } from '../../../../lib/core/proc/stop.js'
import { steadyDescriptors, watchDescriptors } from '../../../support/descriptors.js'
import { isRunning } from '../../../support/processes.js'
import { changedText, createRandom } from '../../../support/random.js'
import { firstSeed } from '../../../support/thorough.js'
import { zipOf } from '../../../support/zip.js'
import { openDirectory } from '../../../support/open-directory.js'

t.test('uses threads of svc without user rights, and for a journal without a helper', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  t.equal(executors.as(null), await executors.ofJournal(null))
})

t.test('creates a target, and writes the list of changes to a private file', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const directory = t.testdir({})
  const target = await executors.makeTarget(null, join(directory, 'www'), { home: '/nowhere' } as never)
  t.ok(statSync(target).isDirectory())
  const list = join(directory, 'changes')
  await executors.writeChanges(null, list, [Buffer.from('a\n'), Buffer.from('b\n')])
  t.equal(readFileSync(list, 'utf8'), 'a\nb\n')
  t.equal(statSync(list).mode & 0o777, 0o600)
})

t.test('refuses a journal whose user no longer exists', async t => {
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const helper = { user: 'no-such-user-of-svc', pid: 2 ** 22 + 1, startedAt: '1' }
  await t.rejects(executors.ofJournal(helper as never), { code: /./ })
})

const isLinux = process.platform === 'linux'
let started = 0
process.on('worker', () => void started++)
const executors = createExecutors()
t.teardown(() => executors.close())

/** The largest small archive: files that barely compress, which replace others. */
const largest = (version: number) =>
  makeZip(
    Array.from({ length: defaultSmall.entries }, (_, n) => ({
      name: `d${n % 7}/f${n}`,
      data: Buffer.alloc(3_900, `${version} ${n} `),
      method: 8
    }))
  )

/** Two extractions change inodes at different times. */
const withoutTimes = (extracted: Extracted | undefined) => ({ ...extracted, ctimes: extracted?.ctimes?.length })

t.test('a small archive starts no thread, and produces the same', { skip: !isLinux && 'threads are used' }, async t => {
  const [one, two] = ['one', 'two'].map(name => extractionStage(join(t.testdirName, name)))
  t.testdir({ one: { target: {}, deployments: {} }, two: { target: {}, deployments: {} } })
  const threads = createExecutors({ small: nothingIsSmall })
  t.teardown(() => threads.close())
  for (const version of [1, 2]) {
    one?.put(largest(version))
    two?.put(largest(version))
    const before = started
    const here = withoutTimes(await one?.runThreads({ threads: executors }))
    t.equal(started, before)
    t.strictSame(withoutTimes(await two?.runThreads({ threads })), here)
    t.strictSame(snapshot(one?.target as string), snapshot(two?.target as string))
  }
  t.ok(started > 0)
  one?.put(makeZip(Array.from({ length: defaultSmall.entries + 1 }, (_, n) => ({ name: `f${n}`, data: '' }))))
  const before = started
  await one?.runThreads({ threads: executors })
  t.equal(started, before + 1, 'more entries take a thread')
})

t.test('other work has its turn during the largest small extraction', async t => {
  const stage = extractionStage(t.testdir())
  for (const version of [1, 2]) {
    stage.put(largest(version))
    let [turns, longestMs, isOver] = [0, 0, false]
    let used = process.cpuUsage()
    const turn = (): void => {
      const { user, system } = process.cpuUsage(used)
      used = process.cpuUsage()
      longestMs = Math.max(longestMs, (user + system) / 1000)
      turns++
      if (!isOver) setImmediate(turn)
    }
    setImmediate(turn)
    await stage.runThreads({ threads: executors })
    isOver = true
    t.ok(turns > 20, `${turns} turns`)
    // Processor time, because other processes share the machine.
    t.ok(longestMs < 100, `at most ${longestMs.toFixed(1)} ms at a time`)
  }
})

t.test('an abort while it is queued, or between files, leaves the target unchanged', async t => {
  const stage = extractionStage(t.testdir())
  writeFileSync(join(stage.target, 'own'), 'a file')
  stage.put(largest(1))
  const before = stage.state()
  await t.rejects(stage.runThreads({ threads: executors, signal: AbortSignal.abort(new Error('enough')) }), {
    message: 'enough'
  })
  for (const file of ['d0/f7', 'd4/f200']) {
    const controller = new AbortController()
    let isOver = false
    const look = (): void => {
      if (existsSync(join(stage.target, `.svc-staging-dep_test/files/${file}`))) controller.abort(new Error('enough'))
      else if (!isOver) setImmediate(look)
    }
    setImmediate(look)
    await t.rejects(stage.runThreads({ threads: executors, signal: controller.signal }), { message: 'enough' }, file)
    isOver = true
    t.strictSame(stage.state(), before)
  }
})

t.test('a damaged entry is refused as in a thread', async t => {
  const stage = extractionStage(t.testdir())
  stage.put(
    makeZip([
      { name: 'a', data: 'a' },
      { name: 'b', data: 'b', crc32: 1 }
    ])
  )
  await t.rejects(stage.runThreads({ threads: executors }), { code: 'crc_mismatch', kind: 'invalid' })
  t.strictSame([readdirSync(stage.target), readdirSync(stage.deployments)], [[], []])
})

t.test('a full disk leaves the target unchanged', async t => {
  const disk = smallDisk(t, 4 * 1024 * 1024)
  if (disk === null) return
  const stage = extractionStage(t.testdir(), 'dep_test', join(disk, 'target'))
  writeFileSync(join(stage.target, 'f'), 'old')
  stage.put(makeZip([{ name: 'f', data: Buffer.alloc(400_000, 'n') }]))
  const before = stage.state()
  const threads = started
  fillDisk(disk, 100_000)
  await t.rejects(stage.runThreads({ threads: executors }), { code: 'no_space', kind: 'unavailable' })
  t.strictSame(stage.state(), before)
  emptyDisk(disk)
  await stage.runThreads({ threads: executors })
  t.equal(readFileSync(join(stage.target, 'f'), 'utf8').length, 400_000)
  t.equal(started, threads, 'without a thread')
})

t.test('many small extractions at the same time all end', async t => {
  const directory = t.testdir()
  const stages = Array.from({ length: 12 }, (_, n) => {
    mkdirSync(join(directory, `${n}`))
    const stage = extractionStage(join(directory, `${n}`), `dep_${n}`)
    stage.put(makeZip([{ name: 'f', data: `${n}` }]))
    return stage
  })
  await Promise.all(stages.map(stage => stage.runThreads({ threads: executors })))
  stages.forEach(({ target }, n) => t.equal(readFileSync(join(target, 'f'), 'utf8'), `${n}`))
  rmSync(directory, { recursive: true })
})

t.test('a file that grows after the sizes were looked at does not stop the server', async t => {
  const stage = extractionStage(t.testdir({ target: { a: '' } }))
  // What a race would do: the limit lets the file pass.
  const careless = createExecutors({ small: { ...defaultSmall, existingBytes: Infinity } })
  t.teardown(() => careless.close())
  truncateSync(join(stage.target, 'a'), 900 * 2 ** 30)
  stage.put(makeZip([{ name: 'a', data: 'new' }]))
  await t.rejects(stage.runThreads({ threads: careless }), { code: 'changed_meanwhile' })
  t.strictSame(readdirSync(stage.target), ['a'], 'nothing else is left')
})

type ExtractJob = Extract<Job, { kind: 'extract' }>

function jobOf(stage: ExtractionStage, directory: string, given: Partial<ExtractJob['extraction']> = {}): ExtractJob {
  const limits = { maxEntries: 200_000, maxExtractedBytes: 1e9 }
  const extraction = { target: stage.target, deployId: 'dep_test', limits, umask: 0o022, masksModes: false, ...given }
  return { kind: 'extract', extraction, ...pathsOf(directory, 'dep_test') }
}

const files = (count: number, data = 'x') => makeZip(Array.from({ length: count }, (_, n) => ({ name: `f${n}`, data })))

t.test('is small up to the limits of archive, contents, and entries', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  const job = jobOf(stage, directory)
  stage.put(files(256))
  t.equal(await isSmallExtraction(job), true)
  t.equal(await isSmallExtraction(job, { ...defaultSmall, archiveBytes: 1000 }), false)
  t.equal(await isSmallExtraction(job, { ...defaultSmall, bytes: 255 }), false)
  stage.put(files(257))
  t.equal(await isSmallExtraction(job), false)
  stage.put(makeZip([{ name: 'zeros', data: Buffer.alloc(5e6), method: 8 }]))
  t.equal(await isSmallExtraction(job), false, 'a small archive with much in it')
  stage.put(Buffer.from('not a zip'))
  t.equal(await isSmallExtraction(job), false)
  rmSync(stage.archivePath)
  t.equal(await isSmallExtraction(job), false)
})

t.test('is not small if large files are replaced or may be removed', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  stage.put(files(2))
  const job = jobOf(stage, directory)
  const enlarge = (path: string): void => {
    writeFileSync(path, '')
    truncateSync(path, 1e10)
  }
  enlarge(join(stage.target, 'other'))
  t.equal(await isSmallExtraction(job), true, 'a file that is neither')
  const ownership = await pruningOf({ other: 'small once' })
  t.equal(await isSmallExtraction(jobOf(stage, directory, { ownership })), false, 'an owned file that has grown')
  t.equal(await isSmallExtraction(jobOf(stage, directory, { ownership: { ...ownership, removes: null } })), true)
  const treeBytes = (ownership.tree as Uint8Array).length - 1
  t.equal(
    await isSmallExtraction(jobOf(stage, directory, { ownership: { ...ownership, removes: null } }), {
      ...defaultSmall,
      treeBytes
    }),
    false
  )
  enlarge(join(stage.target, 'f1'))
  t.equal(await isSmallExtraction(job), false)
})

t.test('is not small with another file system below the target', async t => {
  const disk = smallDisk(t, 1024 * 1024)
  if (disk === null) return
  const directory = t.testdir()
  const stage = extractionStage(directory, 'dep_test', join(disk, 'target'))
  stage.put(files(2))
  t.equal(await isSmallExtraction(jobOf(stage, directory)), true)
  t.equal(await isSmallExtraction(jobOf(stage, directory, { target: join(disk, '..') })), false)
  const link = join(directory, 'link')
  symlinkSync(stage.target, link)
  t.equal(await isSmallExtraction(jobOf(stage, directory, { target: link })), true, 'links are followed')
  mkdirSync(join(directory, 'away'))
  renameSync(stage.target, join(disk, 'away'))
  t.equal(await isSmallExtraction(jobOf(stage, directory)), false, 'a target that is gone')
})

const options = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }
const nobody = 65534

t.test('extraction with the rights of a project user', options, async t => {
  const rights: Rights = { identity: await findIdentity('nobody'), umask: 0o027 }
  const executors = createExecutors()
  t.teardown(() => executors.close())

  /**
   * A target that the user owns below a directory that everybody can enter, and a data directory that only svc can
   * enter.
   */
  async function stage(directory: string, files: Record<string, string>) {
    mkdirSync(join(directory, 'home/deployments'), { recursive: true })
    mkdirSync(join(directory, 'secret'))
    writeFileSync(join(directory, 'secret/file'), 'of root')
    for (const closed of ['home', 'secret']) chmodSync(join(directory, closed), 0o700)
    const target = join(directory, 'target')
    mkdirSync(target)
    chownSync(target, nobody, nobody)
    const archivePath = join(directory, 'home/archive.zip')
    const deployments = join(directory, 'home/deployments')
    const put = async (files: Record<string, string>) => writeFileSync(archivePath, await zipOf(files), { mode: 0o600 })
    await put(files)
    const extract = async (deployId: string, signal = new AbortController().signal, staysOpen = false) => {
      const limits = { maxEntries: 1000, maxExtractedBytes: 1e9 }
      const extracted = await extractArchive(executors, {
        archivePath,
        target,
        rights,
        deployId,
        home: { deployments },
        limits,
        signal,
        staysOpen
      })
      if (!staysOpen) await endJournal({ deployments }, { deployId, target })
      return extracted
    }
    return { directory, target, deployments, put, extract }
  }

  t.test('creates the files as that user, and the manifest as svc', async t => {
    const { target, deployments, put, extract } = await stage(openDirectory(t), {
      'index.html': 'one',
      'assets/a.js': 'a'
    })
    t.match(await extract('dep_1'), { fileCount: 2, changedCount: 2 })
    t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
    for (const name of ['index.html', 'assets', 'assets/a.js'])
      t.match(statSync(join(target, name)), { uid: nobody, gid: nobody }, name)
    t.equal(statSync(join(target, 'index.html')).mode & 0o777, 0o640, 'the umask is that of the project')
    await put({ 'index.html': 'two' })
    t.match(await extract('dep_2'), { fileCount: 1, changedCount: 1 })
    t.strictSame(readdirSync(deployments).sort(), ['dep_1.manifest', 'dep_2.manifest'])
    t.match(statSync(join(deployments, 'dep_2.manifest')), { uid: 0 })
    t.equal(statSync(join(deployments, 'dep_2.manifest')).mode & 0o777, 0o600)
    t.match(JSON.parse(readFileSync(join(deployments, 'dep_2.manifest'), 'utf8')), { path: 'index.html', size: 3 })
    t.strictSame(readdirSync(target).sort(), ['assets', 'index.html'], 'no staging is left')
  })

  t.test('cannot reach files that the user cannot reach, even through planted links', async t => {
    const { directory, target, put, extract } = await stage(openDirectory(t), { 'in/file': 'planted' })
    symlinkSync(join(directory, 'secret'), join(target, 'in'))
    await t.rejects(extract('dep_1'), { code: 'written_through_link' })
    rmSync(join(target, 'in'))
    mkdirSync(join(target, 'of root'), 0o755)
    await put({ 'of root/file': 'x' })
    await t.rejects(extract('dep_2'), { code: 'not_permitted', message: /permission denied for the user "nobody"/ })
    t.strictSame(snapshot(join(directory, 'secret')), ['file 644 of root'])
    t.strictSame(readdirSync(target), ['of root'])
  })

  t.test('settles and reverts with the rights of the user, and keeps edited files', async t => {
    const { target, deployments, put, extract } = await stage(openDirectory(t), { 'index.html': 'one', 'new/a': 'a' })
    const never = new AbortController().signal
    const home = { deployments }
    await extract('dep_1', never, true)
    t.ok(await settleExtraction(executors, home, 'dep_1'))
    await endJournal(home, { deployId: 'dep_1', target })
    await put({ 'index.html': 'two', 'new/a': 'b' })
    await extract('dep_2', never, true)
    t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'two')
    writeFileSync(join(target, 'index.html'), 'two, edited')
    const directory = '.svc-displaced-dep_2'
    t.match(await revertExtraction(executors, home, 'dep_2'), { directory, paths: ['index.html'], count: 1 })
    t.equal(openState(home, 'dep_2'), 'reverting')
    await removeJournal(home, 'dep_2')
    t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'one')
    t.equal(readFileSync(join(target, 'new/a'), 'utf8'), 'a')
    t.equal(readFileSync(join(target, directory, 'index.html'), 'utf8'), 'two, edited')
    t.match(statSync(join(target, directory)), { uid: nobody })
    t.strictSame(readdirSync(target).sort(), [directory, 'index.html', 'new'])
    t.strictSame(readdirSync(deployments).sort(), ['dep_1.manifest', 'dep_2.manifest'])
  })

  t.test('leaves nothing of a refused archive', async t => {
    const { target, deployments, put, extract } = await stage(openDirectory(t), { a: 'a' })
    writeFileSync(join(deployments, '../archive.zip'), 'no zip')
    await t.rejects(extract('dep_1'), { code: 'not_a_zip' })
    await put({ a: 'a' })
    rmSync(join(deployments, '../archive.zip'))
    await t.rejects(extract('dep_2'), { code: 'ENOENT' })
    t.strictSame([...readdirSync(target), ...readdirSync(deployments)], [])
  })

  t.test('an abort kills the process and puts the target back', async t => {
    const files = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`d${n % 30}/f${n}`, `${n}`.repeat(2000)]))
    const { target, deployments, extract } = await stage(openDirectory(t), files)
    writeFileSync(join(target, 'kept'), 'kept')
    const before = snapshot(target)
    for (const ms of [0, 60, 120, 200]) {
      const aborter = new AbortController()
      const extracting = extract('dep_1', aborter.signal).then(
        () => 'done',
        () => 'aborted'
      )
      setTimeout(() => aborter.abort(new Error('enough')), ms)
      if ((await extracting) === 'done') break
      t.strictSame(snapshot(target), before, `after ${ms} ms`)
      t.strictSame(readdirSync(deployments), [], `after ${ms} ms`)
    }
  })

  t.test('a start ends the process of an earlier svc, and puts the target back with the same rights', async t => {
    const { target, deployments } = await stage(openDirectory(t), {})
    const stray = spawn('sh', ['-c', 'read line', helperProgram], {
      stdio: ['pipe', 'ignore', 'ignore'],
      uid: nobody,
      gid: nobody
    })
    await once(stray, 'spawn')
    const pid = stray.pid as number
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const startedAt = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] as string
    // The state of an extraction before it moves anything: a journal, and a staging directory with its mark.
    const journal = join(deployments, 'dep_1.undo')
    const staging = join(target, '.svc-staging-dep_1')
    for (const path of [staging, join(staging, 'mark'), join(staging, 'files')]) {
      mkdirSync(path, 0o700)
      chownSync(path, nobody, nobody)
    }
    const owner = { user: 'nobody', uid: nobody, bootId: bootId(), target }
    writeFileSync(journal, `svc-undo 4\ntarget ${target}\nstaging mark\n`, { mode: 0o600 })
    writeOwner(disk, journal, { ...owner, pid, startedAt })
    t.strictSame(
      await recoverTargets(executors, { home: { deployments }, onProblem: (_, error) => t.fail(String(error)) }),
      []
    )
    t.notOk(isRunning(pid), 'the process has ended')
    t.notOk(existsSync(staging))
    t.strictSame(readdirSync(deployments), [])

    // Another process has that number now: it must not be ended.
    const other = spawn('sleep', ['600'], { stdio: 'ignore' })
    await once(other, 'spawn')
    t.teardown(() => other.kill())
    writeFileSync(journal, `svc-undo 4\ntarget ${target}\n`)
    writeOwner(disk, journal, { ...owner, pid: other.pid as number, startedAt: '1' })
    await recoverTargets(executors, { home: { deployments }, onProblem: (_, error) => t.fail(String(error)) })
    t.ok(isRunning(other.pid as number))
    t.notOk(existsSync(journal))
  })

  t.test('a start removes an owner that was being written, with its journal', async t => {
    const { deployments } = await stage(openDirectory(t), {})
    writeFileSync(join(deployments, 'dep_1.undo'), 'svc-undo 4\n')
    writeFileSync(join(deployments, 'dep_1.helper.tmp'), '{')
    await recoverTargets(executors, { home: { deployments }, onProblem: (_, error) => t.fail(String(error)) })
    t.strictSame(readdirSync(deployments), [])
  })

  t.test('a start keeps the journal of a complete extraction until it is recorded', async t => {
    const { target, deployments } = await stage(openDirectory(t), {})
    const journal = join(deployments, 'dep_1.undo')
    const staging = join(target, '.svc-staging-dep_1')
    for (const path of [staging, join(staging, 'mark')]) {
      mkdirSync(path, 0o700)
      chownSync(path, nobody, nobody)
    }
    const text = `svc-undo 2\nhelper nobody ${2 ** 22} 1\ntarget ${target}\nstaging mark\nready 0 0\ndone\n`
    writeFileSync(journal, text, { mode: 0o600 })
    const full = async (): Promise<void> => {
      throw new Error('the disk is full')
    }
    await recoverTargets(executors, { home: { deployments }, onComplete: full })
    t.notOk(existsSync(staging))
    t.equal(readFileSync(journal, 'utf8'), text)
    const complete: string[] = []
    await recoverTargets(executors, { home: { deployments }, onComplete: async id => complete.push(id) })
    t.strictSame(complete, ['dep_1'])
    t.notOk(existsSync(journal))
  })

  t.test('does not accept a staging directory of another user', async t => {
    const { directory, target, deployments } = await stage(openDirectory(t), {})
    const staging = join(target, '.svc-staging-dep_1')
    mkdirSync(staging, 0o700)
    symlinkSync(join(directory, 'secret'), join(staging, 'aside'))
    const file = journalAt(disk, join(deployments, 'dep_1.undo'))
    writeFileSync(join(deployments, 'dep_1.undo'), `svc-undo 4\nhelper nobody 1 1\ntarget ${target}\n`)
    // The checksum of an empty list.
    file.append(['staging mark\n', 'ready 0 1\n'])
    const lost: string[] = []
    await recoverTargets(executors, { home: { deployments }, onLost: id => lost.push(id) })
    t.strictSame(lost, ['dep_1'])
    t.ok(lstatSync(join(staging, 'aside')).isSymbolicLink())
    t.equal(readFileSync(join(directory, 'secret/file'), 'utf8'), 'of root')
  })

  t.test('believes nothing of a journal that its process could write', async t => {
    const { directory, target, deployments, put, extract } = await stage(openDirectory(t), { a: 'a' })
    const journal = join(deployments, 'dep_1.undo')
    const victim = spawn('sh', ['-c', 'read line', helperProgram], { stdio: ['pipe', 'ignore', 'ignore'] })
    await once(victim, 'spawn')
    t.teardown(() => victim.kill())
    const { pid } = victim as { pid: number }
    const { startedAt } = knownProcess(pid) as { startedAt: string }
    const owner = { user: 'nobody', uid: nobody, pid: 2 ** 22, startedAt: '1', bootId: bootId(), target }
    // A directory of root, with what a recovery with the rights of root would take for its staging.
    const other = join(directory, 'other')
    const staging = join(other, '.svc-staging-dep_1')
    mkdirSync(staging, { recursive: true, mode: 0o700 })
    chmodSync(other, 0o755)
    mkdirSync(join(staging, 'mark'))
    const problems: unknown[] = []
    const written = [
      `svc-undo 4\nhelper root ${pid} ${startedAt}\ntarget ${other}\nstaging mark\n`,
      `svc-undo 4\nhelper nobody ${pid} ${startedAt}\ntarget ${other}\nstaging mark\n`,
      `svc-undo 4\ntarget ${other}\nstaging mark\nready 0 1\ndone\n`,
      '\n'.repeat(5_000_000)
    ]
    const random = createRandom(firstSeed)
    const changed = Array.from({ length: 20 }, () => changedText(random, written[random.below(3)] as string))
    for (const [number, text] of [...written, ...changed].entries()) {
      const what = `seed ${firstSeed}, text ${number}`
      writeFileSync(journal, text, { mode: 0o600 })
      writeOwner(disk, journal, owner)
      t.equal(openState({ deployments }, 'dep_1'), null, what)
      // Another deployment into the directory that the journal names does not wait for it.
      t.strictSame(describeJournal(journal), { target, helper: owner }, what)
      await recoverTargets(executors, { home: { deployments }, onProblem: (_, error) => problems.push(error) })
      t.ok(existsSync(join(staging, 'mark')), what)
      await removeJournal({ deployments }, 'dep_1')
    }
    t.ok(isRunning(pid), 'a process of root is not ended')
    // The journals of earlier versions: only a helper process of that user is ended.
    for (const user of ['nobody', 'root']) {
      writeFileSync(journal, `svc-undo 4\nhelper ${user} ${pid} ${startedAt}\ntarget ${target}\n`, { mode: 0o600 })
      await recoverTargets(executors, { home: { deployments }, onProblem: (_, error) => problems.push(error) })
      t.ok(isRunning(pid), user)
      await removeJournal({ deployments }, 'dep_1')
    }
    await put({ a: 'b' })
    await extract('dep_2')
    t.equal(readFileSync(join(target, 'a'), 'utf8'), 'b', 'the project still deploys')
    t.strictSame(readdirSync(deployments), ['dep_2.manifest'])
  })

  t.test('leaves no descriptor open in any case', async t => {
    const { deployments, extract } = await stage(openDirectory(t), { a: 'a' })
    await steadyDescriptors()
    const watch = watchDescriptors()
    t.teardown(() => watch.stop())
    await extract('dep_1')
    writeFileSync(join(deployments, '../archive.zip'), 'no zip')
    await t.rejects(extract('dep_2'))
    await t.rejects(extract('dep_3', AbortSignal.timeout(30)))
    t.strictSame(await watch.difference(), [])
    t.strictSame(watch.faults, [])
  })
})
