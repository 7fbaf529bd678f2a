import type { Emulator, Feed } from '../../terminal/emulator.js'
import { columnsIn, type Range, textIn } from '../../terminal/selection.js'
import { cellWords, type Line, wideBit, isPlain, type Span, spansOf } from '../../terminal/cells.js'
import type { TerminalColors } from './terminal-colors.js'

/** Reads new output aloud. */
export interface TerminalSpeaker {
  /** Call this after output was written. */
  noticed(): void
  /** Skips the current contents of the screen. */
  skip(): void
}

const pauseMs = 700
/** Maximum number of lines to read. */
const maxLines = 20

/** Waits for a pause in the output, then puts its last lines, including the cursor's, into a live region. */
export function createTerminalSpeaker(emulator: Emulator, region: () => HTMLElement | null): TerminalSpeaker {
  let timer: ReturnType<typeof setTimeout> | undefined
  let said = 0
  let lastSaid = ''

  const cursorLine = (): number => emulator.firstLine + emulator.historyLength + emulator.cursor.y
  const speak = (): void => {
    timer = undefined
    const end = cursorLine()
    const from = Math.max(emulator.firstLine, Math.min(said, end), end - maxLines + 1)
    const range = { from: { line: from, column: 0 }, to: { line: end, column: emulator.columns } }
    const lines = textIn(emulator, range)
      .split('\n')
      .filter(line => line.trim() !== '')
    said = end
    const text = lines.join('\n')
    if (text !== '' && text !== lastSaid) region()?.replaceChildren(...lines.map(spoken))
    lastSaid = text
  }

  return {
    noticed() {
      timer ??= setTimeout(speak, pauseMs)
    },
    skip() {
      clearTimeout(timer)
      timer = undefined
      said = cursorLine()
    }
  }
}

function spoken(line: string): HTMLElement {
  const node = document.createElement('div')
  node.textContent = line
  return node
}

/** The size of a character in CSS pixels. */
export interface CellSize {
  widthPx: number
  heightPx: number
}

/** A range that is drawn over the text, with its class. */
export interface Mark {
  range: Range
  name: 'selected' | 'hit' | 'current'
}

export interface TerminalRows {
  /** Draws the lines between two numbers (as in Emulator.firstLine), except those already drawn. */
  draw(from: number, to: number): void
  mark(marks: Mark[], from: number, to: number): void
  /** Discards all rows, so that the next call draws them again. */
  forget(): void
}

export interface TerminalRowsNeeds {
  emulator: Emulator
  colors: TerminalColors
  /** Parent of the rows. */
  rows: HTMLElement
  /** Parent of the marks, at the same position above the rows. */
  marks: HTMLElement
  cell: CellSize
}

interface Row {
  node: HTMLElement
  line: Line | null
  version: number
}

/** Keeps one node for each visible line, and updates it only when the line has changed. */
export function createTerminalRows({ emulator, colors, rows, marks, cell }: TerminalRowsNeeds): TerminalRows {
  const shown = new Map<number, Row>()

  const write = (row: Row, line: Line): void => {
    row.line = line
    row.version = line.version
    row.node.replaceChildren(...spansOf(line, emulator.textOf).map(span => nodeOf(span, colors, cell)))
  }

  return {
    draw(from, to) {
      const spare: Row[] = []
      for (const [number, row] of shown) {
        if (number >= from && number < to) continue
        shown.delete(number)
        spare.push(row)
      }
      let next = rows.firstChild
      for (let number = from; number < to; number++) {
        const row = shown.get(number) ?? spare.pop() ?? newRow()
        if (row.node !== next) rows.insertBefore(row.node, next)
        else next = next.nextSibling
        shown.set(number, row)
        const line = emulator.line(number - emulator.firstLine)
        if (row.line !== line || row.version !== line.version) write(row, line)
      }
      for (const { node } of spare) node.remove()
    },
    mark(list, from, to) {
      if (list.length === 0 && marks.firstChild === null) return
      const nodes = list.flatMap(({ range, name }) => {
        const boxes: HTMLElement[] = []
        for (let number = Math.max(from, range.from.line); number <= Math.min(to - 1, range.to.line); number++) {
          const part = columnsIn(range, number, emulator.columns)
          if (part === null) continue
          const box = document.createElement('i')
          box.className = name
          box.style.left = `${part.from * cell.widthPx}px`
          box.style.width = `${(part.to - part.from) * cell.widthPx}px`
          box.style.top = `${(number - from) * cell.heightPx}px`
          boxes.push(box)
        }
        return boxes
      })
      marks.replaceChildren(...nodes)
    },
    forget() {
      for (const row of shown.values()) row.line = null
    }
  }
}

