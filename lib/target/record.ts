/*
 * What was found out about each item while it was staged, packed: 200,000 objects would take several times the memory.
 *
 *   offset  bytes
 *        0      1  outcome: 0 not yet, 1 staged, 2 as it is already, 3 as it is but for its time
 *        1      1  what the target had: 0 nothing, 1 a file, 2 a symbolic link
 *        4      4  mode of what is put in place, with the file type
 *        8      4  mode of what was there before
 *       16      8  size of what was there before, a double
 *       24     32  SHA-256 of what is put in place
 *       56     32  SHA-256 of what was there before
 *       88      8  of 3: the time it had before, in milliseconds, a double
 */
import type { Existing } from './plan.js'

const recordBytes = 96
const existingCodes: readonly Existing[] = ['none', 'file', 'symlink']

export type Outcome = 'pending' | 'staged' | 'unchanged' | 'other_time'
const outcomeCodes: readonly Outcome[] = ['pending', 'staged', 'unchanged', 'other_time']

export interface Digest {
  size: number
  /** With the file type, as in stat. */
  mode: number
  sha256: Uint8Array
}

/** One record for each item, by the item's index. */
export interface Records {
  /** What they are kept in, for another thread. */
  readonly memory: SharedArrayBuffer
  existing(index: number): Existing
  setExisting(index: number, existing: Existing): void
  outcome(index: number): Outcome
  settle(index: number, outcome: Outcome, mode: number, sha256: Uint8Array): void
  setBefore(index: number, before: Digest): void
  /** Of one whose time alone differs: the time it had. */
  timeBeforeMs(index: number): number
  setTimeBefore(index: number, mtimeMs: number): void
  mode(index: number): number
  sha256(index: number): Buffer
  before(index: number): Digest | null
}

/** Records for `count` items, all of them pending. */
export function createRecords(count: number): Records {
  return recordsIn(new SharedArrayBuffer(count * recordBytes))
}

/** The records of another thread. Each must have its own items, and hear from the other before it reads theirs. */
export function recordsIn(memory: SharedArrayBuffer): Records {
  const bytes = Buffer.from(memory)
  const view = new DataView(memory)
  const at = (index: number): number => index * recordBytes
  return {
    memory,
    existing: index => existingCodes[bytes[at(index) + 1] as number] as Existing,
    setExisting: (index, existing) => { bytes[at(index) + 1] = existingCodes.indexOf(existing) },
    outcome: index => outcomeCodes[bytes[at(index)] as number] as Outcome,
    settle(index, outcome, mode, sha256) {
      view.setUint32(at(index) + 4, mode)
      bytes.set(sha256, at(index) + 24)
      bytes[at(index)] = outcomeCodes.indexOf(outcome)
    },
    setBefore(index, before) {
      view.setUint32(at(index) + 8, before.mode)
      view.setFloat64(at(index) + 16, before.size)
      bytes.set(before.sha256, at(index) + 56)
    },
    timeBeforeMs: index => view.getFloat64(at(index) + 88),
    setTimeBefore: (index, mtimeMs) => view.setFloat64(at(index) + 88, mtimeMs),
    mode: index => view.getUint32(at(index) + 4),
    sha256: index => bytes.subarray(at(index) + 24, at(index) + 56),
    before(index) {
      if (bytes[at(index) + 1] === 0) return null
      return {
        size: view.getFloat64(at(index) + 16),
        mode: view.getUint32(at(index) + 8),
        sha256: bytes.subarray(at(index) + 56, at(index) + 88)
      }
    }
  }
}
