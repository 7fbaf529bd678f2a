/*
 * The findings about each item during staging, in packed form: 200,000 objects would take several times the memory.
 *
 *   offset  bytes
 *        0      1  outcome: 0 pending, 1 staged, 2 unchanged, 3 unchanged except for its time, 4 kept: edited, left as it is
 *        1      1  existing entry of the target: 0 none, 1 a file, 2 a symbolic link
 *        2      1  1 if the existing entry has another owner or group than the new one
 *        4      4  mode of the new entry, with the file type
 *        8      4  mode of the existing entry
 *       12      4  group of the new entry
 *       16      8  size of the existing entry, a double
 *       24     32  SHA-256 of the new entry
 *       56     32  SHA-256 of the existing entry
 *       88      8  modification time of the existing entry in milliseconds, a double
 *       96      8  modification time of the new entry in milliseconds, a double
 *      104      8  inode of the new entry, a double
 *      112      4  owner of the existing entry
 *      116      4  group of the existing entry
 */
import type { FileOwner } from '../model/manifest.js'
import type { Existing } from './plan.js'

const recordBytes = 120
const existingCodes: readonly Existing[] = ['none', 'file', 'symlink']

/** The result of staging an item. */
export type Outcome = 'pending' | 'staged' | 'unchanged' | 'other_time' | 'kept'
const outcomeCodes: readonly Outcome[] = ['pending', 'staged', 'unchanged', 'other_time', 'kept']

/** Size, mode, group and SHA-256 of an entry. */
export interface Digest {
  size: number
  /** Mode with the file type, as in stat. */
  mode: number
  /** The number of the group. */
  gid: number
  sha256: Uint8Array
}

/** The new entry of an item. */
export interface Placed extends Pick<Digest, 'mode' | 'gid' | 'sha256'> {
  /** Modification time in milliseconds since 1970. */
  mtimeMs: number
  ino: number
  /** Of a staged entry. */
  owner?: FileOwner
}

/** One record for each item, by the index of the item. */
export interface Records {
  /** The memory of the records, to be shared with another thread. */
  readonly memory: SharedArrayBuffer
  existing(index: number): Existing
  setExisting(index: number, existing: Existing): void
  outcome(index: number): Outcome
  /** Records the outcome. `placed` is the new entry; its mode includes the file type. */
  settle(index: number, outcome: Outcome, placed: Placed): void
  /** Records that the existing entry, or its absence, stays as it is. */
  keep(index: number): void
  /** Records the existing entry, its modification time in milliseconds since 1970, and its owner. */
  setBefore(index: number, before: Digest, stats: FileOwner & { mtimeMs: number }): void
  /** Returns the modification time of the existing entry. */
  timeBeforeMs(index: number): number
  /** Returns the owner of an existing entry that is replaced by one of another owner or group; otherwise null. */
  ownerBefore(index: number): FileOwner | null
  /** Returns the modification time of the new entry in milliseconds since 1970. */
  mtimeMs(index: number): number
  /** Returns the inode of the new entry. */
  ino(index: number): number
  mode(index: number): number
  /** Returns the group of the new entry. */
  gid(index: number): number
  sha256(index: number): Buffer
  before(index: number): Digest | null
}

/** Creates records for `count` items, all of them pending. */
export function createRecords(count: number): Records {
  return recordsIn(new SharedArrayBuffer(count * recordBytes))
}

/**
 * Returns the records of another thread. Each thread must write only its own items, and must receive a message from the
 * other before it reads the other's records.
 */
export function recordsIn(memory: SharedArrayBuffer): Records {
  const bytes = Buffer.from(memory)
  const view = new DataView(memory)
  const at = (index: number): number => index * recordBytes
  const ownerAt = (index: number): FileOwner => {
    return { uid: view.getUint32(at(index) + 112), gid: view.getUint32(at(index) + 116) }
  }
  return {
    memory,
    existing: index => existingCodes[bytes[at(index) + 1] as number] as Existing,
    setExisting: (index, existing) => {
      bytes[at(index) + 1] = existingCodes.indexOf(existing)
    },
    outcome: index => outcomeCodes[bytes[at(index)] as number] as Outcome,
    settle(index, outcome, { mode, gid, sha256, mtimeMs, ino, owner }) {
      view.setUint32(at(index) + 4, mode)
      view.setFloat64(at(index) + 96, mtimeMs)
      view.setFloat64(at(index) + 104, ino)
      view.setUint32(at(index) + 12, gid)
      bytes.set(sha256, at(index) + 24)
      const before = ownerAt(index)
      const isOther = owner !== undefined && (owner.uid !== before.uid || owner.gid !== before.gid)
      bytes[at(index) + 2] = isOther ? 1 : 0
      bytes[at(index)] = outcomeCodes.indexOf(outcome)
    },
    keep(index) {
      bytes[at(index)] = outcomeCodes.indexOf('kept')
    },
    setBefore(index, before, { mtimeMs, uid, gid }) {
      view.setFloat64(at(index) + 88, mtimeMs)
      view.setUint32(at(index) + 8, before.mode)
      view.setUint32(at(index) + 112, uid)
      view.setUint32(at(index) + 116, gid)
      view.setFloat64(at(index) + 16, before.size)
      bytes.set(before.sha256, at(index) + 56)
    },
    timeBeforeMs: index => view.getFloat64(at(index) + 88),
    ownerBefore: index => (bytes[at(index) + 1] !== 0 && bytes[at(index) + 2] === 1 ? ownerAt(index) : null),
    mtimeMs: index => view.getFloat64(at(index) + 96),
    ino: index => view.getFloat64(at(index) + 104),
    mode: index => view.getUint32(at(index) + 4),
    gid: index => view.getUint32(at(index) + 12),
    sha256: index => bytes.subarray(at(index) + 24, at(index) + 56),
    before(index) {
      if (bytes[at(index) + 1] === 0) return null
      return {
        size: view.getFloat64(at(index) + 16),
        mode: view.getUint32(at(index) + 8),
        gid: view.getUint32(at(index) + 116),
        sha256: bytes.subarray(at(index) + 56, at(index) + 88)
      }
    }
  }
}
