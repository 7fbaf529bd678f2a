import type { Provenance } from '../../../lib/model/provenance.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { agoWords, commitTitle, commitWords, exactWords, spanWords } from './words.js'
import { t } from '../../words/t.js'
import { serverNow } from '../../state/server-clock.js'

const refreshMs = 15_000

/** A time in relative words that are kept up to date; its title is the exact time. Attribute `at`: ISO 8601. */
export class SvcTime extends SvcElement {
  static readonly observedAttributes = ['at']

  protected override connected(): void {
    this.every(refreshMs, () => this.update())
  }

  protected override view(): Template {
    const at = this.getAttribute('at') ?? ''
    if (Number.isNaN(Date.parse(at))) return html`<span>–</span>`
    return html`<time datetime="${at}" title="${exactWords(at)}">${agoWords(at, serverNow())}</time>`
  }
}

/** A duration, which counts up while it has no end. Attributes `from`, `to`: ISO 8601. */
export class SvcSpan extends SvcElement {
  static readonly observedAttributes = ['from', 'to']

  protected override connected(): void {
    this.every(1000, () => {
      if (!this.hasAttribute('to')) this.update()
    })
  }

  protected override view(): Template {
    const to = this.getAttribute('to')
    const ms = (to === null ? serverNow() : Date.parse(to)) - Date.parse(this.getAttribute('from') ?? '')
    // While the duration counts up, fractions of a second would only flicker.
    const shownMs = to === null ? Math.floor(ms / 1000) * 1000 : ms
    return html`<span class="number">${Number.isNaN(ms) ? '–' : spanWords(shownMs)}</span>`
  }
}

/** A label beside the status that says that the post-deploy script of a deployment failed in the background. */
export class SvcBackgroundFailure extends SvcElement {
  static override sheet = css`
    svc-background-failure {
      display: inline-flex;
      flex: none;
      align-items: center;
      gap: 6px;
      color: var(--failure);
      font-size: var(--size-13);
      font-weight: 500;
      white-space: nowrap;
    }
  `

  protected override view(): Template {
    return html`${icon('failed')}<span>${t('Failed in the background')}</span>`
  }
}

/** Returns commit and tag or branch, or null if neither is known. */
export function originOf(provenance: Provenance | null | undefined): Template | null {
  if (provenance === null || provenance === undefined) return null
  const [commit, name] = [commitWords(provenance), provenance.tag ?? provenance.branch]
  if (commit === null && name === null) return null
  return html`
    <span class="origin" translate="no">
      ${commit === null ? null : html`<code title="${commitTitle(provenance)}">${commit}</code>`}
      ${name === null ? null : html`<span class="cut muted" title="${name}">${name}</span>`}
    </span>`
}

/** A status that `svc-status` can show. */
export type Status = 'queued' | 'running' | 'success' | 'failed' | 'idle' | 'skipped' | 'unknown'

const words: Record<Status, string> = {
  queued: 'Queued',
  running: 'Running',
  success: 'Success',
  failed: 'Failed',
  idle: 'Never deployed',
  skipped: 'Not run',
  unknown: 'Unknown'
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
        [data-connection='open'] &[state='running'] .icon { animation: svc-status-turn 1.2s linear infinite; }
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
    return html`${icon(this.state === 'unknown' ? 'idle' : this.state)}<span>${t(words[this.state])}</span>`
  }
}
