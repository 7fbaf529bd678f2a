import type { LabelColor } from '../../../lib/model/project.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'

/** The colours of labels (§2.6) in order, each with its English word for t(). */
export const labelColorRows: ReadonlyArray<{ color: LabelColor; words: string }> = [
  { color: 'blue', words: 'Blue' },
  { color: 'green', words: 'Green' },
  { color: 'yellow', words: 'Yellow' },
  { color: 'purple', words: 'Purple' },
  { color: 'pink', words: 'Pink' },
  { color: 'cyan', words: 'Cyan' },
  { color: 'gray', words: 'Gray' }
]

/**
 * A category or a tag as a coloured pill. Attributes: `name` and `color` of the label; `kind`, which is `category`
 * (square sign) or `tag` (round sign). A long name is cut off; its title is the whole name. The user of this element
 * sets `max-width`.
 */
export class SvcLabel extends SvcElement {
  static readonly observedAttributes = ['name', 'color', 'kind']

  static override sheet = css`
    svc-label {
      display: inline-flex;
      align-items: center;
      gap: 6px;
      max-width: 100%;
      min-width: 0;
      padding: 1px 8px;
      border-radius: 99px;
      background: var(--label-gray-quiet);
      color: var(--label-gray);
      font-size: var(--size-12);
      font-weight: 500;
      line-height: 1.5;
      vertical-align: middle;

      &::before {
        content: '';
        flex: none;
        width: 7px;
        height: 7px;
        border-radius: 50%;
        background: currentColor;
      }
      &[kind='category'] { border-radius: 4px; }
      &[kind='category']::before { border-radius: 2px; }

      &[color='blue'] { background: var(--label-blue-quiet); color: var(--label-blue); }
      &[color='green'] { background: var(--label-green-quiet); color: var(--label-green); }
      &[color='yellow'] { background: var(--label-yellow-quiet); color: var(--label-yellow); }
      &[color='purple'] { background: var(--label-purple-quiet); color: var(--label-purple); }
      &[color='pink'] { background: var(--label-pink-quiet); color: var(--label-pink); }
      &[color='cyan'] { background: var(--label-cyan-quiet); color: var(--label-cyan); }
    }
  `

  protected override view(): Template {
    const name = this.getAttribute('name') ?? ''
    return html`<span class="cut" translate="no" title="${name}">${name}</span>`
  }
}
