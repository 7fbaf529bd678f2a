import { isLeftOut } from './left-out.js'

/* What a reader is told of an archive before it is deployed. Pure. */

/** A file or a directory of what is to be deployed. */
export interface ContentEntry {
  path: string
  /** Null: a directory. */
  bytes: number | null
}

export interface Contents {
  files: number
  bytes: number
  /** The largest files, the largest first. */
  largest: ReadonlyArray<{ path: string; bytes: number }>
  /** The only entry at the top, if that is a directory: all files go below it. */
  topFolder: string | null
  /** What `svc push` would have left out, by its path; a directory counts once. */
  unusual: readonly string[]
}

const shownFiles = 5

/** What the entries come to. */
export function contentsOf(entries: readonly ContentEntry[]): Contents {
  const files = entries.filter((entry): entry is { path: string; bytes: number } => entry.bytes !== null)
  const paths = entries.map(({ path }) => path.replace(/^(?:\.\/)+/, '').replace(/\/+$/, '')).filter(path => path !== '' && path !== '.')
  const tops = new Set(paths.map(path => path.split('/', 1)[0] as string))
  const [top] = tops
  const isFolder = tops.size === 1 && top !== undefined && paths.some(path => path.startsWith(`${top}/`))
  return {
    files: files.length,
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    largest: [...files].sort((a, b) => b.bytes - a.bytes || (a.path < b.path ? -1 : 1)).slice(0, shownFiles),
    topFolder: isFolder ? top : null,
    unusual: unusualAmong(paths)
  }
}

/** The shortest paths that the rules leave out. */
function unusualAmong(paths: readonly string[]): string[] {
  const found = new Set<string>()
  for (const path of paths) {
    const segments = path.split('/')
    for (let count = 1; count <= segments.length; count++) {
      const head = segments.slice(0, count).join('/')
      if (!isLeftOut(head)) continue
      found.add(head)
      break
    }
  }
  return [...found]
}

/** Archives that are put in place as files, because only a zip is unpacked. */
export const isOtherArchive = (name: string): boolean => /\.(?:tar|tgz|tbz2|txz|tar\.\w+|gz|bz2|xz|zst|7z|rar)$/i.test(name)
/** By its name. */
export const isZipName = (name: string): boolean => /\.zip$/i.test(name)

/** What the server takes, in bytes; null: not known. */
export interface UploadLimits {
  uploadBytes: number | null
  extractedBytes: number | null
}

/** The limits that the settings say. */
export function limitsOf(settings: Readonly<Record<string, unknown>>): UploadLimits {
  const bytesOf = (key: string): number | null => {
    const megabytes = Number(settings[key])
    return Number.isFinite(megabytes) && megabytes > 0 ? megabytes * 1024 * 1024 : null
  }
  return { uploadBytes: bytesOf('max_upload_size'), extractedBytes: bytesOf('max_extracted_size') }
}
