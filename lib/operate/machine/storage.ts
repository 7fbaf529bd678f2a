import type { Stats } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { notFound, Refusal } from '../../base/errors.js'
import { formatBytes } from '../../base/shared/api.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import type { Cleaned, DiskFigures, FoundBytes, ProjectUsage, StorageUsage } from '../../model/machine.js'
import type { Project } from '../../model/project.js'
import type { Reader, Store } from '../../core/store/database.js'
import { withNodes } from '../../core/store/tables/fleet.js'
import { findProject, readProjects } from '../../core/store/tables/projects.js'
import { nullable, number, rowReader, text } from '../../core/store/tables/table.js'
import { readDisk } from './resources.js'

/** A request to remove files. */
export interface CleanRequest {
  /** Reports what would be removed and removes nothing. */
  dryRun: boolean
  /** Removes archives of this project only, and no temporary files. */
  projectId?: string | undefined
  /** Also removes files of deployments without a record. */
  unrecorded?: boolean | undefined
  /** Number of successful archives to keep per project, instead of the setting `keep_archives`. */
  keep?: number | undefined
  actor: Actor
}

type Target = Pick<Project, 'deployPath' | 'runAs' | 'umask'>

/** The disk usage of svc. */
export type Storage = ReturnType<typeof createStorage>

interface FoundFile {
  path: string
  stats: Stats
}

interface Needs {
  store: Store
  home: { directory: string; deployments: string; tmp: string }
  /** The retention of deployments. */
  retention: {
    prunable(projectId: string, keep?: number): string[]
    prune(projectId: string, keep?: number): Promise<string[]>
    staleFiles(): Promise<FoundFile[]>
    unrecordedFiles(): Promise<FoundFile[]>
  }
  /** Takes the counted sizes, and the request to count again. */
  quota: { counted(kept: KeptFiles): void; recountLater(): void }
  /** Returns the sizes of targets in the order of the projects; null if a size was not counted. */
  measureTargets(
    projects: readonly Target[],
    limits: { maxEntries: number; forMs: number }
  ): Promise<Array<number | null>>
  disk(): Promise<{ freeBytes: number | null; totalBytes: number | null; percentUsed: number | null }>
  audit: { record(event: AuditEvent): Promise<void> }
}

/** Limits of counting: entries of one target, and milliseconds for all targets. */
const maxTargetEntries = 20_000
const maxTargetsMs = 2_000

