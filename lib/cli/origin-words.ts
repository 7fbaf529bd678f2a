import { oneLine } from '../base/one-line.js'
import type { ListedDeployment } from '../model/deployment.js'
import { shortCommit, type Provenance } from '../model/provenance.js'

/*
 * Words of where a deployment comes from. A server that is older than this client sends no provenance at all.
 */

/** Commit and branch in short: `1a2b3c4* main`; the star says that tracked files differed. Empty: neither is known. */
export function originWords(provenance: Provenance | null | undefined): string {
  if (provenance === null || provenance === undefined) return ''
  const { commit, branch, tag, dirty } = provenance
  const digits = commit === null ? null : `${shortCommit(commit)}${dirty === true ? '*' : ''}`
  return [digits, tag ?? branch].filter(word => word !== null).join(' ')
}

/** What started a deployment, and who, as far as its client says. */
export function starterWords({ rollbackOf, triggerSource, provenance }: ListedDeployment): string {
  if (rollbackOf !== null) return `rollback of ${rollbackOf}`
  // Not null alone: an older server leaves it out.
  if (!provenance) return triggerSource
  const { source, ci, by, author } = provenance
  if (source === 'panel') return by === null ? 'panel' : `panel (${by})`
  if (ci === null) return author === null ? triggerSource : `${triggerSource} (${author})`
  return [ci.system, ci.run, ci.actor === null ? null : `(${ci.actor})`].filter(word => word !== null).join(' ')
}

/** What a deployment is about: its message, else the subject of its commit. */
export function messageWords({ message, provenance }: Pick<ListedDeployment, 'message' | 'provenance'>): string {
  return message || provenance?.subject || ''
}

/** A deployment in one line: `storefront: Lower the prices (1a2b3c4 main), by Drone 42 (ada)`. */
export function headline(row: ListedDeployment): string {
  const [words, origin] = [messageWords(row), originWords(row.provenance)]
  const what = [words, origin === '' ? '' : `(${origin})`].filter(word => word !== '').join(' ')
  return oneLine(`${row.projectName} (${row.env}): ${what === '' ? '' : `${what}, `}${starterWords(row)}`)
}
