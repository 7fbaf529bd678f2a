import { access, opendir, realpath, stat } from 'node:fs/promises'
import type { Dirent } from 'node:fs'
import { userHome } from '../../base/runtime.js'
import { dirname, isAbsolute, join, normalize, sep } from 'node:path'
import { invalid, isDenied, reasonOf, Refusal } from '../../base/errors.js'
import type { Inclusion, PlaceEntry, PlaceHome, PlaceListing } from '../../model/project.js'

/** The directories of the machine, for choosing a deployPath or a log file. */
export type Places = ReturnType<typeof createPlaces>

const maxEntries = 1000
/** Maximum number of names that are read from a directory. */
const maxNames = 50_000
/** Number of entries that are examined in parallel. */
const statsAtOnce = 32

/** Creates the view of the machine's directories. Denied places are neither shown nor listed. */
export function createPlaces({
  isDenied,
  isOwn = async () => false
}: {
  isDenied(path: string): boolean
  /** Whether a directory without links in its path is svc's own under another name. */
  isOwn?(path: string): Promise<boolean>
}) {
  return {
    /** Returns the places where browsing starts. */
    async home(): Promise<PlaceHome> {
      return { home: userHome(), cwd: process.cwd(), sep, roots: await rootsOf() }
    },

    /** Lists a directory. Refuses a relative path (400), and a denied or unreadable directory (403). */
    async list(given: string, include: Inclusion): Promise<PlaceListing> {
      if (!isAbsolute(given)) throw invalid('path', `"${given}" cannot be listed: it is not an absolute path`)
      if (given.includes('\0')) throw invalid('path', 'The path cannot be listed: it contains a NUL character')
      const path = withoutEnd(normalize(given))
      const real = await realpath(path).catch(() => path)
      if (isDenied(path) || isDenied(real) || (await isOwn(real))) throw forbidden(path, 'it is private')
      const parent = dirname(path) === path ? null : dirname(path)
      const found = await stat(path).catch(() => null)
      const listing = { path, parent, exists: found !== null, isDir: found?.isDirectory() ?? false }
      if (!listing.isDir) return { ...listing, truncated: false, entries: [] }
      const { names, truncated } = await readNames(path)
      const entries = await describeAll(path, names, isDenied)
      const kept = entries.filter(({ isDir }) => include === 'both' || isDir === (include === 'dirs')).sort(inOrder)
      return { ...listing, truncated: truncated || kept.length > maxEntries, entries: kept.slice(0, maxEntries) }
    }
  }
}

/** Returns `/`, or the drives of Windows. */
async function rootsOf(): Promise<string[]> {
  if (process.platform !== 'win32') return ['/']
  const drives = Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ', letter => `${letter}:\\`)
  const isThere = await Promise.all(
    drives.map(drive =>
      access(drive).then(
        () => true,
        () => false
      )
    )
  )
  return drives.filter((_, index) => isThere[index])
}

async function readNames(path: string): Promise<{ names: Dirent[]; truncated: boolean }> {
  const names: Dirent[] = []
  try {
    for await (const entry of await opendir(path)) {
      if (names.length === maxNames) return { names, truncated: true }
      names.push(entry)
    }
  } catch (error) {
    throw isDenied(error) ? forbidden(path, reasonOf(error)) : error
  }
  return { names, truncated: false }
}

async function describeAll(
  directory: string,
  names: Dirent[],
  isDenied: (path: string) => boolean
): Promise<PlaceEntry[]> {
  const entries: PlaceEntry[] = []
  for (let from = 0; from < names.length; from += statsAtOnce) {
    const described = await Promise.all(
      names.slice(from, from + statsAtOnce).map(entry => describe(directory, entry, isDenied))
    )
    entries.push(...described.filter((entry): entry is PlaceEntry => entry !== null))
  }
  return entries
}

/** Returns an entry, or null if it is denied or is neither file nor directory: a device, a socket, a broken link. */
async function describe(
  directory: string,
  entry: Dirent,
  isDenied: (path: string) => boolean
): Promise<PlaceEntry | null> {
  const path = join(directory, entry.name)
  const isSymlink = entry.isSymbolicLink()
  if (isDenied(path)) return null
  if (isSymlink && isDenied(await realpath(path).catch(() => path))) return null
  const kind = isSymlink ? await stat(path).catch(() => null) : entry
  if (!kind?.isDirectory() && !kind?.isFile()) return null
  return { name: entry.name, path, isDir: kind.isDirectory(), isSymlink, isHidden: entry.name.startsWith('.') }
}

function withoutEnd(path: string): string {
  return path.length > 1 && path.endsWith(sep) && dirname(path) !== path ? path.slice(0, -1) : path
}

function inOrder(a: PlaceEntry, b: PlaceEntry): number {
  if (a.isDir !== b.isDir) return a.isDir ? -1 : 1
  return a.name < b.name ? -1 : 1
}

function forbidden(path: string, why: string): Refusal {
  return new Refusal('forbidden', 'forbidden_path', `"${path}" cannot be listed: ${why}`)
}
