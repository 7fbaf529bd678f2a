import type { Provenance } from './provenance.js'
import { repositoryPlace } from './repository.js'

/** The placeholders that a pattern may contain in braces. */
export const commitUrlHoles = ['repository', 'commit'] as const

/** The commit pages of public services. Their hosts are unique, so the address is certain. */
const knownForges: Readonly<Record<string, string>> = {
  'github.com': 'https://github.com/{repository}/commit/{commit}',
  'gitlab.com': 'https://gitlab.com/{repository}/-/commit/{commit}',
  'bitbucket.org': 'https://bitbucket.org/{repository}/commits/{commit}',
  'codeberg.org': 'https://codeberg.org/{repository}/commit/{commit}',
  'gitea.com': 'https://gitea.com/{repository}/commit/{commit}'
}

/**
 * Returns the address of a deployment's commit page: from `pattern` (the setting `commit_url`), or, if that is empty,
 * for a public service that the repository's address names. Returns null if there is no commit, or the address is not
 * known. The host of the result is never one that the client chose.
 */
export function commitUrl(provenance: Provenance | null, pattern: string): string | null {
  if (provenance === null || provenance.commit === null) return null
  const place = provenance.repository === null ? null : repositoryPlace(provenance.repository)
  const known = place !== null && Object.hasOwn(knownForges, place.host) ? knownForges[place.host] : undefined
  const wanted = pattern === '' ? known : pattern
  if (wanted === undefined || (place === null && wanted.includes('{repository}'))) return null
  const path = place === null ? '' : place.path.split('/').map(encodeURIComponent).join('/')
  return wanted.replaceAll('{repository}', () => path).replaceAll('{commit}', provenance.commit)
}
