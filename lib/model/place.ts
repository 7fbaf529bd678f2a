/** A directory or file of the server's file system that can be chosen in the panel (decisions §10). */
export interface PlaceEntry {
  name: string
  /** An absolute path. */
  path: string
  isDir: boolean
  isSymlink: boolean
  isHidden: boolean
}

/** The entries of a directory. */
export interface PlaceListing {
  path: string
  /** The parent directory. Null for a root. */
  parent: string | null
  exists: boolean
  isDir: boolean
  /** Whether the directory has more entries than listed. */
  truncated: boolean
  /** Directories first, then sorted by name. */
  entries: PlaceEntry[]
}

/** The directories where choosing may begin. */
export interface PlaceHome {
  /** The home directory of the user that svc runs as. */
  home: string
  /** The working directory of the server. */
  cwd: string
  /** The path separator. */
  sep: string
  /** The roots of the file systems. */
  roots: string[]
}

/** The kinds of entries that a listing can be limited to. */
export const inclusions = ['dirs', 'files', 'both'] as const
/** Whether a listing includes directories, files, or both. */
export type Inclusion = (typeof inclusions)[number]
