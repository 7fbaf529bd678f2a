/*
 * What the scripts of a deployment change among the files that svc owns in its target. It is part of the deployment: it
 * is not "edited on the server", and a way back knows it.
 *
 * Before a script, svc notes the state of these files (core/install/look-again.ts) in `deployments/<id>.marks`, without reading
 * them. After it, also if it failed, svc reads those that the script has touched. What is different goes into
 * `<id>.scripted`, and its contents into `<id>.scripted.zip`. If svc is killed meanwhile, the next start does that.
 *
 * The changes of a pre-deploy script belong to a deployment whose own files are not in place yet. If it fails before
 * that, or is reverted, what its scripts changed beside them goes to the deployment that is live.
 */
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { composeArchive } from '../core/archive/compose.js'
import { countOf, oneLine } from '../base/text.js'
import { messageOf } from '../base/errors.js'
import { throughBeside } from '../base/files.js'
import type { TargetRules } from '../core/install/guard.js'
import { differingMarks, type LookedEntry } from '../core/install/look-again.js'
import { isDirectory, type OwnedHead, readOwnedEntries } from '../core/install/owned-tree.js'
import { joinScripted, readScripted, sourcesOfScripted, writeScripted } from '../core/install/scripted-file.js'
import type { Executors } from '../core/install/unpack/executors.js'
import type { Job, Outcome } from '../core/install/unpack/extract-threads.js'
import { type EarlierFile, type OwnedEntry, pathOfLine, type ScriptedLine } from '../model/manifest.js'
import type { Project } from '../model/project.js'
import { findRights } from '../core/proc/identity.js'
import { addBeforeFrom, findDeployment } from '../core/store/tables/deployments.js'
import { findProject } from '../core/store/tables/projects.js'
import { type DeployFiles, deploymentFilePattern, findFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { removeArchive } from './retention.js'
import { isFinal } from './record.js'
import { isSameHead, type Trees } from './trees.js'

/** The deployment whose script runs. */
export interface ScriptedRun {
  deployId: string
  project: Project
  say(line: string): void
  /** Called with the deployments whose archives contain what the script replaced. */
  onSources(deployIds: readonly string[]): void
}

export interface ScriptedNeeds
  extends Pick<DeployNeeds, 'store' | 'home' | 'settings' | 'quota' | 'allowSystemPaths' | 'log'> {
  files: DeployFiles
  executors: Pick<Executors, 'as'>
  trees: Pick<Trees, 'read' | 'update'>
}

/** The state before a script. */
interface Before {
  projectId: string
  head: OwnedHead
  marks: Uint8Array
}

/** Time to wait for the owned tree. */
const waitMs = 10_000
/** Time to look at a target. A file system that does not respond must not stop a deployment for ever. */
const lookMs = 5 * 60_000
const maxNamed = 3
const bytesPerMegabyte = 1024 * 1024

/** Notes what scripts change. */
export class Scripted {
  readonly #needs: ScriptedNeeds

  constructor(needs: ScriptedNeeds) {
    this.#needs = needs
  }

  /** Begins to watch. Resolves with the function that notes what has changed since. Neither of them rejects. */
  async begin(run: ScriptedRun): Promise<() => Promise<void>> {
    const failed = (error: unknown): void => {
      run.say(`→ cannot find out what the script changes among the deployed files: ${oneLine(messageOf(error))}`)
      this.#needs.log(`Cannot look at the target of deployment ${run.deployId}`, error)
    }
    try {
      const before = await this.#markNow(run.project)
      if (before === null) return async () => {}
      const path = this.#needs.files.marks(run.deployId)
      // Whole or not at all: a kill before the script must not look as if the script had changed something unknown.
      await throughBeside(path, beside => writeFile(beside, packed(before), { mode: 0o600 }))
      return async () => {
        try {
          const sentence = await this.#note(run, before)
          if (sentence !== null) run.say(`→ ${sentence}`)
        } catch (error) {
          failed(error)
        }
        await rm(path, { force: true }).catch(() => {})
      }
    } catch (error) {
      failed(error)
      return async () => {}
    }
  }

  /** Gives what scripts changed to the live deployment, if the files of this one are not in place. Never rejects. */
  async leave(deployId: string): Promise<void> {
    const { store, files, trees, quota, log } = this.#needs
    try {
      const row = findDeployment(store, deployId)
      if (row === undefined || row.placed !== null) return
      const own: ScriptedLine[] = []
      for await (const line of readScripted(files.scripted(deployId))) own.push(line)
      const owned = own.length === 0 ? null : await trees.read(row.projectId, waitMs)
      if (owned?.baseline === 'owned') {
        const owner = owned.head.deployId
        const lines = own.filter(({ before }) => before !== undefined).map(line => givenTo(owner, line))
        const imagesPath = files.scriptedImages(deployId)
        if (lines.length > 0) await this.#add({ id: row.projectId }, owner, { lines, imagesPath })
      }
      await rm(files.scripted(deployId), { force: true })
      quota.changed(row.projectId, -(await removeArchive(files.scriptedImages(deployId))))
    } catch (error) {
      log(`Cannot note what the scripts of deployment ${deployId} changed`, error)
    }
  }

  /** Notes what scripts changed that an earlier server did not see the end of. */
  async recover(): Promise<void> {
    const { home, store, log } = this.#needs
    for await (const { path, match } of findFiles(home.deployments, deploymentFilePattern)) {
      const [, deployId = '', ending] = match
      if (ending !== 'marks') continue
      try {
        const before = unpacked(await readFile(path))
        const project = findProject(store, before.projectId)
        const isKnown = findDeployment(store, deployId) !== undefined
        if (project !== undefined && isKnown)
          await this.#note({ deployId, project, say: () => {}, onSources: () => {} }, before)
      } catch (error) {
        log(`Cannot find out what the scripts of deployment ${deployId} changed`, error)
      }
      await rm(path, { force: true })
    }
    for await (const { match } of findFiles(home.deployments, deploymentFilePattern)) {
      const [, deployId = '', ending] = match
      const row = ending === 'scripted' ? findDeployment(store, deployId) : undefined
      if (row !== undefined && isFinal(row.status)) await this.leave(deployId)
    }
  }

  async #workOn<T extends Outcome['kind']>(
    project: Project,
    job: (place: { target: string; rules: TargetRules }) => Job,
    kind: T
  ): Promise<Extract<Outcome, { kind: T }>> {
    const { home, allowSystemPaths, executors } = this.#needs
    const place = { target: project.deployPath, rules: { home: home.directory, allowSystemPaths } }
    const executor = executors.as(await findRights(project))
    const outcome = await executor.run(job(place), AbortSignal.timeout(lookMs))
    if (outcome.kind === kind) return outcome as Extract<Outcome, { kind: T }>
    if (outcome.kind === 'failed') throw outcome.error
    throw new Error(`The target did not answer: ${outcome.kind}`)
  }

  async #markNow(project: Project): Promise<Before | null> {
    const owned = await this.#needs.trees.read(project.id, waitMs)
    if (owned.baseline !== 'owned') return null
    const tree = project.runAs === null ? owned.path : await owned.contents()
    const { marks } = await this.#workOn(
      project,
      place => ({ kind: 'mark', mark: { ...place, owned: tree } }),
      'marked'
    )
    return { projectId: project.id, head: owned.head, marks }
  }

  /** Returns the sentence about what was changed, or null. */
  async #note(run: ScriptedRun, before: Before): Promise<string | null> {
    const { trees, files, settings } = this.#needs
    const { deployId, project } = run
    const now = await this.#markNow(project)
    // Another deployment was made meanwhile, so the target is its own.
    if (now === null || !isSameHead(now.head, before.head)) return null
    const touched = differingMarks(before.marks, now.marks)
    if (touched.size === 0) return null
    const entries = await entriesOf(trees, project, touched)
    const imagesPath = `${files.marks(deployId)}.zip`
    try {
      const maxBytes = settings.number('max_before_size') * bytesPerMegabyte
      const { looked } = await this.#workOn(
        project,
        place => ({ kind: 'look', look: { ...place, entries, maxBytes }, imagesPath }),
        'looked'
      )
      if (looked.length === 0) return null
      const { deployId: live } = before.head
      const isEarly = live !== deployId && !this.#isPutBack(deployId)
      const owner = isEarly ? deployId : live
      const lines = looked.map(each => lineOf(entries[each.index] as OwnedEntry, each, { owner, isEarly }))
      run.onSources(await this.#add(project, owner, { lines, imagesPath }))
      return sentenceOf(lines)
    } finally {
      await rm(imagesPath, { force: true })
    }
  }

  /** Whether the files of a deployment were in its target, and no longer are. */
  #isPutBack(deployId: string): boolean {
    return findDeployment(this.#needs.store, deployId)?.revertedAt != null
  }

  /** Adds changes to those of a deployment. Returns the deployments whose archives contain the earlier contents. */
  async #add(
    { id: projectId }: Pick<Project, 'id'>,
    owner: string,
    { lines, imagesPath }: { lines: readonly ScriptedLine[]; imagesPath: string }
  ): Promise<string[]> {
    const { files, quota, store, trees } = this.#needs
    const earlier: ScriptedLine[] = []
    for await (const line of readScripted(files.scripted(owner))) earlier.push(line)
    const isNew = new Set(lines.map(pathOfLine))
    const all = joinScripted(earlier, lines)
    const images = all.flatMap(line => {
      if (!('path' in line) || line.kept !== 'scripted') return []
      const source = isNew.has(line.path) ? imagesPath : files.scriptedImages(owner)
      return [{ path: line.path, mode: line.mode, mtimeMs: line.mtimeMs ?? 0, source }]
    })
    if (images.length > 0) {
      const target = files.scriptedImages(owner)
      const replacedBytes = (await stat(target).catch(() => null))?.size ?? 0
      quota.changed(projectId, (await composeArchive(target, images)).bytes - replacedBytes)
    }
    const sources = sourcesOfScripted(all)
    if (sources.length > 0) await store.write(tx => addBeforeFrom(tx, owner, sources))
    await writeScripted(files.scripted(owner), all)
    trees.update(projectId)
    return sources
  }
}