function newRow(): Row {
  const node = document.createElement('div')
  return { node, line: null, version: -1 }
}

/** Colours are set on the node, because the content security policy forbids style attributes. */
function nodeOf(span: Span, colors: TerminalColors, cell: CellSize): Node {
  if (isPlain(span) && !span.isWide && !colors.isReversed) return new Text(span.text)
  const node = document.createElement('span')
  const { classes, color, background } = colors.drawingOf(span)
  node.className = classes
  node.textContent = span.text
  node.style.color = color
  if (background !== '') node.style.backgroundColor = background
  if (background !== '' || span.isWide) node.classList.add('box')
  if (span.isWide) node.style.width = `${span.columns * cell.widthPx}px`
  return node
}

/** The nodes of a terminal. They exist as long as the element. */
export interface TerminalNodes {
  /** The scrolling element. */
  view: HTMLElement
  /** An element with the height of all lines. */
  space: HTMLElement
  rows: HTMLElement
  marks: HTMLElement
  cursor: HTMLElement
  field: HTMLTextAreaElement
  ruler: HTMLElement
}

export function nodesOf(host: HTMLElement): TerminalNodes {
  const find = (name: string): HTMLElement => host.querySelector(`.${name}`) as HTMLElement
  return {
    view: find('view'),
    space: find('space'),
    rows: find('rows'),
    marks: find('marks'),
    cursor: find('cursor'),
    field: find('keys') as HTMLTextAreaElement,
    ruler: find('ruler')
  }
}

export interface TerminalPicture {
  readonly cell: CellSize
  /** The newest line is visible and stays visible. */
  readonly isFollowing: boolean
  /** Number of new lines below since the reader scrolled up. */
  readonly belowLines: number
  /** Draws in the next frame, after writing as much output as the frame has time for. */
  askFrame(): void
  follow(): void
  scrollBy(rows: number): void
  /** Scrolls a line into view, by its number. */
  reveal(line: number): void
  setMarks(marks: Mark[]): void
  /** Draws everything again. */
  redraw(): void
  /** Measures a character and the available space. Returns null if there is no space. */
  measure(): { columns: number; rows: number } | null
}

export interface TerminalPictureNeeds {
  host: HTMLElement
  nodes: TerminalNodes
  emulator: Emulator
  feed: Feed
  colors: TerminalColors
  /** Called when isFollowing or belowLines has changed. */
  onChange: () => void
  /** Called after each write. */
  onWritten: () => void
}

/** If a program begins a synchronized update and does not end it, the screen is drawn after this time. */
const maxSynchronizedMs = 200
/** While hidden, output is processed at this interval but not drawn. */
const hiddenFrameMs = 50
const spareRows = 4
const maxColumns = 1000
const maxRows = 1000

