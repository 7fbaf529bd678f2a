import { oneLine } from '../../base/text.js'
import type { ListedDeployment } from '../../model/deployment.js'
import { shortCommit, type Provenance } from '../../model/provenance.js'

/*
 * Describes the provenance of a deployment in words. Servers older than this client send no provenance at all.
 */

/** Returns commit and branch, as `1a2b3c4* main`; the star marks uncommitted changes. Empty if both are unknown. */
export function originWords(provenance: Provenance | null | undefined): string {
  if (provenance === null || provenance === undefined) return ''
  const { commit, branch, tag, dirty } = provenance
  const digits = commit === null ? null : `${shortCommit(commit)}${dirty === true ? '*' : ''}`
  return [digits, tag ?? branch].filter(word => word !== null).join(' ')
}

/** Returns what started a deployment and, if the client sent it, who. */
export function starterWords({ rollbackOf, undoOf, triggerSource, provenance }: ListedDeployment): string {
  if (undoOf) return `undo of ${undoOf}`
  if (rollbackOf !== null) return `rollback of ${rollbackOf}`
  // Undefined for older servers, which do not send it.
  if (!provenance) return triggerSource
  const { source, ci, by, author } = provenance
  if (source === 'panel') return by === null ? 'panel' : `panel (${by})`
  if (ci === null) return author === null ? triggerSource : `${triggerSource} (${author})`
  return [ci.system, ci.run, ci.actor === null ? null : `(${ci.actor})`].filter(word => word !== null).join(' ')
}

/** Returns the message of a deployment, else the subject of its commit. */
export function messageWords({ message, provenance }: Pick<ListedDeployment, 'message' | 'provenance'>): string {
  return message || provenance?.subject || ''
}

/** Describes a deployment on one line: `storefront (production): Lower the prices (1a2b3c4 main), Drone 42 (ada)`. */
export function headline(row: ListedDeployment): string {
  const [words, origin] = [messageWords(row), originWords(row.provenance)]
  const what = [words, origin === '' ? '' : `(${origin})`].filter(word => word !== '').join(' ')
  const project = row.env ? `${row.projectName} (${row.env})` : row.projectName
  return oneLine(`${project}: ${what === '' ? '' : `${what}, `}${starterWords(row)}`)
}
