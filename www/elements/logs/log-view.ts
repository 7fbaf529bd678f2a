import type { LogLine, LogText } from '../../state/held-lines.js'
import { createLogIndex, type LogIndex, type LineLook, lineNode, unfoldedNode } from './log-line.js'

/*
 * Shows the lines of a log in a scrolling box. Only the visible lines and some more are on the page; the others are an
 * empty height. It follows the end of the log until the reader scrolls up. While lines are added or removed at either
 * end, the visible text stays in place.
 */

export interface LogViewNeeds {
  /** The scrolling element. It contains a `.space` with `.lines`, and a `.ruler` of a hundred characters. */
  scroll: HTMLElement
  text: LogText
  look: LineLook
  wraps: boolean
  /** Number of columns before the text. */
  takenColumns: number
  /** Called when following began or ended, and when lines were drawn. */
  onChange: () => void
}

/** Up to this many lines, all lines are on the page, so the browser's search and selection cover everything. */
const allLines = 1000
/** Lines kept on the page above and below the visible ones. */
const spareLines = 60
/** Distance from the end, in pixels, within which the view follows. */
const endPx = 8
/** More lines are requested when fewer rows than this are left. */
const reachRows = 400
/** Time in each frame for indexing new lines. */
const readMs = 6

export class LogView {
  readonly #needs: LogViewNeeds
  readonly #space: HTMLElement
  readonly #lines: HTMLElement
  readonly #index: LogIndex
  readonly #unfolded = new Set<number>()
  #onPage = new Map<number, HTMLElement>()
  #numbers = new WeakMap<Node, number>()
  #isFollowing = true
  #arrivedWhenLeft = 0
  #lastTop = 0
  #lineHeightPx = 0
  #columns = 0
  #isFrameAsked = false
  /** Whether rows of loaded lines are missing, because there are more than a frame has time for. */
  #isPartial = false
  #isOver = false
  #anchor: { line: number; offsetPx: number } | null = null
  #revision = -1
  #epoch = -1
  #marked: number | null = null
  #wanted: { line: number; place: 'middle' | 'top' } | null = null

  constructor(needs: LogViewNeeds) {
    this.#needs = needs
    this.#space = needs.scroll.querySelector('.space') as HTMLElement
    this.#lines = this.#space.firstElementChild as HTMLElement
    this.#lines.replaceChildren()
    this.#index = createLogIndex(needs.look.format)
    this.#epoch = needs.text.epoch
    this.measure()
  }

  get isFollowing(): boolean {
    return this.#isFollowing && this.#needs.text.isAtEnd
  }

  /** Number of lines that were added at the end since the reader scrolled up. */
  get unseenLines(): number {
    return this.isFollowing ? 0 : this.#needs.text.arrivedLines - this.#arrivedWhenLeft
  }

