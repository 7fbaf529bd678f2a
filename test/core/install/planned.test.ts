/*
 * The property that makes a plan worth reading: whatever is in the target, the plan lists path for path what the
 * deployment then does; and a deployment whose target was edited in between changes nothing.
 */
import t from 'tap'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import { disk } from '../../../lib/core/install/disk.js'
import type { Ownership } from '../../../lib/core/install/ownership.js'
import { filesAt, runExtraction } from '../../../lib/core/install/unpack/extraction.js'
import { compareTreePaths } from '../../../lib/base/shared/tree-text.js'
import { pathsOf } from '../../support/extraction.js'
import { ownedTree } from '../../support/pruning.js'
import { differences, entriesOf, planOf, zipDirectory } from '../../support/planned.js'
import { createRandom, type Random } from '../../support/random.js'
import { repetitions } from '../../support/thorough.js'
import { snapshot } from '../../support/tree.js'

const names = ['a', 'b', 'c', 'ü', 'index.html', 'A b']
const contents = ['', 'x', 'y', 'xx', 'long '.repeat(100)]
const modes = [0o644, 0o755, 0o600, 0o664]
const times = [1_000_000_000, 1_000_000_001, 1_500_000_000]

/** Writes something at a random path, unless something of another kind is in the way. */
function scribble(random: Random, directory: string): void {
  const segments = [random.oneOf(names), ...random.some(2, () => random.oneOf(names))]
  const path = join(directory, ...segments)
  try {
    mkdirSync(dirname(path), { recursive: true })
    if (random.below(8) === 0) return symlinkSync(random.oneOf(['a', 'b/c', 'nowhere']), path)
    if (random.below(10) === 0) return void mkdirSync(path)
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) unlinkSync(path)
    writeFileSync(path, random.oneOf(contents))
    chmodSync(path, random.oneOf(modes))
    const time = random.oneOf(times)
    utimesSync(path, time, time)
  } catch {
    // Something is in the way: this case has one entry less.
  }
}

function edit(random: Random, target: string): void {
  const paths = [...entriesOf(target).keys()]
  if (paths.length === 0 || random.below(4) === 0) return scribble(random, target)
  const place = join(target, random.oneOf(paths))
  if (random.below(4) === 0 || lstatSync(place).isSymbolicLink()) return unlinkSync(place)
  if (random.below(4) === 0) return chmodSync(place, 0o640)
  writeFileSync(place, random.oneOf(['edited', 'y', 'z']))
}

/** Random trees in both directories, which often have paths in common. */
function makeCase(random: Random, { site, target }: { site: string; target: string }): void {
  for (const directory of [site, target]) mkdirSync(directory, { recursive: true })
  const seed = random.below(1_000_000)
  const common = random.below(12)
  for (const directory of [site, target]) {
    const same = createRandom(seed)
    for (let i = 0; i < common; i++) scribble(same, directory)
  }
  for (let i = random.below(6); i > 0; i--) scribble(random, site)
  for (let i = random.below(6); i > 0; i--) scribble(random, target)
  writeFileSync(join(site, 'always'), 'x')
  removeEmpty(site)
}

/** A tree contains no directories, so a plan does not see what is in the way of an empty one. */
function removeEmpty(directory: string): void {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (!entry.isDirectory()) continue
    removeEmpty(path)
    if (readdirSync(path).length === 0) rmdirSync(path)
  }
}

const noOwnership: Ownership = {
  tree: null,
  edited: 'warn',
  removes: null,
  exact: null,
  archives: [],
  before: { maxBytes: 1e9, isRequired: true }
}

/** Some of the files of a target, as if svc had put them there; a few of them were edited since. */
async function ownedAmong(random: Random, target: string) {
  const digests = new Map<string, string>()
  const edited: string[] = []
  for (const path of entriesOf(target).keys()) {
    const place = join(target, path)
    if (lstatSync(place).isSymbolicLink() || random.below(3) === 0) continue
    const isEdited = random.below(4) === 0
    digests.set(path, isEdited ? 'something else' : readFileSync(place, 'utf8'))
    if (isEdited) edited.push(path)
  }
  return { tree: await ownedTree(Object.fromEntries(digests)), digests, edited }
}

const sorted = (paths: readonly string[]): string[] => [...paths].sort(compareTreePaths)
/** Where a link leads is not part of a tree: only the deployment can refuse it. */
const isAboutLinks = ({ code }: Refusal): boolean => code.startsWith('link_')

