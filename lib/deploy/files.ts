import { idForm, namedById } from '../base/digests.js'
import { existsSync, type Stats } from 'node:fs'
import { readdir, stat, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { hasCode, Refusal } from '../base/errors.js'
import { makeDirectory } from '../base/files.js'
import { ownMark } from '../base/runtime.js'
import type { ModePolicy } from '../core/install/guard.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { findGroup } from '../core/proc/identity.js'
import { Packs } from './packs.js'

/** The directories of the data directory that contain deployments. */
export interface DeployHome {
  directory: string
  deployments: string
  tmp: string
}

/** Paths of the files of a deployment. */
export type DeployFiles = ReturnType<typeof createFiles>

/**
 * Returns the path of the list of changes for a project that runs as its own user. That user cannot read the data
 * directory, so the list is a file of that user in the system's directory for temporary files. No other user can write
 * it. Its name says which process made it.
 */
export function sharedChanges(path: string): string {
  return join(tmpdir(), `svc-${ownMark()}-${basename(path)}`)
}

/**
 * Files in `deployments/`: archive, copies of replaced files, output, manifest, what scripts changed, and files that are
 * being written (core/archive/compose.ts, core/install/manifest.ts).
 */
export const deploymentFilePattern = namedById(
  'dep_',
  String.raw`zip|zip\.tmp|index|pack|(?:index|pack)\.tmp|before\.zip|sbom\.json|log|manifest|manifest\.tmp|scripted|(?:scripted|marks)(?:\.zip)?(?:\.tmp)?`
)
/** Files in `tmp/`: uploads and parts of packages, lists of changes, decompressed logs (operate/logs/read/contents.ts). */
export const temporaryFilePattern = new RegExp(
  String.raw`^(?:[\w-]{43}\.(?:zip|index|pack|pack\.tmp)|${idForm('dep_')}\.changes|inflated-\d+-\d+)$`
)
/** Directories in `tmp/` that backups create (carry/backup/backup.ts). */
export const snapshotPattern = /^[\w-]{43}\.backup$/
/** Lists of changes in the system's directory for temporary files (`sharedChanges`). */
export const sharedChangesPattern = new RegExp(
  String.raw`^svc-(?:([0-9a-f]{12}-\d+-\d*)-)?(${idForm('dep_')})\.changes$`
)

/** Creates the paths of a data directory. */
export function createFiles({ deployments, tmp }: DeployHome) {
  const packs = new Packs(deployments)
  const files = {
    /** The archives, which may share contents. */
    packs,
    /** An upload in progress, which has no deployment id yet. */
    upload: (token: string): string => join(tmp, `${token}.zip`),
    /** The archive, if it is whole: `packs` and `openKept` know others. */
    archive: (deployId: string): string => join(deployments, `${deployId}.zip`),
    output: (deployId: string): string => join(deployments, `${deployId}.log`),
    manifest: (deployId: string): string => join(deployments, `${deployId}.manifest`),
    /** Copies of what it replaced (core/install/before-images.ts). */
    before: (deployId: string): string => join(deployments, `${deployId}.before.zip`),
    /** The list of its components, as the client sent it. */
    sbom: (deployId: string): string => join(deployments, `${deployId}.sbom.json`),
    /** The same; null: there is none. */
    sbomIfAny: (deployId: string): string | null => (existsSync(files.sbom(deployId)) ? files.sbom(deployId) : null),
    /** What its scripts changed in the target (core/install/scripted-file.ts). */
    scripted: (deployId: string): string => join(deployments, `${deployId}.scripted`),
    /** Copies of what they changed. */
    scriptedImages: (deployId: string): string => join(deployments, `${deployId}.scripted.zip`),
    /** The state of the target before a script that is running (scripted.ts). */
    marks: (deployId: string): string => join(deployments, `${deployId}.marks`),
    /** The undo journal (core/install/undo.ts). */
    journal: (deployId: string): string => join(deployments, `${deployId}.undo`),
    /** The list of changes that `SVC_CHANGES` names. */
    changes: (deployId: string): string => join(tmp, `${deployId}.changes`),
    /** Removes every file of a deployment. Returns whether there was one. */
    async remove(deployId: string): Promise<boolean> {
      const [manifest, changes] = [files.manifest(deployId), files.changes(deployId)]
      const zips = [`${files.archive(deployId)}.tmp`, files.before(deployId), files.sbom(deployId)]
      const scripted = [files.scripted(deployId), files.scriptedImages(deployId), files.marks(deployId)]
      const paths = [...zips, ...scripted, files.output(deployId), manifest, `${manifest}.tmp`, changes]
      // This directory is shared, so the file may belong to another user.
      const shared = removeFile(sharedChanges(changes)).catch(() => false)
      const archive = packs.remove(deployId).then(({ wasThere }) => wasThere)
      const results = await Promise.allSettled([archive, ...paths.map(removeFile), shared])
      const failed = results.find(result => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      return results.some(result => result.status === 'fulfilled' && result.value)
    }
  }
  return files
}

/** A file whose name matches a pattern. */
export interface FoundFile {
  path: string
  match: RegExpExecArray
  stats: Stats
}

/** Yields the files of a directory whose names match a pattern. A missing directory yields nothing. */
export async function* findFiles(directory: string, pattern: RegExp): AsyncGenerator<FoundFile> {
  for (const name of await readdir(directory).catch(() => [])) {
    const match = pattern.exec(name)
    if (match === null) continue
    const path = join(directory, name)
    const stats = await stat(path).catch(() => null)
    if (stats?.isFile()) yield { path, match, stats }
  }
}

/** Removes a file. Returns whether it existed. */
export async function removeFile(path: string): Promise<boolean> {
  return unlink(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    }
  )
}

/**
 * Creates both directories if they are missing: they may have been removed by hand. Refuses (`database_unavailable`) if the
 * data directory itself is gone: the database is not where it was, and would not be in a new one.
 */
export async function makeDirectories({ deployments, tmp }: DeployHome): Promise<void> {
  const make = (path: string): Promise<void> =>
    makeDirectory(path, 0o700).catch((error: unknown) => {
      throw hasCode(error, 'ENOENT') ? gone(dirname(path)) : error
    })
  await Promise.all([deployments, tmp].map(make))
}

function gone(directory: string): Refusal {
  const sentence = `The data directory "${directory}" was moved or removed. Put it back, or stop this server`
  return new Refusal('unavailable', 'database_unavailable', sentence)
}

type Given = Pick<Project, 'policy' | 'runAs'>

/**
 * Returns what the policy of a project says about the permissions and the group of its files. Refuses (`conflict`,
 * group_unusable) a group that does not exist here, or that its user may not give to files.
 */
export async function modesOf(project: Given): Promise<ModePolicy> {
  const { group } = policyOf(project)
  return { ...permissionsOf(project), group: group === null ? null : await findGroup(group, project.runAs) }
}

/** Returns what it says about permissions alone: a way back restores the groups that were there. */
export function permissionsOf(project: Given): ModePolicy {
  const { fileMode, directoryMode } = policyOf(project)
  return { file: bitsOf(fileMode), directory: bitsOf(directoryMode) }
}

function bitsOf(octal: string | null): number | null {
  return octal === null ? null : Number.parseInt(octal, 8)
}
