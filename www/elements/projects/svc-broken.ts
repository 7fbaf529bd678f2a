import type { BrokenProject, DeploymentBrief } from '../../../lib/model/health.js'
import { css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { serverWords, twoLines } from '../../words/errors.js'
import { deploymentWords, wayBackOf } from '../base/words.js'
import { may } from '../../state/session.js'

/* Broken projects: what failed, since when, and links to the cause and to a rollback. */

/** Reports whether the deployment itself succeeded and its background script failed later. */
const isInBackground = ({ failed }: Pick<BrokenProject, 'failed'>): boolean => failed.backgroundFailed === true

/**
 * Broken projects as rows. Property: `items`. Attribute: `single`, on the page of the project, whose name is then
 * omitted.
 */
export class SvcBroken extends SvcElement {
  static readonly observedAttributes = ['single']

  static override sheet = css`
    svc-broken {
      display: block;

      > .card { border-color: color-mix(in srgb, var(--failure) 55%, var(--line)); }
      li { display: grid; grid-template-columns: 16px minmax(0, 1fr) auto; gap: 4px 12px; align-items: center; padding: 12px 16px; }
      li + li { border-top: 1px solid var(--line); }
      li > .icon { align-self: start; margin-top: 3px; color: var(--failure); }
      .what { display: grid; grid-template-columns: minmax(0, 1fr); gap: 2px; }
      .head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; }
      .head b { font-weight: 600; color: var(--text); overflow-wrap: anywhere; }
      .why { overflow-wrap: anywhere; }
      .what a { text-decoration: underline; }
      .going { display: flex; gap: 12px; }
      @media (max-width: 719px) {
        li { grid-template-columns: 16px minmax(0, 1fr); }
        .actions { grid-column: 2; margin-top: 6px; }
      }
    }
  `

  items: readonly BrokenProject[] = []

  protected override view(): Template {
    const isSingle = this.hasAttribute('single')
    return html`<ul class="card">${this.items.map(item => keyed(item.projectId, line(item, isSingle)))}</ul>`
  }
}

function line(item: BrokenProject, isSingle: boolean): Template {
  const { projectId, projectName, projectEnv, since, failed, goingId } = item
  return html`
    <li>
      ${icon('failed')}
      <div class="what">
        <p class="head">
          ${
            isSingle
              ? html`<b>${isInBackground(item) ? t('The post-deploy script failed in the background') : t('The last deployment failed')}</b>`
              : html`<a href="projects/${projectId}"><b translate="no">${projectName}</b></a><span class="muted small" translate="no">${projectEnv}</span>`
          }
          <span class="muted small">${t('broken since')} <svc-time at="${since}"></svc-time></span>
        </p>
        ${isSingle && isInBackground(item) ? null : html`<p class="why">${reason(failed)}</p>`}
        <p class="muted small">${stateOfTarget(item)}</p>
        ${
          goingId === null
            ? null
            : html`<p class="going small"><svc-status state="running"></svc-status> <a href="deployments/${goingId}">${t('Watch it')}</a></p>`
        }
      </div>
      <div class="actions">
        <a class="button" href="deployments/${failed.id}">${t('See why')}</a>
        ${wayBack(item)}
      </div>
    </li>`
}

/** Returns one sentence about the failure. */
function reason(failed: DeploymentBrief): unknown {
  if (failed.backgroundFailed) return t('The post-deploy script failed in the background, after the deployment.')
  return html`<span translate="no">${failed.errorMessage === null ? deploymentWords(failed) : twoLines(serverWords(failed.errorMessage))}</span>`
}

/** Returns what is in the target now. */
function stateOfTarget({ lastGood, isLastGoodLive }: BrokenProject): unknown {
  if (lastGood === null) return t('No deployment has succeeded yet.')
  const good = html`<a href="deployments/${lastGood.id}" class="anywhere">${deploymentWords(lastGood)}</a>, <svc-time at="${lastGood.startTime}"></svc-time>`
  return isLastGoodLive
    ? html`${t('The last successful deployment is live:')} ${good}`
    : html`${t('Files of a later deployment are live. Last successful deployment:')} ${good}`
}

/** Returns a link to the last successful deployment, whose first button rolls back to it. */
function wayBack(item: BrokenProject): Template | null {
  const { projectName } = item
  const lastGood = may('rollback') ? wayBackOf(item) : null
  if (lastGood === null) return null
  return html`
    <a class="button" href="deployments/${lastGood.id}" title="${t('Roll back {project}?', { project: projectName })}">
      ${icon('roll-back')}${t('Roll back…')}
    </a>`
}

/** The elements that a page registers for broken projects. */
export const elements = { 'svc-broken': SvcBroken }