/** Creates the view of the disk usage. */
export function createStorage(needs: Needs) {
  const { store, home, retention, quota, disk, audit } = needs
  let measuring: Promise<StorageUsage> | undefined

  async function measure(): Promise<StorageUsage> {
    const projects = withNodes(store, readProjects(store, ['id', 'deployPath', 'runAs', 'umask']))
    const [kept, tmp, figures] = await Promise.all([
      measureKept(store, home),
      measureFiles(home.tmp, () => true),
      disk()
    ])
    quota.counted(kept)
    // What is at the deployPath of a project on nodes is not what it has deployed.
    const here = projects.filter(({ nodes }) => nodes === 0)
    const measured = await needs.measureTargets(here, { maxEntries: maxTargetEntries, forMs: maxTargetsMs })
    const sizes = new Map(here.map(({ id }, i) => [id, measured[i] ?? null]))
    const usages = projects.map(({ id }): ProjectUsage => {
      return { projectId: id, ...(kept.projects.get(id) ?? nothingKept), deployPathBytes: sizes.get(id) ?? null }
    })
    const totals = { archives: kept.archives, logs: kept.logs, tmp, database: kept.database }
    const bytes = Object.values(totals).reduce((sum, part) => sum + part, 0)
    return { home: { path: home.directory, bytes, ...figures }, totals, projects: usages }
  }

  async function clean({ dryRun, projectId, unrecorded = false, keep, actor }: CleanRequest): Promise<Cleaned> {
    const ids = readProjects(store, ['id']).map(({ id }) => id)
    if (projectId !== undefined && !ids.includes(projectId)) throw notFound('Project', projectId)
    const stale = projectId === undefined ? await retention.staleFiles() : []
    const strays = projectId === undefined ? await retention.unrecordedFiles() : []
    if (!dryRun) actor.checkAgain?.(true)
    const goingFiles = [...stale, ...(unrecorded ? strays : [])]
    const gone = new Set(dryRun ? goingFiles : await removeEach(goingFiles))
    const isGone = (file: FoundFile): boolean => gone.has(file)
    const going = (projectId === undefined ? ids : [projectId]).map(id => {
      return { projectId: id, deployIds: retention.prunable(id, keep) }
    })
    const found = new Map<string, Stats>()
    const remember = (name: string, stats: Stats): void => void found.set(name, stats)
    const archives = going.flatMap(({ deployIds }) => deployIds.flatMap(archiveNames))
    await statEach(home.deployments, archives, remember)
    const bytesOf = (id: string): number =>
      archiveNames(id).reduce((sum, name) => sum + (found.get(name)?.size ?? 0), 0)
    const cleaned: Cleaned = {
      dryRun,
      archives: going.flatMap(({ projectId, deployIds }) => {
        return deployIds.map(deployId => ({ deployId, projectId, bytes: bytesOf(deployId) }))
      }),
      temporaryFiles: stale.filter(isGone).map(bytesOfFile),
      unrecordedFiles: strays.filter(isGone).map(bytesOfFile),
      unrecordedLeft: strays.filter(file => !isGone(file)).map(bytesOfFile),
      freedBytes: freedBy([...found.values(), ...[...gone].map(({ stats }) => stats)])
    }
    if (dryRun) return cleaned
    for (const { projectId, deployIds } of going) if (deployIds.length > 0) await retention.prune(projectId, keep)
    quota.recountLater()
    await audit.record({ action: 'storage.clean', actor, projectId: projectId ?? null, detail: sentenceOf(cleaned) })
    return cleaned
  }

  return {
    /** Counts the files on the disk. Simultaneous calls share one count. */
    usage: (): Promise<StorageUsage> => (measuring ??= measure().finally(() => void (measuring = undefined))),
    /** Removes files and records it in the audit log, except in a dry run. Refuses an unknown project with 404. */
    clean
  }
}

const bytesOfFile = ({ path, stats }: FoundFile): FoundBytes => ({ name: basename(path), bytes: stats.size })

/** Removes files and returns the removed ones. */
async function removeEach(files: readonly FoundFile[]): Promise<FoundFile[]> {
  const gone: FoundFile[] = []
  for (const file of files)
    await rm(file.path, { force: true }).then(
      () => gone.push(file),
      () => {}
    )
  return gone
}

/** Returns the names of the files of an archive. Others may need its pack, which then stays. */
const archiveNames = (deployId: string): string[] => ['zip', 'index', 'pack'].map(ending => `${deployId}.${ending}`)

/** Returns the freed bytes. The space of a file is free when its last name is removed. */
function freedBy(going: readonly Stats[]): number {
  const names = new Map<string, number>()
  let bytes = 0
  for (const { dev, ino, nlink, size } of going) {
    const gone = (names.get(`${dev}:${ino}`) ?? 0) + 1
    names.set(`${dev}:${ino}`, gone)
    if (gone === nlink) bytes += size
  }
  return bytes
}

function sentenceOf({ archives, temporaryFiles, unrecordedFiles, freedBytes }: Cleaned): string {
  const counts = `archives: ${archives.length}, temporary files: ${temporaryFiles.length}`
  return `${counts}, files without a record: ${unrecordedFiles.length}, freed: ${formatBytes(freedBytes)}`
}

/** Number of parallel stat calls. Few, so that other work finds free threads. */
const statsAbreast = 2
const ownersPerPage = 500

/** Stored files of one project. */
export type Kept = Omit<ProjectUsage, 'projectId' | 'deployPathBytes'>

/** A project without stored files. */
const nothingKept: Kept = { archiveCount: 0, archiveBytes: 0, wholeArchiveBytes: 0, logBytes: 0 }

/** Archives, and what they share (deploy/packs.ts). */
const archiveEnding = /\.(?:zip|index|pack)$/

