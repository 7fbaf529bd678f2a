/* Random histories of a project, each step of which is compared with a model (target-model.ts). */
import {
  chmodSync,
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { sha256 } from '../../lib/base/digests.js'
import { readIndex } from '../../lib/core/archive/pack-index.js'
import { besideArchive } from '../../lib/core/archive/pack-set.js'
import { isDirectory, readOwnedEntries } from '../../lib/core/install/owned-tree.js'
import { Refusal } from '../../lib/base/errors.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { never, type DeployStage } from './deploy-stage.js'
import { makeZip } from './make-zip.js'
import { createRandom, type Random } from './random.js'
import { treeBody } from './planned.js'
import { changesOf, type SentEntry } from './sent-changes.js'
import { TargetModel, type ArchiveItem, type Failure, type ModelPolicy } from './target-model.js'

const admin = { name: 'admin', ip: '192.0.2.1' }
const files = ['a', 'b', 'd/a', 'd/b', 'd/e/a', 'f/a', 'p/a', 'p/b']
const directories = ['d', 'd/e', 'f', 'g', 'p']
const texts = ['', 'one', 'two', 'three', 'x'.repeat(3000)]
const codes: Record<Failure, RegExp> = {
  'in the way': /in the way|is a file in the archive|is a directory in the archive|is a symbolic link/,
  drifted: /edited on the server|put there by somebody else/,
  emptied: /not there any more/,
  'not exact': /Cannot go back exactly/,
  'nothing to undo': /Nothing to undo/
}

/** Runs one history of this seed. Throws an error that names the step at the first difference. */
export async function runHistory(stage: DeployStage, seed: number): Promise<Record<string, number>> {
  const random = createRandom(seed)
  const policy: ModelPolicy = {
    drift: 'warn',
    prune: random.below(2) === 0,
    protect: random.below(3) === 0 ? 'p/' : null
  }
  const project = await stage.addProject({
    postDeployScript: 'test ! -e "$SVC_DEPLOY_PATH.do" || . "$SVC_DEPLOY_PATH.do"; test ! -e "$SVC_DEPLOY_PATH.fail"'
  })
  mkdirSync(project.deployPath, { recursive: true })
  const history = new History(stage, project, { random, policy })
  await history.begin()
  const seen: Record<string, number> = {}
  const done: string[] = []
  for (let step = 0; step < 6 + random.below(8); step++) {
    const what = await history.step()
    done.push(what)
    seen[what.split(' ')[0] as string] = (seen[what.split(' ')[0] as string] ?? 0) + 1
    const differences = await history.differences()
    if (differences.length > 0) throw new Error(`seed ${seed}, ${done.join('; ')}:\n${differences.join('\n')}`)
  }
  rmSync(project.deployPath, { recursive: true, force: true })
  return seen
}

class History {
  readonly #stage: DeployStage
  readonly #project: Project
  readonly #random: Random
  readonly #policy: ModelPolicy
  readonly #model = new TargetModel()
  readonly #archives = new Map<string, ArchiveItem[]>()

  constructor(stage: DeployStage, project: Project, { random, policy }: { random: Random; policy: ModelPolicy }) {
    this.#stage = stage
    this.#project = project
    this.#random = random
    this.#policy = policy
  }

  /** Does one step in reality and in the model. Returns its description. */
  async step(): Promise<string> {
    const kind = this.#random.below(21)
    if (kind < 7) return this.#deploy()
    if (kind < 9) return this.#deployBadly()
    if (kind < 13) return this.#edit()
    if (kind < 15) return this.#goBack(Math.max(0, this.#model.placed.length - 1), true)
    if (kind < 17) return this.#goBack(this.#random.below(this.#model.placed.length + 1), false)
    if (kind < 18) return this.#overlay()
    if (kind < 19) return this.#loseArchive()
    if (kind < 20) return this.#clean()
    return this.#changePolicy()
  }

  async #deploy(): Promise<string> {
    const wanted = this.#randomItems()
    const script = this.#random.below(3) === 0 ? this.#chooseScript(wanted) : null
    const place = `${this.#project.deployPath}.do`
    if (script !== null) writeFileSync(place, script.text)
    const { row, items } = await this.#push(wanted)
    rmSync(place, { force: true })
    const failure = this.#model.deploy(row.id, items, this.#policy)
    expect(row, failure)
    if (failure === null && script !== null) script.apply()
    return `${row.reusedFrom === null ? 'deploy' : 'changes'} ${script === null ? '' : `(${script.text}) `}${items.map(({ path, text, type }) => `${path}=${type === 'directory' ? '/' : text.slice(0, 5)}`).join(' ')}`
  }

  /** A deployment that removes what svc did not put there, held to its plan. */
  async #clean(): Promise<string> {
    const { deployer, home } = this.#stage
    const projectId = this.#project.id
    const wanted = this.#randomItems()
    const directory = join(home.directory, 'packed')
    writeItems(directory, wanted)
    const limits = { listed: 99, mayUpload: true, clientTimeMs: null, noSpace: null, maxUploadBytes: 1e6, scripts: {} }
    const tree = await treeBody(directory)
    rmSync(directory, { recursive: true })
    const asks = { prune: 'foreign', force: false } as const
    const { planId } = await deployer.plan({ projectId, tree, asks, signal: never, ...limits })
    const { row, items } = await this.#push(wanted, { planId: planId as string })
    expect(row, this.#model.deploy(row.id, items, { ...this.#policy, prune: true, isClean: true }))
    return `clean ${items.map(({ path, type }) => `${path}${type === 'directory' ? '/' : ''}`).join(' ')}`
  }

  /** Returns what the script of a deployment does to a file of it, or to one of an earlier deployment. */
  #chooseScript(items: readonly ArchiveItem[]): { text: string; apply(): void } | null {
    const model = this.#model
    const earlier = [...model.owned.keys()].filter(path => model.isUntouched(path))
    const own = items.flatMap(({ path, type }) => (type === 'file' ? [path] : []))
    const path = this.#random.oneOf([...own, ...earlier])
    if (path === undefined) return null
    // An earlier file that somebody has edited is not touched, unless the deployment replaces it.
    if (model.files.has(path) && !model.isUntouched(path) && !own.includes(path)) return null
    const how = this.#random.oneOf(['write', 'chmod', 'remove'] as const)
    const timeUs = 1_690_000_000e6 + this.#random.below(3) * 1e6
    const texts = {
      write: `chmod u+w ${path}; printf script >> ${path}; chmod 644 ${path}; touch -d @${timeUs / 1e6} ${path}`,
      chmod: `chmod 640 ${path}`,
      remove: `rm ${path}`
    }
    return {
      text: `if test -f ${path} -a ! -h ${path}; then ${texts[how]}; fi`,
      apply() {
        if (!model.isUntouched(path)) return
        const text = `${model.files.get(path)?.text}script`
        if (how === 'write') {
          model.script(path, { text, timeUs })
          model.script(path, { mode: 0o644 })
        } else model.script(path, how === 'chmod' ? { mode: 0o640 } : null)
      }
    }
  }

  /** A deployment that fails: with a damaged archive, or in its post-deploy script. */
  async #deployBadly(): Promise<string> {
    const wanted = this.#randomItems()
    const how = this.#random.oneOf(['damaged', 'kept', 'reverted'] as const)
    const flag = `${this.#project.deployPath}.fail`
    if (how === 'damaged') {
      if (wanted[0]?.type === 'directory') return 'nothing'
      const row = await this.#pushWhole(wanted, {}, 1)
      if (row.status !== 'failed') throw new Error('a damaged archive was deployed')
      return 'damaged'
    }
    await this.#setPolicy({ onPostFailure: how === 'kept' ? 'keep' : 'revert' })
    writeFileSync(flag, '')
    const { row, items } = await this.#push(wanted)
    rmSync(flag)
    if (row.status !== 'failed') throw new Error('the post-deploy script succeeded')
    const isPlaced = row.placed !== null
    if (how === 'reverted') {
      if (isPlaced) throw new Error('a reverted deployment has a number')
    } else {
      const failure = this.#model.deploy(row.id, items, this.#policy)
      if (isPlaced !== (failure === null)) throw new Error(`expected ${failure ?? 'no failure'}: ${row.errorMessage}`)
    }
    return how
  }

  /** Pushes items, often only what has changed of them. Returns them with the times that they get. */
  async #push(
    wanted: readonly ArchiveItem[],
    more: { planId?: string } = {}
  ): Promise<{ row: DeploymentRow; items: readonly ArchiveItem[] }> {
    const sent = this.#random.below(2) === 0 ? null : await this.#pushChanges(wanted, more)
    const pushed = sent ?? { row: await this.#pushWhole(wanted, more), items: wanted }
    this.#archives.set(pushed.row.id, [...pushed.items])
    return pushed
  }

  /** Pushes what has changed since the newest or another release; null: it is not kept any more. */
  async #pushChanges(wanted: readonly ArchiveItem[], more: { planId?: string }) {
    const { deployer } = this.#stage
    const projectId = this.#project.id
    const known = [null, ...this.#archives.keys()].map(id => id && this.#stage.row(id).treeSha256)
    const base = deployer.baseOf(projectId, this.#random.oneOf(known))
    if (base === null) return null
    try {
      const sent = changesOf(wanted.map(entryOf), await deployer.baseTree(projectId, base.deployId))
      const archive = await deployer.assemble({
        projectId,
        base: base.deployId,
        treeSha256: sent.treeSha256,
        delta: await this.#receive(sent.delta),
        contents: await this.#receive(sent.contents),
        limitBytes: 1e6
      })
      const row = await this.#finished(await deployer.deploy(archive, { projectId, env: {}, actor: admin, ...more }))
      const before = new Map(this.#archives.get(base.deployId)?.map(item => [item.path, item]))
      return { row, items: wanted.map(item => (sent.same.has(item.path) ? (before.get(item.path) ?? item) : item)) }
    } catch (error) {
      if (error instanceof Refusal && error.code === 'base_gone') return null
      throw error
    }
  }

  async #pushWhole(items: readonly ArchiveItem[], more: { planId?: string }, badCrc?: number): Promise<DeploymentRow> {
    const received = await this.#receive(zipOfItems(items, badCrc))
    const asked = { projectId: this.#project.id, env: {}, actor: admin, ...more }
    return this.#finished(await this.#stage.deployer.deploy(received, asked))
  }

  #receive(bytes: Buffer) {
    return this.#stage.deployer.receive(Readable.from([bytes]), { limitBytes: 1e6, signal: never })
  }

  async #finished({ finished }: { finished: Promise<DeploymentRow> }): Promise<DeploymentRow> {
    const row = await finished
    await this.#stage.deployer.ownedTree(this.#project.id)
    return row
  }

  #randomItems(): ArchiveItem[] {
    const random = this.#random
    const items: ArchiveItem[] = []
    for (const path of files) {
      if (random.below(3) === 0) continue
      const type = random.below(8) === 0 ? 'link' : 'file'
      const text = type === 'link' ? random.oneOf(['n', 'x/y']) : random.oneOf(texts)
      const mode = type === 'link' ? 0o777 : random.oneOf([0o644, 0o644, 0o755, 0o400])
      items.push({ path, type, text, mode, timeUs: (1_700_000_000 + random.below(4)) * 1e6 })
    }
    for (const path of directories) {
      if (random.below(5) > 0) continue
      items.push({ path, type: 'directory', text: '', mode: random.oneOf([0o755, 0o711]), timeUs: 1_700_000_000e6 })
    }
    const changed = this.#changeTypes(items)
    return changed.length > 0 ? changed : this.#randomItems()
  }

  /** Now and then, a directory becomes a file or a link, or a file a directory. */
  #changeTypes(items: readonly ArchiveItem[]): ArchiveItem[] {
    const random = this.#random
    if (random.below(3) > 0) return [...items]
    const path = random.oneOf(['d', 'f', 'p', 'd/e', 'a', 'b'])
    const others = items.filter(item => item.path !== path && !item.path.startsWith(`${path}/`))
    const isFile = path === 'a' || path === 'b'
    const type = isFile || random.below(3) > 0 ? 'file' : 'link'
    const mode = type === 'link' ? 0o777 : 0o644
    return [
      ...others,
      { path: isFile ? `${path}/x` : path, type, text: type === 'link' ? 'n' : 'one', mode, timeUs: 1_700_000_000e6 }
    ]
  }

  async #goBack(number: number, isUndo: boolean): Promise<string> {
    const { deployer } = this.#stage
    const force = this.#random.below(4) === 0
    const goal = this.#model.placed[number - 1]
    const asked = { force, actor: admin }
    const what = `${isUndo ? 'undo' : 'back'} to ${number}${force ? ' by force' : ''}`
    let run: { finished: Promise<DeploymentRow> }
    try {
      if (isUndo) run = await deployer.undo(this.#project.id, asked)
      else if (goal === undefined) return 'nothing'
      else run = await deployer.rollback(goal.id, { ...asked, mode: 'exact' })
    } catch (error) {
      if (!(error instanceof Refusal) || this.#model.placed.length > 0) throw error
      return `${what}: refused`
    }
    const row = await this.#finished(run)
    expect(row, this.#model.goBack(row.id, number, { force, isUndo }))
    return what
  }

  async #overlay(): Promise<string> {
    const known = [...this.#archives].filter(([id]) => !this.#model.lostArchives.has(id))
    if (known.length === 0) return 'nothing'
    const [id, items] = this.#random.oneOf(known)
    const row = await this.#finished(await this.#stage.deployer.rollback(id, { mode: 'overlay', actor: admin }))
    this.#archives.set(row.id, items)
    expect(row, this.#model.deploy(row.id, items, this.#policy))
    return `overlay of ${id}`
  }

  /** Somebody changes files of the target. */
  #edit(): string {
    const random = this.#random
    const { files, directories } = this.#model
    const how = random.oneOf(['write', 'write', 'remove', 'chmod', 'touch', 'link'] as const)
    const changed = [...files.keys()]
    const isNew = changed.length === 0 || (how !== 'remove' && random.below(3) === 0)
    const path = random.oneOf(isNew ? ['a', 'd/b', 'mine', 'd/mine', 'h/mine'] : changed)
    const place = join(this.#project.deployPath, path)
    const found = files.get(path)
    const timeUs = 1_600_000_000e6 + random.below(1e6) * 7 + 1
    const parent = path.includes('/') ? dirname(path) : null
    if (directories.has(path) || (parent !== null && files.has(parent))) return 'nothing'
    if (how === 'remove' || how === 'chmod' || how === 'touch') {
      if (found === undefined || (found.type === 'link' && how !== 'remove')) return 'nothing'
      if (how === 'remove') {
        rmSync(place)
        files.delete(path)
      } else if (how === 'chmod') {
        chmodSync(place, 0o604)
        found.mode = 0o604
      } else {
        utimesSync(place, timeUs / 1e6 + 5e-7, timeUs / 1e6 + 5e-7)
        found.timeUs = timeOf(place)
      }
      return `edit ${how} ${path}`
    }
    if (parent !== null && !directories.has(parent)) {
      mkdirSync(dirname(place), { mode: 0o755, recursive: true })
      directories.set(parent, 0o755)
    }
    rmSync(place, { force: true })
    if (how === 'write') {
      const text = random.oneOf(['by hand', 'one'])
      writeFileSync(place, text, { mode: 0o644 })
      utimesSync(place, timeUs / 1e6 + 5e-7, timeUs / 1e6 + 5e-7)
      files.set(path, { type: 'file', text, mode: 0o644, timeUs: timeOf(place) })
    } else {
      symlinkSync('/by/hand', place)
      lutimesSync(place, timeUs / 1e6 + 5e-7, timeUs / 1e6 + 5e-7)
      files.set(path, { type: 'link', text: '/by/hand', mode: 0o777, timeUs: timeOf(place) })
    }
    return `edit ${how} ${path}`
  }

  /** Somebody removes an archive, or what is left of it if others share its contents. */
  async #loseArchive(): Promise<string> {
    const kept = [...this.#archives.keys()].filter(id => !this.#model.lostArchives.has(id))
    if (kept.length === 0) return 'nothing'
    const id = this.#random.oneOf(kept)
    const place = join(this.#stage.home.deployments, `${id}.zip`)
    const isShared = kept
      .filter(other => other !== id)
      .map(other => besideArchive(join(this.#stage.home.deployments, `${other}.zip`), 'index'))
      .some(path => existsSync(path) && readIndex(readFileSync(path), path).packs.includes(id))
    try {
      if (isShared) {
        await this.#stage.deployer.deleteArchive(id, { force: true, actor: admin })
        this.#model.deletedArchives.add(id)
      } else for (const path of [place, besideArchive(place, 'index')]) rmSync(path, { force: true })
    } catch (error) {
      if (error instanceof Refusal && error.code === 'archive_needed') return 'nothing'
      throw error
    }
    this.#model.lostArchives.add(id)
    return `lose ${id}`
  }

  async #changePolicy(): Promise<string> {
    const random = this.#random
    this.#policy.drift = random.oneOf(['warn', 'refuse'])
    this.#policy.prune = random.below(2) === 0
    await this.#setPolicy({})
    return `policy ${this.#policy.drift} ${this.#policy.prune}`
  }

  async #setPolicy(more: Project['policy']): Promise<void> {
    const { drift, prune, protect } = this.#policy
    const given = {
      drift,
      prune: prune ? ('managed' as const) : ('off' as const),
      protect: protect === null ? [] : [`${protect}**`]
    }
    await this.#stage.change(this.#project, { policy: { ...given, ...more } })
  }

  async begin(): Promise<void> {
    await this.#setPolicy({})
  }

  /** Compares the target, the owned tree and the drift with the model. */
  async differences(): Promise<string[]> {
    const model = this.#model
    const wanted = modelLines(model)
    const wantedOwned = [
      ...[...model.owned].map(([path, entry]) => `${lineOf(path, entry)} since ${entry.since}`),
      ...[...model.ownedDirectories].map(path => `${path}/`)
    ]
    const { files: drifted } = await this.#stage.deployer.drift({
      projectId: this.#project.id,
      isFull: true,
      signal: never
    })
    return [
      ...compare('target', wanted, linesOf(this.#project.deployPath)),
      ...compare('owned', wantedOwned.map(hashed), await this.#ownedLines()),
      ...compare(
        'drift',
        model.drift(),
        drifted.map(({ path }) => path)
      )
    ]
  }

  async #ownedLines(): Promise<string[]> {
    const owned = await this.#stage.deployer.ownedTree(this.#project.id)
    if (owned.baseline !== 'owned') return []
    const lines: string[] = []
    for await (const entry of readOwnedEntries(await owned.contents())) {
      const { path, mode, sha256: digest, mtimeMs, since } = entry
      const time = Math.round((mtimeMs ?? 0) * 1000)
      const type = (mode & 0o170000) === 0o120000 ? 'link' : 'file'
      lines.push(
        isDirectory(entry)
          ? `${path}/`
          : `${path} ${type} ${(mode & 0o7777).toString(8)} ${time} ${digest} since ${since}`
      )
    }
    return lines
  }
}

/** Replaces the contents in a line by their digest. */
function hashed(line: string): string {
  return line.replace(/ "([^"]*)"/, (_, text: string) => ` ${sha256(Buffer.from(text)).toString('hex')}`)
}

/** Returns a line for each entry of the model, as `linesOf` does for a directory. */
export function modelLines({ files, directories }: TargetModel): string[] {
  return [
    ...[...files].map(([path, entry]) => lineOf(path, entry)),
    ...[...directories].map(([path, mode]) => `${path}/ ${mode.toString(8)}`)
  ]
}

function lineOf(
  path: string,
  { type, mode, timeUs, text }: { type: string; mode: number; timeUs: number; text: string }
): string {
  return `${path} ${type} ${mode.toString(8)} ${timeUs} "${text}"`
}

/** Returns a line for each entry of a directory. */
export function linesOf(directory: string): string[] {
  const lines: string[] = []
  const visit = (path: string): void => {
    for (const name of readdirSync(join(directory, path))) {
      const way = path === '' ? name : `${path}/${name}`
      const place = join(directory, way)
      const stats = lstatSync(place)
      if (stats.isDirectory()) {
        lines.push(`${way}/ ${(stats.mode & 0o7777).toString(8)}`)
        visit(way)
        continue
      }
      const isLink = stats.isSymbolicLink()
      const text = isLink ? readlinkSync(place) : readFileSync(place, 'utf8')
      lines.push(
        lineOf(way, { type: isLink ? 'link' : 'file', mode: stats.mode & 0o7777, timeUs: timeOf(place), text })
      )
    }
  }
  if (existsSync(directory)) visit('')
  return lines
}

function timeOf(place: string): number {
  return Math.round(lstatSync(place).mtimeMs * 1000)
}

/** Returns the lines that only one of two lists has. */
export function compare(what: string, wanted: readonly string[], found: readonly string[]): string[] {
  const [missing, extra] = [wanted.filter(line => !found.includes(line)), found.filter(line => !wanted.includes(line))]
  return [...missing.map(line => `${what}: missing ${line}`), ...extra.map(line => `${what}: found ${line}`)]
}

function expect({ status, errorMessage }: DeploymentRow, failure: Failure | null): void {
  const isFine =
    failure === null ? status === 'success' : status === 'failed' && codes[failure].test(errorMessage ?? '')
  if (!isFine) throw new Error(`expected ${failure ?? 'success'}, found ${status}: ${errorMessage}`)
}

function writeItems(directory: string, items: readonly ArchiveItem[]): void {
  mkdirSync(directory)
  for (const { path, type, text, mode } of items) {
    const place = join(directory, path)
    mkdirSync(type === 'directory' ? place : dirname(place), { recursive: true })
    if (type === 'file') writeFileSync(place, text, { mode })
    else if (type === 'link') symlinkSync(text, place)
  }
}

/** Returns the zip of these items. */
export function zipOfItems(items: readonly ArchiveItem[], badCrc?: number): Buffer {
  return makeZip(
    items.map((item, at) => ({ ...entryOf(item), ...(badCrc !== undefined && at === 0 && { crc32: badCrc }) }))
  )
}

const types = { file: 0o100000, link: 0o120000, directory: 0o040000 }

/** Returns an item as the entry of a zip. */
export function entryOf({ path, type, text, mode, timeUs }: ArchiveItem): SentEntry {
  return {
    name: type === 'directory' ? `${path}/` : path,
    data: text,
    mode: types[type] | mode,
    extra: timestamp(timeUs),
    mtimeMs: timeUs / 1000
  }
}

/** The extended timestamp of Info-ZIP. */
function timestamp(timeUs: number): Buffer {
  const field = Buffer.alloc(9)
  field.writeUInt16LE(0x5455, 0)
  field.writeUInt16LE(5, 2)
  field.writeUInt8(1, 4)
  field.writeInt32LE(timeUs / 1e6, 5)
  return field
}

/** Runs histories until one differs. Returns the number of steps of each kind. */
export async function runHistories(
  t: Test,
  stage: DeployStage,
  seeds: Iterable<number>
): Promise<Record<string, number>> {
  const all: Record<string, number> = {}
  for (const seed of seeds) {
    try {
      for (const [kind, count] of Object.entries(await runHistory(stage, seed))) all[kind] = (all[kind] ?? 0) + count
    } catch (error) {
      t.fail(`seed ${seed}: ${(error as Error).message}`)
      break
    }
  }
  return all
}
