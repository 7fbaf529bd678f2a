/** A file that a deployment put in place: a line of `deployments/<id>.manifest`. */
export interface ManifestFile {
  /** Relative to the target, `/` between segments. */
  path: string
  /** Size in bytes; for a symbolic link, the length of its target path. */
  size: number
  /** Unix permission bits and file type, like `mode` of stat. */
  mode: number
  /** The SHA-256 in hex digits; for a symbolic link, of its target path. */
  sha256: string
  /** Modification time in milliseconds since 1970. Manifests of earlier versions lack it. */
  mtimeMs?: number
  /** The number of its inode, with `mtimeMs` and `size` a quick sign that nobody changed the file since. */
  ino?: number
  /** The previous file at this path; null if there was none. */
  before: { size: number; mode: number; sha256: string; mtimeMs?: number } | null
}

/** The differences between the files of two deployments (decisions, §4 there). */
export interface Changes {
  added: string[]
  changed: string[]
  removed: string[]
}
