/*
 * Verifies entries of an owned tree: whether the target still contains what svc put there. Every file is read, because
 * a size and a time prove nothing. Directories are held (held.ts), links are never followed, and nothing is written.
 *
 * It runs in a thread, or in a helper process with the rights of the project's user. The caller sends one slice of the
 * tree at a time, so that memory does not depend on the number of files.
 */
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import type { OwnedEntry } from '../../model/manifest.js'
import type { FindingState } from '../../model/plan.js'
import { linkType } from '../../base/shared/tree-text.js'
import { createDigester, type Digester, type FileDigest } from './found-entry.js'
import type { Disk } from './disk.js'
import { exactTimeMs } from './removal.js'
import { type Folders, type HeldDirectory, holdFolders, holdTarget } from './held.js'
import { checkDeployPath, type TargetRules } from './guard.js'

/** An entry to verify. The time of a file is compared only if it is given: not every way back restores times. */
export type VerifiedEntry = Pick<OwnedEntry, 'path' | 'mode' | 'gid' | 'size' | 'sha256'> &
  Partial<Pick<OwnedEntry, 'mtimeMs'>>

/** The parameters of a verification, as plain data. */
export interface VerifyJob {
  target: string
  rules: TargetRules
  /** A slice of the owned tree: files and links. */
  entries: VerifiedEntry[]
}

/** An entry that is not as svc put it there. */
export interface SliceFinding {
  /** The number of the entry in the slice. */
  index: number
  state: FindingState
}

/** The disk and the callback of a verification. */
export interface VerifyTools {
  disk: Disk
  /** Called before each entry. Throws if the verification must be abandoned. */
  check?(): void
}

const permissionBits = 0o7777
const typeBits = 0o170000

/**
 * Returns the entries that differ from the target, in their order. In a target that does not exist, all are missing.
 * Refuses (`conflict`) target_unusable.
 */
export function verifyTarget(job: VerifyJob, { disk, check = () => {} }: VerifyTools): SliceFinding[] {
  const root = holdIfThere(disk, job)
  if (root === null) return job.entries.map((_, index) => ({ index, state: 'missing' }))
  const folders = holdFolders(disk, root)
  const finder = { disk, folders, digester: createDigester(disk, check) }
  const findings: SliceFinding[] = []
  try {
    for (const [index, entry] of job.entries.entries()) {
      check()
      const state = stateOf(entry, finder)
      if (state !== null) findings.push({ index, state })
    }
    return findings
  } finally {
    folders.close()
    root.close()
  }
}

function holdIfThere(disk: Disk, { target, rules }: VerifyJob): HeldDirectory | null {
  try {
    return holdTarget(disk, checkDeployPath(target, rules))
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    const isRefusal = error instanceof Refusal
    if (!isRefusal && !hasCode(error, 'EACCES', 'EPERM')) throw error
    const sentence = `Cannot verify the target: ${isRefusal ? error.message : reasonOf(error)}`
    throw new Refusal('conflict', 'target_unusable', sentence, { cause: error })
  }
}

interface Finder {
  disk: Disk
  folders: Folders
  digester: Digester
}

/** Returns how an entry differs; null if it does not. */
function stateOf(entry: VerifiedEntry, { disk, folders, digester }: Finder): FindingState | null {
  try {
    const place = folders.place(entry.path)
    const found = isLink(entry) ? digester.link(place) : digester.file(place, entry)
    if (found !== null) return differenceOf(entry, found)
    return disk.lstatSync(place, { throwIfNoEntry: false }) === undefined ? 'missing' : 'other_type'
  } catch (error) {
    // A directory above it was removed, or replaced by a link or a file: the entry itself is not there.
    if (error instanceof Refusal || hasCode(error, 'ENOENT', 'ENOTDIR')) return 'missing'
    // What cannot be read cannot be proved to be the same.
    if (hasCode(error, 'EACCES', 'EPERM')) return 'changed'
    throw error
  }
}

function differenceOf(entry: VerifiedEntry, found: FileDigest): FindingState | null {
  if (found.size !== entry.size || hex(found.sha256) !== entry.sha256) return 'changed'
  if (isLink(entry)) return null
  const { mode, gid, mtimeMs } = entry
  const isSame =
    (found.mode & permissionBits) === (mode & permissionBits) &&
    (gid === undefined || gid === found.gid) &&
    (mtimeMs == null || Math.abs(found.stats.mtimeMs - mtimeMs) < exactTimeMs)
  return isSame ? null : 'mode'
}

/** Whether an entry is a symbolic link. */
export function isLink({ mode }: Pick<VerifiedEntry, 'mode'>): boolean {
  return (mode & typeBits) === linkType
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')
}
