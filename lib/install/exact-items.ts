/* Makes the items of an extraction exactly what an earlier state of the target had (ownership.ts). */
import { Refusal } from '../base/errors.js'
import type { Exact, WantedEntry } from './ownership.js'
import type { Item } from './plan.js'
import type { Records } from './record.js'
import { setIdBits } from './unowned.js'

/** Times that differ by less than this are the same: Node sets times in microseconds. */
export const exactTimeMs = 0.001
/** The umask with which a stage sets every mode itself. */
export const exactUmask = 0o7777

const permissionBits = 0o7777

/**
 * Gives each item its exact mode and time, and returns the SHA-256 that each must have, by its path. Refuses (`invalid`,
 * damaged_archive) an item that is not wanted.
 */
export function setExactly(items: readonly Item[], exact: Exact): ReadonlyMap<string, string> {
  const byPath = new Map(items.map(item => [item.path, item]))
  const digests = new Map<string, string>()
  for (const line of textOf(exact.wanted).split('\n')) {
    if (line === '') continue
    const { path, mode, mtimeMs, sha256, owner, gid } = JSON.parse(line) as WantedEntry
    const item = byPath.get(path)
    if (item === undefined) throw damaged(path)
    item.mode = item.kind === 'symlink' ? null : mode & permissionBits
    item.mtimeMs = mtimeMs
    if (owner !== undefined) item.owner = owner
    const group = gid === null ? process.getegid?.() : gid
    if (group !== undefined && item.kind !== 'symlink') item.gid = group
    if (gid === null) item.isUsualGroup = true
    // A list of files can come from a package, or from a helper of another user.
    const isGiven = owner !== undefined || (gid != null && item.kind === 'file')
    if (isGiven && item.mode !== null) item.mode &= ~setIdBits
    if (item.kind !== 'directory') digests.set(path, sha256)
  }
  return digests
}

/** Refuses (`invalid`, damaged_archive) staged items that are not what they must be. */
export function checkExactly(
  digests: ReadonlyMap<string, string>,
  { items, records }: { items: readonly Item[]; records: Records }
): void {
  for (const [index, { path, kind }] of items.entries()) {
    if (kind !== 'directory' && records.sha256(index).toString('hex') !== digests.get(path)) throw damaged(path)
  }
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
}

function damaged(path: string): Refusal {
  const sentence = `Nothing was changed: the kept contents of "${path}" are not those that were in the target`
  return new Refusal('invalid', 'damaged_archive', sentence)
}
