import { relative, isAbsolute, sep } from 'node:path'

/**
 * Whether `path` is `directory` or lies below it. Both absolute; nothing is resolved on disk. Compares by path
 * segments, so `/srv/site-old` is not inside `/srv/site`.
 */
export function isInside(directory: string, path: string): boolean {
  const way = relative(directory, path)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}

const foldsCase = process.platform === 'darwin' || process.platform === 'win32'

/** A path as it is compared: in lower case where file systems mostly ignore case. */
export function foldCase(path: string): string {
  return foldsCase ? path.toLowerCase() : path
}

/** The directory that a relative path with `/` lies in; `''`: none. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}

/** How the directories begin that svc itself makes for a moment below a target; not to be listed, packed or extracted. */
export const stagingPrefix = '.svc-staging-'
