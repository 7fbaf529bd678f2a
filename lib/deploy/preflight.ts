/*
 * Checks whether an archive could be deployed, without its contents and without a thread: for a node of a fleet, which
 * prepares a release long before it puts the release in place. What only the deployment can find out, it finds out.
 */
import { constants } from 'node:fs'
import { access, lstat, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { openArchive, type ArchiveEntry } from '../archive/read.js'
import { freeBytes } from '../base/files.js'
import { hasCode, notFound, reasonOf, Refusal } from '../base/errors.js'
import { checkDeployPath, whyNotMade } from '../install/guard.js'
import { extractionLimits } from '../install/unpack/extract.js'
import { findRights } from '../proc/identity.js'
import { formatBytes } from '../shared/size.js'
import { findProject } from '../store/tables/projects.js'
import { refuseLocked } from './locks.js'
import { modesOf } from './modes.js'
import type { DeployNeeds } from './needs.js'
import { refuseClientScripts, type OfferedScripts } from './scripts/scripts.js'

/** An archive that may be deployed later. */
export interface PreflightRequest {
  projectId: string
  archivePath: string
  offered: OfferedScripts
}

type Needs = Pick<DeployNeeds, 'store' | 'home' | 'allowSystemPaths' | 'clock' | 'settings'>

/**
 * Refuses what a deployment of the archive would be refused for now: locks, client scripts, a broken archive, a path that
 * is not allowed, a group that cannot be given, a target that cannot be written (`not_permitted`), too little space
 * (`no_space`).
 */
export async function preflight(needs: Needs, { projectId, archivePath, offered }: PreflightRequest): Promise<void> {
  const { store, home, allowSystemPaths, clock, settings } = needs
  const project = findProject(store, projectId)
  if (project === undefined) throw notFound('Project', projectId)
  refuseLocked(store, project, clock.now())
  if (offered.origin === 'upload') refuseClientScripts(project, settings.flag('allow_client_scripts'), offered)
  checkDeployPath(project.deployPath, { home: home.directory, allowSystemPaths })
  // Another user's rights are taken on by the deployment itself.
  const rights = await findRights(project)
  await modesOf(project)
  if (rights === null) await checkWritable(project.deployPath)
  const archive = await openArchive(archivePath, extractionLimits(settings))
  try {
    await checkSpace(project.deployPath, archive)
  } finally {
    archive.close()
  }
}

async function checkWritable(target: string): Promise<void> {
  const found = await stat(target).catch(missing)
  if (found === null) {
    const why = whyNotMade(target)
    if (why !== null) throw notPermitted(`The target cannot be created: ${why}`)
  } else if (!found.isDirectory()) {
    throw notPermitted(`The target "${target}" is not a directory`)
  } else {
    await access(target, constants.W_OK | constants.X_OK).catch((error: unknown) => {
      throw notPermitted(`Cannot write in the target "${target}": ${reasonOf(error)}`)
    })
  }
}

interface Contents {
  entries: readonly ArchiveEntry[]
  totalBytes: number
}

async function checkSpace(target: string, { entries, totalBytes }: Contents): Promise<void> {
  const free = await freeBytes(target)
  if (free === null || totalBytes <= free) return
  const needed = await changedBytes(target, entries, free)
  if (needed <= free) return
  const sentence = `The release needs ${formatBytes(needed)} in the target, and ${formatBytes(free)} are free`
  throw new Refusal('unavailable', 'no_space', sentence)
}

/** Returns the size of the files that the target does not have in this size. Stops when they are too large. */
async function changedBytes(target: string, entries: readonly ArchiveEntry[], free: number): Promise<number> {
  let bytes = 0
  for (const { path, kind, size } of entries) {
    if (kind !== 'file') continue
    const found = await lstat(join(target, path)).catch(() => null)
    if (found === null || !found.isFile() || found.size !== size) bytes += size
    if (bytes > free) break
  }
  return bytes
}

function missing(error: unknown): null {
  if (hasCode(error, 'ENOENT')) return null
  throw notPermitted(`The target cannot be used: ${reasonOf(error)}`)
}

function notPermitted(sentence: string): Refusal {
  return new Refusal('unavailable', 'not_permitted', sentence)
}
