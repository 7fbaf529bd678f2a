import { notice, said, type NoticeKind } from '../elements/events.js'
import type { ResourceSnapshot } from '../../lib/model/machine.js'
import type { Calls } from '../server/calls.js'
import type { Client, Connection } from '../server/client.js'
import { SvcElement } from '../dom/element.js'
import type { Crumb } from '../elements/base/svc-app.js'
import { errorWords } from '../words/errors.js'
import type { Place, Router } from '../router.js'
import { createResource, type Resource } from '../state/resource.js'
import type { Preferences, Session } from '../state/session.js'
import type { ChangeTopic } from '../../lib/model/health.js'
import type { ChangeWatch } from '../state/changes.js'
import { html, type Template } from '../dom/html.js'
import { t } from '../words/t.js'

/** Elements by tag. A module exports them, and the panel registers them. */
export type ElementTable = Readonly<Record<string, CustomElementConstructor>>

/** The services that every page can use. */
export interface PageContext {
  client: Client
  calls: Calls
  session: Session
  preferences: Preferences
  connection: Connection
  /** One poll for the lists of all pages. */
  changes: ChangeWatch
  go: Router['go']
  /** Sets or removes the guard of the router. */
  guard(guard: Router['guard']): void
  /** Readings of the machine of the last ten minutes, oldest first. Pages that show them add to them. */
  readings: ResourceSnapshot[]
  /** Registers the elements of a module that was loaded later. */
  define(elements: ElementTable): void
}

/** Announces the title of the page and the path to it. */
export class PageTitleEvent extends Event {
  constructor(
    readonly pageTitle: string,
    readonly crumbs: readonly Crumb[]
  ) {
    super('pagetitle', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    pagetitle: PageTitleEvent
  }
}

/** Base class of all pages. The frame sets the context once and the place with each address. Dispatches `pagetitle`. */
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

  /** Called when the address changes and the page stays. */
  protected moved(): void {}

  /** Announces the title of the page, if it has changed. */
  protected entitle(title: string, crumbs: readonly Crumb[]): void {
    const joined = JSON.stringify([title, crumbs])
    if (joined === this.#title) return
    this.#title = joined
    this.dispatchEvent(new PageTitleEvent(title, crumbs))
  }

  protected notify(text: string, kind: NoticeKind = 'success'): void {
    this.dispatchEvent(notice(text, kind))
  }

  /** Creates a resource and starts loading it. */
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

  /** Calls `work` when one of the topics may have changed (see ChangeWatch). */
  protected follow(topics: readonly ChangeTopic[], work: () => boolean | void): void {
    this.context.changes.follow(topics, work, this.signal)
  }

  /** Calls `work` at an interval while the tab is visible, when it becomes visible, and when the server is back. */
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

  /** Runs an action of the user. A failure becomes a notice. */
  protected async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.notify(errorWords(error), 'failed')
    }
    this.update()
  }
}

/** The page for an unknown address, or for a page that could not be loaded (property `isUnloadable`). */
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
            ${t('The server did not send the page. It may be restarting, or it was updated after you opened the panel.')}
          </p>
          <button type="button" class="primary" @click="${() => location.reload()}">${t('Reload')}</button>
        </div>`
    }
    return html`
      <div class="state">
        <h1>${t('Page not found')}</h1>
        <p class="muted">
          ${t('This address does not exist in the panel. The item may have been deleted.')}
        </p>
        <div class="actions">
          <a class="button primary" href=".">${t('Go to overview')}</a>
          <button type="button" @click="${() => this.dispatchEvent(said('overlay', { overlay: 'palette' }))}">${t('Search')}</button>
        </div>
      </div>`
  }
}
