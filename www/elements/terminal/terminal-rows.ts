import type { Line } from '../../terminal/cells.js'
import type { Emulator } from '../../terminal/emulator.js'
import { columnsIn, type Range } from '../../terminal/selection.js'
import { isPlain, spansOf, type Span } from '../../terminal/spans.js'
import type { TerminalColors } from './terminal-colors.js'

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

/** The drawn rows of a terminal. */
export interface TerminalRows {
  /** Draws the lines between two numbers (as in Emulator.firstLine), except those already drawn. */
  draw(from: number, to: number): void
  mark(marks: Mark[], from: number, to: number): void
  /** Discards all rows, so that the next call draws them again. */
  forget(): void
}

/** The dependencies of createTerminalRows. */
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
