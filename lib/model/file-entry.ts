/** One entry of a directory listing (§2.3). */
export interface FileEntry {
  name: string
  /** Relative to deployPath, `/` between segments. */
  path: string
  isDir: boolean
  /** Whether the name begins with a dot. */
  isHidden: boolean
  /** Size in bytes; 0 for directories. */
  size: number
  mtime: string
}

/** The preview of a file (§2.4). */
export type FileContent =
  | { type: 'text'; content: string; language: string }
  | { type: 'binary'; size: number; message: string }
