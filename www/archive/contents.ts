import { formatBytes } from '../shared/size.js'
import { t } from '../words/t.js'
import { isLeftOut } from './left-out.js'

/* The summary of an archive before it is deployed. Pure. */

/** A file or directory of the archive. */
export interface ContentEntry {
  path: string
  /** Size of a file in bytes; null for a directory. */
  bytes: number | null
}

/** Summary of an archive. */
export interface Contents {
  files: number
  bytes: number
  /** The largest files, largest first. */
  largest: ReadonlyArray<{ path: string; bytes: number }>
  /** Name of the top directory if it is the only entry at the top. */
  topFolder: string | null
  /** Paths that `svc push` would leave out. A directory is listed once. */
  unusual: readonly string[]
}

const shownFiles = 5

/** Returns the summary of the entries. */
export function contentsOf(entries: readonly ContentEntry[]): Contents {
  const files = entries.filter((entry): entry is { path: string; bytes: number } => entry.bytes !== null)
  const paths = entries
    .map(({ path }) => path.replace(/^(?:\.\/)+/, '').replace(/(?<!\/)\/+$/, ''))
    .filter(path => path !== '' && path !== '.')
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

/** Returns the shortest paths that the rules leave out. */
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

/** Whether a name is that of another kind of archive, which would be deployed as a file: only zips are unpacked. */
export const isOtherArchive = (name: string): boolean =>
  /\.(?:tar|tgz|tbz2|txz|tar\.\w+|gz|bz2|xz|zst|7z|rar)$/i.test(name)
/** Whether a name is that of a zip. */
export const isZipName = (name: string): boolean => /\.zip$/i.test(name)

/** Limits of the server in bytes; null if unknown. */
export interface UploadLimits {
  uploadBytes: number | null
  extractedBytes: number | null
}

/** Returns the limits in the settings. */
export function limitsOf(settings: Readonly<Record<string, unknown>>): UploadLimits {
  const bytesOf = (key: string): number | null => {
    const megabytes = Number(settings[key])
    return Number.isFinite(megabytes) && megabytes > 0 ? megabytes * 1024 * 1024 : null
  }
  return { uploadBytes: bytesOf('max_upload_size'), extractedBytes: bytesOf('max_extracted_size') }
}

/** Returns the sentence for an archive that exceeds the server's limit. */
export function tooLarge(bytes: number, limitBytes: number): string {
  return t('Archive size {size} exceeds the limit of {limit} (setting max_upload_size).', {
    size: formatBytes(bytes),
    limit: formatBytes(limitBytes)
  })
}
