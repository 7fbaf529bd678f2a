import { notice, type NoticeKind, said, SvcElement, type Wish } from '../elements/element.js'
import type { ResourceSnapshot } from '../../lib/model/machine.js'
import { type Client, type Connection, Refused } from '../server/client.js'
import type { Crumb } from '../elements/base/svc-app.js'
import { t, countWords, errorWords } from '../words/t.js'
import { type Place, type Router, shownTabs } from '../router.js'
import { type MarksNow, type ChangeWatch, createResource, type Resource } from '../state/resource.js'
import { type Preferences, type Session, isLookingAtNode, hasFleet, may } from '../state/session.js'
import type { ChangeTopic } from '../../lib/model/health.js'
import { html, icon, type Template } from '../dom/html.js'
import { panelPath } from '../dom/address.js'
import type { ListedPlacement } from '../../lib/model/node.js'

/** Elements by tag. A module exports them, and the panel registers them. */
export type ElementTable = Readonly<Record<string, CustomElementConstructor>>

/** Loads a module that exports the elements that it needs. */
export type LoadElements = () => Promise<{ elements: ElementTable }>

/** The services that every page can use. */
export interface PageContext {
  client: Client
  session: Session
  preferences: Preferences
  connection: Connection
  /** One poll for the lists of all pages. */
  changes: ChangeWatch
  /** What waits for somebody, and what is locked. */
  marks: MarksNow
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
  #tab: Element | null = null
  readonly #late = new Map<LoadElements, 'asked' | 'loaded' | 'failed'>()

  get place(): Place {
    return this.#place
  }

