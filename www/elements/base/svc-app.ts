import { type Said, type Overlay, said, css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template, sprite } from '../../dom/html.js'
import { numberWords, t, twoLines } from '../../words/t.js'
import type { ConnectionState } from '../../server/client.js'
import { fleetRoom, shownRooms } from '../../router.js'
import { holderNow } from '../../state/session.js'
import { clockTimeWords, exactWords, roleWords, secondsWords } from './words.js'

const shownMs = 4000
const lastWordMs = 500

/**
 * Shows the newest notice in a corner. A success disappears after a while; a failure stays until it is closed or the
 * page changes.
 */
export class SvcNotices extends SvcElement {
  static override sheet = css`
    svc-notices {
      position: fixed;
      /* Keeps away from the buttons of a page, which are at its top. */
      inset: auto 16px 16px auto;
      z-index: 10;
      display: grid;
      gap: 8px;
      width: max-content;
      max-width: min(400px, calc(100vw - 32px));
      pointer-events: none;

      > div {
        display: flex;
        align-items: flex-start;
        gap: 10px;
        padding: 8px 8px 8px 14px;
        border-radius: 8px;
        background: var(--raised);
        box-shadow: var(--float);
        animation: svc-notices-appear var(--appear);
      }

      > div > .icon { margin-top: 10px; color: var(--success); }
      > div.failed > .icon { color: var(--failure); }
      p { flex: 1; min-width: 0; padding: 7px 0; overflow-wrap: anywhere; }
      a { pointer-events: auto; }
      button { min-width: 36px; padding: 4px; pointer-events: auto; }

      @media (max-width: 719px) {
        /* Above the bar at the bottom. */
        inset: auto 8px 72px 8px;
        width: auto;
        max-width: none;
      }
    }

    @keyframes svc-notices-appear {
      from { opacity: 0; translate: 0 8px; }
    }
  `

  #notice: (Pick<Said<'notice'>, 'text' | 'kind' | 'address'> & { id: number; atMs: number }) | null = null
  #lastId = 0

  protected override connected(): void {
    this.setAttribute('role', 'status')
    this.setAttribute('aria-live', 'polite')
  }

