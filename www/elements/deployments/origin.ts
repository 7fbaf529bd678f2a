import type { DeploymentRow, ListedDeployment } from '../../../lib/model/deployment.js'
import type { Provenance } from '../../../lib/model/provenance.js'
import { outsideAddress } from '../../dom/address.js'
import { html, icon } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { commitTitle, commitWords } from '../base/words.js'

/* The origin of a deployment's files, as its client claims it. */

/** Returns what sent the archive, and who. */
export function senderWords({
  provenance,
  triggerSource
}: Pick<DeploymentRow, 'provenance' | 'triggerSource'>): string {
  if (triggerSource === 'rollback') return t('a rollback')
  if (triggerSource === 'repair') return t('a repair')
  if (provenance?.source === 'panel')
    return provenance.by === null ? t('the panel') : t('{name}, from the panel', { name: provenance.by })
  return provenance?.ci ? t('a push by {system}', { system: provenance.ci.system }) : t('a push')
}

/** Returns the claimed origin as rows, with links if an address is known. */
export function originRows({ provenance, commitUrl, projectId }: ListedDeployment): Array<[string, unknown]> {
  if (provenance === null) return []
  const { commit, branch, tag, author, repository, ci } = provenance
  const query = (name: string, value: string) => new URLSearchParams({ project: projectId, [name]: value })
  const digits = html`<code title="${commitTitle(provenance)}">${commitWords(provenance)}</code>`
  return [
    [t('Commit'), commit && (commitUrl === undefined ? digits : outside(commitUrl, digits))],
    [t('Branch'), branch && html`<a href="deployments?${query('branch', branch)}" translate="no">${branch}</a>`],
    [t('Tag'), tag],
    [t('Author'), author],
    [t('Repository'), repository],
    [t('Changes'), provenance.dirty === true ? t('uncommitted changes') : null],
    [t('CI run'), ci && runOf(ci)],
    [t('CI user'), ci?.actor]
  ]
}

function runOf({ system, run, url }: NonNullable<Provenance['ci']>): unknown {
  const words = run === null ? system : `${system} ${run}`
  return url === null ? words : outside(url, words)
}

/** Returns a link to another site, or only the words if the text is not such an address. */
export function outside(text: string, words: unknown): unknown {
  const address = outsideAddress(text)
  if (address === null) return words
  return html`<a href="${address}" title="${address}" target="_blank" rel="noopener noreferrer">${words}${icon('external')}</a>`
}
