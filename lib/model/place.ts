/** A directory or a file of the server's own file system, as one that can be chosen (decisions §10). */
export interface PlaceEntry {
  name: string
  /** Absolute. */
  path: string
  isDir: boolean
  isSymlink: boolean
  isHidden: boolean
}

export interface PlaceListing {
  path: string
  /** Null above a root. */
  parent: string | null
  exists: boolean
  isDir: boolean
  truncated: boolean
  /** Directories first, then by name. */
  entries: PlaceEntry[]
}

/** Where choosing may begin. */
export interface PlaceHome {
  home: string
  cwd: string
  sep: string
  roots: string[]
}

export const inclusions = ['dirs', 'files', 'both'] as const
export type Inclusion = (typeof inclusions)[number]
