import { failedInBackground, type DeploymentRow } from '../../lib/model/deployment.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon, keyed } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { deploymentWords } from './words.js'

/**
 * Deployments as rows, each a link to its page. Property `items`: newest first. Attributes `single`: they are all of one
 * project, which then goes without saying; `long`: there may be thousands, of which only those that are seen are on the
 * page (who uses it registers `svc-rows`), its `label` then being the list's name.
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
        grid-template-columns: 100px minmax(0, 1fr) 130px 76px 16px;
        align-items: center;
        gap: 4px 16px;
        min-height: calc(var(--row) + 8px);
        padding: 6px 16px;
        color: inherit;
      }

      a:hover { background: var(--hover); text-decoration: none; }
      a:focus-visible { outline-offset: -2px; border-radius: 8px; }
      li:first-child a { border-radius: 7px 7px 0 0; }
      li:last-child a { border-radius: 0 0 7px 7px; }
      li:only-child a { border-radius: 7px; }
      .what { display: flex; align-items: baseline; gap: 10px; min-width: 0; }
      .what b { flex: none; max-width: 60%; font-weight: 500; }
      .what > .icon { align-self: center; color: var(--muted); }
      .what svc-background-failure { align-self: center; }
      svc-time, svc-span { color: var(--muted); font-size: var(--size-13); white-space: nowrap; }
      svc-span { text-align: right; }
      a > .icon { color: var(--muted); }

      @media (max-width: 719px) {
        a { grid-template-columns: minmax(0, 1fr) auto 16px; padding-block: 10px; }
        .what { grid-column: 1 / 3; grid-row: 1; }
        svc-status { grid-row: 2; }
        svc-time { grid-row: 2; }
        svc-span { display: none; }
        a > .icon { grid-row: 1 / 3; grid-column: 3; }
        svc-rows { --row-px: 69px; }
        &[long] a { height: 69px; }
      }
    }
  `

  #items: readonly DeploymentRow[] = []

  get items(): readonly DeploymentRow[] {
    return this.#items
  }

  set items(items: readonly DeploymentRow[]) {
    this.#items = items
    this.update()
  }

  protected override view(): Template {
    if (!this.hasAttribute('long')) {
      return html`<ul>${this.#items.map(item => keyed(item.id, html`<li>${this.#link(item, true)}</li>`))}</ul>`
    }
    return html`
      <svc-rows label="${this.getAttribute('label')}" .items="${this.#items}" .key="${idOf}" .row="${this.#row}"></svc-rows>`
  }

  readonly #row = (item: DeploymentRow, { isCurrent }: { isCurrent: boolean }): Template => this.#link(item, isCurrent)

  #link(item: DeploymentRow, isCurrent: boolean): Template {
    const words = deploymentWords(item)
    const what = this.hasAttribute('single')
      ? html`<b class="cut">${words}</b><code class="cut muted">${item.id.slice(-6)}</code>`
      : html`<b class="cut">${item.projectName}</b><span class="cut muted">${words}</span>`
    return html`
      <a href="deployments/${item.id}" tabindex="${isCurrent ? null : '-1'}">
        <svc-status state="${item.status}"></svc-status>
        <span class="what" title="${words}">${item.triggerSource === 'rollback' ? icon('roll-back') : null}${what}
          ${failedInBackground(item) ? html`<svc-background-failure></svc-background-failure>` : null}</span>
        <svc-time at="${item.startTime}"></svc-time>
        <svc-span from="${item.startTime}" to="${item.endTime}"></svc-span>
        ${icon('next')}
      </a>`
  }
}

const idOf = ({ id }: DeploymentRow): string => id
