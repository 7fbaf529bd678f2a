/** One file a deployment put in place: a line of `deployments/<id>.manifest`. */
export interface ManifestFile {
  /** Relative to the target, `/` between segments. */
  path: string
  /** Bytes; of a symbolic link, the length of what it points to. */
  size: number
  /** Unix permission bits and file type as in stat's `mode`. */
  mode: number
  /** Hex; of a symbolic link, of what it points to. */
  sha256: string
  /** What was there before; null: nothing. */
  before: { size: number; mode: number; sha256: string } | null
}

/** What one deployment changed against another (decisions, §4 there). */
export interface Changes {
  added: string[]
  changed: string[]
  removed: string[]
}
