import type { Client } from '../../server/client.js'
import { stepsOf } from './svc-rows.js'
import type { Inclusion, PlaceEntry, PlaceHome, PlaceListing } from '../../../lib/model/project.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { countWords, t, errorWords } from '../../words/t.js'
import { said, css, SvcElement } from '../element.js'
import { errorLine } from './form.js'

/**
 * Returns the listing of a path. If the path is not a directory or cannot be read, returns the listing of its nearest
 * readable parent directory, or finally of the home directory. Rejects like `list` if the home directory fails.
 */
export async function listNearest(
  list: (path: string) => Promise<PlaceListing>,
  path: string,
  { sep, home }: Pick<PlaceHome, 'sep' | 'home'>
): Promise<PlaceListing> {
  for (const step of stepsOf(path, sep).reverse()) {
    const listing = await list(step.path).catch(() => null)
    if (listing?.isDir === true) return listing
  }
  return list(home)
}

/**
 * Returns the visible entries of a listing. Hidden entries are included on request, or if the typed name begins with
 * a dot.
 */
export function shownEntries(
  entries: readonly PlaceEntry[],
  { find, withHidden }: { find: string; withHidden: boolean }
): PlaceEntry[] {
  const sought = find.trim().toLowerCase()
  return entries.filter(
    ({ name, isHidden }) =>
      (withHidden || !isHidden || (sought !== '' && sought.startsWith('.'))) && name.toLowerCase().includes(sought)
  )
}

/**
 * Returns the path to a directory as steps that can be opened. If the machine has several roots, they can be chosen.
 */
export function placeSteps(path: string, { sep, roots }: PlaceHome, onOpen: (path: string) => void): Template {
  const steps = stepsOf(path, sep)
  const choose = (event: Event): void => onOpen((event.currentTarget as HTMLSelectElement).value)
  return html`
    <ol class="steps" translate="no" aria-label="${t('Breadcrumb')}">
      ${steps.map(
        (step, index) => html`
        <li>
          ${index > 1 || (index === 1 && sep === '\\') ? icon('next') : null}
          ${
            index === 0 && roots.length > 1
              ? html`
              <select aria-label="${t('Drive')}" @change="${choose}">
                ${roots.map(root => html`<option value="${root}" .selected="${root === step.path}">${root}</option>`)}
              </select>`
              : html`
              <button type="button" class="quiet cut" aria-current="${index === steps.length - 1 ? 'location' : null}"
                title="${step.path}" @click="${() => onOpen(step.path)}">${step.name}</button>`
          }
        </li>`
      )}
    </ol>`
}

/** Returns a row of a directory listing: a directory to open, or a file to choose. */
export function placeEntry(
  { name, path, isDir }: PlaceEntry,
  { isChosen, onOpen, onChoose }: { isChosen: boolean; onOpen: () => void; onChoose: (isChosen: boolean) => void }
): Template {
  const choose = (event: Event): void => onChoose((event.currentTarget as HTMLInputElement).checked)
  return keyed(
    path,
    html`
    <li>
      ${
        isDir
          ? html`
          <button type="button" title="${name}" @click="${onOpen}">
            ${icon('folder')}<span class="cut">${name}</span><span class="unseen">${t('Open')}</span>${icon('next')}
          </button>`
          : html`
          <label title="${name}">
            <input type="checkbox" .checked="${isChosen}" @change="${choose}">
            ${icon('file')}<span class="cut">${name}</span>
          </label>`
      }
    </li>`
  )
}

/**
 * Chooses a directory or files on the server by browsing its directories. It can be inside a form; none of its controls
 * is submitted.
 *
 * Properties: `client`; `start`, the absolute path to begin at (missing parts are
 * ignored; empty is the home directory of the server). Attributes: `include`, which is `dirs` (chooses the open
 * directory), `files` or `both`; `multiple`, for several files of several directories. Events: `placeschosen`,
 * `placescancel`. Keys in the list: Up, Down, Home and End move; Right or Enter opens a directory; Left opens its
 * parent; Escape cancels.
 */
export class SvcPlaces extends SvcElement {
  static readonly observedAttributes = ['include', 'multiple']