/** Draws an emulator: only visible lines, only changed ones, once per frame. */
export function createTerminalPicture(needs: TerminalPictureNeeds): TerminalPicture {
  const { host, nodes, emulator, feed, colors, onChange, onWritten } = needs
  const { view, space, cursor, field } = nodes
  const cell: CellSize = { widthPx: 0, heightPx: 0 }
  const rows = createTerminalRows({ emulator, colors, cell, rows: nodes.rows, marks: nodes.marks })
  let marks: Mark[] = []
  let isFrameAsked = false
  let isFollowing = true
  let belowLines = 0
  let lastTop = 0
  let lastFirst = emulator.firstLine
  let lastEnd = 0
  let synchronizedAtMs = 0

  const isSeen = (): boolean => host.isConnected && !document.hidden && view.clientHeight > 0
  const endLine = (): number => emulator.firstLine + emulator.historyLength

  const askFrame = (): void => {
    if (isFrameAsked) return
    isFrameAsked = true
    // Browsers run frames only for visible pages.
    if (isSeen()) requestAnimationFrame(frame)
    else setTimeout(frame, hiddenFrameMs)
  }

  const frame = (): void => {
    isFrameAsked = false
    if (!feed.isEmpty) {
      feed.run()
      onWritten()
    }
    if (isSeen() && cell.heightPx > 0 && !isHalfway()) draw()
    if (!feed.isEmpty || (synchronizedAtMs > 0 && isSeen())) askFrame()
  }

  /** Reports whether the program is in a synchronized update that has not lasted too long. */
  const isHalfway = (): boolean => {
    if (!emulator.modes.synchronized) synchronizedAtMs = 0
    else if (synchronizedAtMs === 0) synchronizedAtMs = performance.now()
    else if (performance.now() - synchronizedAtMs > maxSynchronizedMs) return false
    return synchronizedAtMs > 0
  }

  const draw = (): void => {
    const { heightPx } = cell
    const { firstLine } = emulator
    const count = emulator.historyLength + emulator.rows
    if (colors.isReversed !== emulator.modes.reverseScreen) {
      colors.isReversed = emulator.modes.reverseScreen
      host.toggleAttribute('data-reversed', colors.isReversed)
      rows.forget()
    }
    // The first scroll up can be noticed here before its event arrives. It must not be undone.
    if (isFollowing) noticeMove()
    space.style.height = `${count * heightPx}px`
    if (isFollowing) view.scrollTop = emulator.historyLength * heightPx
    // Lines that were dropped at the top must not move the visible text.
    else if (firstLine > lastFirst) view.scrollTop = Math.max(0, view.scrollTop - (firstLine - lastFirst) * heightPx)
    lastFirst = firstLine
    lastTop = view.scrollTop
    countBelow()

    const top = Math.floor(lastTop / heightPx)
    const from = Math.max(0, top - spareRows)
    const to = Math.min(count, top + emulator.rows + 1 + spareRows)
    rows.draw(firstLine + from, firstLine + to)
    rows.mark(marks, firstLine + from, firstLine + to)
    for (const node of [nodes.rows, nodes.marks]) node.style.translate = `0 ${from * heightPx}px`
    drawCursor()
  }

  const countBelow = (): void => {
    const before = belowLines
    belowLines = isFollowing ? 0 : belowLines + Math.max(0, endLine() - lastEnd)
    lastEnd = endLine()
    if (belowLines !== before) onChange()
  }

  const drawCursor = (): void => {
    const { x, y, isVisible, shape, blinks } = emulator.cursor
    const { widthPx, heightPx } = cell
    const word = emulator.line(emulator.historyLength + y).cells[x * cellWords] as number
    cursor.hidden = !isVisible
    cursor.className = `cursor ${shape}${blinks ? ' blinks' : ''}`
    cursor.textContent = emulator.textOf(word)
    cursor.style.width = `${widthPx * ((word & wideBit) !== 0 ? 2 : 1)}px`
    // An input method opens its window at the field.
    for (const node of [cursor, field]) {
      node.style.left = `${x * widthPx}px`
      node.style.top = `${(emulator.historyLength + y) * heightPx}px`
    }
  }

  const setFollowing = (now: boolean): void => {
    if (now === isFollowing) return
    isFollowing = now
    belowLines = 0
    lastEnd = endLine()
    onChange()
  }
  const isAtEnd = (): boolean => view.scrollHeight - view.scrollTop - view.clientHeight < cell.heightPx / 2
  /** Only the reader scrolls up. The end itself moves down when lines are added. */
  const noticeMove = (): void => {
    if (view.scrollTop < lastTop - 1 && !isAtEnd()) setFollowing(false)
  }
  view.addEventListener('scroll', () => {
    if (isAtEnd()) setFollowing(true)
    else noticeMove()
    lastTop = view.scrollTop
    askFrame()
  })

  return {
    cell,
    get isFollowing() {
      return isFollowing
    },
    get belowLines() {
      return belowLines
    },
    askFrame,
    follow() {
      setFollowing(true)
      askFrame()
    },
    scrollBy(count) {
      view.scrollTop += count * cell.heightPx
    },
    reveal(line) {
      const at = (line - emulator.firstLine) * cell.heightPx
      const isInside = at >= view.scrollTop && at + cell.heightPx <= view.scrollTop + view.clientHeight
      if (!isInside) view.scrollTop = at - view.clientHeight / 2
      askFrame()
    },
    setMarks(list) {
      marks = list
      askFrame()
    },
    redraw() {
      rows.forget()
      askFrame()
    },
    measure() {
      const box = nodes.ruler.getBoundingClientRect()
      const style = getComputedStyle(host)
      const heightPx = host.clientHeight - Number.parseFloat(style.paddingTop) - Number.parseFloat(style.paddingBottom)
      if (box.width === 0 || heightPx <= 0) return null
      // Line drawing characters join between rows only if a row is as high as the font.
      Object.assign(cell, { widthPx: box.width / 100, heightPx: Math.round(box.height) })
      host.style.setProperty('--cell-height', `${cell.heightPx}px`)
      const fitting = Math.min(maxRows, Math.max(1, Math.floor(heightPx / cell.heightPx)))
      view.style.height = `${fitting * cell.heightPx}px`
      const columns = Math.min(maxColumns, Math.max(2, Math.floor(view.clientWidth / cell.widthPx)))
      rows.forget()
      askFrame()
      return { columns, rows: fitting }
    }
  }
}
