/*
 * Random pairs of trees, one after the other in two projects: one gets whole archives, the other one only what has
 * changed, as `svc push` finds it with its index, of half of the pairs with differences within files. Targets, records and kept archives must be the same, also after the ways back.
 */
import { chmodSync, createWriteStream, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { compareWithBase, writeDelta } from '../../lib/base/shared/tree-delta.js'
import { readIndex, writeIndex } from '../../lib/cli/pack/push-index.js'
import { entriesOfArchive } from '../../lib/core/archive/archive-tree.js'
import { anyArchive, openKept } from '../../lib/core/archive/pack-set.js'
import { treeOf } from '../../lib/core/archive/tree.js'
import { readTree } from '../../lib/core/archive/tree-wire.js'
import { writeZip } from '../../lib/core/archive/write.js'
import type { Run } from '../../lib/deploy/admission.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { ChangingSite } from '../support/changing-site.js'
import { admin, deployStage, never, type DeployStage } from '../support/deploy-stage.js'
import { compare, linesOf } from '../support/history.js'
import { until } from '../support/until.js'
import { sourcesOf, zipBytes } from '../support/planned.js'
import { patchesOf } from '../support/patched.js'
import { createRandom } from '../support/random.js'
import { firstSeed, randomCases } from '../support/thorough.js'

/** More than two ticks of the coarse clock of a kernel, whose times files get. */
const coarseMs = 10
/** The index believes what is older than two seconds: it is told that its walk was that much later. */
const laterMs = 3000
/** Pairs at once: most of the time, each waits for the disk. */
const lanes = 4

t.test('what was sent as changes is what a whole archive would have brought', async t => {
  const stage = await deployStage(t)
  stage.values.keep_archives = 1000
  stage.values.durable_targets = false
  let [seed, sent, isOver] = [firstSeed, 0, false]
  let patched = 0
  const lane = async (): Promise<void> => {
    while (!isOver && seed < firstSeed + randomCases(6, 100)) {
      const own = seed++
      const found = await runPair(stage, own)
      sent += found.sent
      patched += found.patched
      if (found.lines.length === 0) continue
      isOver = true
      t.fail(`seed ${own}: ${found.lines.slice(0, 20).join('\n')}`)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  const what = `${sent} files were sent, ${patched} of them as differences`
  t.ok(sent > patched && patched > 0, `seeds ${firstSeed} to ${seed - 1}: ${what}`)
})

t.test('each of the 512 modes, with and without other bits, is the same from both', async t => {
  const stage = await deployStage(t)
  stage.values.durable_targets = false
  const directory = join(stage.directory, 'site')
  mkdirSync(directory)
  let round = 0
  const lay = (): void => {
    for (let at = 0; at < 512; at++) {
      const place = join(directory, `${at}`)
      // Every third file only gets another mode.
      if (round === 0 || at % 3 > 0) writeFileSync(place, `${round} ${at}`)
      chmodSync(place, ((at + round * 77) % 512) | (((at + round) % 8) << 9))
    }
    round++
  }
  lay()
  const { lines, sent } = await runPair(stage, 1, { directory, change: lay })
  t.strictSame(lines, [])
  t.equal(sent, 2 * 341)
})

t.test('changes of a release without modes state modes, as an archive of all files does', async t => {
  const stage = await deployStage(t)
  const site = join(stage.directory, 'site')
  mkdirSync(site)
  for (const name of ['same', 'other']) {
    writeFileSync(join(site, name), name)
    chmodSync(join(site, name), 0o755)
  }
  const [whole, changed] = [await stage.addProject(), await stage.addProject()]
  const index = join(stage.directory, 'index')
  for (const project of [whole, changed]) {
    await finish(await sendWhole(stage, project, site))
    const received = await receive(stage, withoutModes(await zipBytes(site)))
    await finish(await stage.deployer.deploy(received, { projectId: project.id, env: {}, actor: admin }))
    t.equal(statSync(join(project.deployPath, 'same')).mode & 0o777, 0o755, 'a mode that is in the target stays')
  }
  for (const name of ['same', 'other']) chmodSync(join(site, name), 0o644)
  writeFileSync(join(site, 'other'), 'changed')
  await finish(await sendWhole(stage, whole, site))
  const { run, count } = await sendChanges(stage, changed, { site, index })
  await finish(run)
  t.equal(count, 1)
  t.strictSame(timeless(changed), timeless(whole))
  t.equal(statSync(join(changed.deployPath, 'same')).mode & 0o777, 0o644)
})

/** Returns a zip as one that was made where files have no permissions. */
function withoutModes(zip: Buffer): Buffer {
  const bytes = Buffer.from(zip)
  for (let at = bytes.indexOf('PK\x01\x02'); at !== -1; at = bytes.indexOf('PK\x01\x02', at + 4))
    bytes.writeUInt32LE(0, at + 38)
  return bytes
}

/** A site that changes. */
type Site = Pick<ChangingSite, 'directory' | 'change'>

async function runPair(stage: DeployStage, seed: number, given?: Site) {
  const random = createRandom(seed)
  const site = given ?? new ChangingSite(join(stage.directory, `site-${seed}`), random)
  const policy = { prune: random.oneOf(['managed', 'off'] as const) }
  const [whole, changed] = [await stage.addProject({ policy }), await stage.addProject({ policy })]
  const index = join(stage.directory, `index-${seed}`)
  const lines: string[] = []
  let [sent, patched] = [0, 0]
  const rows: Array<[DeploymentRow, DeploymentRow]> = []

  async function compareEnds(what: string, one: DeploymentRow, other: DeploymentRow): Promise<void> {
    await Promise.all([whole, changed].map(({ id }) => stage.deployer.ownedTree(id)))
    // What was replaced may be removed after the end.
    for (const { deployPath } of [whole, changed])
      await until(() => !readdirSync(deployPath).some(name => name.startsWith('.svc-')))
    // A way back also brings back times, of which changes bring fewer.
    const keys = ['status', 'treeSha256', 'placed', ...(one.exact ? [] : ['fileCount' as const])] as const
    for (const key of keys)
      if (one[key] !== other[key]) lines.push(`${what}: ${key} ${one[key]}, ${other[key]}: ${other.errorMessage}`)
    lines.push(...compare(what, timeless(whole), timeless(changed)))
    if (one.exact) return
    const [wanted, found] = await Promise.all([one, other].map(({ id }) => keptLines(stage, id)))
    lines.push(...compare(`${what}, kept`, wanted as string[], found as string[]))
    rows.push([one, other])
  }

  for (let push = 0; push < 3; push++) {
    const one = await finish(await sendWhole(stage, whole, site.directory))
    const isPatched = given === undefined && random.below(2) === 0
    const { run, count, patches } = await sendChanges(stage, changed, { site: site.directory, index, isPatched })
    sent += count
    patched += patches
    await compareEnds(`push ${push}`, one, await finish(run))
    await sleep(coarseMs)
    site.change()
    await sleep(coarseMs)
  }
  const at = random.below(rows.length)
  for (const mode of ['overlay', 'exact'] as const) {
    const [one, other] = rows[at] as [DeploymentRow, DeploymentRow]
    const run = ({ id }: DeploymentRow) => stage.deployer.rollback(id, { mode, actor: admin }).then(finish)
    await compareEnds(`rollback ${mode} to ${at}`, await run(one), await run(other))
  }
  const undo = ({ id }: Project) => stage.deployer.undo(id, { actor: admin }).then(finish)
  await compareEnds('undo', await undo(whole), await undo(changed))
  return { lines, sent, patched }
}

const finish = ({ finished }: Run): Promise<DeploymentRow> => finished

/** The entries of a target. Files whose contents are as they were keep their times when changes are sent. */
function timeless({ deployPath }: Project): string[] {
  return linesOf(deployPath).map(line => line.replace(/ (file|link) (\d+) \d+ /, ' $1 $2 '))
}

async function keptLines(stage: DeployStage, deployId: string): Promise<string[]> {
  const archive = await openKept(join(stage.home.deployments, `${deployId}.zip`), anyArchive)
  try {
    const entries = await entriesOfArchive(archive)
    const directories = archive.entries.flatMap(({ path, kind }) => (kind === 'directory' ? [`${path}/`] : []))
    return [
      ...entries.map(({ path, mode, size, sha256 }) => `${path} ${mode.toString(8)} ${size} ${sha256}`),
      ...directories
    ]
  } finally {
    archive.close()
  }
}

async function receive(stage: DeployStage, bytes: Buffer) {
  return stage.deployer.receive(Readable.from([bytes]), { limitBytes: 1e9, signal: never })
}

async function sendWhole(stage: DeployStage, { id }: Project, site: string): Promise<Run> {
  const received = await receive(stage, await zipBytes(site))
  return stage.deployer.deploy(received, { projectId: id, env: {}, actor: admin })
}

/** Sends what has changed since the newest release; all files if there is none. */
async function sendChanges(
  stage: DeployStage,
  { id: projectId }: Project,
  { site, index, isPatched = false }: { site: string; index: string; isPatched?: boolean }
): Promise<{ run: Run; count: number; patches: number }> {
  const walkedMs = Date.now() + laterMs
  const sources = await sourcesOf(site)
  const known = await readIndex(index)
  const tree = await treeOf(sources, { known: known.known })
  const remember = () => writeIndex(index, { ...tree, walkedMs })
  const base = stage.deployer.baseOf(projectId, known.treeSha256)
  if (base === null) {
    await remember()
    const received = await receive(stage, await zipBytes(site))
    return { run: await stage.deployer.deploy(received, { projectId, env: {}, actor: admin }), count: 0, patches: 0 }
  }
  const { deployId } = base
  const entries =
    base.treeSha256 === known.treeSha256
      ? known.entries
      : { values: readTree(await stage.deployer.baseTree(projectId, deployId)).entries }
  const delta = compareWithBase(entries, tree)
  const read = (path: string): Buffer => readFileSync(join(site, path))
  const sums = (lines: number[]) => stage.deployer.baseSums(projectId, deployId, lines)
  const made = isPatched ? await patchesOf({ entries, delta, read, sums }) : null
  const missing = new Set(delta.missing.flatMap(({ path }) => (made?.paths.has(path) ? [] : [path])))
  const last = { path: 'patches of this push', kind: 'file', mode: 0o644, mtimeMs: 0 } as const
  const { treeSha256 } = tree
  const contents = join(stage.directory, `contents-${projectId}.zip`)
  const out = createWriteStream(contents)
  await writeZip(
    [
      ...sources.filter(({ kind, path }) => kind === 'directory' || missing.has(path)),
      ...(made === null ? [] : [{ ...last, source: made.patches, bytes: made.patches.length }])
    ],
    out
  )
  await finished(out.end())
  const archive = await stage.deployer.assemble({
    projectId,
    base: deployId,
    treeSha256,
    delta: await receive(stage, Buffer.from(writeDelta(delta, treeSha256))),
    contents: await receive(stage, readFileSync(contents)),
    patches: made === null ? undefined : last.path,
    limitBytes: 1e9
  })
  await remember()
  const run = await stage.deployer.deploy(archive, { projectId, env: {}, actor: admin })
  return { run, count: delta.missing.length, patches: made?.paths.size ?? 0 }
}
