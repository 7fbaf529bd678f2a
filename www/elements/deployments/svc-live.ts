import type { ListedDeployment } from '../../../lib/model/deployment.js'
import type { ProjectOverview } from '../../../lib/model/health.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { countWords, t } from '../../words/t.js'
import { deploymentWords } from '../base/words.js'
import { formatBytes } from '../../shared/size.js'
import { actorName } from '../base/actor-words.js'

type Live = Pick<ProjectOverview, 'live' | 'liveSource' | 'deploymentCount'>

/** Number of digits that identify a commit. */
const shownDigits = 8

/** Shows what is in the target of a project: which upload, its origin, its author, its size. Property: `overview`. */
export class SvcLive extends SvcElement {
  static override sheet = css`
    svc-live {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: 14px;
      padding: 18px 20px;

      .what { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 4px 16px; }
      .what a { color: inherit; font-size: var(--size-16); font-weight: 600; overflow-wrap: anywhere; min-width: 0; }
      .what svc-time { color: var(--muted); }
      dl { display: flex; flex-wrap: wrap; gap: 10px 32px; }
      dl div { display: grid; gap: 1px; min-width: 0; max-width: 100%; }
      dt { color: var(--muted); font-size: var(--size-13); }
      dd { overflow-wrap: anywhere; }
      .note { display: flex; gap: 8px; color: var(--failure); font-size: var(--size-13); }
      .note .icon { margin-top: 2px; }
    }
  `

  overview: Live = { live: null, liveSource: null, deploymentCount: 0 }

  protected override view(): Template {
    const { live, liveSource, deploymentCount } = this.overview
    if (live === null) {
      return html`
        <p class="muted">
          ${deploymentCount === 0 ? t('No deployments yet.') : t('No deployment has written files yet.')}
        </p>`
    }
    const source = liveSource ?? live
    return html`
      <p class="what">
        <a href="deployments/${live.id}">${liveTitle(source)}</a>
        <svc-time at="${live.startTime}"></svc-time>
      </p>
      <dl>${liveFacts(live, source).map(({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      ${doubt(live)}`
  }
}

/** Returns the title of an upload: its message, else its commit. */
function liveTitle(source: ListedDeployment): string {
  return source.message || source.provenance?.subject || deploymentWords(source)
}

interface Fact {
  name: string
  value: unknown
}

function liveFacts(live: ListedDeployment, source: ListedDeployment): Fact[] {
  const { provenance } = source
  const facts: Array<Fact | null> = [
    provenance?.commit == null ? null : { name: t('Commit'), value: commitWords(provenance) },
    { name: t('By'), value: deployerWords(live, source) },
    live.triggerSource === 'cli'
      ? null
      : {
          name: t('Rolled back to'),
          value:
            live === source
              ? t('a deleted deployment')
              : html`<a href="deployments/${source.id}"><svc-time at="${source.startTime}"></svc-time></a>`
        },
    source.fileCount === null ? null : { name: t('Files'), value: countWords(source.fileCount, 'file') },
    source.archiveBytes === null ? null : { name: t('Archive'), value: formatBytes(source.archiveBytes) }
  ]
  return facts.filter(fact => fact !== null)
}

function commitWords({ commit, branch, tag, dirty }: NonNullable<ListedDeployment['provenance']>): Template {
  const place = tag ?? branch
  return html`
    <code title="${commit}">${commit?.slice(0, shownDigits)}</code>
    ${place === null ? null : html` <span translate="no">(${place})</span>`}
    ${dirty ? html` <span>${t('with uncommitted changes')}</span>` : null}`
}

/** Returns who deployed it: a name if the panel or a CI run knows one, else the address. */
function deployerWords(live: ListedDeployment, source: ListedDeployment): string {
  if (live.actor?.startsWith('token:')) return actorName(live.actor)
  const address = live.actorIp ?? t('unknown')
  if (live.triggerSource !== 'cli') return address
  const { provenance } = source
  if (provenance?.source === 'panel') return t('{name}, from the panel', { name: provenance.by ?? address })
  if (provenance?.ci != null)
    return [provenance.ci.actor ?? provenance.author, provenance.ci.system].filter(Boolean).join(', ')
  return provenance?.author ?? address
}

/** Returns a warning if the live deployment is incomplete or its script failed. */
function doubt(live: ListedDeployment): Template | null {
  const words = live.backgroundFailed
    ? t('Its post-deploy script failed in the background.')
    : live.status === 'failed'
      ? t('Its files were written, but the deployment failed afterwards.')
      : null
  return words === null ? null : html`<p class="note">${icon('warning')}<span>${words}</span></p>`
}
