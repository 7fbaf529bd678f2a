/*
 * The selection in a log whose lines are mostly not on the page: two places, each a line and a column of its visible
 * text. Pure.
 */
import type { LogText } from '../../state/held-lines.js'

/** A place between two characters. */
export interface TextPlace {
  /** Number of the line. */
  line: number
  column: number
}

/** A selection, from where it began to where it is now. */
export interface TextRange {
  anchor: TextPlace
  focus: TextPlace
}

const isBefore = (a: TextPlace, b: TextPlace): boolean => a.line < b.line || (a.line === b.line && a.column < b.column)

/** Returns the two places in text order. */
export function ordered({ anchor, focus }: TextRange): { from: TextPlace; to: TextPlace } {
  return isBefore(focus, anchor) ? { from: focus, to: anchor } : { from: anchor, to: focus }
}

/** Reports whether a selection contains no text. */
export function isEmpty({ anchor, focus }: TextRange): boolean {
  return anchor.line === focus.line && anchor.column === focus.column
}

/** Returns the range of all loaded lines. */
export function wholeRange(text: LogText, shown: (text: string) => string): TextRange | null {
  const last = text.lines.at(-1)
  if (last === undefined) return null
  return {
    anchor: { line: text.firstNumber, column: 0 },
    focus: { line: text.firstNumber + text.lines.length - 1, column: shown(last.text).length }
  }
}

/** Returns the selected visible text, line by line, without lines that were dropped meanwhile. */
export function selectedText(text: LogText, range: TextRange, shown: (text: string) => string): string {
  const { from, to } = ordered(range)
  const parts: string[] = []
  for (let number = Math.max(from.line, text.firstNumber); number <= to.line; number++) {
    const line = text.lines[number - text.firstNumber]
    if (line === undefined) break
    if (line.isNote === true) continue
    const words = shown(line.text)
    parts.push(words.slice(number === from.line ? from.column : 0, number === to.line ? to.column : words.length))
  }
  return parts.join('\n')
}

/** Returns the original lines that the range touches, with their colours. */
export function selectedLines(text: LogText, range: TextRange): string {
  const { from, to } = ordered(range)
  const first = Math.max(0, from.line - text.firstNumber)
  return text.lines
    .slice(first, to.line - text.firstNumber + 1)
    .filter(line => line.isNote !== true)
    .map(line => `${line.text}\n`)
    .join('')
}

/** Returns the word at a column, or the run of other characters. */
export function wordAround(text: string, column: number): { from: number; to: number } {
  const kindOf = (character: string | undefined): string =>
    character === undefined
      ? 'none'
      : /[\p{L}\p{N}_]/u.test(character)
        ? 'word'
        : /\s/.test(character)
          ? 'space'
          : 'other'
  let from = Math.min(column, text.length)
  const kind = kindOf(text[from] ?? text[from - 1])
  let to = from
  while (from > 0 && kindOf(text[from - 1]) === kind) from--
  while (to < text.length && kindOf(text[to]) === kind) to++
  return { from, to }
}

/*
 * Selection with the mouse over lines that enter and leave the page. Its ends are a line and a character. After each
 * drawing, the browser's selection is set to the part that is on the page. Touch uses the browser's own selection.
 */

export interface PointerNeeds {
  /** A press outside of it clears the selection. */
  host: HTMLElement
  scroll: HTMLElement
  signal: AbortSignal
  /** Returns the node of a line if it is on the page. */
  nodeOf(line: number): HTMLElement | undefined
  /** Returns the number of a line by its node. */
  numberOf(node: HTMLElement): number | undefined
  /** Returns the line at a vertical position in the window, and its visible text. */
  lineAt(clientY: number): number
  shown(line: number): string
  /** The first and the last line on the page. */
  drawn(): { first: number; last: number }
  /** Called when the reader has changed the selection. */
  onChange(): void
}

/** The selection with the mouse. */
export interface LogPointer {
  range: TextRange | null
  /** Selects the part of the range that is on the page. */
  show(): void
}

/** Distance from an edge within which a drag scrolls the text. */
const edgePx = 24
const stepPx = 18

