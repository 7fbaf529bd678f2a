import type { ListedDeployment } from '../../../lib/model/deployment.js'
import { css, SvcElement, shownFirst } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { begunAt, shownStatus, waitingOf } from '../../shared/api.js'
import type { Waiting } from '../../../lib/model/marks.js'
import { serverNow } from '../../server/client.js'
import { originOf, type Status } from '../base/facts.js'
import { deploymentWords, isGoing, waitingWords, wayBackOf } from '../base/words.js'
import type { BrokenProject, DeploymentBrief } from '../../../lib/model/health.js'
import { numberWords, t, serverWords, twoLines } from '../../words/t.js'
import { may } from '../../state/session.js'

/**
 * A list of deployments, each a link to its page: title, commit and branch, then other facts. Properties: `items`, newest
 * first; `waiting`, what waits for somebody. Attributes: `single`, if all belong to one project, whose name is then omitted; `long`, if there can be
 * thousands, of which only the visible ones are on the page (the page must register `svc-rows`); `label`, the name of a
 * long list.
 */
export class SvcDeployments extends SvcElement {
  static readonly observedAttributes = ['single', 'long', 'label']

  static override sheet = css`
    svc-deployments {
      display: block;

      svc-rows { --row-px: 45px; }
      &[long] a { height: 45px; }
      li + li { border-top: 1px solid var(--line); }

      a {
        display: grid;
        grid-template: 'status what where time span next' auto / 90px minmax(0, 1.1fr) minmax(0, 1fr) 116px 60px 16px;
        align-items: center;
        gap: 4px 16px;
        min-height: calc(var(--row) + 8px);
        padding: 6px 16px;
        color: inherit;
      }
      &[single] a { grid-template-columns: 90px minmax(0, 1fr) minmax(0, 0.5fr) 116px 60px 16px; }

      a:hover { background: var(--hover); text-decoration: none; }
      a:focus-visible { outline-offset: -2px; border-radius: 8px; }
      li:first-child a { border-radius: 7px 7px 0 0; }
      li:last-child a { border-radius: 0 0 7px 7px; }
      li:only-child a { border-radius: 7px; }
      svc-status { grid-area: status; }
      .what { grid-area: what; display: flex; align-items: center; gap: 10px; min-width: 0; }
      .what b { font-weight: 500; }
      .what > .icon { color: var(--muted); }
      .where { grid-area: where; display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.6fr); align-items: baseline; gap: 4px 16px; min-width: 0; }
      &[single] .where { grid-template-columns: minmax(0, 1fr); }
      .where > .cut:last-child { font-size: var(--size-13); }
      svc-time, svc-span { color: var(--muted); font-size: var(--size-13); white-space: nowrap; }
      svc-time { grid-area: time; }
      svc-span { grid-area: span; text-align: right; }
      a > .icon { grid-area: next; color: var(--muted); }

      @media (max-width: 719px) {
        a, &[single] a {
          grid-template: 'what what next' auto 'where where next' auto 'status time next' auto / minmax(0, 1fr) auto 16px;
          gap: 2px 16px;
          padding-block: 10px;
        }
        .where, &[single] .where { display: flex; gap: 12px; font-size: var(--size-13); }
        .where > * { flex: 0 1 auto; min-width: 0; }
        .where > span:empty { display: none; }
        &:not([long]) .what { flex-wrap: wrap; row-gap: 2px; }
        /* The time until which somebody must decide has the line of the status, which says no more. */
        &[long] .what > svc-marked { flex: 0 1 auto; max-width: 55%; }
        &[long] a:has(svc-marked):has(svc-status[state='waiting']) {
          .what { display: contents; }
          .what > .icon, > svc-status, > svc-time { display: none; }
          .what > b { grid-area: what; }
          .what > svc-marked { grid-area: status; grid-column-end: time; justify-self: start; max-width: 100%; }
        }
        .where > .cut:last-child { flex: none; max-width: 45%; }
        .where > :empty + .cut:last-child { max-width: 100%; }
        svc-span { display: none; }
        svc-rows { --row-px: 93px; }
        &[long] a { height: 93px; }
      }
    }
  `

  items: readonly ListedDeployment[] = []
  waiting: readonly Waiting[] = []

