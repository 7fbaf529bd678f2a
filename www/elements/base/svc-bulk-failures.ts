import { said, type Said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { twoLines } from '../../words/errors.js'
import { numberWords, t } from '../../words/t.js'
import { errorLine } from './field.js'

/** Maximum number of failures shown; the others are counted. */
const shownFailures = 100

/**
 * The rows that an action could not change, with the reasons. Properties: `done`, the event of the action, or null;
 * `words`, returns a count with its noun. Event: `failuresread`.
 */
export class SvcBulkFailures extends SvcElement {
  static override sheet = css`
    svc-bulk-failures {
      display: contents;

      .failures { position: relative; display: grid; gap: 8px; padding: 12px 48px 12px 16px; }
      .failures ul { display: grid; gap: 4px; max-height: 200px; overflow-y: auto; }
      .failures li { overflow-wrap: anywhere; font-size: var(--size-13); }
      .failures b { margin-right: 8px; font-weight: 500; }
      .failures > button { position: absolute; top: 4px; right: 4px; padding: 4px; min-width: var(--row); }
    }
  `

  done: Said<'bulkdone'> | null = null
  words!: (count: number) => string

  protected override view(): Template {
    const { failed, left } = this.done ?? { failed: [], left: [] }
    if (failed.length + left.length === 0) return html``
    const more = failed.length - shownFailures
    return html`
      <div class="failures" role="alert">
        ${
          failed.length === 0
            ? null
            : html`
            ${errorLine(t('Could not change {what}:', { what: this.words(failed.length) }))}
            <ul>
              ${failed.slice(0, shownFailures).map(({ name, problem }) => html`<li><b translate="no">${name}</b>${twoLines(problem)}</li>`)}
              ${more > 0 ? html`<li>${t('and {count} more', { count: numberWords(more) })}</li>` : null}
            </ul>`
        }
        ${left.length === 0 ? null : html`<p class="small">${t('Stopped. Not changed and still chosen: {what}', { what: this.words(left.length) })}</p>`}
        <button type="button" class="quiet" aria-label="${t('Close list')}" @click="${() => this.dispatchEvent(said('failuresread'))}">
          ${icon('close')}
        </button>
      </div>`
  }
}
