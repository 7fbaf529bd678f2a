import type { Provenance } from '../../../lib/model/provenance.js'
import { css, SvcElement } from '../element.js'
import { html, icon, type IconName, type Template } from '../../dom/html.js'
import { agoWords, commitTitle, commitWords, exactWords, spanWords } from './words.js'
import { t } from '../../words/t.js'
import { serverNow } from '../../server/client.js'
import type { Label, LabelColor, ShownProject as Project } from '../../../lib/model/project.js'

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

/** A mark of a project or a deployment: it waits for somebody, or is locked. Attribute: `words`. */
export class SvcMarked extends SvcElement {
  static readonly observedAttributes = ['words']

  static override sheet = css`
    svc-marked {
      flex: none;
      max-width: 100%;
      padding: 0 7px;
      border-radius: 99px;
      background: var(--warning-quiet);
      color: var(--warning);
      font-size: var(--size-12);
      font-weight: 500;
      line-height: 1.5;
      white-space: nowrap;
      overflow: hidden;
      text-overflow: ellipsis;
    }
  `

  protected override view(): Template {
    return html`${this.getAttribute('words')}`
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
export type Status = 'waiting' | 'queued' | 'running' | 'success' | 'failed' | 'idle' | 'skipped' | 'unknown'

const words: Record<Status, string> = {
  waiting: 'Waiting',
  queued: 'Queued',
  running: 'Running',
  success: 'Success',
  failed: 'Failed',
  idle: 'Never deployed',
  skipped: 'Not run',
  unknown: 'Unknown'
}

const pictures: Partial<Record<Status, IconName>> = { unknown: 'idle', waiting: 'pause' }

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
      &[state='queued'], &[state='waiting'] { color: var(--warning); }

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
    return html`${icon(pictures[this.state] ?? (this.state as IconName))}<span>${t(words[this.state])}</span>`
  }
}

const thanksMs = 1600

/** A button that copies a text. Property: `text`. Attribute: `label`, default `Copy`. */
export class SvcCopy extends SvcElement {
  static readonly observedAttributes = ['label']

  static override sheet = css`
    svc-copy {
      display: inline-flex;
      flex: none;

      button { min-width: 88px; }
    }
  `

  text = ''
  #outcome: 'none' | 'copied' | 'failed' = 'none'

  protected override view(): Template {
    const label = this.getAttribute('label') ?? t('Copy')
    const word = { none: label, copied: t('Copied'), failed: t('Copy failed') }[this.#outcome]
    return html`
      <button type="button" @click="${() => void this.#copy()}">
        ${icon(this.#outcome === 'copied' ? 'check' : 'copy')}<span aria-live="polite">${word}</span>
      </button>`
  }

  async #copy(): Promise<void> {
    this.#outcome = (await copyText(this.text)) ? 'copied' : 'failed'
    this.update()
    setTimeout(() => {
      this.#outcome = 'none'
      this.update()
    }, thanksMs)
  }
}

/** Copies the text to the clipboard. Returns whether this succeeded. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copyBySelection(text)
  }
}

/** Plain HTTP on a network has no `navigator.clipboard`; the old command still works there. */
function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'unseen'
  area.setAttribute('aria-hidden', 'true')
  const focused = document.activeElement
  // The field must be inside an open dialog: elements outside of it cannot have the focus.
  const place = focused?.closest('dialog') ?? document.body
  place.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return isCopied
}

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

/** Labels by id. */
export type LabelTable = ReadonlyMap<string, Label>

/** Returns a project's category and its tags. If there are more than `most`, the rest is shown as a count. */
export function labelList(
  { categoryId, tagIds }: Pick<Project, 'categoryId' | 'tagIds'>,
  labels: LabelTable,
  most = Infinity
): Template {
  const category = categoryId === null ? undefined : labels.get(categoryId)
  const all = [
    ...(category === undefined ? [] : [{ label: category, kind: 'category' }]),
    ...tagIds.flatMap(id => labels.get(id) ?? []).map(label => ({ label, kind: 'tag' }))
  ]
  const more = all.slice(most)
  return html`
    ${all.slice(0, most).map(
      ({ label, kind }) => html`
      <svc-label kind="${kind}" name="${label.name}" color="${label.color}"></svc-label>`
    )}
    ${
      more.length === 0
        ? null
        : html`<span class="muted small" title="${more.map(({ label }) => label.name).join(', ')}">+${more.length}</span>`
    }`
}
