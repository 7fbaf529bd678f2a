import { mkdir, open, rm } from 'node:fs/promises'
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
  remove(deployId: string): Promise<void>
}

/**
 * The list of changes where a project's own user can read it, who has no right to the data directory: a file of that user
 * in the directory for temporary files, where no other user can touch it.
 */
export function sharedChanges(path: string): string {
  return join(tmpdir(), `svc-${basename(path)}`)
}

/** Names in `deployments/` and `tmp/` that are ours. */
export const archiveFilePattern = /^dep_[a-z2-7]{16}\.zip$/
export const temporaryFilePattern = /^(?:[\w-]{43}\.zip|dep_[a-z2-7]{16}\.changes)$/

/** Directories in `tmp/` that backups make (backup/snapshot.ts). */
export const snapshotPattern = /^[\w-]{43}\.backup$/

export function createFiles({ deployments, tmp }: DeployHome): DeployFiles {
  const files: DeployFiles = {
    upload: token => join(tmp, `${token}.zip`),
    archive: deployId => join(deployments, `${deployId}.zip`),
    output: deployId => join(deployments, `${deployId}.log`),
    manifest: deployId => join(deployments, `${deployId}.manifest`),
    journal: deployId => join(deployments, `${deployId}.undo`),
    changes: deployId => join(tmp, `${deployId}.changes`),
    async remove(deployId) {
      const paths = [files.archive(deployId), files.output(deployId), files.manifest(deployId)]
      await Promise.all(paths.map(path => rm(path, { force: true })))
    }
  }
  return files
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
