import type { PlaceEntry, PlaceHome, PlaceListing } from '../../../lib/model/project.js'

/* Paths of the server as steps, with the separator of its operating system. Pure. */

/** One step of a path. */
export interface PathStep {
  name: string
  path: string
}

/**
 * Splits a path into steps, each with its own path: `/srv/www` into `/`, `srv`, `www`; `C:\sites` into `C:\`, `sites`.
 */
export function stepsOf(path: string, sep: string): PathStep[] {
  const root = sep === '\\' ? (/^[A-Za-z]:\\/.exec(path)?.[0] ?? '') : '/'
  const steps: PathStep[] = root === '' ? [] : [{ name: root, path: root }]
  for (const name of path.slice(root.length).split(sep).filter(Boolean)) {
    const above = steps.at(-1)?.path ?? ''
    steps.push({ name, path: above === '' || above.endsWith(sep) ? `${above}${name}` : `${above}${sep}${name}` })
  }
  return steps
}

/**
 * Returns the listing of a path. If the path is not a directory or cannot be read, returns the listing of its nearest
 * readable parent directory, or finally of the home directory. Rejects like `list` if the home directory fails.
 */
export async function listNearest(
  list: (path: string) => Promise<PlaceListing>,
  path: string,
  { sep, home }: Pick<PlaceHome, 'sep' | 'home'>
): Promise<PlaceListing> {
  for (const step of stepsOf(path, sep).reverse()) {
    const listing = await list(step.path).catch(() => null)
    if (listing?.isDir === true) return listing
  }
  return list(home)
}

/**
 * Returns the visible entries of a listing. Hidden entries are included on request, or if the typed name begins with
 * a dot.
 */
export function shownEntries(
  entries: readonly PlaceEntry[],
  { find, withHidden }: { find: string; withHidden: boolean }
): PlaceEntry[] {
  const sought = find.trim().toLowerCase()
  return entries.filter(
    ({ name, isHidden }) =>
      (withHidden || !isHidden || (sought !== '' && sought.startsWith('.'))) && name.toLowerCase().includes(sought)
  )
}
