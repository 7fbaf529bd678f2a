import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { manifestOf, parseManifest, settleManifest } from '../../../lib/core/install/manifest.js'
import { disk as realDisk, type Disk } from '../../../lib/core/install/disk.js'
import { canHoldDirectories } from '../../../lib/core/install/held.js'
import { journalAt } from '../../../lib/core/install/journal.js'
import { recover } from '../../../lib/core/install/undo.js'
import { extractionStage, type ExtractionStage } from '../../support/extraction.js'
import { pruningOf } from '../../support/pruning.js'
import { makeZip, type EntryPlan } from '../../support/make-zip.js'
import { createRandom } from '../../support/random.js'
import { snapshot } from '../../support/tree.js'
import { recordDisk } from './recording-disk.js'
import { repetitions } from '../../support/thorough.js'

const skip = !canHoldDirectories && 'directories cannot be held'
const deployId = 'dep_test'

/** New and replaced files, one file that only gets another time, new directories, links. */
const few: EntryPlan[] = [
  { name: 'index.html', data: 'new page'.repeat(200), mode: 0o100644 },
  { name: 'app/a.js', data: 'new a' },
  { name: 'app/new.js', data: 'new' },
  { name: 'app/same.js', data: 'same' },
  { name: 'app/deep/b.js', data: 'new b' },
  { name: 'fresh/x', data: 'x' },
  { name: 'fresh/deep/y', data: 'y' },
  { name: 'fresh/deep/l', data: '../x', mode: 0o120777 },
  { name: 'current', data: 'app/a.js', mode: 0o120777 }
]
/** Paths that have another type in the target, of entries that svc owns. */
const otherTypes: EntryPlan[] = [
  { name: 'page', data: 'a directory before' },
  { name: 'leaf/z', data: 'a file before' }
]
const many = [
  ...few,
  ...Array.from({ length: 20 }, (_, i) => ({ name: `${i % 2 === 0 ? 'app' : 'more'}/f${i}`, data: `${i}` }))
]

/** Files that are removed, of which two give way to another type. */
const pruned = { 'app/dropped': 'dropped', 'old/gone': 'gone', 'old/deep/z': 'z', leaf: 'leaf', 'page/x': 'x' }
const ownership = await pruningOf({ ...pruned, 'old/': '', 'old/deep/': '', 'page/': '', 'app/a.js': 'old a.js' })

function furnish({ target }: ExtractionStage): void {
  mkdirSync(join(target, 'app/deep'), { recursive: true })
  writeFileSync(join(target, 'index.html'), 'old page', { mode: 0o640 })
  for (const name of ['a.js', 'deep/b.js', 'other.js', 'f0']) writeFileSync(join(target, 'app', name), `old ${name}`)
  symlinkSync('app/deep/b.js', join(target, 'current'))
  mkdirSync(join(target, 'old/deep'), { recursive: true })
  mkdirSync(join(target, 'page'))
  for (const [path, contents] of Object.entries(pruned)) writeFileSync(join(target, path), contents)
  writeFileSync(join(target, 'app/same.js'), 'same')
  utimesSync(join(target, 'app/same.js'), 1000, 1000)
}

const timeOf = ({ target }: ExtractionStage): number => Math.round(statSync(join(target, 'app/same.js')).mtimeMs)

/** Its syncs cost nothing: their effect is recorded elsewhere. */
const quick: Disk = { ...realDisk, fsyncSync() {}, fdatasyncSync() {} }

function recoverOn(disk: Disk, stage: ExtractionStage): string {
  const path = join(stage.deployments, `${deployId}.undo`)
  if (!existsSync(path)) return 'no journal'
  const recovery = recover(disk, journalAt(disk, path), {
    settle: recovery => settleManifest(disk, path, recovery)
  })
  // As svc does after it has recorded the deployment.
  if (recovery === 'complete' || recovery === 'reverted') disk.unlinkSync(path)
  return recovery
}

function endOpen(disk: Disk, { deployments }: ExtractionStage, placed: 'settle' | 'revert'): void {
  const path = join(deployments, `${deployId}.undo`)
  recover(disk, journalAt(disk, path), { placed, files: () => parseManifest(readFileSync(manifestOf(path)!, 'utf8')) })
}

interface Case {
  name: string
  entries: EntryPlan[]
  isOneFileSystem: boolean
  isDurable?: boolean
  hasProgram?: boolean
  /** The extraction stays open, and is then settled or reverted. */
  open?: 'settle' | 'revert'
  /** Files are removed, and what no archive has is copied. */
  prunes?: boolean
}