/** Sizes of the permanent files of the data directory in bytes, counted on the disk. */
export interface KeptFiles {
  /** Archives and before-images. */
  archives: number
  /** Outputs and manifests. */
  logs: number
  database: number
  projects: Map<string, Kept>
}

/** Counts the permanent files of the data directory. */
export async function measureKept(store: Reader, home: { directory: string; deployments: string }): Promise<KeptFiles> {
  const [files, database] = await Promise.all([
    ownersOf(store).then(owners => measureDeployments(home.deployments, owners)),
    measureFiles(home.directory, name => name.startsWith('svc.db'))
  ])
  return { ...files, database }
}

const readOwner = rowReader('deployments', {
  position: number,
  id: text,
  projectId: text,
  archiveBytes: nullable(number),
  archiveSha256: nullable(text)
})

/** The project of a deployment, and its archive. */
interface Owner {
  projectId: string
  archiveBytes: number | null
  archiveSha256: string | null
}

/** Returns the project of each deployment. Reads in pages, so that other requests can run in between. */
async function ownersOf(store: Reader): Promise<Map<string, Owner>> {
  const owners = new Map<string, Owner>()
  const columns = 'position, id, projectId, archiveBytes, archiveSha256'
  const sql = `SELECT ${columns} FROM deployments WHERE position > ? ORDER BY position LIMIT ?`
  let position = -1
  for (;;) {
    const rows = store.all(sql, position, ownersPerPage).map(readOwner)
    for (const { id, position: _, ...owner } of rows) owners.set(id, owner)
    if (rows.length < ownersPerPage) return owners
    position = rows.at(-1)?.position as number
    await nextTurn()
  }
}

/** Counts the files in `deployments/`, in total and by project. */
async function measureDeployments(
  directory: string,
  owners: ReadonlyMap<string, Owner>
): Promise<Omit<KeptFiles, 'database'>> {
  const projects = new Map<string, Kept>()
  const counted = new Set<string>()
  const sums = { archives: 0, logs: 0 }
  const countOnce = (key: string, { size, nlink }: Stats): number => {
    if (nlink === 1) return size
    return counted.has(key) ? 0 : (counted.add(key), size)
  }
  await statEach(directory, await readdir(directory).catch(() => []), (name, stats) => {
    const isArchive = archiveEnding.test(name)
    const file = `${stats.dev}:${stats.ino}`
    sums[isArchive ? 'archives' : 'logs'] += countOnce(file, stats)
    const owner = owners.get(name.slice(0, name.indexOf('.')))
    if (owner === undefined) return
    const { projectId, archiveBytes, archiveSha256 } = owner
    const kept = projects.get(projectId) ?? { ...nothingKept }
    projects.set(projectId, kept)
    if (isArchive && !/\.(?:(before|scripted|marks)\.zip|pack)$/.test(name)) kept.archiveCount++
    const own = countOnce(`${projectId} ${file}`, stats)
    kept[isArchive ? 'archiveBytes' : 'logBytes'] += own
    if (name.endsWith('.zip')) kept.wholeArchiveBytes += own
    // A rollback has the same archive as its source.
    const key = `${projectId} ${archiveSha256}`
    if (!name.endsWith('.index') || counted.has(key)) return
    counted.add(key)
    kept.wholeArchiveBytes += archiveBytes ?? 0
  })
  return { ...sums, projects }
}

/** Returns the bytes of the files in a directory that `isMeant` accepts, without subdirectories. */
export async function measureFiles(directory: string, isMeant: (name: string) => boolean): Promise<number> {
  const names = (await readdir(directory).catch(() => [])).filter(isMeant)
  let bytes = 0
  await statEach(directory, names, (_, { size }) => void (bytes += size))
  return bytes
}

/** Calls `visit` for each regular file. Skips files that were just removed. */
async function statEach(
  directory: string,
  names: readonly string[],
  visit: (name: string, stats: Stats) => void
): Promise<void> {
  const next = names.values()
  const work = async (): Promise<void> => {
    for (const name of next) {
      const stats = await stat(join(directory, name)).catch(() => null)
      if (stats?.isFile()) visit(name, stats)
    }
  }
  await Promise.all(Array.from({ length: statsAbreast }, work))
}

