/*
 * What an extraction must know about the files that svc owns in the target: to find edited files, to prune, to keep what
 * it replaces for a way back, and to restore an earlier state exactly. Plain data, for threads and helper processes.
 */

import type { FileOwner } from '../model/manifest.js'

/** What an extraction knows about the target, and may do about it. */
export interface Ownership {
  /** The contents of the owned tree (owned-tree.ts); null if svc owns nothing there, or does not know what. */
  tree: Uint8Array | null
  /** Whether svc does not know what it owns: then svc calls no file that of somebody else. */
  isUnknown?: boolean
  /**
   * What happens to files that somebody edited and that would be replaced or removed. `ignore` and `warn` replace them;
   * `keep` leaves them as they are.
   */
  edited: 'ignore' | 'warn' | 'refuse' | 'keep'
  removes: Removes | null
  /** What the entries of the archive must be exactly; null: what the archive says. */
  exact: Exact | null
  /** The deployments of this project whose archives are kept: replaced files that came with them need no copy. */
  archives: readonly string[]
  /** Limit of the before-images (before-images.ts), and whether a deployment that exceeds it is refused. */
  before: { maxBytes: number; isRequired: boolean }
}

/** The owned files that are removed. */
export type Removes =
  /**
   * Those that the archive does not contain, except those that match a glob. `isForced`: however many they are;
   * `takesUnowned`: also those that svc did not put there (unowned.ts), which are then kept for a way back.
   */
  | { kind: 'absent'; protect: readonly string[]; isForced: boolean; takesUnowned?: boolean }
  /** Those with these paths, one per line, in the order of `compareTreePaths`. */
  | { kind: 'listed'; paths: Uint8Array }

/** An exact change of a target. */
export interface Exact {
  /** A `WantedEntry` per line, as JSON, for each entry of the archive. */
  wanted: Uint8Array
  /** Directories that are removed if nothing else is in them, one path per line. */
  directories: Uint8Array
}

/** An entry that is to be in the target exactly so. A directory has the size 0 and 64 zeros. */
export interface WantedEntry {
  path: string
  /** File type and permission bits. */
  mode: number
  size: number
  sha256: string
  /** Modification time in milliseconds since 1970; null for a directory. */
  mtimeMs: number | null
  /** Absent if it is that of the process. */
  owner?: FileOwner
  /** The number of the group; null: that of the process; absent: any. */
  gid?: number | null
}
