/*
 * The canonical text of a tree: the files and symbolic links of a release, and nothing else. Its SHA-256 is the name of
 * "the same release" everywhere. Server, client and panel produce the same text from the same files.
 *
 *   svc-tree 1
 *   <type and permissions, 6 octal digits> <size> <SHA-256 in hex> <path>      one line for each entry
 *
 * Lines are sorted by the UTF-8 bytes of the path. Each line ends with a newline. Names contain no control characters
 * (core/archive/names.ts), so nothing is escaped. Directories and modification times are not part of it: a rebuild that
 * writes the same bytes must give the same tree.
 */

/** A file or a symbolic link of a tree. */
export interface TreeEntry {
  /** Relative to the target, `/` between segments. */
  path: string
  /** File type and permission bits, as in stat: 0o100644 for a file, 0o120777 for a symbolic link. */
  mode: number
  /** Size in bytes; for a symbolic link, the length of its target path. */
  size: number
  /** The SHA-256 in hex digits; for a symbolic link, of its target path. */
  sha256: string
}

/** The first line of the text. */
export const treeHead = 'svc-tree 1\n'

/** File type of a regular file in `mode`. */
export const fileType = 0o100000
/** File type of a symbolic link in `mode`. */
export const linkType = 0o120000
/** The mode of every symbolic link: its permission bits have no meaning. */
export const linkMode = linkType | 0o777
const directoryType = 0o040000
/** The mode of a file whose source has no permission bits (an archive that was made on Windows). */
export const defaultFileMode = fileType | 0o644
/** The mode of a directory whose source has no permission bits. */
const defaultDirectoryMode = directoryType | 0o755
const permissionBits = 0o777

/** Returns type and permission bits of what is packed or was packed. One without permission bits gets the usual ones. */
export function packedMode({ kind, mode }: { kind: 'file' | 'directory' | 'symlink'; mode: number | null }): number {
  if (kind === 'symlink') return linkMode
  const permissions = (mode ?? 0) & permissionBits
  if (kind === 'directory') return permissions === 0 ? defaultDirectoryMode : directoryType | permissions
  return permissions === 0 ? defaultFileMode : fileType | permissions
}

const modeDigits = 6

/** Returns the line of an entry. */
export function treeLine({ mode, size, sha256, path }: TreeEntry): string {
  return `${mode.toString(8).padStart(modeDigits, '0')} ${size} ${sha256} ${path}\n`
}

/** Returns the line of an entry in the text of the contents: without permissions, which an archive may lack. */
export function contentsLine({ mode, size, sha256, path }: TreeEntry): string {
  return `${mode === linkMode ? 'symlink' : 'file'} ${size} ${sha256} ${path}\n`
}

/** The body of a request for a plan: its first line. The format is described in core/archive/tree-wire.ts. */
export function bodyHead(digits: number): string {
  return `svc-tree 1 ${digits}\n`
}

/** The body of a request for a plan: the line of an entry. */
export function bodyLine(
  { mode, size, sha256, mtimeMs, path }: TreeEntry & { mtimeMs: number },
  digits: number
): string {
  return `${mode.toString(8)} ${size} ${sha256.slice(0, digits)} ${mtimeMs} ${path}\n`
}

/**
 * Compares two paths by their UTF-8 bytes: negative if `a` comes first. JavaScript compares UTF-16 code units instead,
 * which differs from the order of code points only between surrogates and the units above them.
 */
export function compareTreePaths(a: string, b: string): number {
  // Two sorted lists are mostly the same.
  if (a === b) return 0
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const [left, right] = [a.charCodeAt(i), b.charCodeAt(i)]
    if (left !== right) return orderOf(left) - orderOf(right)
  }
  return a.length - b.length
}

/**
 * Returns the fastest function that orders these paths as `compareTreePaths` does: without surrogates and the units
 * above them, both orders are the same.
 */
export function treeOrder(paths: Iterable<string>): (a: string, b: string) => number {
  for (const path of paths) if (/[\ud800-\uffff]/.test(path)) return compareTreePaths
  return (a, b) => (a < b ? -1 : a > b ? 1 : 0)
}

const firstSurrogate = 0xd800
const lastSurrogate = 0xdfff
const aboveAllUnits = 0x10000

/** A surrogate is half of a code point above U+FFFF, so it comes after every other unit. */
function orderOf(unit: number): number {
  return unit >= firstSurrogate && unit <= lastSurrogate ? unit + aboveAllUnits : unit
}

/*
 * The names that stay out of an archive (§4.13), for the command line and the panel. Each is one segment of a path,
 * with `*` for any characters, and applies at any depth: a vendored package has a `.git`, a workspace has its
 * `node_modules`. A directory is left out with everything below it.
 */

/** The built-in rules. */
export const builtinIgnore: readonly string[] = [
  ...['.git', '.svn', '.hg'],
  ...[
    'node_modules',
    '.next',
    '.nuxt',
    '.turbo',
    '.cache',
    '.parcel-cache',
    '.vite',
    'coverage',
    '.nyc_output',
    '.tmp'
  ],
  ...['.idea', '.vscode', '.DS_Store', 'Thumbs.db'],
  ...['*.log', '.env*', '.deploy-archive.zip', 'svc-export-*']
]

/** Settings of the client and secrets: never pushed, whatever the rules say. */
export const neverPushed: readonly string[] = ['svc.config*.json', '.env*']

/** Output of build tools that brings the packages and pages it needs: Next.js (standalone), Nitro and Nuxt. */
const complete = /(^|\/)(\.next\/standalone|\.output)(\/|$)/
const broughtAlong: readonly string[] = ['node_modules', '.next']

/**
 * Whether the built-in rules leave a name alone, because it is part of a complete build output. `directory` is the path
 * of its directory, from the root of the file system where that is known.
 */
export function isBroughtAlong(name: string, directory: string): boolean {
  return broughtAlong.includes(name) && complete.test(directory)
}