/** Returns the entries of the owned tree with these numbers. */
async function entriesOf(
  trees: Pick<Trees, 'read'>,
  { id }: Project,
  numbers: ReadonlySet<number>
): Promise<OwnedEntry[]> {
  const owned = await trees.read(id, waitMs, false)
  const entries: OwnedEntry[] = []
  if (owned.baseline !== 'owned') return entries
  let number = 0
  for await (const entry of readOwnedEntries(owned.path)) if (numbers.has(number++)) entries.push(entry)
  return entries
}

/** Returns the line about an entry that a script changed; `owner` is the deployment that it belongs to. */
function lineOf(
  entry: OwnedEntry,
  { now, kept }: LookedEntry,
  { owner, isEarly }: { owner: string; isEarly: boolean }
): ScriptedLine {
  const { path, since } = entry
  const isOwn = since === owner
  const before = isOwn ? {} : { before: earlierOf(entry) }
  const early = isEarly ? ({ isEarly: true } as const) : {}
  if (now === null) return { removed: path, ...before, ...early }
  const source = kept !== 'before' ? { kept } : isOwn ? {} : { kept: `archive:${since}` as const }
  return { path, ...now, ...source, ...before, ...early }
}

function earlierOf(entry: OwnedEntry): EarlierFile {
  const { mode, size, sha256, mtimeMs, gid, since } = entry
  if (isDirectory(entry)) return { mode, size, sha256 }
  return {
    mode,
    size,
    sha256,
    ...(gid !== undefined && { gid }),
    ...(mtimeMs !== null && { mtimeMs }),
    kept: `archive:${since}`
  }
}