  /** The first and the last line on the page. */
  get drawn(): { first: number; last: number } {
    const numbers = [...this.#onPage.keys()]
    return { first: Math.min(...numbers), last: Math.max(...numbers) }
  }

  /** The numbers of the first and the last visible line. */
  get seen(): { first: number; last: number } {
    const top = this.#topRow
    return { first: this.#index.lineAt(top), last: this.#index.lineAt(top + this.#seenRows) }
  }

  nodeOf(line: number): HTMLElement | undefined {
    return this.#onPage.get(line)
  }

  numberOf(node: Node): number | undefined {
    return this.#numbers.get(node)
  }

  lineAtHeight(clientY: number): number {
    const px = clientY - this.#space.getBoundingClientRect().top
    return this.#index.lineAt(Math.max(0, Math.floor(px / this.#lineHeightPx)))
  }

  /** Stops the view. It must not be used afterwards. */
  close(): void {
    this.#isOver = true
  }

  askFrame(): void {
    if (this.#isFrameAsked) return
    this.#isFrameAsked = true
    requestAnimationFrame(() => {
      this.#isFrameAsked = false
      if (!this.#isOver) this.#draw()
    })
  }

  /** Measures the size of a character. If it or the width has changed, rows are summed again. */
  measure(): void {
    const { scroll, wraps, takenColumns } = this.#needs
    const ruler = scroll.querySelector('.ruler') as HTMLElement
    const box = ruler.getBoundingClientRect()
    if (box.height === 0) return
    const columnPx = box.width / 100
    this.#lineHeightPx = box.height
    this.#columns = Math.max(1, Math.floor((scroll.clientWidth - 32) / columnPx) - takenColumns)
    this.#index.wrapAt(wraps ? this.#columns : null)
  }

  follow(): void {
    const { text } = this.#needs
    if (!text.isAtEnd) text.toEnd?.()
    this.#setFollowing(true)
    this.askFrame()
  }

  scrolled(): void {
    this.#noticeMove()
    this.#lastTop = this.#needs.scroll.scrollTop
    this.#takeAnchor()
    this.askFrame()
  }

  /** Shows and marks a line, as soon as it is loaded. */
  reveal(line: number, place: 'middle' | 'top' = 'middle'): void {
    this.#marked = place === 'middle' ? line : null
    this.#wanted = { line, place }
    this.#setFollowing(false)
    this.askFrame()
  }

  /** Scrolls by a number of rows. */
  move(rows: number): void {
    this.#needs.scroll.scrollTop += rows * this.#lineHeightPx
  }

  get seenRows(): number {
    return Math.max(1, this.#seenRows - 1)
  }

  /** Unfolds a line, or folds it again. */
  fold(line: number): void {
    const { text, look } = this.#needs
    const held = text.lines[line - text.firstNumber]
    const rows = held === undefined ? null : look.format.unfolded(held.text)
    if (rows === null) return
    if (this.#unfolded.delete(line)) this.#index.unfold(line, 0)
    else {
      // The reader wants to read the unfolded line: the next line must not scroll it away.
      this.#setFollowing(false)
      this.#unfolded.add(line)
      this.#index.unfold(line, this.#broken(rows).length)
    }
    this.#onPage.get(line)?.remove()
    this.#onPage.delete(line)
    this.askFrame()
  }

  /** Draws the lines on the page again after a change of their look. */
  redraw(): void {
    for (const node of this.#onPage.values()) node.remove()
    this.#onPage.clear()
    this.askFrame()
  }

  get #topRow(): number {
    const { scroll } = this.#needs
    return Math.max(0, Math.floor((scroll.scrollTop - this.#space.offsetTop) / this.#lineHeightPx))
  }

  get #seenRows(): number {
    return Math.ceil(this.#needs.scroll.clientHeight / this.#lineHeightPx)
  }

  #draw(): void {
    const { scroll, text } = this.#needs
    if (this.#lineHeightPx === 0) this.measure()
    if (this.#lineHeightPx === 0) return
    if (text.epoch !== this.#epoch) this.#beginAnew()
    this.#isPartial = this.#index.read(text, readMs) === 'part'
    if (this.#isPartial) this.askFrame()
    // The first scroll up can be noticed here before its event arrives. It must not be undone.
    if (this.#isFollowing) this.#noticeMove()
    this.#space.style.height = `${this.#index.rows * this.#lineHeightPx}px`
    if (this.#wanted !== null) this.#scrollToWanted(this.#wanted)
    else if (this.isFollowing) scroll.scrollTop = scroll.scrollHeight
    else if (this.#index.revision !== this.#revision) this.#restoreAnchor()
    this.#revision = this.#index.revision
    this.#place()
    this.#lastTop = scroll.scrollTop
    this.#takeAnchor()
    this.#reach()
    this.#needs.onChange()
  }

  #beginAnew(): void {
    this.#epoch = this.#needs.text.epoch
    this.#anchor = null
    this.#marked = this.#wanted?.line ?? null
    this.#unfolded.clear()
    for (const node of this.#onPage.values()) node.remove()
    this.#onPage.clear()
  }

  #scrollToWanted({ line, place }: { line: number; place: 'middle' | 'top' }): void {
    const { scroll } = this.#needs
    if (line >= this.#index.firstNumber + this.#index.lines) return
    const above = place === 'middle' ? scroll.clientHeight / 3 : 0
    const top = this.#space.offsetTop + this.#index.rowOf(line) * this.#lineHeightPx - above
    scroll.scrollTop = top
    // Without the rows below, the line is at the end, where the view would follow the log.
    if (!this.#isPartial || top + scroll.clientHeight < scroll.scrollHeight - endPx) this.#wanted = null
  }

  #takeAnchor(): void {
    if (this.#index.lines === 0 || this.#wanted !== null) return
    const line = this.#index.lineAt(this.#topRow)
    const topPx = this.#space.offsetTop + this.#index.rowOf(line) * this.#lineHeightPx
    this.#anchor = { line, offsetPx: this.#needs.scroll.scrollTop - topPx }
  }

  #restoreAnchor(): void {
    if (this.#anchor === null) return
    const { line, offsetPx } = this.#anchor
    this.#needs.scroll.scrollTop = this.#space.offsetTop + this.#index.rowOf(line) * this.#lineHeightPx + offsetPx
  }

  /** Places the lines. Lines that stay keep their nodes, and so the selection. */
  #place(): void {
    const { text } = this.#needs
    const { firstNumber, lines } = this.#index
    let first = firstNumber
    let end = firstNumber + lines
    if (lines > allLines) {
      const seen = this.seen
      // After a jump, no line on the page stays. A frame then has only what is seen, and the next one has the others.
      const hasJumped = this.#onPage.size > 0 && !this.#onPage.has(seen.first) && !this.#onPage.has(seen.last)
      const spare = hasJumped ? 1 : spareLines
      if (hasJumped) this.askFrame()
      first = Math.max(first, seen.first - spare)
      end = Math.min(end, seen.last + spare)
    }
    for (const [number, node] of this.#onPage) {
      if (number >= first && number < end) continue
      node.remove()
      this.#onPage.delete(number)
    }
    this.#lines.style.translate = `0 ${this.#index.rowOf(first) * this.#lineHeightPx}px`
    let next = this.#lines.firstChild
    for (let number = first; number < end; number++) {
      const known = this.#onPage.get(number)
      if (known !== undefined && known === next) {
        next = known.nextSibling
        continue
      }
      const node = known ?? this.#nodeOf(number, text.lines[number - text.firstNumber] as LogLine)
      this.#lines.insertBefore(node, next)
    }
    for (const [number, node] of this.#onPage) node.classList.toggle('here', number === this.#marked)
  }

  #nodeOf(number: number, line: LogLine): HTMLElement {
    const { look } = this.#needs
    const node = lineNode(line, this.#index.styleOf(number), look)
    if (this.#unfolded.has(number)) {
      node.classList.add('open')
      node.append(unfoldedNode(this.#broken(look.format.unfolded(line.text) ?? [])))
    }
    this.#onPage.set(number, node)
    this.#numbers.set(node, number)
    return node
  }

  /** Splits rows that are wider than the box, because each must be one line high. */
  #broken(rows: readonly string[]): string[] {
    const most = Math.max(8, this.#columns - 4)
    return rows.flatMap(row => row.match(new RegExp(`.{1,${most}}`, 'gu')) ?? [''])
  }

  #reach(): void {
    const { text, scroll } = this.#needs
    if (this.#wanted !== null) return
    const top = this.#topRow
    if (text.head === 'more' && !this.isFollowing && top < reachRows) text.reach?.('start')
    const isNearEnd = this.#index.rows - top - this.#seenRows < reachRows || scroll.clientHeight === 0
    if (!text.isAtEnd && !this.#isFollowing && isNearEnd) text.reach?.('end')
  }

  /** Only the reader scrolls up. The end itself moves down when lines are added. */
  #noticeMove(): void {
    const { scroll, text } = this.#needs
    const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < endPx
    if (isAtEnd && text.isAtEnd && this.#wanted === null && !this.#isPartial) this.#setFollowing(true)
    else if (scroll.scrollTop < this.#lastTop - 1) this.#setFollowing(false)
  }

  #setFollowing(isFollowing: boolean): void {
    if (isFollowing === this.#isFollowing) return
    this.#isFollowing = isFollowing
    this.#arrivedWhenLeft = this.#needs.text.arrivedLines
    if (isFollowing) {
      this.#wanted = null
      this.#marked = null
    }
    this.#needs.onChange()
  }
}
