import type { ListedDeployment } from '../../../lib/model/deployment.js'
import { css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { begunAt, shownStatus } from '../../shared/api.js'
import type { Waiting } from '../../../lib/model/waiting.js'
import { serverNow } from '../../server/client.js'
import { originOf, type Status } from '../base/facts.js'
import { deploymentWords, waitingWords } from '../base/words.js'

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
        grid-template: 'status what where time span next' auto / 100px minmax(0, 1.2fr) minmax(0, 1fr) 130px 76px 16px;
        align-items: center;
        gap: 4px 16px;
        min-height: calc(var(--row) + 8px);
        padding: 6px 16px;
        color: inherit;
      }
      &[single] a { grid-template-columns: 100px minmax(0, 1fr) minmax(0, 0.6fr) 130px 76px 16px; }

      a:hover { background: var(--hover); text-decoration: none; }
      a:focus-visible { outline-offset: -2px; border-radius: 8px; }
      li:first-child a { border-radius: 7px 7px 0 0; }
      li:last-child a { border-radius: 0 0 7px 7px; }
      li:only-child a { border-radius: 7px; }
      svc-status { grid-area: status; }
      .what { grid-area: what; display: flex; align-items: center; gap: 10px; min-width: 0; }
      .what b { font-weight: 500; }
      .what > .icon { color: var(--muted); }
      .where { grid-area: where; display: grid; grid-template-columns: minmax(0, 1.4fr) minmax(0, 1fr); align-items: baseline; gap: 4px 16px; min-width: 0; }
      &[single] .where { grid-template-columns: minmax(0, 1fr); }
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
        .where > .cut:last-child { flex: none; max-width: 45%; }
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
    const waiting = this.waiting.find(({ deployId }) => deployId === item.id)
    const isSingle = this.hasAttribute('single')
    const origin = originOf(item.provenance) ?? html`<span></span>`
    return html`
      <a href="deployments/${item.id}" tabindex="${isCurrent ? null : '-1'}">
        <svc-status state="${stateOf(item, waiting)}"></svc-status>
        <span class="what" title="${words}" translate="no">
          ${item.triggerSource !== 'cli' ? icon('roll-back') : null}<b class="cut">${words}</b>
          ${waiting === undefined ? null : html`<svc-marked words="${waitingWords(waiting, serverNow())}"></svc-marked>`}
          ${item.backgroundFailed ? html`<svc-background-failure></svc-background-failure>` : null}
        </span>
        <span class="where">${origin}${isSingle ? null : html`<span class="cut muted" translate="no">${item.projectName}</span>`}</span>
        <svc-time at="${item.startTime}"></svc-time>
        <svc-span from="${begunAt(item)}" to="${item.endTime}"></svc-span>
        ${icon('next')}
      </a>`
  }
}

function stateOf({ status, backgroundFailed }: ListedDeployment, waiting: Waiting | undefined): Status {
  return status === 'running' && waiting !== undefined ? 'waiting' : shownStatus(status, backgroundFailed)
}

const idOf = ({ id }: ListedDeployment): string => id
