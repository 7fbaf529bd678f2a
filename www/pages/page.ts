import type { ResourceSnapshot } from '../../lib/model/machine.js'
import type { Calls } from '../server/calls.js'
import type { Client, Connection } from '../server/client.js'
import { SvcElement } from '../dom/element.js'
import { OverlayEvent } from '../elements/svc-app.js'
import { errorWords } from '../words/errors.js'
import { NoticeEvent } from '../elements/svc-notices.js'
import type { NoticeKind } from '../elements/svc-notices.js'
import type { Place, Router } from '../router.js'
import { createResource } from '../state/resource.js'
import type { Resource } from '../state/resource.js'
import type { Session } from '../state/session.js'
import type { ChangeTopic } from '../../lib/model/changes.js'
import type { ChangeWatch } from '../state/changes.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { t } from '../words/t.js'

/** Elements by their tag, as a module hands them to whoever registers them. */
export type ElementTable = Readonly<Record<string, CustomElementConstructor>>

/** What every page may use. */
export interface PageContext {
  client: Client
  calls: Calls
  session: Session
  connection: Connection
  /** One poll for the lists of all pages. */
  changes: ChangeWatch
  go: Router['go']
  /** Sets the router's guard, or takes it away. */
  guard(guard: Router['guard']): void
  /** Of the machine, in the last ten minutes, oldest first: pages that show them add to them. */
  readings: ResourceSnapshot[]
  /** Registers elements of a module that was imported late. */
  define(elements: ElementTable): void
}

/** One step of the way to a page; without an address it is the page itself. */
export interface Crumb {
  words: string
  address?: string
}

/** What the page is called now: the tab's title, and the way that leads there. */
export class PageTitleEvent extends Event {
  readonly pageTitle: string
  readonly crumbs: readonly Crumb[]

  constructor(pageTitle: string, crumbs: readonly Crumb[]) {
    super('pagetitle', { bubbles: true })
    this.pageTitle = pageTitle
    this.crumbs = crumbs
  }
}

declare global {
  interface HTMLElementEventMap {
    pagetitle: PageTitleEvent
  }
}

/** A screen. The frame gives it its context once and its place each time the address changes. Event `pagetitle`. */
export abstract class Page extends SvcElement {
  context!: PageContext
  #place!: Place
  #title = ''

  get place(): Place {
    return this.#place
  }

  set place(place: Place) {
    this.#place = place
    if (this.isConnected) {
      this.moved()
      this.update()
    }
  }

  /** The address changed, the page stayed. */
  protected moved(): void {}

  /** Says what the page is called; cheap to repeat. */
  protected entitle(title: string, crumbs: readonly Crumb[]): void {
    const joined = JSON.stringify([title, crumbs])
    if (joined === this.#title) return
    this.#title = joined
    this.dispatchEvent(new PageTitleEvent(title, crumbs))
  }

  protected notify(text: string, kind: NoticeKind = 'success'): void {
    this.dispatchEvent(new NoticeEvent(text, kind))
  }

  /** A resource that this page shows, loading at once. */
  protected resource<T>(load: (signal: AbortSignal) => Promise<T>): Resource<T> {
    const resource = createResource<T>({
      load,
      onChange: () => this.update(),
      onSilence: () => this.context.connection.set('lost'),
      signal: this.signal
    })
    void resource.load()
    return resource
  }

  /** Does it again when the server says that one of these topics may have changed; `work` as in ChangeWatch. */
  protected follow(topics: readonly ChangeTopic[], work: () => boolean | void): void {
    this.context.changes.follow(topics, work, this.signal)
  }

  /** Does it again at an interval while the tab is seen, when it is seen again, and when the server is found again. */
  protected repeat(intervalMs: number, work: () => void): void {
    this.every(intervalMs, () => {
      if (!document.hidden) work()
    })
    this.listen(document, 'visibilitychange', () => {
      if (!document.hidden) work()
    })
    const { connection } = this.context
    this.listen(connection, 'change', () => {
      if (connection.state === 'open' && !document.hidden) work()
    })
  }

  /** Does what a control asks; a failure becomes a notice. */
  protected async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.notify(errorWords(error), 'failed')
    }
    this.update()
  }
}

/** An address without a page, or a page that could not be fetched (property `isUnloadable`). */
export class LostPage extends Page {
  isUnloadable = false

  protected override connected(): void {
    const title = this.isUnloadable ? t('Not loaded') : t('Not found')
    this.entitle(title, [{ words: title }])
  }

  protected override view(): Template {
    if (this.isUnloadable) {
      return html`
        <div class="state">
          <h1>${t('This page could not be loaded')}</h1>
          <p class="muted">
            ${t('The server did not send it. It may be restarting, or it has been updated since you came.')}
          </p>
          <button type="button" class="primary" @click="${() => location.reload()}">${t('Load again')}</button>
        </div>`
    }
    return html`
      <div class="state">
        <h1>${t('There is nothing here')}</h1>
        <p class="muted">
          ${t('The address names no page of this panel. The thing it meant may have been deleted.')}
        </p>
        <div class="actions">
          <a class="button primary" href=".">${t('To the overview')}</a>
          <button type="button" @click="${() => this.dispatchEvent(new OverlayEvent('palette'))}">${t('Search')}</button>
        </div>
      </div>`
  }
}
