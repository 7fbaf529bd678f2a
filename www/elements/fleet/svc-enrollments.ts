import { notice, said } from '../events.js'
import type { Enrollment } from '../../../lib/model/node.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import type { FleetCalls } from '../../server/fleet-calls.js'
import { errorWords } from '../../words/errors.js'
import { t } from '../../words/t.js'
import { exactWords } from '../base/words.js'
import { labelTexts } from './node-filter.js'

/** Tokens that no machine has used yet. Properties: `items`, `calls`. Events: `enrolled` after a change, `notice`. */
export class SvcEnrollments extends SvcElement {
  static override sheet = css`
    svc-enrollments {
      display: block;

      li { display: grid; grid-template-columns: minmax(0, 1fr) auto; align-items: center; gap: 4px 16px; padding: 10px 12px 10px 16px; }
      li + li { border-top: 1px solid var(--line); }
      .what { display: grid; gap: 2px; min-width: 0; color: var(--muted); font-size: var(--size-13); overflow-wrap: anywhere; }
      .what b { color: var(--text); font-weight: 500; font-size: var(--size-14); }
    }
  `

  items: readonly Enrollment[] = []
  calls!: Pick<FleetCalls, 'revokeEnrollment'>

  protected override view(): Template {
    return html`<ul>${this.items.map(item => keyed(item.id, html`<li>${this.#row(item)}</li>`))}</ul>`
  }

  #row(item: Enrollment): Template {
    const name = item.name ?? t('Any name')
    const facts = [
      ...labelTexts(item),
      t('valid until {time}', { time: exactWords(item.expiresAt) }),
      t('created by {name}', { name: item.createdBy })
    ]
    return html`
      <div class="what"><b translate="no">${name}</b><span>${facts.join(' · ')}</span></div>
      <button type="button" class="quiet" aria-label="${`${t('Revoke')} ${name}`}" @click="${() => void this.#revoke(item.id)}">${t('Revoke')}</button>`
  }

  async #revoke(id: string): Promise<void> {
    try {
      await this.calls.revokeEnrollment(id)
      this.dispatchEvent(notice(t('The token was revoked')))
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
    this.dispatchEvent(said('enrolled'))
  }
}
