/*
 * Extraction, with staging, CRC, manifest and moves, against unzip on the same zip and file system: 10,000 small files and
 * 100 of 5 MB, into an empty target, over the same files with other times, and over other contents. On the disk as
 * deployments are by default, with everything on the disk at the end (`durable_targets`), against `unzip -oq && sync -f`; in
 * memory against `unzip -oq`. The time ends where a deployment answers: what was replaced is removed after that, before
 * the next contestant. Beside it: what that costs, the process's peak memory, and how late the event loop was.
 */
import { execFileSync, fork, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  accessSync,
  constants,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import yazl from 'yazl'
import { endJournal, extractArchive, removeLeft } from '../../lib/core/install/unpack/extract.js'
import { filesAt, type LeftStaging, runExtraction } from '../../lib/core/install/unpack/extraction.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { disk } from '../../lib/core/install/disk.js'
import { journalAt } from '../../lib/core/install/journal.js'
import { parseManifest } from '../../lib/core/install/manifest.js'
import { recover } from '../../lib/core/install/undo.js'
import { compare, type Contestant, machine, sized } from '../support/bench.js'

interface Load {
  name: string
  files: number
  fileBytes: number
  /** Whether the files are many and small. */
  isMany: boolean
}

const loads: Load[] = [
  { name: '10,000 files of 6 KB', files: sized(10_000, 20), fileBytes: 6 * 1024, isMany: true },
  { name: '100 files of 5 MB', files: sized(100, 3), fileBytes: sized(5 * 1024 * 1024, 1024), isMany: false }
]

/** Returns text that deflates about as well as a program. */
function someText(bytes: number): Buffer {
  const text = Buffer.from(randomBytes(Math.ceil(bytes / 4)).toString('hex'))
  return Buffer.concat([text, text]).subarray(0, bytes)
}

async function writeLoad(path: string, { files, fileBytes }: Load): Promise<void> {
  const zip = new yazl.ZipFile()
  for (let i = 0; i < files; i++) zip.addBuffer(someText(fileBytes), `d${i % 100}/f${i}.txt`)
  zip.end()
  await pipeline(zip.outputStream, createWriteStream(path))
}

let count = 0
const threads = createExecutors()

const limits = { maxEntries: 200_000, maxExtractedBytes: 1e12 }

/** The last extraction. Like a deployment, it leaves what it has replaced until its end is recorded. */
let last: { deployId: string; left: LeftStaging | undefined } | undefined

async function extract(zip: string, base: string, isDurable = false): Promise<void> {
  const deployments = join(base, 'deployments')
  mkdirSync(deployments, { recursive: true })
  const deployId = `dep_${count++}`
  const { left } = await extractArchive(threads, {
    archivePath: zip,
    target: join(base, 'ours'),
    deployId,
    home: { deployments },
    limits,
    isDurable,
    mayLeave: true,
    signal: new AbortController().signal
  })
  last = { deployId, left }
}

/** Does what a deployment does after its answer. The time of it belongs to no contestant. */
async function tidy(base: string): Promise<void> {
  if (last === undefined) return
  const { deployId, left } = last
  const home = { deployments: join(base, 'deployments') }
  if (left !== undefined) await removeLeft(threads, home, left)
  await endJournal(home, { deployId, target: join(base, 'ours') })
  last = undefined
}

/** Syncs in this thread if the program `sync` is missing. */
async function extractOneByOne(zip: string, base: string): Promise<void> {
  const deployments = join(base, 'deployments')
  mkdirSync(deployments, { recursive: true })
  const deployId = `dep_${count++}`
  const paths = {
    archivePath: zip,
    journalPath: join(deployments, `${deployId}.undo`),
    manifestPath: join(deployments, `${deployId}.manifest`)
  }
  const job = { target: join(base, 'ours'), deployId, umask: 0o022, masksModes: false, limits, isDurable: true }
  await runExtraction(job, filesAt(disk, paths), { disk, syncFileSystem: async () => false })
}

/** Measures what it costs that the contents are on the disk at the end. */
async function compareDurable(base: string, load: Load, zip: string): Promise<void> {
  const from = (work: () => unknown) => async () => {
    await tidy(base)
    setAside(base, 'ours', load)
    settle('disk')
    return seconds(work)
  }
  await compare({
    name: `${load.name}, empty target, disk: ways to have it on the disk`,
    unit: 's',
    contestants: {
      svc: from(() => extract(zip, base, true)),
      'svc, contents left to the kernel': from(() => extract(zip, base)),
      'svc, each file by itself': from(() => extractOneByOne(zip, base))
    }
  })
}

/**
 * An extraction over other contents that is reverted afterwards: the seconds of all moves, and until the target is what
 * it was, with the comparison of each file with the manifest. Staging is removed after that.
 */
async function moveAndPutBack(zip: string, base: string): Promise<{ moves: number; back: number }> {
  const deployId = `dep_${count++}`
  const paths = {
    archivePath: zip,
    journalPath: join(base, 'deployments', `${deployId}.undo`),
    manifestPath: join(base, 'deployments', `${deployId}.manifest`)
  }
  let [startedAtMs, movedAtMs] = [0, 0]
  const linkSync: typeof disk.linkSync = (from, to) => {
    if (startedAtMs === 0) startedAtMs = performance.now()
    disk.linkSync(from, to)
  }
  const renameSync: typeof disk.renameSync = (from, to) => {
    disk.renameSync(from, to)
    movedAtMs = performance.now()
  }
  const hooked = { ...disk, linkSync, renameSync }
  const limits = { maxEntries: 200_000, maxExtractedBytes: 1e12 }
  const umask = process.umask()
  const job = { target: join(base, 'ours'), deployId, umask, masksModes: false, limits, staysOpen: true }
  await runExtraction(job, filesAt(disk, paths), { disk: hooked })
  const moves = movedAtMs - startedAtMs
  const revertedAtMs = performance.now()
  // The last rename is that of `aside`, when everything is back.
  recover(hooked, journalAt(hooked, paths.journalPath), {
    placed: 'revert',
    files: () => parseManifest(readFileSync(paths.manifestPath, 'utf8'))
  })
  return { moves: moves / 1000, back: (movedAtMs - revertedAtMs) / 1000 }
}

/**
 * Makes room for a new target. ext4 gives no inode again within seconds of its removal, and looks at each of them
 * first: what follows the removal of many files at once is slow for every contestant. So they are removed at the end.
 */
function setAside(base: string, directory: string, { isMany }: Load): void {
  const path = join(base, directory)
  if (isMany && existsSync(path)) renameSync(path, join(base, `old-${count++}`))
  else rmSync(path, { recursive: true, force: true })
}

async function seconds(work: () => unknown): Promise<number> {
  const start = performance.now()
  await work()
  return (performance.now() - start) / 1000
}

function touchAll(directory: string): void {
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    if (statSync(path).isDirectory()) touchAll(path)
    else utimesSync(path, 1, 1)
  }
}