/*
 * Limits of the data directory: `max_home_size` for everything, and `maxDiskMb` for the archives and outputs of a
 * project. Uploads also leave a reserve for commits, checkpoints and outputs, both of the file system and of
 * `max_home_size`: 64 MB or 1 %, whichever is less, plus the size of svc.db, because a checkpoint writes a copy of it.
 *
 * An upload reads no file sizes from the disk. The files are counted when a limit is first needed, after a clean-up,
 * and when the storage page is shown. In between, sizes of archives and outputs are added and subtracted. Uploads in
 * progress are counted with their announced length, so simultaneous uploads cannot exceed a limit.
 */

/** Space that is reserved for one upload until it is released. */
export interface Claim {
  /** Sets the project of the upload. Refuses as `claim`. */
  of(projectId: string): void
  /** Sets the number of received bytes. More than announced need more space. Refuses as `claim`. */
  grow(bytes: number): void
  release(): void
}

interface ClaimRequest {
  bytes: number
  before?: number
  projectId: string | null
}

interface QuotaNeeds {
  store: Store
  home: { directory: string; deployments: string }
  settings: { number(key: 'max_home_size'): number }
  /** Reads the file system of the data directory. */
  diskOf?: (directory: string) => Promise<DiskFigures>
}

interface Sums {
  all: number
  projects: Map<string, number>
}

interface Claimed {
  bytes: number
  /** The part of `bytes` that was written, and the part of it that was there before the claim. */
  written: number
  before: number
  projectId: string | null
  /** Free space for uploads, and the size of svc.db, when this upload began. */
  freeBytes: number
  databaseBytes: number
}

const bytesPerMegabyte = 1024 * 1024
const reserveBytes = 64 * bytesPerMegabyte
const reserveShare = 1 / 100

/** The limits of the data directory. */
export class Quota {
  readonly #needs: QuotaNeeds
  readonly #claims = new Set<Claimed>()
  #sums: Sums | null = null
  #counting: Promise<void> | null = null

  constructor(needs: QuotaNeeds) {
    this.#needs = needs
  }

  /**
   * Reserves space for an upload before its body is read. `bytes` is the announced length, 0 if unknown, and `before` the
   * part of it that is on the disk. Refuses with 413 `home_full`, 413 `project_quota` or 503 `disk_full`.
   */
  async claim({ bytes, before = 0, projectId }: ClaimRequest): Promise<Claim> {
    const { home, diskOf = readDisk } = this.#needs
    const [disk, databaseBytes] = await Promise.all([
      diskOf(home.directory),
      measureFiles(home.directory, name => name.startsWith('svc.db'))
    ])
    while (this.#sums === null && this.#isLimited())
      await (this.#counting ??= this.#count().finally(() => void (this.#counting = null)))
    // No await from here on: of two simultaneous claims the second sees the first.
    const claimed: Claimed = {
      bytes,
      written: before,
      before,
      projectId,
      freeBytes: this.#freeForUploads(disk, databaseBytes),
      databaseBytes
    }
    this.#check(claimed)
    this.#claims.add(claimed)
    return this.#createClaim(claimed)
  }

  /** Adds `bytes` to the files of a project; a negative number subtracts. */
  changed(projectId: string, bytes: number): void {
    if (this.#sums === null) return
    this.#sums.all += bytes
    this.#sums.projects.set(projectId, (this.#sums.projects.get(projectId) ?? 0) + bytes)
  }

  /** Takes sizes that were just counted on the disk. */
  counted({ archives, logs, database, projects }: KeptFiles): void {
    const ofProjects = Array.from(projects, ([id, kept]) => [id, kept.archiveBytes + kept.logBytes] as const)
    this.#sums = { all: archives + logs + database, projects: new Map(ofProjects) }
  }

  /** Makes the next claim count the files on the disk. */
  recountLater(): void {
    this.#sums = null
  }

  async #count(): Promise<void> {
    const { store, home } = this.#needs
    this.counted(await measureKept(store, home))
  }

  #isLimited(): boolean {
    const { settings, store } = this.#needs
    return (
      settings.number('max_home_size') > 0 ||
      store.get('SELECT 1 FROM projects WHERE maxDiskMb IS NOT NULL') !== undefined
    )
  }

  /** Returns the bytes that other uploads have claimed, of one project or of all. */
  #claimedBeside(own: Claimed, projectId?: string): number {
    let bytes = 0
    for (const claim of this.#claims)
      if (claim !== own && (projectId ?? claim.projectId) === claim.projectId) bytes += claim.bytes
    return bytes
  }

  #check(claim: Claimed): void {
    if (claim.bytes - claim.before > claim.freeBytes) throw diskFull()
    if (this.#sums === null) return
    this.#checkHome(claim, this.#sums)
    if (claim.projectId !== null) this.#checkProject(claim, claim.projectId, this.#sums)
  }

  #checkHome(claim: Claimed, { all }: Sums): void {
    const limit = this.#needs.settings.number('max_home_size') * bytesPerMegabyte
    if (limit === 0) return
    const kept = all + this.#claimedBeside(claim)
    if (kept + claim.bytes > limit - reserveOf(limit) - claim.databaseBytes) throw homeFull(kept, claim.bytes, limit)
  }

