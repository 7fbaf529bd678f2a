/*
 * svc's own files, under whatever name they are opened: its data directories, except the outputs in them, and the files
 * with secrets that lie elsewhere. Their names say little: a hard link, a bind mount, a renamed directory or a file system
 * without regard to case gives a file another one. So the device and the inode of the open file and of the directories
 * above it decide.
 */
import { readdirSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { foldCase, isInside } from '../../base/files.js'

/** A device and an inode. */
interface Identity {
  dev: bigint
  ino: bigint
}

/** Directories of a data directory that contain many files: they are listed only for a file with several names. */
const largeDirectories = ['deployments', 'tmp']
/** How old the last change of a directory must be before its list is kept: times have the steps of the kernel's clock. */
const settledMs = 2000
const maxDepth = 4

/** Whether a path in a data directory, with `/` between segments, is an output: what scripts and the server printed. */
function isOutput(relative: string): boolean {
  return /^(node\/)?(deployments\/[^/]+\.log|pm2\/[^/]*\.log[^/]*)$/.test(relative)
}

/** Whether a path belongs to the data directory, or to one that a restore moved aside. Both are folded (foldCase). */
export function isOfHome(home: string, path: string): boolean {
  if (isInside(home, path)) return !isOutput(path.slice(home.length).replaceAll('\\', '/').replace(/^\/+/, ''))
  return path.startsWith(`${home}.before-`)
}

/** Knows svc's own files by their identity. */
export type OwnFiles = ReturnType<typeof createOwnFiles>

/** Creates the knowledge of these data directories and files. They need not exist. */
export function createOwnFiles({ homes, files }: { homes: readonly string[]; files: readonly string[] }) {
  const lists = new Map<
    string,
    { key: string; names: Array<{ name: string; isDirectory: boolean }>; ids: Set<string> }
  >()
  /** Directories that were ever seen, by identity: a data directory that was moved away stays one. */
  const directories = new Map<string, string>()

  /** Reads the identities of the files in a directory, again only if its entries have changed. */
  async function listOf(path: string, relative: string) {
    const stats = await stat(path, { bigint: true }).catch(() => null)
    if (!stats?.isDirectory()) return null
    directories.set(idOf(stats), relative)
    const key = `${idOf(stats)} ${stats.mtimeNs} ${stats.ctimeNs}`
    const known = lists.get(path)
    if (known?.key === key) return known
    const entries = await readdir(path, { withFileTypes: true }).catch(() => [])
    const names = entries.map(entry => ({ name: entry.name, isDirectory: entry.isDirectory() }))
    const ids = new Set<string>()
    for (const { name, isDirectory } of names) {
      if (isDirectory || isOutput(inside(relative, name))) continue
      const found = await stat(join(path, name), { bigint: true }).catch(() => null)
      if (found?.isFile()) ids.add(idOf(found))
    }
    const list = { key, names, ids }
    if (Date.now() - Number(stats.mtimeMs) > settledMs) lists.set(path, list)
    else lists.delete(path)
    return list
  }

  async function contains(
    path: string,
    given: { relative: string; id: string; hasOtherNames: boolean }
  ): Promise<boolean> {
    const { relative, id, hasOtherNames } = given
    if (!hasOtherNames && largeDirectories.includes(relative)) {
      const stats = await stat(path, { bigint: true }).catch(() => null)
      if (stats?.isDirectory()) directories.set(idOf(stats), relative)
      return false
    }
    const list = await listOf(path, relative)
    if (list === null) return false
    if (list.ids.has(id)) return true
    if (relative.split('/').length >= maxDepth) return false
    for (const { name, isDirectory } of list.names) {
      // The directories of svc itself may be links to another disk.
      if (!isDirectory && !(relative === '' && [...largeDirectories, 'keys', 'pm2'].includes(name))) continue
      if (await contains(join(path, name), { ...given, relative: inside(relative, name) })) return true
    }
    return false
  }

  /** Whether a directory at or above this one is a data directory, or in one. */
  async function isBelow(path: string): Promise<boolean> {
    for (let at = path, below = ''; ; at = dirname(at)) {
      const stats = await stat(at, { bigint: true }).catch(() => null)
      const relative = stats === null ? undefined : directories.get(idOf(stats))
      if (relative !== undefined) return !isOutput(inside(relative, below))
      if (dirname(at) === at) return false
      below = inside(basename(at), below)
    }
  }

  const roots = (): string[] => homes.flatMap(home => [home, ...movedAside(home)])

  return {
    /** Whether the path, which contains no links, is of svc under any name. */
    async hasPath(path: string): Promise<boolean> {
      for (const root of roots()) await contains(root, { relative: '', id: '', hasOtherNames: false })
      return isBelow(path)
    },
    /** Whether an open file is svc's own. `path` is its real path. */
    async has(path: string, stats: Identity & { nlink: bigint }): Promise<boolean> {
      const id = idOf(stats)
      const given = { relative: '', id, hasOtherNames: stats.nlink > 1n }
      for (const root of roots()) if (await contains(root, given)) return true
      for (const file of files) {
        const own = await stat(file, { bigint: true }).catch(() => null)
        if (own !== null && idOf(own) === id) return true
      }
      return isBelow(path)
    }
  }
}

const idOf = ({ dev, ino }: Identity): string => `${dev}:${ino}`
const inside = (directory: string, name: string): string => [directory, name].filter(Boolean).join('/')

/** Returns the data directories that restores have moved aside. */
function movedAside(home: string): string[] {
  try {
    const start = `${foldCase(basename(home))}.before-`
    return readdirSync(dirname(home))
      .filter(name => foldCase(name).startsWith(start))
      .map(name => join(dirname(home), name))
  } catch {
    return []
  }
}
