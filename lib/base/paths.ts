import { relative, isAbsolute, sep } from 'node:path'

/**
 * Whether `path` is `directory` or is below it. Both must be absolute; nothing is resolved on disk. Compares path
 * segments, so `/srv/site-old` is not inside `/srv/site`.
 */
export function isInside(directory: string, path: string): boolean {
  const way = relative(directory, path)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}

const foldsCase = process.platform === 'darwin' || process.platform === 'win32'

/** Returns a path in a form for comparison: in lower case on systems whose file systems mostly ignore case. */
export function foldCase(path: string): string {
  return foldsCase ? path.toLowerCase() : path
}

/** Returns the directory of a relative path with `/`, or `''` for a single name. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}

/** Prefix of the temporary directories that svc creates in a target. They are not listed, packed or extracted. */
export const stagingPrefix = '.svc-staging-'