  #checkProject(claim: Claimed, projectId: string, { projects }: Sums): void {
    const project = findProject(this.#needs.store, projectId)
    if (project === undefined || project.maxDiskMb === null) return
    const limit = project.maxDiskMb * bytesPerMegabyte
    const kept = (projects.get(projectId) ?? 0) + this.#claimedBeside(claim, projectId)
    if (kept + claim.bytes > limit) throw projectFull(project.name, { kept, bytes: claim.bytes, limit })
  }

  /** Returns the free space for uploads, less the bytes that uploads in progress still need. */
  #freeForUploads({ freeBytes, totalBytes }: DiskFigures, databaseBytes: number): number {
    if (freeBytes === null || totalBytes === null) return Infinity
    let coming = 0
    for (const { bytes, written } of this.#claims) coming += bytes - written
    return freeBytes - coming - reserveOf(totalBytes) - databaseBytes
  }

  #createClaim(claimed: Claimed): Claim {
    return {
      of: projectId => {
        claimed.projectId = projectId
        this.#check(claimed)
      },
      grow: bytes => {
        claimed.written = bytes
        if (bytes <= claimed.bytes) return
        claimed.bytes = bytes
        this.#check(claimed)
      },
      release: () => void this.#claims.delete(claimed)
    }
  }
}

function reserveOf(totalBytes: number): number {
  return Math.min(reserveBytes, totalBytes * reserveShare)
}

function homeFull(kept: number, bytes: number, limit: number): Refusal {
  const sentence =
    `Not accepted: the data directory contains ${formatBytes(kept)}, and ${more(bytes)} ` +
    `would exceed max_home_size (${formatBytes(limit)}). Clean the storage, lower keep_archives, or raise max_home_size`
  return new Refusal('too_large', 'home_full', sentence, { field: 'file' })
}

function projectFull(name: string, { kept, bytes, limit }: { kept: number; bytes: number; limit: number }): Refusal {
  const sentence =
    `Not accepted: the archives and outputs of "${name}" take ${formatBytes(kept)}, and ` +
    `${more(bytes)} would exceed its limit (${formatBytes(limit)}). Clean its storage, lower keep_archives, or ` +
    "raise the project's maxDiskMb"
  return new Refusal('too_large', 'project_quota', sentence, { field: 'file' })
}

/** Returns the announced length in words. */
function more(bytes: number): string {
  return bytes === 0 ? 'any more' : `${formatBytes(bytes)} more`
}

function diskFull(): Refusal {
  const sentence =
    'The upload could not be stored: too little space would be left on the disk of the data directory. ' +
    'Free some space or enlarge the disk'
  return new Refusal('unavailable', 'disk_full', sentence)
}