  static override sheet = css`
    svc-places {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      border: 1px solid var(--edge);
      border-radius: var(--radius);

      .steps { display: flex; flex-wrap: wrap; align-items: center; gap: 2px; padding: 4px 8px; border-bottom: 1px solid var(--line); }
      .steps li { display: flex; align-items: center; min-width: 0; max-width: 100%; }
      .steps .icon { width: 12px; height: 12px; color: var(--muted); }
      .steps button, .steps select {
        min-height: 28px;
        max-width: 100%;
        padding: 2px 6px;
        border: 0;
        background: none;
        font-family: var(--mono);
        font-size: var(--size-13);
      }
      .steps select { width: auto; }
      .steps [aria-current] { color: var(--text); font-weight: 600; }
      .ask { display: flex; align-items: center; gap: 4px; padding: 0 4px 0 12px; border-bottom: 1px solid var(--line); }
      .ask .icon { color: var(--muted); }
      .ask input { border: 0 !important; background: none !important; outline-offset: -3px; }
      .ask button { flex: none; min-height: 28px; font-size: var(--size-13); font-weight: 400; }
      .ask button[aria-pressed=true] { background: var(--hover); color: var(--text); }
      .entries { height: 220px; overflow-y: auto; padding: 4px; overscroll-behavior: contain; }
      .entries p { padding: 8px 10px; color: var(--muted); font-size: var(--size-13); }
      .entries button, .entries label {
        display: flex;
        align-items: center;
        justify-content: flex-start;
        gap: 10px;
        width: 100%;
        min-height: 32px;
        padding: 2px 10px;
        border: 0;
        border-radius: 4px;
        background: none;
        color: inherit;
        font-weight: 400;
        cursor: pointer;
      }
      .entries label:hover { background: var(--hover); }
      .entries .icon { color: var(--muted); }
      .entries .cut { flex: 1; text-align: left; }
      .entries .next { width: 12px; height: 12px; }
      .entries :focus-visible { outline-offset: -2px; }
      .end { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; padding: 8px; border-top: 1px solid var(--line); }
      .end p { flex: 1 1 120px; min-width: 0; padding-left: 4px; color: var(--muted); font-size: var(--size-13); }
      > .error-line { padding: 8px 12px; border-top: 1px solid var(--line); }
      @media (pointer: coarse) { .entries button, .entries label { min-height: 44px; } }
    }
  `

  client!: Client
  start = ''
  #home: PlaceHome | null = null
  #listing: PlaceListing | null = null
  #problem: string | null = null
  #find = ''
  #withHidden = false
  #chosen = new Set<string>()
  #asked = new AbortController()
  #hasToFocus = false

  get include(): Inclusion {
    const include = this.getAttribute('include')
    return include === 'dirs' || include === 'files' ? include : 'both'
  }

  protected override connected(): void {
    void this.#begin()
    this.listen(this, 'keydown', event => this.#pressed(event as KeyboardEvent))
  }

  protected override view(): Template {
    const listing = this.#listing
    return html`
      ${listing === null ? null : placeSteps(listing.path, this.#home as PlaceHome, path => void this.#open(path))}
      <div class="ask">
        ${icon('search')}
        <input type="text" aria-label="${t('Filter, or type a path')}" placeholder="${t('Filter, or type a path')}"
          autocomplete="off" autocapitalize="off" spellcheck="false" .value="${this.#find}"
          @input="${(event: Event) => this.#typed((event.currentTarget as HTMLInputElement).value)}">
        <button type="button" class="quiet" aria-pressed="${this.#withHidden ? 'true' : 'false'}"
          @click="${() => this.#switchHidden()}">${t('Hidden')}</button>
      </div>
      <div class="entries" aria-busy="${listing === null ? 'true' : null}">
        ${listing === null ? null : this.#entries(listing)}
      </div>
      ${errorLine(this.#problem)}
      ${this.#end()}`
  }

  protected override rendered(): void {
    if (!this.#hasToFocus) return
    this.#hasToFocus = false
    ;(this.#first ?? this.querySelector('input'))?.focus()
  }

  #entries(listing: PlaceListing): Template {
    const entries = shownEntries(listing.entries, {
      find: this.#isPath ? '' : this.#find,
      withHidden: this.#withHidden
    })
    const hidden = listing.entries.length - entries.length
    const nothing = !listing.isDir
      ? t('This is not a directory.')
      : hidden > 0
        ? t('No matching entries; {count} not shown.', { count: hidden })
        : this.include === 'dirs'
          ? t('No directories here.')
          : t('This directory is empty.')
    return html`
      <ul translate="no">
        ${entries.map(entry =>
          placeEntry(entry, {
            isChosen: this.#chosen.has(entry.path),
            onOpen: () => void this.#open(entry.path),
            onChoose: isChosen => this.#choose(entry.path, isChosen)
          })
        )}
      </ul>
      ${entries.length === 0 ? html`<p>${nothing}</p>` : null}
      ${listing.truncated ? html`<p>${t('Not all entries are shown. Type the path of a missing entry.')}</p>` : null}`
  }

  #end(): Template {
    const listing = this.#listing
    const chosen = [...this.#chosen]
    const [only] = chosen
    return html`
      <div class="end">
        <p class="cut" aria-live="polite" title="${chosen.join('\n') || null}">
          ${only === undefined ? null : chosen.length === 1 ? only : countWords(chosen.length, 'file')}
        </p>
        <button type="button" @click="${() => this.dispatchEvent(said('placescancel'))}">${t('Cancel')}</button>
        ${
          this.include === 'files' || (this.include === 'both' && only !== undefined)
            ? html`
            <button type="button" class="primary" disabled="${only === undefined}"
              @click="${() => this.dispatchEvent(said('placeschosen', { paths: chosen }))}">${t('Choose')}</button>`
            : html`
            <button type="button" class="primary" disabled="${listing?.isDir !== true}"
              @click="${() => this.dispatchEvent(said('placeschosen', { paths: [listing?.path ?? ''] }))}">
              ${t('Use this directory')}
            </button>`
        }
      </div>`
  }

  get #first(): HTMLElement | null {
    return this.querySelector('.entries button, .entries input')
  }

  /** True if the typed text is a path to open, false if it is a name to filter by. */
  get #isPath(): boolean {
    return this.#find.startsWith('/') || this.#find.includes(this.#home?.sep ?? '/')
  }

