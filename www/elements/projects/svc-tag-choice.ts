import { said } from '../events.js'
import type { Label } from '../../../lib/model/project.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'

/**
 * Chooses any number of tags. Properties: `tags`; `chosen`, their ids. Attributes: `label`, the name of the choice;
 * `list`, shows one tag per line. Event: `tagchoice`. None of its controls is submitted with a form.
 */
export class SvcTagChoice extends SvcElement {
  static readonly observedAttributes = ['label', 'list']

  static override sheet = css`
    svc-tag-choice {
      display: block;

      fieldset { display: flex; flex-wrap: wrap; gap: 4px 14px; min-width: 0; max-height: 180px; margin: 0; padding: 0; border: 0; overflow-y: auto; }
      legend { padding: 0; margin-bottom: 2px; font-weight: 500; }
      label { display: flex; align-items: center; gap: 8px; min-width: 0; max-width: 100%; min-height: 30px; cursor: pointer; }
      &[list] fieldset { flex-direction: column; flex-wrap: nowrap; max-height: 280px; gap: 0; }
      &[list] label { padding: 0 6px; border-radius: 4px; }
      &[list] label:hover { background: var(--hover); }
      p { color: var(--muted); font-size: var(--size-13); }
      @media (pointer: coarse) { label { min-height: 44px; } }
    }
  `

  tags: readonly Label[] = []
  chosen: readonly string[] = []

  protected override view(): Template {
    if (this.tags.length === 0) {
      return html`<p>${t('No tags yet.')} <a href="labels">${t('Categories and tags')}</a></p>`
    }
    return html`
      <fieldset>
        <legend class="${this.hasAttribute('list') ? 'unseen' : null}">${this.getAttribute('label')}</legend>
        ${this.tags.map(tag =>
          keyed(
            tag.id,
            html`
          <label>
            <input type="checkbox" .checked="${this.chosen.includes(tag.id)}" @change="${() => this.#toggle(tag.id)}">
            <svc-label kind="tag" name="${tag.name}" color="${tag.color}"></svc-label>
          </label>`
          )
        )}
      </fieldset>`
  }

  #toggle(id: string): void {
    const { chosen } = this
    this.chosen = chosen.includes(id) ? chosen.filter(other => other !== id) : [...chosen, id]
    this.dispatchEvent(said('tagchoice', { tagIds: this.chosen }))
  }
}
