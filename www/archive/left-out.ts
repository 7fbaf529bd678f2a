/*
 * The built-in rules of `svc push` (§4.13) that leave files out of an archive, applied to the contents of a folder.
 * Pure. A test compares the list with that of the command.
 */

/** Directories at the root of the folder, with everything below them. */
const rootDirectories = new Set(['.git', 'node_modules', '.next', '.nuxt', '.turbo', '.cache', '.vite', 'coverage'])
/** Names at any depth. */
const anywhere: readonly RegExp[] = [/^\.DS_Store$/, /\.log$/, /^\.deploy-archive\.zip$/]

/** Settings of the client and secrets, which are never packed. */
const never: readonly RegExp[] = [/^svc\.config.*\.json$/, /^\.env/]

/** Whether a file or directory, with everything below it, is never packed. `path` is relative to the folder. */
export function isNeverPacked(path: string): boolean {
  return path.split('/').some(name => never.some(rule => rule.test(name)))
}

/** Whether a file or directory, with everything below it, is left out. `path` is relative to the folder. */
export function isLeftOut(path: string): boolean {
  const segments = path.split('/')
  return (
    isNeverPacked(path) ||
    rootDirectories.has(segments[0] as string) ||
    segments.some(name => anywhere.some(rule => rule.test(name)))
  )
}