  async #begin(): Promise<void> {
    try {
      this.#home = await this.client.call('GET /api/fs/home', { signal: this.signal })
    } catch (error) {
      if (!this.signal.aborted) this.#fail(error)
      return
    }
    await this.#open(this.start === '' ? this.#home.home : this.start, { isLenient: true })
  }

  /** `isLenient`: if the directory is missing or cannot be read, opens its nearest readable parent. */
  async #open(path: string, { isLenient = false } = {}): Promise<void> {
    this.#asked.abort()
    const asked = (this.#asked = new AbortController())
    const hadFocus = this.querySelector('.entries')?.contains(document.activeElement) === true
    try {
      const signal = AbortSignal.any([asked.signal, this.signal])
      const include = this.include === 'dirs' ? 'dirs' : 'both'
      const list = (at: string): Promise<PlaceListing> =>
        this.client.call('GET /api/fs/list', { query: { path: at, include }, signal })
      this.#listing = isLenient ? await listNearest(list, path, this.#home as PlaceHome) : checked(await list(path))
      this.#find = ''
      this.#problem = null
      this.#hasToFocus = hadFocus
    } catch (error) {
      if (asked.signal.aborted || this.signal.aborted) return
      return this.#fail(error)
    }
    this.update()
  }

  #fail(error: unknown): void {
    this.#problem = errorWords(error)
    this.update()
  }

  #typed(text: string): void {
    this.#find = text
    this.#problem = null
    this.update()
  }

  #switchHidden(): void {
    this.#withHidden = !this.#withHidden
    this.update()
  }

  #choose(path: string, isChosen: boolean): void {
    if (!this.hasAttribute('multiple')) this.#chosen.clear()
    if (isChosen) this.#chosen.add(path)
    else this.#chosen.delete(path)
    this.update()
  }

  #pressed(event: KeyboardEvent): void {
    if (event.isComposing) return
    if (event.key === 'Escape') {
      // Escape closes this list, not the dialog around it.
      event.preventDefault()
      event.stopPropagation()
      this.dispatchEvent(said('placescancel'))
      return
    }
    const target = event.target as HTMLElement
    if (target.closest('.ask input') !== null) this.#pressedInField(event)
    else if (target.closest('.entries') !== null) this.#pressedInList(event, target)
  }

  #pressedInField(event: KeyboardEvent): void {
    if (event.key === 'Enter') {
      // The form around this element must not be submitted.
      event.preventDefault()
      if (this.#isPath) void this.#open(this.#find.trim())
      else if (this.#find !== '') this.#first?.click()
    } else if (event.key === 'ArrowDown') {
      event.preventDefault()
      this.#first?.focus()
    }
  }

  #pressedInList(event: KeyboardEvent, target: HTMLElement): void {
    const controls = [...this.querySelectorAll<HTMLElement>('.entries button, .entries input')]
    const at = controls.indexOf(target)
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: controls.length - 1 }[event.key]
    if (next !== undefined) {
      event.preventDefault()
      if (next < 0) this.querySelector<HTMLElement>('.ask input')?.focus()
      else controls[next]?.focus()
    } else if (event.key === 'ArrowRight' && target instanceof HTMLButtonElement) {
      event.preventDefault()
      target.click()
    } else if (event.key === 'ArrowLeft') {
      event.preventDefault()
      const above = this.#listing?.parent
      if (above !== undefined && above !== null) void this.#open(above)
    } else if (event.key === 'Enter' && target instanceof HTMLInputElement) {
      event.preventDefault()
      target.click()
    }
  }
}

function checked(listing: PlaceListing): PlaceListing {
  if (listing.isDir) return listing
  throw new Error(listing.exists ? t('This is not a directory.') : t('“{path}” not found.', { path: listing.path }))
}