const cases: Case[] = [
  { name: 'few files, one file system', entries: few, isOneFileSystem: true },
  { name: 'few files, the target on another disk', entries: few, isOneFileSystem: false },
  {
    name: 'few files and a prune, one file system',
    entries: [...few, ...otherTypes],
    isOneFileSystem: true,
    prunes: true
  },
  {
    name: 'many files and a prune, the target on another disk',
    entries: [...many, ...otherTypes],
    isOneFileSystem: false,
    prunes: true
  },
  {
    name: 'a prune reverted, one file system',
    entries: [...few, ...otherTypes],
    isOneFileSystem: true,
    open: 'revert',
    prunes: true
  },
  { name: 'many files, one file system', entries: many, isOneFileSystem: true },
  { name: 'many files, the target on another disk', entries: many, isOneFileSystem: false },
  { name: 'many files, without sync -f', entries: many, isOneFileSystem: false, hasProgram: false },
  { name: 'contents not synced, the target on another disk', entries: many, isOneFileSystem: false, isDurable: false },
  { name: 'settled later, one file system', entries: few, isOneFileSystem: true, open: 'settle' },
  { name: 'settled later, the target on another disk', entries: few, isOneFileSystem: false, open: 'settle' },
  { name: 'reverted, one file system', entries: few, isOneFileSystem: true, open: 'revert' },
  { name: 'reverted, the target on another disk', entries: many, isOneFileSystem: false, open: 'revert' }
]
const statesEach = repetitions(16, 80)
const precision = 2 ** 20

for (const [index, one] of cases.entries()) {
  t.test(`recovers from a power cut at any moment: ${one.name}`, { skip }, async t => {
    const { entries, isOneFileSystem, isDurable = true, hasProgram = true, open } = one
    const directory = workPlace(t)
    const stage = extractionStage(directory, deployId)
    furnish(stage)
    if (one.prunes) stage.ownership = ownership
    stage.put(makeZip(entries))
    const before = { lines: snapshot(stage.target), time: timeOf(stage) }
    const recording = recordDisk(directory, isOneFileSystem)
    const syncFileSystem = hasProgram ? recording.syncFileSystem : async () => false
    await stage.run({ disk: recording.disk, syncFileSystem, isDurable, staysOpen: open !== undefined })
    const after = snapshot(stage.target).filter(line => !line.startsWith('.svc'))
    const manifest = snapshot(stage.deployments).filter(line => /\.(manifest|before\.zip)/.test(line))
    const list = manifest.filter(line => line.includes('.manifest'))
    if (open !== undefined) endOpen(recording.disk, stage, open)
    if (isDurable) t.strictSame(recording.unsyncedAtDone(), [], 'all is synced before the end is')
    /** Without contents, if they are left to the kernel. */
    const shown = (lines: string[]): string => JSON.stringify(isDurable ? lines : lines.map(line => line.split(' ')[0]))
    const random = createRandom(index + 1)
    const chance = (): number => random.below(precision) / precision
    const seen: Record<string, number> = {}

    const check = (what: string, outcome: string, mustBeComplete: boolean): void => {
      const now = snapshot(stage.target)
      const isBefore = JSON.stringify(now) === JSON.stringify(before.lines) && timeOf(stage) === before.time
      const isAfter = shown(now) === shown(after)
      const left = snapshot(stage.deployments)
      const isFine = mustBeComplete ? isAfter : isAfter || isBefore
      seen[isAfter ? 'complete' : 'as before'] = (seen[isAfter ? 'complete' : 'as before'] ?? 0) + 1
      if (!isFine) t.strictSame(now, mustBeComplete ? after : before.lines, `${what}: ${outcome}`)
      else if (outcome === 'lost') t.fail(`${what}: it reports that nothing could be done`)
      // The list of files of a reverted deployment stays.
      else if (open !== undefined && isBefore && JSON.stringify(left) === JSON.stringify(list)) return
      else if (JSON.stringify(left) !== JSON.stringify(isAfter ? manifest : []))
        t.strictSame(left, isAfter ? manifest : [], `${what}: ${outcome}, files left`)
    }

    for (let n = 0; n < statesEach; n++) {
      // Mostly during the moves.
      const from = random.below(3) === 0 ? 0 : recording.readyAt()
      const cut = from + random.below(recording.count() + 1 - from)
      const what = `state ${n}, cut after ${cut}`
      const isDone = recording.doneAt() <= cut
      recording.leave(cut, chance)
      if (n % 2 === 0) {
        check(what, recoverOn(quick, stage), isDone)
        continue
      }
      // A second power cut while the target is put back.
      const again = recordDisk(directory, isOneFileSystem)
      recoverOn(again.disk, stage)
      again.leave(random.below(again.count() + 1), chance)
      check(`${what}, and again`, recoverOn(quick, stage), isDone)
    }
    const isEnough = (what: string, share: number): boolean => (seen[what] ?? 0) > statesEach / share
    if (open === 'revert') t.strictSame(seen, { 'as before': statesEach })
    else t.ok(isEnough('complete', 16) && isEnough('as before', 4), JSON.stringify(seen))
  })
}

/** In memory if possible. */
function workPlace(t: Test): string {
  const top = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
  const directory = realpathSync(mkdtempSync(join(top, 'svc-power-')))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}
