import { gather, nameOf } from '../archive/gather.js'
import type { Found, Gathered } from '../archive/gather.js'
import type { PackEntry } from '../archive/zip.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { countWords, numberWords, t } from '../words/t.js'
import { errorLine } from './field.js'
import { errorWords, sizeWords } from './words.js'

/** The reader has seen what it is, and wants it deployed. */
export class PackWantedEvent extends Event {
  readonly entries: readonly PackEntry[]
  /** What the reader dropped is called. */
  readonly name: string
  /** Of the files. */
  readonly bytes: number

  constructor(wanted: { entries: readonly PackEntry[]; name: string; bytes: number }) {
    super('packwanted', { bubbles: true })
    this.entries = wanted.entries
    this.name = wanted.name
    this.bytes = wanted.bytes
  }
}

/** The reader does not want it after all. */
export class PackCancelEvent extends Event {
  constructor() {
    super('packcancel', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    packwanted: PackWantedEvent
    packcancel: PackCancelEvent
  }
}

/** So many names of what is left out are shown. */
const shownNames = 5
/** How often a long count is told. */
const tellEvery = 250

/**
 * What was dropped, looked through before it is packed: how much it is, and what the rules leave out of it. Property
 * `found`. Events `packwanted`, `packcancel`.
 */
export class SvcPack extends SvcElement {
  static override sheet = css`
    svc-pack {
      display: grid;
      gap: 12px;
      align-content: center;
      justify-items: start;
      min-height: 148px;
      padding: 20px;
      border: 1px solid var(--edge);
      border-radius: var(--radius);

      h3 { display: flex; align-items: center; gap: 8px; max-width: 100%; }
      h3 .icon { color: var(--muted); }
      .left-out { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 8px; overflow-wrap: anywhere; }
      .left-out button { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); }
    }
  `

  #found: readonly Found[] = []
  #gathered: Gathered | null = null
  #leftOut: readonly string[] = []
  #neverPacked: readonly string[] = []
  #count = 0
  #isWhole = false
  #problem: string | null = null
  #looking = new AbortController()
  #hasToFocus = false

  get found(): readonly Found[] {
    return this.#found
  }

  set found(found: readonly Found[]) {
    this.#found = found
    this.#isWhole = false
    if (this.isConnected) void this.#look()
  }

  protected override connected(): void {
    void this.#look()
  }

  protected override view(): Template {
    const gathered = this.#gathered
    return html`
      <h3>${icon('folder')}<span class="cut" translate="no">${nameOf(this.#found)}</span></h3>
      <p class="number" role="status">
        ${this.#problem === null ? this.#facts(gathered) : null}
      </p>
      ${this.#leftOutLine()}
      ${errorLine(this.#problem)}
      <div class="actions">
        <button type="button" class="primary" disabled="${gathered === null || gathered.entries.length === 0}"
          @click="${() => this.#want()}">${t('Deploy')}</button>
        <button type="button" @click="${() => this.dispatchEvent(new PackCancelEvent())}">${t('Cancel')}</button>
      </div>`
  }

  #facts(gathered: Gathered | null): string {
    if (gathered === null) return t('Looking through it: {files}', { files: countWords(this.#count, 'file') })
    if (gathered.files === 0) return t('There is nothing to deploy in it.')
    return `${countWords(gathered.files, 'file')}, ${sizeWords(gathered.bytes)}`
  }

  protected override rendered(): void {
    if (!this.#hasToFocus) return
    this.#hasToFocus = false
    this.querySelector<HTMLElement>('button.primary')?.focus()
  }

  #leftOutLine(): Template | null {
    const never = new Set(this.#neverPacked)
    const usual = this.#leftOut.filter(name => !never.has(name))
    const stays = this.#isWhole ? this.#neverPacked : this.#leftOut
    if (this.#leftOut.length === 0) return null
    return html`
      <p class="left-out muted small">
        ${stays.length === 0 ? null : this.#names(stays, list => t('{count} left out, as svc push does: {list}', { count: numberWords(stays.length), list }))}
        ${this.#isWhole && usual.length > 0 ? this.#names(usual, list => t('Included although usually left out: {list}', { list })) : null}
        ${usual.length === 0 ? null : html`
          <button type="button" @click="${() => this.#switch()}">
            ${this.#isWhole ? t('Leave them out') : t('Include them')}
          </button>`}
      </p>`
  }

  #names(names: readonly string[], say: (list: string) => string): Template {
    const shown = names.slice(0, shownNames).join(', ')
    const list = names.length > shownNames
      ? t('{names} and {count} more', { names: shown, count: numberWords(names.length - shownNames) })
      : shown
    return html`<span title="${names.slice(0, 100).join('\n')}">${say(list)}</span>`
  }

  #switch(): void {
    this.#isWhole = !this.#isWhole
    void this.#look()
  }

  async #look(): Promise<void> {
    this.#looking.abort()
    const looking = (this.#looking = new AbortController())
    this.#gathered = null
    this.#problem = null
    this.#count = 0
    this.update()
    try {
      const gathered = await gather(this.#found, {
        isWhole: this.#isWhole,
        signal: AbortSignal.any([looking.signal, this.signal]),
        onProgress: files => this.#counted(files)
      })
      if (looking.signal.aborted || this.signal.aborted) return
      this.#gathered = gathered
      if (!this.#isWhole) this.#leftOut = gathered.leftOut
      this.#neverPacked = gathered.neverPacked
      this.#hasToFocus = true
    } catch (error) {
      if (looking.signal.aborted || this.signal.aborted) return
      this.#problem = errorWords(error)
    }
    this.update()
  }

  #counted(files: number): void {
    if (files % tellEvery !== 0) return
    this.#count = files
    this.update()
  }

  #want(): void {
    if (this.#gathered === null) return
    const { entries, bytes } = this.#gathered
    this.dispatchEvent(new PackWantedEvent({ entries, bytes, name: nameOf(this.#found) }))
  }
}