/**
 * What a deployment replaces has been on the disk for longer than the half minute after which the kernel writes.
 * Without this, `unzip` removes files that no block was given yet, which costs nothing; ext4 gives those blocks at once
 * that are moved over another, as ours are.
 */
function settle(where: string): void {
  if (where === 'disk') spawnSync('sync')
}

async function compareOn(base: string, where: string, load: Load): Promise<void> {
  const zip = join(base, 'load.zip')
  await writeLoad(zip, load)
  const hasUnzip = spawnSync('unzip', ['-v']).error === undefined
  const empty = (directory: string): void => setAside(base, directory, load)
  // On the disk as deployments are by default: everything is on the disk at the end.
  const isDurable = where === 'disk'
  const rival = isDurable ? 'unzip -oq && sync -f' : 'unzip -oq'
  const unzip = (archive: string): void => {
    execFileSync('unzip', ['-oq', archive, '-d', join(base, 'theirs')])
    if (isDurable) execFileSync('sync', ['-f', join(base, 'theirs')])
  }
  const ours =
    (prepare: () => void, archive = () => zip) =>
    async () => {
      await tidy(base)
      prepare()
      settle(where)
      return seconds(() => extract(archive(), base, isDurable))
    }
  const theirs = (prepare: () => void, archive = () => zip) =>
    !hasUnzip
      ? null
      : async () => {
          await tidy(base)
          prepare()
          settle(where)
          return seconds(() => unzip(archive()))
        }
  const compared = async (what: string, atMost: number, contestants: Record<string, Contestant>): Promise<void> => {
    const name = `${load.name}, ${what}, ${where}`
    await compare({ name, unit: 's', goals: [{ beside: rival, atMost: load.isMany ? atMost : 0.75 }], contestants })
  }
  const touch = (directory: string) => (): void => {
    if (existsSync(join(base, directory))) touchAll(join(base, directory))
  }
  const other = join(base, 'other.zip')
  await writeLoad(other, load)
  const turns = (): (() => string) => {
    let turn = 0
    return () => (turn++ % 2 === 0 ? other : zip)
  }
  await compared('empty target', isDurable ? 1 : 1.5, {
    svc: ours(() => empty('ours')),
    [rival]: theirs(() => empty('theirs'))
  })
  await compared('over the same with other times', isDurable ? 1 : 1.5, {
    svc: ours(touch('ours')),
    [rival]: theirs(touch('theirs'))
  })
  await compared('over other contents', isDurable ? 1.2 : 1.5, {
    svc: ours(() => {}, turns()),
    [rival]: theirs(() => {}, turns())
  })
  if (isDurable) await compareDurable(base, load, zip)
  await tidy(base)
  if (load.isMany) await comparePuttingBack(zip, other, base, { where, load })
  rmSync(other)
  empty('ours')
  const child = fork(fileURLToPath(import.meta.url), [zip, base], { stdio: 'inherit' })
  await new Promise(resolve => child.once('exit', resolve))
  empty('ours')
  empty('theirs')
}