t.test('the lists are what the deployment does, and an edit in between stops it', async t => {
  const cases = repetitions(200, 2000)
  const seen = { done: 0, conflicts: 0, outdated: 0, harmless: 0, pruned: 0 }
  for (let seed = 1; seed <= cases; seed++) {
    const random = createRandom(seed)
    const directory = mkdtempSync(join(tmpdir(), 'svc-planned-'))
    try {
      await check(random, directory, seen)
    } catch (error) {
      if (!(error instanceof Refusal && isAboutLinks(error))) throw Object.assign(error as Error, { seed })
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }
  t.comment(seen)
  for (const [what, count] of Object.entries(seen)) t.ok(count > cases / 50, `${what}: ${count}`)

  async function check(random: Random, directory: string, seen: Record<string, number>): Promise<void> {
    const [site, target] = [join(directory, 'site'), join(directory, 'target')]
    makeCase(random, { site, target })
    mkdirSync(join(directory, 'deployments'))
    const { archivePath } = pathsOf(directory, 'dep_test')
    await zipDirectory(site, archivePath)

    const umask = random.below(3) === 0 ? 0o027 : null
    const modes = random.below(3) === 0 ? { file: 0o640, directory: 0o750 } : undefined
    const owned = random.below(2) === 0 ? null : await ownedAmong(random, target)
    const removes = owned === null ? null : ({ kind: 'absent', protect: ['A b/**'], isForced: true } as const)
    const plan = await planOf(site, target, { job: { umask, modes, owned: owned?.tree ?? null, removes } })
    const { counts, paths, expected } = plan
    if (expected === null) throw new Error('The plan is incomplete')
    for (const kind of ['added', 'changed', 'timeOnly', 'unchanged', 'conflicts'] as const) {
      if (counts[kind] !== paths[kind].length) throw new Error(`${kind}: ${counts[kind]}`)
    }
    const contentsOf = (path: string): string | null => (lstatSync(path).isFile() ? readFileSync(path, 'utf8') : null)
    const inSite = entriesOf(site)
    const isEqual = (path: string): boolean =>
      inSite.has(path) && contentsOf(join(site, path)) === contentsOf(join(target, path))
    const equal = new Set(owned?.edited.filter(isEqual))
    const isEdited = random.below(3) === 0
    const before = { entries: entriesOf(target), all: snapshot(target) }
    if (isEdited) edit(random, target)
    const edited = { entries: entriesOf(target), all: snapshot(target) }

    const job = {
      target,
      deployId: 'dep_test',
      umask: umask ?? process.umask(),
      masksModes: umask !== null,
      modes,
      limits: { maxEntries: 200_000, maxExtractedBytes: 1e9 },
      ownership: { ...noOwnership, tree: owned?.tree ?? null, removes },
      isDurable: false,
      expected
    }
    const refusal = await runExtraction(job, filesAt(disk, pathsOf(directory, 'dep_test')), { disk }).then(
      () => null,
      (error: unknown) => error as Refusal
    )
    const wanted = new Set([...entriesOf(site).keys()])
    const matters = differences(before.entries, edited.entries)
    const mattering = new Set([...wanted, ...paths.pruned])
    const isOutdated = [...matters.added, ...matters.changed, ...matters.removed].some(path => mattering.has(path))
    if (refusal !== null) {
      same(snapshot(target), edited.all, 'the target is untouched')
      if (isAboutLinks(refusal)) return
      if (!isEdited) {
        seen['conflicts']!++
        if (!paths.conflicts.some(({ code }) => code === refusal.code)) throw refusal
      } else if (isOutdated) {
        seen['outdated']!++
      } else if (paths.conflicts.length === 0 && refusal.code === 'plan_outdated') throw refusal
      return
    }
    if (paths.conflicts.length > 0 && !isEdited) throw new Error('A conflict did not stop the deployment')
    if (isOutdated) throw new Error('An outdated plan did not stop the deployment')
    seen[isEdited ? 'harmless' : 'done']!++
    if (isEdited) return
    const { added, changed, timeOnly, removed } = differences(before.entries, entriesOf(target))
    same(sorted(paths.added), sorted(added), 'added')
    same(sorted(paths.changed), sorted(changed), 'changed')
    same(sorted(paths.timeOnly), sorted(timeOnly), 'timeOnly')
    same(sorted(paths.pruned), sorted(removed), 'pruned')
    seen['pruned']! += removed.length
    const left = [...(owned?.digests.keys() ?? [])].filter(path => !wanted.has(path) && !removed.includes(path))
    same(sorted(paths.kept), sorted(left), 'kept')
    // An edit that equals the new contents does not count.
    const lost = (owned?.edited ?? []).filter(path => !equal.has(path))
    same(sorted(paths.drifted.filter(({ found }) => found !== null).map(({ path }) => path)), sorted(lost), 'drifted')
    const rest = [...wanted].filter(path => ![...added, ...changed, ...timeOnly].includes(path))
    same(sorted(paths.unchanged), sorted(rest), 'unchanged')
  }

  function same(found: readonly string[], wanted: readonly string[], what: string): void {
    if (JSON.stringify(found) !== JSON.stringify(wanted)) {
      throw new Error(`${what}: found ${JSON.stringify(found)}, wanted ${JSON.stringify(wanted)}`)
    }
  }
})
