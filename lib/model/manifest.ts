import { createHash } from 'node:crypto'
import { unprintableIn } from '../base/text.js'
import { contentsLine, type TreeEntry, treeHead, treeLine } from '../base/shared/tree-text.js'
import type { Bytes, Instant } from './scalars.js'

/** Pattern of the id of a deployment, wherever it comes from: it may become part of a path. */
export const deploymentIdPattern = /^\w{1,80}$/

/** Where the earlier contents of a path are kept: in an archive, in the before-images, or nowhere. */
export type KeptContents = `archive:${string}` | 'before' | 'none'

/** What a deployment found at a path, and replaced or removed. */
export interface EarlierFile {
  size: Bytes
  mode: number
  /** The SHA-256 in hex digits; for a symbolic link, of its target path; of a directory, 64 zeros. */
  sha256: string
  /** Modification time in milliseconds since 1970. Manifests of earlier versions lack it. @number */
  mtimeMs?: number
  /** Where its content is kept: `archive:<deployId>`, `before` or `none`. */
  kept?: KeptContents
  /** The owner of a removed file that svc did not put there. */
  owner?: FileOwner
  /** Number of the group of a removed directory, if it is not that of svc. */
  gid?: number
}

/** The user and the group of a file. */
export interface FileOwner {
  uid: number
  gid: number
}

/** A file that a deployment put in place: a line of `deployments/<id>.manifest`. */
export interface ManifestFile {
  /** Path relative to the target. */
  path: string
  /** Size in bytes; for a symbolic link, the length of its target path. */
  size: Bytes
  /** File type and permission bits, as in `stat`. */
  mode: number
  /** SHA-256 checksum of the content. For a symbolic link, of its destination. */
  sha256: string
  /** Time of the last modification in milliseconds since 1970. @number */
  mtimeMs?: number
  /** Number of its inode. */
  ino?: number
  /** Number of the group that the policy `group` gave it; null if a way back gave it that of the process again. */
  gid?: number | null
  /** The previous file, link or directory at this path; null if there was none. */
  before: EarlierFile | null
}

/**
 * A file, a link or an empty directory that a deployment removed. `before` is null for a file that somebody else had
 * removed: svc does not own it any more.
 */
export interface RemovedEntry {
  removed: string
  before: EarlierFile | null
}

/** A directory that a deployment made. `before` is the file or link that was there; absent if there was nothing. */
export interface MadeDirectory {
  made: string
  before?: EarlierFile
}

/**
 * What scripts of a deployment changed in its target: a line of `deployments/<id>.scripted`. The entry at `path` is as the
 * last script left it; one at `removed` is gone.
 */
export type ScriptedLine = (
  | (Omit<ManifestFile, 'before'> & { kept?: KeptContents | 'scripted' })
  | { removed: string }
) & {
  /** The entry before the deployment; absent if its manifest says so. */
  before?: EarlierFile
  /** Whether the pre-deploy script made the change: what the deployment then put there is newer. */
  isEarly?: true
}

/** A line of a manifest. */
export type ManifestLine = ManifestFile | RemovedEntry | MadeDirectory

/** Returns the path that a line of a manifest is about. */
export function pathOfLine(line: ManifestLine | ScriptedLine): string {
  return 'path' in line ? line.path : 'removed' in line ? line.removed : line.made
}

/** The differences between the files of two deployments (decisions, §4 there). */
export interface Changes {
  added: string[]
  changed: string[]
  removed: string[]
}

/** A file or symbolic link that svc put into a target and that no later deployment replaced. */
export interface OwnedEntry extends TreeEntry {
  /** Modification time in milliseconds since 1970; null if the manifest of an earlier version does not say it. */
  mtimeMs: number | null
  /** The number of its inode; null like `mtimeMs`. */
  ino: number | null
  /** When its inode was last changed, in milliseconds since 1970; absent if that is not known. */
  ctimeMs?: number
  /** The number of the group that svc gave it; absent if that is not known. */
  gid?: number
  /** The deployment that put it there, or last replaced it. */
  since: string
}

/** Computes a digest of a tree whose entries come one by one, in the order of `compareTreePaths`. */
export interface TreeDigest {
  add(entry: TreeEntry): void
  /** Returns the SHA-256 in hex digits. Call it once. */
  end(): string
}

/** Length of the text that is hashed in one call. */
const batchLength = 16 * 1024

/** Creates a digest that becomes the `treeSha256`: the SHA-256 of the canonical text. */
export function createTreeDigest(): TreeDigest {
  return digestOfLines(treeHead, treeLine)
}

/**
 * Creates a digest of types, sizes, contents and paths. Permissions are left out: an archive may lack them. `digits` is
 * the number of hex digits of each SHA-256 that it covers.
 */
export function createContentsDigest(digits = fullDigits): TreeDigest {
  if (digits === fullDigits) return digestOfLines('', contentsLine)
  return digestOfLines('', ({ path, mode, size, sha256 }) =>
    contentsLine({ path, mode, size, sha256: sha256.slice(0, digits) })
  )
}

/** Number of hex digits of a SHA-256. */
export const fullDigits = 64

function digestOfLines(head: string, lineOf: (entry: TreeEntry) => string): TreeDigest {
  const { add, end } = createTextDigest(head)
  return { add: entry => add(lineOf(entry)), end }
}

/** Creates the SHA-256 of a text that comes in many small pieces. Call `end` once. */
export function createTextDigest(head = ''): { add(piece: string): void; end(): string } {
  const hash = createHash('sha256')
  // A call for each piece would take most of the time.
  let batch = head
  return {
    add(piece) {
      batch += piece
      if (batch.length < batchLength) return
      hash.update(batch)
      batch = ''
    },
    end: () => hash.update(batch).digest('hex')
  }
}

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

/** Maximum length of a path in characters. */
const maxPathLength = 1024
/** Names that svc uses for its own directories in targets. */
export const ownPrefix = '.svc-'

/** Returns why a path cannot name a file of the target, as the end of a sentence; null if it can. */
export function targetFileFault(path: string): string | null {
  if (path === '') return 'is empty'
  if (path.length > maxPathLength) return `is longer than ${maxPathLength} characters`
  if (unprintableIn(path) !== null) return 'contains an invisible character'
  if (path.includes('\\')) return 'contains a backslash. Use "/" between directories'
  if (path.startsWith('/') || /^[a-z]:/i.test(path)) return 'is not relative to the target'
  const names = path.split('/')
  if (names.some(name => name === '' || name === '.' || name === '..')) return 'has an empty name, "." or ".." in it'
  if (names.some(name => name.toLowerCase().startsWith(ownPrefix))) {
    return `has a name that begins with "${ownPrefix}": those are reserved for svc`
  }
  return null
}
