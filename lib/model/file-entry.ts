import type { Bytes, Instant } from './scalars.js'

/** One entry of a directory listing (§2.3). */
export interface FileEntry {
  name: string
  /** Path relative to the target. */
  path: string
  isDir: boolean
  /** Whether the name begins with a dot. */
  isHidden: boolean
  /** Size in bytes; 0 for directories. */
  size: Bytes
  /** Time of the last modification. */
  mtime: Instant
}

/** The preview of a file (§2.4). */
export type FileContent =
  | { type: 'text'; content: string; language: string }
  | { type: 'binary'; size: Bytes; message: string }
