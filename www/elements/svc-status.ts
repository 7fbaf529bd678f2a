import { css } from '../dom/css.js'
import { SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { icon } from './icon.js'
import { t } from '../words/t.js'

export type Status = 'queued' | 'running' | 'success' | 'failed' | 'idle' | 'skipped'

const words: Record<Status, string> = {
  queued: 'Queued',
  running: 'Running',
  success: 'Success',
  failed: 'Failed',
  idle: 'Never deployed',
  skipped: 'Not run'
}

/** A status as shape, word and colour. Attribute `state`: a Status. */
export class SvcStatus extends SvcElement {
  static readonly observedAttributes = ['state']

  static override sheet = css`
    svc-status {
      display: inline-flex;
      align-items: center;
      gap: 6px;
      color: var(--muted);
      font-size: var(--size-13);
      font-weight: 500;
      white-space: nowrap;

      &[state='success'] { color: var(--success); }
      &[state='failed'] { color: var(--failure); }
      &[state='running'] { color: var(--running); }
      &[state='queued'] { color: var(--warning); }

      @media (prefers-reduced-motion: no-preference) {
        &[state='running'] .icon { animation: svc-status-turn 1.2s linear infinite; }
      }
    }

    @keyframes svc-status-turn {
      to { rotate: 360deg; }
    }
  `

  get state(): Status {
    const state = this.getAttribute('state')
    return state !== null && state in words ? (state as Status) : 'idle'
  }

  protected override view(): Template {
    return html`${icon(this.state)}<span>${t(words[this.state])}</span>`
  }
}
