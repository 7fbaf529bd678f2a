import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'

/** A part of a meter. `kind` determines its colour. */
export interface MeterPart {
  value: number
  kind: 'used' | 'warning' | 'failure' | 'first' | 'second' | 'third' | 'fourth'
}

/**
 * A bar that shows parts of a whole. Attribute: `label`, the text for screen readers, with the figures. Properties:
 * `parts`, `whole`.
 */
export class SvcMeter extends SvcElement {
  static readonly observedAttributes = ['label']

  static override sheet = css`
    svc-meter {
      display: block;
      height: 8px;
      min-width: 0;
      overflow: hidden;
      border-radius: 4px;
      background: var(--hover);

      svg { display: block; width: 100%; height: 100%; }
      [data-kind='used'], [data-kind='first'] { fill: var(--accent); }
      [data-kind='warning'] { fill: var(--warning); }
      [data-kind='failure'] { fill: var(--failure); }
      [data-kind='second'] { fill: var(--success); }
      [data-kind='third'] { fill: var(--warning); }
      [data-kind='fourth'] { fill: var(--edge); }
    }
  `

  parts: readonly MeterPart[] = []
  whole = 0

  protected override view(): Template {
    let from = 0
    const shares = this.parts.map(({ value, kind }) => {
      const share = this.whole <= 0 ? 0 : Math.min(100 - from, (value / this.whole) * 100)
      from += share
      return { kind, from: from - share, share }
    })
    return html`
      <svg role="img" aria-label="${this.getAttribute('label')}" viewBox="0 0 100 8" preserveAspectRatio="none">
        ${shares.map(
          ({ kind, from, share }) => html`
          <rect data-kind="${kind}" x="${from.toFixed(2)}" y="0" width="${share.toFixed(2)}" height="8"/>`
        )}
      </svg>`
  }
}
