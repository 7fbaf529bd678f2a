/* The events of the panel's elements, and what each of them says. */
import { render, type Template } from '../dom/html.js'
import type { AccessToken } from '../../lib/model/access.js'
import type { ListedDeployment } from '../../lib/model/deployment.js'
import type { ListedNode, ListedPlacement } from '../../lib/model/node.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import type { ListedRollout } from '../../lib/model/rollout.js'
import type { Found } from '../archive/gather.js'
import type { DigestedTree } from '../archive/plan-tree.js'
import type { PackEntry } from '../archive/zip.js'
import type { BrowserKey } from '../browser-key.js'
import type { LogSearching, Sought } from '../state/log-search.js'
import type { NodeFilter } from './fleet/node-filter.js'
import type { ProjectFilter } from './projects/project-filter.js'
import type { Grouping } from '../state/session.js'

/** Number of rows that a card of the overview shows before the reader asks for more. */
export const shownFirst = 5

/**
 * The base class of the panel's elements. It renders at most once per microtask, gives each element a signal that is
 * aborted when the element leaves the page, and adopts the element's sheet once. It uses the light DOM.
 *
 * Each public field of a subclass is a property: setting it requests a rendering. State that only the element itself
 * changes is private; after a change the element calls update().
 */
export abstract class SvcElement extends HTMLElement {
  /** The element's sheet, with all selectors nested under its tag. */
  static sheet = ''

  #life: AbortController | undefined
  #isWaiting = false

  /** Returns the contents of the element. Called in a microtask after update(). */
  protected abstract view(): Template

