/*
 * What stays out of an archive that is packed from a folder: the built-in rules of `svc push` (§4.13), applied to what the
 * folder holds. Pure. The list is the server's own, and a test compares them.
 */

/** Directories at the root of what is packed, with all below them. */
const rootDirectories = new Set([
  '.git', 'node_modules', '.next', '.nuxt', '.turbo', '.cache', '.vite', 'coverage'
])
/** Names at any depth. */
const anywhere: readonly RegExp[] = [/^\.DS_Store$/, /\.log$/, /^\.deploy-archive\.zip$/]

/** Settings of the client and secrets: they stay out also if the reader includes what is usually left out. */
const never: readonly RegExp[] = [/^svc\.config.*\.json$/, /^\.env/]

/** Whether a file or directory is never packed, with all that is below it. `path` is relative to the folder. */
export function isNeverPacked(path: string): boolean {
  return path.split('/').some(name => never.some(rule => rule.test(name)))
}

/** Whether a file or directory stays out, with all that is below it. `path` is relative to the folder. */
export function isLeftOut(path: string): boolean {
  const segments = path.split('/')
  return isNeverPacked(path) || rootDirectories.has(segments[0] as string) || segments.some(name => anywhere.some(rule => rule.test(name)))
}
