import type { Stats } from 'node:fs'
import { mkdir, open, readdir, stat, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

/** The directories of the data directory that deployments lie in. */
export interface DeployHome {
  directory: string
  deployments: string
  tmp: string
}

/** Where the files of a deployment are. */
export interface DeployFiles {
  /** Before it has an id: an upload that is coming in. */
  upload(token: string): string
  archive(deployId: string): string
  output(deployId: string): string
  manifest(deployId: string): string
  /** The undo journal (target/undo.ts). */
  journal(deployId: string): string
  /** What SVC_CHANGES names. */
  changes(deployId: string): string
  /** Removes every file of a deployment; returns whether there was one. */
  remove(deployId: string): Promise<boolean>
}

/**
 * The list of changes where a project's own user can read it, who has no right to the data directory: a file of that user
 * in the directory for temporary files, where no other user can touch it.
 */
export function sharedChanges(path: string): string {
  return join(tmpdir(), `svc-${basename(path)}`)
}

/** Files in `deployments/`: archive, output, manifest, and a manifest that is being written (target/manifest.ts). */
export const deploymentFilePattern = /^(dep_[a-z2-7]{16})\.(zip|log|manifest|manifest\.tmp)$/
/** Files in `tmp/`: uploads and parts of packages, lists of changes, inflated logs (logs/inflated.ts). */
export const temporaryFilePattern = /^(?:[\w-]{43}\.zip|dep_[a-z2-7]{16}\.changes|inflated-\d+-\d+)$/
/** Directories in `tmp/` that backups make (backup/snapshot.ts). */
export const snapshotPattern = /^[\w-]{43}\.backup$/
/** Lists of changes in the directory for temporary files (`sharedChanges`). */
export const sharedChangesPattern = /^svc-(dep_[a-z2-7]{16})\.changes$/

export function createFiles({ deployments, tmp }: DeployHome): DeployFiles {
  const files: DeployFiles = {
    upload: token => join(tmp, `${token}.zip`),
    archive: deployId => join(deployments, `${deployId}.zip`),
    output: deployId => join(deployments, `${deployId}.log`),
    manifest: deployId => join(deployments, `${deployId}.manifest`),
    journal: deployId => join(deployments, `${deployId}.undo`),
    changes: deployId => join(tmp, `${deployId}.changes`),
    async remove(deployId) {
      const [manifest, changes] = [files.manifest(deployId), files.changes(deployId)]
      const paths = [files.archive(deployId), files.output(deployId), manifest, `${manifest}.tmp`, changes]
      // In a directory of everybody's, where the name may be another user's.
      const shared = removeFile(sharedChanges(changes)).catch(() => false)
      const results = await Promise.allSettled([...paths.map(removeFile), shared])
      const failed = results.find(result => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      return results.some(result => result.status === 'fulfilled' && result.value)
    }
  }
  return files
}

/** A file whose name has a pattern. */
export interface FoundFile {
  path: string
  match: RegExpExecArray
  stats: Stats
}

/** The files of a directory whose names have this pattern; a missing directory gives no files. */
export async function* findFiles(directory: string, pattern: RegExp): AsyncGenerator<FoundFile> {
  for (const name of await readdir(directory).catch(() => [])) {
    const match = pattern.exec(name)
    if (match === null) continue
    const path = join(directory, name)
    const stats = await stat(path).catch(() => null)
    if (stats?.isFile()) yield { path, match, stats }
  }
}

/** Removes a file; returns whether it was there. */
export async function removeFile(path: string): Promise<boolean> {
  return unlink(path).then(() => true, (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return false
    throw error
  })
}

/** Makes sure of both directories; they may have been removed by hand. */
export async function makeDirectories({ deployments, tmp }: DeployHome): Promise<void> {
  await Promise.all([deployments, tmp].map(path => mkdir(path, { recursive: true, mode: 0o700 })))
}

/** What the file, or the directory's list of names, holds now survives a power cut. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } catch (error) {
    if (process.platform !== 'win32') throw error
  } finally {
    await handle.close()
  }
}