  protected override view(): Template {
    if (!this.hasAttribute('long')) {
      return html`<ul>${this.items.map(item => keyed(item.id, html`<li>${this.#link(item, true)}</li>`))}</ul>`
    }
    return html`
      <svc-rows label="${this.getAttribute('label')}" .items="${this.items}" .key="${idOf}" .row="${this.#row}"></svc-rows>`
  }

  readonly #row = (item: ListedDeployment, { isCurrent }: { isCurrent: boolean }): Template =>
    this.#link(item, isCurrent)

  #link(item: ListedDeployment, isCurrent: boolean): Template {
    const words = deploymentWords(item)
    const waiting = this.waiting.find(({ deployId }) => deployId === item.id) ?? waitingOf(item)
    const isSingle = this.hasAttribute('single')
    const origin = originOf(item.provenance) ?? html`<span></span>`
    return html`
      <a href="deployments/${item.id}" tabindex="${isCurrent ? null : '-1'}">
        <svc-status state="${stateOf(item, waiting)}"></svc-status>
        <span class="what" title="${words}" translate="no">
          ${item.triggerSource === 'cli' ? null : icon(item.triggerSource === 'promotion' ? 'next' : 'roll-back')}<b class="cut">${words}</b>
          ${waiting === null ? null : html`<svc-marked words="${waitingWords(waiting, serverNow())}"></svc-marked>`}
          ${item.backgroundFailed ? html`<svc-background-failure></svc-background-failure>` : null}
        </span>
        <span class="where">${origin}${isSingle ? null : html`<span class="cut muted" translate="no">${item.projectName}</span>`}</span>
        <svc-time at="${item.startTime}"></svc-time>
        <svc-span from="${begunAt(item)}" to="${item.endTime}"></svc-span>
        ${icon('next')}
      </a>`
  }
}

function stateOf({ status, backgroundFailed }: ListedDeployment, waiting: object | null): Status {
  return isGoing({ status }) && waiting !== null ? 'waiting' : shownStatus(status, backgroundFailed)
}

const idOf = ({ id }: ListedDeployment): string => id

/* Broken projects: what failed, since when, and links to the cause and to a rollback. */

/** Reports whether the deployment itself succeeded and its background script failed later. */
const isInBackground = ({ failed }: Pick<BrokenProject, 'failed'>): boolean => failed.backgroundFailed === true

/**
 * Broken projects as rows, below the names of their environments. Properties: `items`; `total`, if there are more than
 * these. Attribute: `single`, on the page of the project, whose name is then omitted.
 */
export class SvcBroken extends SvcElement {
  static readonly observedAttributes = ['single']

  static override sheet = css`
    svc-broken {
      display: block;

      > .card { border-color: color-mix(in srgb, var(--failure) 55%, var(--line)); }
      h3 { padding: 12px 16px 4px; color: var(--muted); font-size: var(--size-13); font-weight: 500; }
      * + h3 { border-top: 1px solid var(--line); }
      .more { margin-top: 12px; }
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
  total = 0
  #areAllShown = false

  protected override view(): Template {
    const isSingle = this.hasAttribute('single')
    const shown = this.#areAllShown ? this.items : this.items.slice(0, shownFirst)
    const environments = [...new Set(shown.map(({ projectEnv }) => projectEnv))]
    const rows = (items: readonly BrokenProject[]): Template =>
      html`<ul>${items.map(item => keyed(item.projectId, line(item, isSingle)))}</ul>`
    if (isSingle) return html`<div class="card">${rows(shown)}</div>`
    return html`
      <div class="card">
        ${environments.map(env =>
          keyed(
            env,
            html`
            <h3 translate="no">${env}</h3>
            ${rows(shown.filter(({ projectEnv }) => projectEnv === env))}`
          )
        )}
      </div>
      ${this.#more(shown.length)}`
  }

  /** Shows the others: first those that are there, then the list of projects. */
  #more(shownCount: number): Template | null {
    const total = Math.max(this.total, this.items.length)
    const count = numberWords(total - shownCount)
    if (total === shownCount) return null
    if (this.#areAllShown)
      return html`<p class="more small"><a href="projects?status=failed">${t('and {count} more', { count })}</a></p>`
    return html`<button type="button" class="more" @click="${() => this.#showAll()}">${t('Show {count} more', { count })}</button>`
  }

  #showAll(): void {
    this.#areAllShown = true
    this.update()
    // The button is gone: the focus goes to the first project that it has shown.
    queueMicrotask(() => this.querySelectorAll<HTMLElement>('li')[shownFirst]?.querySelector('a')?.focus())
  }
}

function line(item: BrokenProject, isSingle: boolean): Template {
  const { projectId, projectName, since, failed, goingId } = item
  return html`
    <li>
      ${icon('failed')}
      <div class="what">
        <p class="head">
          ${
            isSingle
              ? html`<b>${isInBackground(item) ? t('The post-deploy script failed in the background') : t('The last deployment failed')}</b>`
              : html`<a href="projects/${projectId}"><b translate="no">${projectName}</b></a>`
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
function stateOfTarget({ failed, lastGood, isLastGoodLive, live }: BrokenProject): unknown {
  const link = (of: DeploymentBrief): Template =>
    html`<a href="deployments/${of.id}" class="anywhere">${deploymentWords(of)}</a>, <svc-time at="${of.startTime}"></svc-time>`
  if (isLastGoodLive && lastGood !== null)
    return html`${t('The last successful deployment is live:')} ${link(lastGood)}`
  const good =
    lastGood === null
      ? t('No deployment has succeeded yet.')
      : html`${t('Last successful deployment:')} ${link(lastGood)}`
  if (live === null) return good
  return live.id === failed.id
    ? html`${t('The files of the failed deployment are live.')} ${good}`
    : html`${t('The files of a failed deployment are live:')} ${link(live)}. ${good}`
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
