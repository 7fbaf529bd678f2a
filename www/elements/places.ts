import type { PlaceEntry, PlaceHome, PlaceListing } from '../../lib/model/place.js'

/* Paths of the server as steps to walk, whatever its system writes between them. Pure. */

export interface PathStep {
  name: string
  path: string
}

/** `/srv/www` as `/`, `srv`, `www`, each with the path that leads there; `C:\sites` as `C:\`, `sites`. */
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
 * The listing of a path; where it is no directory, or may not be seen, of the nearest above it that is one, at last of the
 * home. Rejects as `list` does for the home.
 */
export async function listNearest(
  list: (path: string) => Promise<PlaceListing>, path: string, { sep, home }: Pick<PlaceHome, 'sep' | 'home'>
): Promise<PlaceListing> {
  for (const step of stepsOf(path, sep).reverse()) {
    const listing = await list(step.path).catch(() => null)
    if (listing?.isDir === true) return listing
  }
  return list(home)
}

/** What is shown of a listing: hidden entries only on request, or when they are what is looked for. */
export function shownEntries(
  entries: readonly PlaceEntry[], { find, withHidden }: { find: string; withHidden: boolean }
): PlaceEntry[] {
  const sought = find.trim().toLowerCase()
  return entries.filter(({ name, isHidden }) =>
    (withHidden || !isHidden || (sought !== '' && sought.startsWith('.'))) && name.toLowerCase().includes(sought))
}
