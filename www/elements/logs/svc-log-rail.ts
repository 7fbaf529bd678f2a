import { said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'

/** A position in a file, in bytes. */
export interface RailPlace {
  size: number
  /** The visible part. */
  from: number
  to: number
}

/** The file is divided into this many parts; all hits in one part share a mark. */
const marks = 300
const dragMs = 150
const leastThumb = 0.02

/**
 * The scrollbar of a file that is too large to load completely. It covers all bytes of the file. Properties: `place`;
 * `hits`, the offsets of the hits. Event: `rail`. Keys: arrows, Page, Home and End move.
 */
export class SvcLogRail extends SvcElement {
  static override sheet = css`
    svc-log-rail {
      position: relative;
      display: block;
      width: 16px;
      border-left: 1px solid var(--line);
      background: var(--log-ground);
      cursor: pointer;
      touch-action: none;

      .thumb { position: absolute; z-index: 1; inset-inline: 3px; border-radius: 5px; background: var(--edge); opacity: 0.8; }
      &:hover .thumb, &:focus-visible .thumb { opacity: 1; }
      i { position: absolute; inset-inline: 50% 2px; height: 2px; background: var(--warning); pointer-events: none; }
      &:focus-visible { outline-offset: -2px; }
      @media (pointer: coarse) { width: 24px; }
    }
  `

  place: RailPlace = { size: 0, from: 0, to: 0 }
  hits: readonly number[] = []
  #pressed: { at: number; share: number } | null = null
  #lastDragMs = 0

  protected override connected(): void {
    this.tabIndex = 0
    this.setAttribute('role', 'scrollbar')
    this.setAttribute('aria-orientation', 'vertical')
    this.setAttribute('aria-label', t('Position in the file'))
    this.listen(this, 'keydown', event => this.#key(event as KeyboardEvent))
    this.listen(this, 'pointerdown', event => this.#press(event as PointerEvent))
    this.listen(this, 'pointermove', event => this.#drag(event as PointerEvent))
    for (const type of ['pointerup', 'pointercancel'])
      this.listen(this, type, event => this.#release(event as PointerEvent))
  }

  protected override view(): Template {
    const { size } = this.place
    const places = new Set(size === 0 ? [] : this.hits.map(offset => Math.floor((offset / size) * marks)))
    return html`<div class="thumb"></div>${[...places].map(place => html`<i data-place="${place}"></i>`)}`
  }

  protected override rendered(): void {
    const { top, height } = this.#thumb()
    const thumb = this.querySelector<HTMLElement>('.thumb')
    if (thumb !== null) {
      thumb.style.top = `${top * 100}%`
      thumb.style.height = `${height * 100}%`
    }
    for (const mark of this.querySelectorAll<HTMLElement>('i')) {
      mark.style.top = `${(Number(mark.dataset['place']) / marks) * 100}%`
    }
    const { size, from } = this.place
    this.setAttribute('aria-valuenow', String(size === 0 ? 100 : Math.round((from / size) * 100)))
  }

  #thumb(): { top: number; height: number } {
    const { size, from, to } = this.place
    if (size === 0) return { top: 0, height: 1 }
    const height = Math.max(leastThumb, (to - from) / size)
    // At the end, the thumb is at the very bottom, however small the visible part is.
    const share = size === to ? 1 : from / Math.max(1, size - (to - from))
    const top = this.#pressed?.share ?? share
    return { top: Math.min(1, top) * (1 - height), height }
  }

  #shareAt(event: PointerEvent): number {
    const box = this.getBoundingClientRect()
    const { height } = this.#thumb()
    const room = box.height * (1 - height)
    return Math.max(0, Math.min(1, (event.clientY - box.top - (height * box.height) / 2) / Math.max(1, room)))
  }

  #press(event: PointerEvent): void {
    if (event.button !== 0) return
    event.preventDefault()
    this.setPointerCapture(event.pointerId)
    this.#go(this.#shareAt(event), true)
  }

  #drag(event: PointerEvent): void {
    if (this.#pressed !== null) this.#go(this.#shareAt(event), performance.now() - this.#lastDragMs > dragMs)
  }

  #release(event: PointerEvent): void {
    if (this.#pressed === null) return
    this.#go(this.#shareAt(event), true)
    this.#pressed = null
    this.update()
  }

  #go(share: number, isTold: boolean): void {
    this.#pressed = { at: performance.now(), share }
    this.update()
    if (!isTold) return
    this.#lastDragMs = performance.now()
    this.dispatchEvent(said('rail', { offset: Math.round(share * this.place.size) }))
  }

  #key({ key }: KeyboardEvent): void {
    const { size, from } = this.place
    const steps: Record<string, number> = {
      ArrowUp: from - size / 100,
      ArrowDown: from + size / 100,
      PageUp: from - size / 10,
      PageDown: from + size / 10,
      Home: 0,
      End: size
    }
    const to = steps[key]
    if (to !== undefined) this.dispatchEvent(said('rail', { offset: Math.max(0, Math.min(size, Math.round(to))) }))
  }
}