/** Listens to the mouse until the signal is aborted. */
export function createLogPointer(needs: PointerNeeds): LogPointer {
  const { host, scroll, signal } = needs
  let range: TextRange | null = null
  let pressed: PointerEvent | null = null
  let lastMove: PointerEvent | null = null
  let shownKey = ''

  const placeAt = (event: MouseEvent): TextPlace => {
    const box = scroll.getBoundingClientRect()
    const y = Math.max(box.top + 1, Math.min(box.bottom - 1, event.clientY))
    return caretAt(event.clientX, y) ?? sidePlace(event.clientX, y)
  }

  const caretAt = (x: number, y: number): TextPlace | null => {
    const caret = caretFrom(x, y)
    const node = caret?.node
    const line = (node instanceof HTMLElement ? node : node?.parentElement)?.closest<HTMLElement>('.line')
    const text = line?.querySelector('.text')
    if (caret === null || node === undefined || line === null || line === undefined) return null
    const number = needs.numberOf(line)
    if (number === undefined || text === null || text === undefined || !text.contains(node)) return null
    return { line: number, column: columnOf(text, caret.node, caret.offset) }
  }

  const sidePlace = (x: number, y: number): TextPlace => {
    const line = needs.lineAt(y)
    const text = needs.nodeOf(line)?.querySelector('.text')
    const isLeft = text !== null && text !== undefined && x < text.getBoundingClientRect().left
    return { line, column: isLeft ? 0 : needs.shown(line).length }
  }

  const set = (next: TextRange | null): void => {
    range = next
    show()
    needs.onChange()
  }

  const show = (): void => {
    const selection = document.getSelection()
    if (selection === null || range === null) return
    const { from, to } = ordered(range)
    const { first, last } = needs.drawn()
    if (isEmpty(range) || to.line < first || from.line > last) {
      if (shownKey !== '' && scroll.contains(selection.anchorNode)) selection.removeAllRanges()
      shownKey = ''
      return
    }
    const start = domPlace(from.line < first ? { line: first, column: 0 } : from)
    const end = domPlace(to.line > last ? { line: last, column: Infinity } : to)
    if (start === null || end === null) return
    shownKey = 'shown'
    const isShown =
      selection.anchorNode === start.node &&
      selection.anchorOffset === start.offset &&
      selection.focusNode === end.node &&
      selection.focusOffset === end.offset
    if (!isShown) selection.setBaseAndExtent(start.node, start.offset, end.node, end.offset)
  }

  const domPlace = ({ line, column }: TextPlace): { node: Node; offset: number } | null => {
    const node = needs.nodeOf(line)
    const text = node?.querySelector('.text')
    if (node === undefined) return null
    if (text === null || text === undefined) return { node, offset: column === 0 ? 0 : node.childNodes.length }
    const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT)
    let left = column
    let last: Text | null = null
    while (walker.nextNode() !== null) {
      last = walker.currentNode as Text
      if (left <= last.length) return { node: last, offset: left }
      left -= last.length
    }
    return last === null ? { node: text, offset: 0 } : { node: last, offset: last.length }
  }

  const press = (event: PointerEvent): void => {
    const target = event.target as HTMLElement
    if (event.pointerType !== 'mouse' || event.button !== 0 || target.closest('a, button') !== null) return
    // The scrollbars are inside the region.
    if (event.offsetX > scroll.clientWidth && target === scroll) return
    if (target.closest('.unfolded') !== null) return
    scroll.focus({ preventScroll: true })
    const place = placeAt(event)
    pressed = event
    lastMove = event
    scroll.setPointerCapture(event.pointerId)
    set({ anchor: event.shiftKey && range !== null ? range.anchor : place, focus: place })
  }
  const drag = (): void => {
    if (pressed === null || lastMove === null || range === null) return
    const box = scroll.getBoundingClientRect()
    if (lastMove.clientY < box.top + edgePx) scroll.scrollTop -= stepPx
    else if (lastMove.clientY > box.bottom - edgePx) scroll.scrollTop += stepPx
    set({ anchor: range.anchor, focus: placeAt(lastMove) })
  }
  /** Scrolls while the button is held near an edge, even if the mouse does not move. */
  const roll = (): void => {
    if (pressed === null || lastMove === null) return
    const box = scroll.getBoundingClientRect()
    if (lastMove.clientY < box.top + edgePx || lastMove.clientY > box.bottom - edgePx) drag()
    requestAnimationFrame(roll)
  }
  const clicked = (event: MouseEvent): void => {
    if (event.detail < 2 || (event.target as HTMLElement).closest('a, button, .unfolded') !== null) return
    const { line, column } = placeAt(event)
    const shown = needs.shown(line)
    const { from, to } = event.detail === 2 ? wordAround(shown, column) : { from: 0, to: shown.length }
    set({ anchor: { line, column: from }, focus: { line, column: to } })
  }

  scroll.addEventListener(
    'pointerdown',
    event => {
      press(event)
      if (pressed !== null) requestAnimationFrame(roll)
    },
    { signal }
  )
  scroll.addEventListener(
    'pointermove',
    event => {
      if (pressed === null) return
      lastMove = event
      drag()
    },
    { signal }
  )
  for (const type of ['pointerup', 'pointercancel'] as const) {
    scroll.addEventListener(
      type,
      () => {
        pressed = null
      },
      { signal }
    )
  }
  // The browser's own drag loses its anchor when the line where it began leaves the page.
  scroll.addEventListener(
    'mousedown',
    event => {
      if (pressed !== null) event.preventDefault()
    },
    { signal }
  )
  scroll.addEventListener('click', clicked, { signal })
  document.addEventListener(
    'pointerdown',
    event => {
      if (event.target instanceof Node && !host.contains(event.target)) range = null
    },
    { signal }
  )

  return {
    get range() {
      return range
    },
    set range(next) {
      set(next)
    },
    show
  }
}

/** `caretPositionFromPoint` is the standard; some older browsers have only `caretRangeFromPoint`. */
function caretFrom(x: number, y: number): { node: Node; offset: number } | null {
  if ('caretPositionFromPoint' in document) {
    const caret = document.caretPositionFromPoint(x, y)
    return caret === null ? null : { node: caret.offsetNode, offset: caret.offset }
  }
  const range = (document as Document).caretRangeFromPoint(x, y)
  return range === null ? null : { node: range.startContainer, offset: range.startOffset }
}

/** Returns the number of characters of `text` before a position in it. */
function columnOf(text: Element, node: Node, offset: number): number {
  const range = document.createRange()
  range.setStart(text, 0)
  range.setEnd(node, offset)
  return range.toString().length
}
