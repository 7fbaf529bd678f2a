import { html, keyed, type Template } from '../dom/html.js'
import { createResource, type Resource } from '../state/resource.js'
import { Page } from './page.js'
import { t } from '../words/t.js'

/** A select of the filter. */
export interface FilterChoice {
  label: string
  /** The words of the choice that filters nothing. */
  all: string
  options: ReadonlyArray<{ value: string; words: string }>
}

/** A page with a list that the query of its address filters, and of which more can be loaded. */
export abstract class FilteredPage<Shown> extends Page {
  protected shown!: Resource<Shown>
  protected isLoadingMore = false
  #filter = ''

  /** The address of the page without a filter. */
  protected abstract readonly address: string
  /** Loads the beginning of the list. */
  protected abstract load(signal: AbortSignal): Promise<Shown>

  protected override moved(): void {
    if (this.#filter !== this.place.query.toString()) this.begin()
  }

  /** Loads the list as the address filters it. */
  protected begin(): void {
    const filter = (this.#filter = this.place.query.toString())
    this.isLoadingMore = false
    this.shown = createResource<Shown>({
      load: signal => this.load(signal),
      onChange: () => {
        if (filter === this.#filter) this.update()
      },
      signal: this.signal
    })
    void this.shown.load()
  }

  /** Loads more, unless the filter changes meanwhile. */
  protected async extend(next: () => Promise<Shown>): Promise<void> {
    const resource = this.shown
    this.isLoadingMore = true
    this.update()
    await this.attempt(async () => {
      const shown = await next()
      if (resource === this.shown) resource.set(shown)
    })
    this.isLoadingMore = false
    this.update()
  }

  protected moreButton(more: () => Promise<void>): Template {
    return html`
      <button type="button" disabled="${this.isLoadingMore}" @click="${() => void more()}">
        ${this.isLoadingMore ? t('Loading…') : t('Load more')}
      </button>`
  }

  /** Shows a select of the filter. `name` is its key in the query. */
  protected select(name: string, { label, all, options }: FilterChoice): Template {
    const chosen = this.place.query.get(name) ?? ''
    const choose = (event: Event): void => this.choose(name, (event.currentTarget as HTMLSelectElement).value)
    return html`
      <select aria-label="${label}" @change="${choose}">
        <option value="" .selected="${chosen === ''}">${all}</option>
        ${options.map(({ value, words }) =>
          keyed(value, html`<option value="${value}" .selected="${value === chosen}">${words}</option>`)
        )}
      </select>`
  }

  protected choose(name: string, value: string): void {
    const query = new URLSearchParams(this.place.query)
    if (value === '') query.delete(name)
    else query.set(name, value)
    this.context.go(query.size === 0 ? this.address : `${this.address}?${query}`)
  }
}