  /** Aborted when the element leaves the page. Listeners, timers and requests must end with it. */
  protected get signal(): AbortSignal {
    return (this.#life ??= new AbortController()).signal
  }

  /** Called each time the element enters the page, before its first rendering. */
  protected connected(): void {}

  /** Called after the value of the public field `name` has changed while the element is on the page. */
  protected changed(_name: string, _before: unknown): void {}

  /** Called after each rendering, for work that needs the finished nodes. */
  protected rendered(): void {}

  /** Requests a rendering. */
  update(): void {
    if (this.#isWaiting || !this.isConnected) return
    this.#isWaiting = true
    queueMicrotask(() => {
      this.#isWaiting = false
      if (!this.isConnected) return
      render(this.view(), this)
      this.rendered()
    })
  }

  /** Adds a listener that is removed when the element leaves the page. */
  protected listen(target: EventTarget, type: string, listener: (event: Event) => void): void {
    target.addEventListener(type, listener, { signal: this.signal })
  }

  /** Calls `work` at an interval until the element leaves the page. */
  protected every(intervalMs: number, work: () => void): void {
    const timer = setInterval(work, intervalMs)
    this.signal.addEventListener('abort', () => clearInterval(timer), { once: true })
  }

  connectedCallback(): void {
    this.#life = undefined
    this.#watchFields()
    adopt((this.constructor as typeof SvcElement).sheet)
    this.connected()
    this.update()
  }

  /** Replaces public fields with accessors that request a rendering. They are not enumerable, so this happens once. */
  #watchFields(): void {
    for (const name of Object.keys(this)) {
      let value: unknown = Reflect.get(this, name)
      const set = (next: unknown): void => {
        const before = value
        value = next
        if (next !== before && this.isConnected) this.changed(name, before)
        this.update()
      }
      Object.defineProperty(this, name, { get: () => value, set, enumerable: false })
    }
  }

  disconnectedCallback(): void {
    // Most small elements never use their signal. If one is requested from now on, it is already aborted.
    if (this.#life === undefined) this.#life = aborted
    else this.#life.abort()
  }

  attributeChangedCallback(_name: string, before: string | null, now: string | null): void {
    if (before !== now) this.update()
  }
}

const aborted = new AbortController()
aborted.abort()

const sheets = new Map<string, CSSStyleSheet>()

/** Returns the text of a sheet. The tag enables syntax highlighting in editors. */
export function css(strings: TemplateStringsArray): string {
  return strings.join('')
}

/** Adds the text to the document as a constructed sheet, once for all elements that use it. */
function adopt(text: string): void {
  if (sheets.has(text)) return
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(text)
  sheets.set(text, sheet)
  document.adoptedStyleSheets.push(sheet)
}

/** A dialog that an address asks for: `?do=promote&to=…`. */
export interface Wish {
  what: string
  to: string | null
}

/** An overlay that the frame can show above a page. */
export type Overlay = 'palette' | 'preferences'

/** A row that could not be changed, with the reason in the user's language. */
export interface BulkFailure {
  id: string
  name: string
  problem: string
}

/** The result that a notice reports. */
export type NoticeKind = 'success' | 'failed'

/** The reader's position in a file, for the address. */
export interface LogPlace {
  /** Offset of the line that was jumped to, or null for the end. */
  at: number | null
  /** Null if there is no search. */
  sought: Sought | null
}

/** An entry of the menu. */
export type LogChoice = 'copy_colors' | 'select_all' | 'go_to_time'

/** A hit of a search in one or several files. */
export type Hit = LogSearching['hits'][number]

/** What each event says. */
export interface Sayings {
  /** The reader chose another deployment to compare with. */
  against: { deployId: string }
  /** The archive was deleted. `deployment` is the changed record. */
  archivedeleted: { deployment: ListedDeployment }
  /** A deployment was started here. */
  begun: { deployId: string }
  /** An action was applied to the chosen rows. `left` are those that were not asked for, because it was stopped. */
  bulkdone: { failed: readonly BulkFailure[]; left: ReadonlyArray<{ id: string }> }
  /** Something was deleted. */
  cleaned: object
  /** A held deployment was confirmed or reverted. Contains the updated record. */
  decided: { deployment: ListedDeployment }
  /** The deployment was cancelled. */
  deploymentcancel: object
  /** The status of the deployment was corrected. Contains the updated record. */
  deploymentmark: { deployment: ListedDeployment }
  /** The server has received an archive; its deployment is running or queued. */
  deploystarted: { deployId: string }
  /** The dialog was closed by Escape or by its close button. The listener removes its content. */
  dialogclose: object
  /** The dialog is no longer needed. */
  enrolldone: object
  /** A token was issued, so the list of enrollments has changed. */
  enrolled: object
  /** The second factor was added or removed. */
  factorchange: object
  /** The reader has read the failures. */
  failuresread: object
  /** The reader dropped or chose an archive. */
  filechosen: { file: File }
  /** The reader goes to a file or directory of the project. */
  filego: { path: string }
  /** The reader changed the filter or the order. */
  filterchange: { filter: ProjectFilter }
  /** The reader closes the search. */
  findclose: object
  /** The reader wants the previous (-1) or the next (1) hit. */
  findstep: { step: -1 | 1 }
  /** The searched text has changed. */
  findtext: { text: string }
  /** The reader dropped or chose files or folders to pack. */
  found: { found: readonly Found[] }
  /** The rooms that the navigation offers have changed. */
  framechange: object
  /** The reader groups the list in another way. */
  grouping: { grouping: Grouping }
  /** A package was imported. */
  imported: object
  /** Locks were placed or removed. The page loads the list again. */
  lockschange: object
  /** The reader goes to a hit. */
  loghit: { hit: Hit }
  /** An entry of the menu was chosen. */
  logmenu: { choice: LogChoice }
  /** The reader went to another position in the file or changed the search. */
  logplace: { place: LogPlace }
  /** The reader searches for a text. An empty text ends the search. */
  logsought: { sought: Sought }
  /** The first line at or after the time was found. */
  logtime: { line: number }
  /** The reader closes the form. */
  logtimeclose: object
  /** Other lines are visible, or following the end began or ended. */
  logview: { first: number; last: number; isFollowing: boolean }
  /** A node was changed. */
  nodechange: { node: ListedNode }
  /** The reader changed the filter, or the form of the list. */
  nodefilter: { filter: NodeFilter }
  /** A node was removed from the fleet. */
  nodeforgotten: { node: ListedNode }
  /** Something happened that the page itself does not show. `address` is that of its subject; null: it is no link. */
  notice: { text: string; kind: NoticeKind; address: string | null }
  /** The reader wants to download the whole log. */
  outputdownload: object
  /** The reader opens one of the overlays. */
  overlay: { overlay: Overlay }
  /** The reader cancelled. */
  packcancel: object
  /** The reader has reviewed the contents and confirms the deployment. */
  packwanted: {
    /** The entries to pack, or null if the zip is sent unchanged. */
    entries: readonly PackEntry[] | null
    /** Total size of the files in bytes. */
    bytes: number
    /** Empty if none was typed. */
    message: string
    /** The plan that was shown; null without one. */
    planId: string | null
    /** Why it begins outside of the windows of the project; null: it does not. */
    override: string | null
    /** The tree of the entries; null if it was not digested. */
    tree: DigestedTree | null
    /** The key that signs it; null: nothing does. */
    signer: BrowserKey | null
  }
  /** The form is left without placing anything. */
  placecancel: object
  /** The project was placed on nodes, or removed from some. */
  placed: { placements: ListedPlacement[] }
  /** The reader cancelled. */
  placescancel: object
  /** The reader chose absolute paths: one, or several if `multiple` is set. */
  placeschosen: { paths: readonly string[] }
  /** The project was changed. Contains the updated record. */
  projectchange: { project: Project }
  /** Another set of projects is chosen. */
  projectchoice: { ids: readonly string[] }
  projectcreated: { project: Project }
  /** The project was deleted. */
  projectdeleted: { name: string }
  /** The reader pins or unpins a project. */
  projectpin: { project: Project }
  /** The user of the session has entered the token again. */
  proven: object
  /** The reader goes to a position in the file. */
  rail: { offset: number }
  /** A new deployment has begun that deploys an older archive again. */
  rolledback: { deployId: string }
  /** A user changed the rollout. */
  rolloutchange: { rollout: ListedRollout }
  /** Another row has the focus. */
  rowfocus: { index: number }
  /** A card of settings was saved. */
  settingssaved: object
  /** The reader wants to see this line in the output. */
  showline: { line: number }
  /** The key that is to sign the release; null: none does. */
  signerchange: { key: BrowserKey | null }
  /** Log files were added. Contains their number. */
  sourcesadded: { count: number }
  /** The reader cancelled. */
  sourcescancel: object
  /** The list has changed. */
  sourceschange: object
  /** The chosen tags have changed. */
  tagchoice: { tagIds: readonly string[] }
  /** The form is closed. `saved` says whether it was saved. */
  targetform: { saved: boolean }
  /** The program rang the bell. */
  terminalbell: object
  /** Bytes for the program: keys, pasted text, mouse reports, answers. */
  terminalinput: { bytes: string }
  /** The reader leaves the terminal with Ctrl-F6, because the terminal also takes the Tab key. */
  terminalleave: object
  /** The size of the screen has changed, or is known for the first time. */
  terminalsize: { columns: number; rows: number }
  /** The program has set the title of its window. Empty removes it. */
  terminaltitle: { terminalTitle: string }
  /** The form is left without saving. */
  tokencancel: object
  /** A token was created or changed. `secret` is the secret of a new one; it is not stored. */
  tokensaved: { token: AccessToken; secret: string | null }
  /** The list of tokens has changed and must be loaded again. */
  tokenschange: object
  /** The form of a key is left without saving. */
  keycancel: object
  /** A key was trusted or revoked. `words` say so. */
  keysaved: { words: string }
  /** The list of keys has changed and must be loaded again. */
  keyschange: object
  /** The reader selects a directory. */
  treego: { path: string }
  /** The reader opens or closes a directory. */
  treetoggle: { path: string; isOpen: boolean }
  /** The form now has unsaved changes, or no longer has any. */
  unsaved: { isUnsaved: boolean }
  /** The reader cancels the packing or the upload. */
  uploadcancel: object
}

export type Said<K extends keyof Sayings> = Event & Sayings[K]

type SaidEvents = { [K in keyof Sayings]: Said<K> }

declare global {
  interface HTMLElementEventMap extends SaidEvents {}
}

/** Makes an event that bubbles. */
export function said<K extends keyof Sayings>(
  type: K,
  ...[what]: object extends Sayings[K] ? [] : [what: Sayings[K]]
): Said<K> {
  return Object.assign(new Event(type, { bubbles: true }), what as Sayings[K])
}

/** Makes the event `notice`. */
export function notice(text: string, kind: NoticeKind = 'success', address: string | null = null): Said<'notice'> {
  return said('notice', { text, kind, address })
}
