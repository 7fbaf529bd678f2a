import type { PlaceEntry } from '../../lib/model/place.js'

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

/** What is shown of a listing: hidden entries only on request, or when they are what is looked for. */
export function shownEntries(
  entries: readonly PlaceEntry[], { find, withHidden }: { find: string; withHidden: boolean }
): PlaceEntry[] {
  const sought = find.trim().toLowerCase()
  return entries.filter(({ name, isHidden }) =>
    (withHidden || !isHidden || (sought !== '' && sought.startsWith('.'))) && name.toLowerCase().includes(sought))
}