  show({ text, kind, address }: Pick<Said<'notice'>, 'text' | 'kind' | 'address'>): void {
    const id = ++this.#lastId
    this.#notice = { id, text, kind, address, atMs: performance.now() }
    this.update()
    if (kind === 'failed') return
    setTimeout(() => {
      if (this.#notice?.id === id) this.clear()
    }, shownMs)
  }

  /** Called when the page changes: removes the notice, unless it was shown only just before. */
  turn(): void {
    if (this.#notice !== null && performance.now() - this.#notice.atMs > lastWordMs) this.clear()
  }

  clear(): void {
    this.#notice = null
    this.update()
  }

  protected override view(): Template {
    const notice = this.#notice
    return html`${
      notice === null
        ? []
        : [
            keyed(
              String(notice.id),
              html`
      <div class="${notice.kind}">
        ${icon(notice.kind === 'success' ? 'success' : 'warning')}
        <p>${notice.address === null ? twoLines(notice.text) : html`<a href="${notice.address}">${notice.text}</a>`}</p>
        <button type="button" class="quiet" aria-label="${t('Close notice')}" @click="${() => this.clear()}">
          ${icon('close')}
        </button>
      </div>`
            )
          ]
    }`
  }
}

/** One step of the path to a page. The step without an address is the page itself. */
export interface Crumb {
  words: string
  address?: string
}

/** What the frame shows around the pages of a node. */
export interface NodeFrame {
  /** An element above the page. */
  banner: HTMLElement
  /** The path to the node, with absolute addresses. */
  crumbs: readonly Crumb[]
}

/** The base of the server. The base of the document is another one while pages of a node are shown. */
const base = document.baseURI
const absolute = (address: string): string => new URL(address, base).href

/**
 * The frame around every page: navigation at the side (at the bottom on a phone), breadcrumb, connection state,
 * notices. Properties: `page`, an element; `room`, the address of its room, or null for a page without a frame;
 * `connection`; `waitingCount`; `answeredAtMs`, the time of the last answer of the server; `staleSeconds`, how old the answers of a hub are
 * that is cut off from its cluster, or null; `node`, what is above the pages of a node,
 * or null. Listens to `pagetitle`, `notice` and `framechange`. Event: `overlay`.
 */
export class SvcApp extends SvcElement {
  static override sheet = css`
    /* Pages are inside this element: every selector descends by children so that none matches inside a page. */
    svc-app {
      display: block;

      > .frame { display: grid; grid-template-columns: 208px minmax(0, 1fr); min-height: 100dvh; }
      > .frame > .skip { position: fixed; left: 8px; top: -60px; z-index: 20; }
      > .frame > .skip:focus { top: 8px; }

      > .frame > .side {
        position: sticky;
        top: 0;
        display: flex;
        flex-direction: column;
        gap: 20px;
        height: 100dvh;
        padding: 14px 12px 16px;
        border-right: 1px solid var(--line);

        > .brand {
          display: flex;
          align-items: center;
          gap: 10px;
          padding: 4px 8px;
          color: inherit;
          font-weight: 650;
          font-size: var(--size-16);
          letter-spacing: -0.01em;
        }
        > .brand:hover { text-decoration: none; }
        > .brand > .sign { width: 24px; height: 24px; fill: none; stroke-linecap: round; stroke-linejoin: round; }
        > .rooms { display: grid; gap: 2px; flex: 1; align-content: start; }
        > .rooms > a, > .rooms > button, > button {
          display: flex;
          align-items: center;
          justify-content: flex-start;
          gap: 10px;
          min-height: var(--row);
          padding: 0 10px;
          border: 0;
          border-radius: var(--radius);
          color: var(--muted);
          font-weight: 500;
        }
        > .rooms > button { display: none; }
        > button { min-width: 0; text-align: left; }
        > button small { display: block; overflow: hidden; font-weight: 400; text-overflow: ellipsis; }
        > .rooms > a:hover { background: var(--hover); color: var(--text); text-decoration: none; }
        > .rooms > a[aria-current] { background: var(--hover); color: var(--text); }
        > .rooms > a[aria-current] > .icon { color: var(--accent); }
      }

      > .frame > .content > .top {
        position: sticky;
        top: calc(var(--top-kept) - var(--top));
        z-index: 4;
        display: flex;
        align-items: center;
        gap: 16px;
        height: var(--top);
        padding: 0 32px;
        background: var(--ground);
        font-size: var(--size-13);

        > nav { flex: 1; min-width: 0; }
        > nav > ol { display: flex; align-items: center; gap: 8px; min-width: 0; }
        li { display: flex; align-items: center; gap: 8px; min-width: 0; color: var(--muted); }
        li:not(:last-child) { flex: none; max-width: 50%; }
        a { color: inherit; }
        [aria-current] { color: var(--text); }
        li > .icon { width: 12px; height: 12px; opacity: 0.7; }
        > button { gap: 10px; min-height: 30px; padding: 2px 6px 2px 10px; font-weight: 400; font-size: var(--size-13); }
        kbd {
          padding: 1px 6px;
          border: 1px solid var(--line);
          border-radius: 4px;
          background: var(--sunken);
          font: var(--size-12) / 1.4 var(--sans);
        }
        @media (pointer: coarse) { kbd { display: none; } }
        .lost { display: flex; align-items: center; gap: 8px; color: var(--warning); font-weight: 500; }

        &::after {
          content: "";
          position: absolute;
          inset: 100% 0 auto;
          height: 8px;
          background: linear-gradient(var(--ground), transparent);
          pointer-events: none;
        }
      }

      > .frame > .content > .stale {
        padding: 6px 32px;
        border-block: 1px solid var(--line);
        background: var(--warning-quiet);
        color: var(--warning);
        font-size: var(--size-13);

        > span + span { margin-left: 0.5em; }
      }

      > .frame > .content > .stale + main { padding-top: 20px; }
      > .frame > .content > main {
        padding: 8px 32px 64px;

        > * {
          display: grid;
          grid-template-columns: minmax(0, 1fr);
          gap: 32px;
          width: 100%;
          max-width: 1136px;
          margin: 0 auto;
        }
        &:focus { outline: none; }
      }

      @media (max-width: 719px) {
        > .frame { display: block; padding-bottom: calc(72px + env(safe-area-inset-bottom)); }
        > .frame > .side {
          position: fixed;
          inset: auto 0 0 0;
          z-index: 5;
          flex-direction: row;
          height: auto;
          gap: 0;
          padding: 4px 4px calc(4px + env(safe-area-inset-bottom));
          border: 0;
          border-top: 1px solid var(--line);
          background: var(--raised);

          > .brand { display: none; }
          > .rooms { grid-template-columns: repeat(5, minmax(min-content, 1fr)); gap: 4px; }
          > button { display: none; }
          > .rooms > a, > .rooms > button {
            display: flex;
            flex-direction: column;
            justify-content: center;
            gap: 2px;
            min-height: 52px;
            padding: 0 4px;
            font-size: var(--size-12);
          }
          > .rooms > .further { order: 1; display: none; }
          &.open > .rooms > .further { display: flex; }
          > .rooms > a[aria-current] { background: none; color: var(--accent); }
        }
        > .frame > .content > .top { padding: 0 16px; }
        > .frame > .content > .stale { padding-inline: 16px; }
        /* The line below says the same in words; here the words would take the space of the breadcrumb. */
        > .frame > .content > .top .lost > span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
        > .frame > .content > main { padding: 4px 16px 32px; }
        > .frame > .content > main > * { gap: 24px; }
      }
    }
  `

  #page: HTMLElement | null = null
  room: string | null = null
  node: NodeFrame | null = null
  #crumbs: readonly Crumb[] = []
  connection: ConnectionState = 'open'
  answeredAtMs: number | null = null
  staleSeconds: number | null = null
  #title = ''
  #waitingCount = 0
  #isTurning = false
  /** Phone only: the rooms behind the last button are visible. */
  #isOpen = false

  set page(page: HTMLElement) {
    if (page === this.#page) return
    if (this.#page !== null) this.querySelector<SvcNotices>('svc-notices')?.turn()
    this.#isTurning = this.#page !== null
    this.#page = page
    this.#crumbs = []
    this.#isOpen = false
    this.update()
  }

  get page(): HTMLElement | null {
    return this.#page
  }

  protected override connected(): void {
    this.addEventListener(
      'pagetitle',
      event => {
        this.#title = event.pageTitle
        this.#entitle()
        this.#crumbs = event.crumbs
        this.update()
      },
      { signal: this.signal }
    )
    this.addEventListener(
      'notice',
      event => {
        this.querySelector<SvcNotices>('svc-notices')?.show(event)
      },
      { signal: this.signal }
    )
    this.addEventListener('framechange', () => this.update(), { signal: this.signal })
  }

  /** How much waits for the signed-in user. The title of the tab says it. */
  set waitingCount(count: number) {
    this.#waitingCount = count
    this.#entitle()
  }

  get waitingCount(): number {
    return this.#waitingCount
  }

  #entitle(): void {
    const waiting =
      this.#waitingCount === 0 || this.room === null
        ? ''
        : `● ${t('{count} waiting', { count: numberWords(this.#waitingCount) })} – `
    document.title = `${waiting}${this.#title === '' ? '' : `${this.#title} · `}svc`
  }

  protected override view(): Template {
    return html`
      ${this.room === null ? html`<main id="main">${this.#page}</main>` : this.#frame(this.room)}
      <svc-notices></svc-notices>`
  }

  /** Moves the focus to the new page if the link that had it is gone. */
  protected override rendered(): void {
    if (this.#isTurning && document.activeElement === document.body) {
      this.querySelector('main')?.focus({ preventScroll: true })
    }
    this.#isTurning = false
  }

  #frame(given: string): Template {
    const room = given === 'nodes' ? fleetRoom() : given
    return html`
      <div class="frame">
        <a class="button skip" href="#main" @click="${(event: Event) => this.#skip(event)}">
          ${t('Skip to content')}
        </a>
        <nav class="${this.#isOpen ? 'side open' : 'side'}" aria-label="${t('Main navigation')}">
          <a class="brand" href="${base}"><svg class="sign" aria-hidden="true"><use href="${`${sprite}#svc`}"/></svg><span>svc</span></a>
          <div class="rooms">
            ${shownRooms().map(
              ({ address, first, words, picture, isFurther }) => html`
              <a href="${absolute(first)}" class="${isFurther === true ? 'further' : null}"
                aria-current="${address === room ? 'page' : null}">
                ${icon(picture)}<span>${t(words)}</span>
              </a>`
            )}
            <button type="button" class="further quiet" @click="${() => this.#ask('preferences')}">
              ${icon('theme')}<span>${t('Preferences')}</span>
            </button>
            <button type="button" class="quiet" aria-expanded="${this.#isOpen}" @click="${() => this.#unfold()}">
              ${icon('more')}<span>${t('More')}</span>
            </button>
          </div>
          <button type="button" class="quiet" @click="${() => this.#ask('preferences')}">
            ${icon('theme')}<span class="cut">${t('Preferences')}${whoLine()}</span>
          </button>
        </nav>
        <div class="content">
          <header class="top">
            <nav aria-label="${t('Breadcrumb')}">
              <ol>${[...(this.node?.crumbs ?? []), ...this.#crumbs].map((crumb, index) => this.#crumb(crumb, index))}</ol>
            </nav>
            <div role="status">
              ${
                this.connection === 'open'
                  ? null
                  : html`<span class="lost">${icon('warning')}<span>${t('Connection lost. Reconnecting…')}</span></span>`
              }
            </div>
            <button type="button" class="quiet" @click="${() => this.#ask('palette')}">
              ${icon('search')}<span class="unseen">${t('Search and commands')}</span><kbd aria-hidden="true">Ctrl K</kbd>
            </button>
          </header>
          ${this.connection === 'open' ? this.#cutOffLine() : this.#staleLine()}
          <main id="main" tabindex="-1" data-connection="${this.connection}">${this.node?.banner}${this.#page}</main>
        </div>
      </div>`
  }

  /** Returns a warning that the page may be out of date. */
  #staleLine(): Template {
    const at = this.answeredAtMs === null ? null : new Date(this.answeredAtMs).toISOString()
    return html`
      <p class="stale" title="${at === null ? null : exactWords(at)}">
        ${
          at === null
            ? t('No answer from the server yet.')
            : t('Last answer from the server: {time}. This page shows the state at that time.', {
                time: clockTimeWords(at)
              })
        }
      </p>`
  }

  /** Returns a warning that a hub answers which is cut off from its cluster. The live region has no number that counts. */
  #cutOffLine(): Template | null {
    if (this.staleSeconds === null) return null
    return html`
      <p class="stale">
        <span role="status">${t('This hub is cut off from its cluster, and refuses changes.')}</span>
        <span>${t('What you see is {time} old.', { time: secondsWords(this.staleSeconds) })}</span>
      </p>`
  }

  #crumb({ words, address }: Crumb, index: number): Template {
    return html`
      <li>
        ${index === 0 ? null : icon('next')}
        ${
          address === undefined
            ? html`<span class="cut" aria-current="page">${words}</span>`
            : html`<a class="cut" href="${address}">${words}</a>`
        }
      </li>`
  }

  #ask(overlay: Overlay): void {
    this.#isOpen = false
    this.dispatchEvent(said('overlay', { overlay }))
    this.update()
  }

  #unfold(): void {
    this.#isOpen = !this.#isOpen
    this.update()
  }

  #skip(event: Event): void {
    event.preventDefault()
    this.querySelector('main')?.focus()
  }
}

/** Returns the named token that is signed in, with its role. The admin token needs no line. */
function whoLine(): Template | null {
  const holder = holderNow()
  if (holder?.token == null) return null
  const words = `${holder.token.name} · ${t(roleWords[holder.role])}`
  return html`<small title="${words}">${words}</small>`
}
