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
