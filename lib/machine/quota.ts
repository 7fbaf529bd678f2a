/*
 * Limits of the data directory: `max_home_size` for everything, and `maxDiskMb` for the archives and outputs of a
 * project. Uploads also leave a reserve for commits, checkpoints and outputs, both of the file system and of
 * `max_home_size`: 64 MB or 1 %, whichever is less, plus the size of svc.db, because a checkpoint writes a copy of it.
 *
 * An upload reads no file sizes from the disk. The files are counted when a limit is first needed, after a clean-up,
 * and when the storage page is shown. In between, sizes of archives and outputs are added and subtracted. Uploads in
 * progress are counted with their announced length, so simultaneous uploads cannot exceed a limit.
 */
import { Refusal } from '../base/errors.js'
import { formatBytes } from '../shared/size.js'
import type { DiskFigures } from '../model/machine.js'
import type { Store } from '../store/database.js'
import { findProject } from '../store/tables/projects.js'
import { readDisk } from './disk.js'
import { type KeptFiles, measureFiles, measureKept } from './storage.js'

/** The limits of the data directory. */
export interface Quota {
  /**
   * Reserves space for an upload before its body is read. `bytes` is the announced length, 0 if unknown. Refuses with
   * 413 `home_full`, 413 `project_quota` or 503 `disk_full`.
   */
  claim(wanted: { bytes: number; projectId: string | null }): Promise<Claim>
  /** Adds `bytes` to the files of a project; a negative number subtracts. */
  changed(projectId: string, bytes: number): void
  /** Takes sizes that were just counted on the disk. */
  counted(kept: KeptFiles): void
  /** Makes the next claim count the files on the disk. */
  recountLater(): void
}

/** Space that is reserved for one upload until it is released. */
export interface Claim {
  /** Sets the project of the upload. Refuses as `claim`. */
  of(projectId: string): void
  /** Sets the number of received bytes. More than announced need more space. Refuses as `claim`. */
  grow(bytes: number): void
  release(): void
}

interface Needs {
  store: Store
  home: { directory: string; deployments: string }
  settings: { number(key: 'max_home_size'): number }
  diskOf?: (directory: string) => Promise<DiskFigures>
}

interface Sums {
  all: number
  projects: Map<string, number>
}

interface Claimed {
  bytes: number
  /** The part of `bytes` that was written. */
  written: number
  projectId: string | null
  /** Free space for uploads, and the size of svc.db, when this upload began. */
  freeBytes: number
  databaseBytes: number
}

const bytesPerMegabyte = 1024 * 1024
const reserveBytes = 64 * bytesPerMegabyte
const reserveShare = 1 / 100

/** Creates the limits. `diskOf` reads the file system of the data directory. */
export function createQuota({ store, home, settings, diskOf = readDisk }: Needs): Quota {
  const claims = new Set<Claimed>()
  let sums: Sums | null = null
  let counting: Promise<void> | null = null

  async function count(): Promise<void> {
    counted(await measureKept(store, home))
  }

  function counted({ archives, logs, database, projects }: KeptFiles): void {
    const ofProjects = Array.from(projects, ([id, kept]) => [id, kept.archiveBytes + kept.logBytes] as const)
    sums = { all: archives + logs + database, projects: new Map(ofProjects) }
  }

  function isLimited(): boolean {
    return (
      settings.number('max_home_size') > 0 ||
      store.get('SELECT 1 FROM projects WHERE maxDiskMb IS NOT NULL') !== undefined
    )
  }

  /** Returns the bytes that other uploads have claimed, of one project or of all. */
  function claimedBeside(own: Claimed, projectId?: string): number {
    let bytes = 0
    for (const claim of claims)
      if (claim !== own && (projectId ?? claim.projectId) === claim.projectId) bytes += claim.bytes
    return bytes
  }

  function check(claim: Claimed): void {
    if (claim.bytes > claim.freeBytes) throw diskFull()
    if (sums === null) return
    checkHome(claim, sums)
    if (claim.projectId !== null) checkProject(claim, claim.projectId, sums)
  }

  function checkHome(claim: Claimed, { all }: Sums): void {
    const limit = settings.number('max_home_size') * bytesPerMegabyte
    if (limit === 0) return
    const kept = all + claimedBeside(claim)
    if (kept + claim.bytes > limit - reserveOf(limit) - claim.databaseBytes) throw homeFull(kept, claim.bytes, limit)
  }

  function checkProject(claim: Claimed, projectId: string, { projects }: Sums): void {
    const project = findProject(store, projectId)
    if (project === undefined || project.maxDiskMb === null) return
    const limit = project.maxDiskMb * bytesPerMegabyte
    const kept = (projects.get(projectId) ?? 0) + claimedBeside(claim, projectId)
    if (kept + claim.bytes > limit) throw projectFull(project.name, { kept, bytes: claim.bytes, limit })
  }

  /** Returns the free space for uploads, less the bytes that uploads in progress still need. */
  function freeForUploads({ freeBytes, totalBytes }: DiskFigures, databaseBytes: number): number {
    if (freeBytes === null || totalBytes === null) return Infinity
    let coming = 0
    for (const { bytes, written } of claims) coming += bytes - written
    return freeBytes - coming - reserveOf(totalBytes) - databaseBytes
  }

  function createClaim(claimed: Claimed): Claim {
    return {
      of(projectId) {
        claimed.projectId = projectId
        check(claimed)
      },
      grow(bytes) {
        claimed.written = bytes
        if (bytes <= claimed.bytes) return
        claimed.bytes = bytes
        check(claimed)
      },
      release: () => void claims.delete(claimed)
    }
  }

  return {
    async claim({ bytes, projectId }) {
      const [disk, databaseBytes] = await Promise.all([
        diskOf(home.directory),
        measureFiles(home.directory, name => name.startsWith('svc.db'))
      ])
      while (sums === null && isLimited()) await (counting ??= count().finally(() => void (counting = null)))
      // No await from here on: of two simultaneous claims the second sees the first.
      const claimed: Claimed = {
        bytes,
        written: 0,
        projectId,
        freeBytes: freeForUploads(disk, databaseBytes),
        databaseBytes
      }
      check(claimed)
      claims.add(claimed)
      return createClaim(claimed)
    },
    changed(projectId, bytes) {
      if (sums === null) return
      sums.all += bytes
      sums.projects.set(projectId, (sums.projects.get(projectId) ?? 0) + bytes)
    },
    counted,
    recountLater() {
      sums = null
    }
  }
}

function reserveOf(totalBytes: number): number {
  return Math.min(reserveBytes, totalBytes * reserveShare)
}

function homeFull(kept: number, bytes: number, limit: number): Refusal {
  const sentence =
    `The upload was refused: the data directory contains ${formatBytes(kept)}, and ${more(bytes)} ` +
    `would exceed max_home_size (${formatBytes(limit)}). Clean the storage, lower keep_archives, or raise max_home_size`
  return new Refusal('too_large', 'home_full', sentence, { field: 'file' })
}

function projectFull(name: string, { kept, bytes, limit }: { kept: number; bytes: number; limit: number }): Refusal {
  const sentence =
    `The upload was refused: the archives and outputs of "${name}" take ${formatBytes(kept)}, and ` +
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