const archivePrefix = 'archive:'

/** Returns a line of a deployment that is not in place as one of the live deployment. */
function givenTo(owner: string, { isEarly: _, before, ...line }: ScriptedLine): ScriptedLine {
  const isOwn = before?.kept === `${archivePrefix}${owner}`
  const given = isOwn || before === undefined ? line : { ...line, before }
  if (!('path' in given) || given.kept !== `${archivePrefix}${owner}`) return given
  const { kept: __, ...plain } = given
  return plain
}

function sentenceOf(lines: readonly ScriptedLine[]): string {
  const names = lines.slice(0, maxNamed).map(line => `"${oneLine(pathOfLine(line))}"`)
  const more = lines.length > maxNamed ? `, and ${lines.length - maxNamed} more` : ''
  return `the script changed ${countOf(lines.length, 'deployed file')}: ${names.join(', ')}${more}`
}

function packed({ projectId, head, marks }: Before): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify({ projectId, head })}\n`), marks])
}

/** Throws if a power cut has torn the file. */
function unpacked(bytes: Buffer): Before {
  const end = bytes.indexOf('\n')
  const { projectId, head } = JSON.parse(bytes.toString('utf8', 0, Math.max(0, end))) as Omit<Before, 'marks'>
  return { projectId, head, marks: bytes.subarray(end + 1) }
}