async function comparePuttingBack(
  zip: string,
  other: string,
  base: string,
  { where, load }: { where: string; load: Load }
): Promise<void> {
  let measured: { moves: number; back: number } | null = null
  // Both figures are of one extraction, whichever is asked for first.
  const measure = (which: 'moves' | 'back') => async () => {
    if (measured !== null) {
      const figure = measured[which]
      measured = null
      return figure
    }
    await extract(zip, base)
    await tidy(base)
    settle(where)
    measured = await moveAndPutBack(other, base)
    return measured[which]
  }
  await compare({
    name: `${load.name}, revert, ${where}`,
    unit: 's',
    goals: [{ beside: 'the moves', atMost: 1.2 }],
    contestants: { 'the revert': measure('back'), 'the moves': measure('moves') }
  })
}

/** Measures peak memory and timer delays in a separate process during an extraction. */
async function measureOne(zip: string, base: string): Promise<void> {
  const idleMiB = peakMemoryMiB()
  const delay = monitorEventLoopDelay({ resolution: 2 })
  delay.enable()
  await extract(zip, base)
  delay.disable()
  const peakMiB = peakMemoryMiB()
  console.log(
    `  peak RSS ${peakMiB.toFixed(0)} MiB (${idleMiB.toFixed(0)} before); ` +
      `event loop p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms, worst ${(delay.max / 1e6).toFixed(1)} ms`
  )
  console.log('  target: under 150 MB, p99 under 20 ms')
}

/** Returns the peak memory of this process alone; `maxRSS` starts with that of the parent. */
function peakMemoryMiB(): number {
  const status = existsSync('/proc/self/status') ? readFileSync('/proc/self/status', 'utf8') : ''
  const kilobytes = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? process.resourceUsage().maxRSS)
  return kilobytes / 1024
}

function writable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK)
    return true
  } catch {
    return false
  }
}

const [zip, base] = process.argv.slice(2)
if (zip !== undefined && base !== undefined) {
  await measureOne(zip, base)
} else {
  console.log(machine())
  const places: Array<[string, string]> = [
    ['disk', tmpdir()],
    ['memory', '/dev/shm']
  ]
  for (const [where, parent] of places) {
    if (!writable(parent)) {
      console.log(`${where}: left out, ${parent} is not writable`)
      continue
    }
    const directory = mkdtempSync(join(parent, 'svc-bench-'))
    try {
      for (const load of loads) await compareOn(directory, where, load)
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }
}