  set place(place: Place) {
    this.#place = place
    if (this.isConnected) {
      for (const [load, state] of this.#late) if (state === 'failed') this.#late.delete(load)
      this.moved()
      this.update()
    }
  }

  /** Called when the address changes and the page stays. */
  protected moved(): void {}

  /**
   * Returns the dialog that the address asks for, and goes to the address without it, so that a reload does not ask again. Null:
   * it asks for none.
   */
  protected takeWish(address: string): Wish | null {
    const { query } = this.place
    const what = query.get('do')
    if (what === null) return null
    queueMicrotask(() => this.context.go(address, { isReplacing: true }))
    return { what, to: query.get('to') }
  }

  /** Scrolls the tabs of a narrow window to the current one. */
  protected override rendered(): void {
    const tab = this.querySelector<HTMLElement>('.tabs [aria-current]')
    if (tab === this.#tab) return
    this.#tab = tab
    const { parentElement: tabs } = tab ?? {}
    if (tab && tabs) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2
  }

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

  /** Renders the page again when what waits or is locked has changed. */
  protected followMarks(): void {
    this.context.marks.follow(() => this.update(), this.signal)
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

  /**
   * Returns whether the elements of a module are there. A wanted one is loaded, and the page is rendered again. If it
   * cannot be loaded, a notice says so. It is tried again when it was not wanted in between, when the address changes,
   * and when the state of the connection does.
   */
  protected late(load: LoadElements, isWanted: boolean): boolean {
    const state = this.#late.get(load)
    if (!isWanted && state === 'failed') this.#late.delete(load)
    if (isWanted && state === undefined) void this.#load(load)
    return state === 'loaded'
  }

  async #load(load: LoadElements): Promise<void> {
    this.#late.set(load, 'asked')
    await this.attempt(async () => {
      try {
        this.context.define((await load()).elements)
        this.#late.set(load, 'loaded')
      } catch (error) {
        this.#late.set(load, 'failed')
        const again = (): void => {
          if (this.#late.get(load) === 'failed') this.#late.delete(load)
          this.update()
        }
        this.context.connection.addEventListener('change', again, { once: true, signal: this.signal })
        throw error
      }
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

/** The parameters of `missing`. */
export interface Missing {
  /** The heading, for example "Project not found". */
  words: string
  /** The id in the address. */
  id: string
  /** The list of the existing records. */
  list: { address: string; words: string }
}

/** Reports whether the server answered 404: it does not know the id. */
export const isUnknown = (error: unknown): boolean => error instanceof Refused && error.status === 404

/** Returns a page for an id that does not exist, with links to the list and to the search. */
export function missing({ words, id, list }: Missing): Template {
  return html`
    <div class="state card">
      <h1>${words}</h1>
      <p class="muted anywhere">
        ${t('No record with this id:')} <code translate="no">${id}</code>
      </p>
      <p class="muted">${t('It may have been deleted, or the address is incomplete.')}</p>
      <div class="actions">
        <a class="button primary" href="${list.address}">${list.words}</a>
        ${searchButton()}
      </div>
    </div>`
}

/** A button that opens the search over everything. */
function searchButton(): Template {
  const search = (event: Event): void =>
    void (event.currentTarget as Element).dispatchEvent(said('overlay', { overlay: 'palette' }))
  return html`<button type="button" @click="${search}">${icon('search')}${t('Search')}</button>`
}

/** Returns the page of a project that does not exist. */
export function missingProject(id: string): Template {
  return missing({
    words: t('Project not found'),
    id,
    list: { address: 'projects', words: t('Go to projects') }
  })
}

/** Returns a row of links of which one is the current page. Its styles are in panel.css. */
export function tabLinks(
  label: string,
  links: ReadonlyArray<{ address: string; words: string }>,
  here: string
): Template {
  return html`
    <nav class="tabs" aria-label="${label}">
      ${links.map(
        ({ address, words }) => html`
        <a href="${address}" aria-current="${address === here ? 'page' : null}">${t(words)}</a>`
      )}
    </nav>`
}

/** Returns the links to the pages of a room. A node has other rooms, with links above its pages. */
export function roomTabs(room: string, here: string): Template | null {
  return isLookingAtNode() ? null : tabLinks(t('Pages'), shownTabs(room), here)
}

/** Returns the address of a file or directory of a project. An empty path is the target itself. Pure. */
export function fileAddress(projectId: string, path: string): string {
  const address = panelPath`projects/${projectId}/files`
  return path === '' ? address : `${address}?${new URLSearchParams({ path })}`
}

/** Nodes that are named. The others are on the page of the project's nodes. */
const namedNodes = 12

/** Says that a page of a placed project is on the pages of its nodes, with links to them. */
export function onNodes(what: 'files' | 'logs', placements: readonly ListedPlacement[]): Template {
  const projectId = placements[0]?.projectId ?? ''
  const named = placements.slice(0, namedNodes)
  return html`
    <div class="card"><div class="state">
      <h2>${what === 'files' ? t('The files of this project are on its nodes') : t('The log files of this project are on its nodes')}</h2>
      <p class="muted">${t('Choose a node. Its pages show them through this server.')}</p>
      <ul class="actions">
        ${named.map(
          ({ nodeId, nodeName }) => html`
          <li><a class="button" href="nodes/${nodeId}/projects/${projectId}/${what}" translate="no">${nodeName}</a></li>`
        )}
      </ul>
      ${
        placements.length > named.length
          ? html`<a href="projects/${projectId}/nodes">${t('All {nodes}', { nodes: countWords(placements.length, 'node') })}</a>`
          : null
      }
    </div></div>`
}

/**
 * Returns the links to the pages of a project. `isPlaced`: it is on nodes, so that its files are on their pages and not
 * here.
 */
export function projectTabs(
  projectId: string,
  here: '' | 'files' | 'nodes' | 'logs' | 'settings',
  { isPlaced = false } = {}
): Template {
  const address = panelPath`projects/${projectId}`
  return tabLinks(
    t('Project'),
    [
      { address, words: 'Deployments' },
      ...(hasFleet() && !isLookingAtNode() ? [{ address: `${address}/nodes`, words: 'Nodes' }] : []),
      ...(may('files') && !isPlaced ? [{ address: `${address}/files`, words: 'Files' }] : []),
      { address: `${address}/logs`, words: 'Logs' },
      ...(may('change_project') ? [{ address: `${address}/settings`, words: 'Settings' }] : [])
    ],
    here === '' ? address : `${address}/${here}`
  )
}
