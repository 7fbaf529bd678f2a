import type { Emulator } from '../../terminal/emulator.js'
import { bytesOfMouse, type MouseReport } from '../../terminal/mouse.js'
import { lineAtPlace, rangeOf, wordAt, type Place, type Range } from '../../terminal/selection.js'
import type { CellSize } from './terminal-rows.js'

/** The dependencies of listenToMouse. */
export interface TerminalMouseNeeds {
  /** The scrolling element. */
  view: HTMLElement
  /** An element with the height of all lines. */
  space: HTMLElement
  emulator: Emulator
  cell: () => CellSize
  /** Receives bytes for the program. */
  onInput: (bytes: string) => void
  /** Receives the selection, or null if it was cleared. */
  onSelect: (range: Range | null) => void
  signal: AbortSignal
}

const edgeScrollMs = 50

/**
 * Handles the mouse. A program can request reports; otherwise the mouse selects text: a double click selects a word, a
 * triple click a line, Shift extends the selection. With Shift, the mouse always selects. The wheel scrolls, unless a
 * program uses the alternate screen.
 */
export function listenToMouse(needs: TerminalMouseNeeds): void {
  const { view, space, emulator, cell, onInput, onSelect, signal } = needs
  let anchor: Range | null = null
  let unit = 1
  let reportedAt = ''
  let heldButton: number | null = null
  let wheelRest = 0

  const placeAt = (event: MouseEvent): { place: Place; x: number; y: number } => {
    const box = space.getBoundingClientRect()
    const { widthPx, heightPx } = cell()
    const column = (event.clientX - box.left) / widthPx
    const count = emulator.historyLength + emulator.rows
    const index = Math.max(0, Math.min(count - 1, Math.floor((event.clientY - box.top) / heightPx)))
    // A selection begins at the nearest gap between characters, everything else at the cell.
    const gap = Math.max(0, Math.min(emulator.columns, Math.round(column)))
    return {
      place: { line: emulator.firstLine + index, column: gap },
      x: Math.max(0, Math.min(emulator.columns - 1, Math.floor(column))),
      y: Math.max(0, index - emulator.historyLength)
    }
  }
  const isReported = (event: MouseEvent): boolean => emulator.modes.mouse !== 0 && !event.shiftKey
  const report = (event: MouseEvent, kind: MouseReport['kind'], button: number | null): void => {
    const { x, y } = placeAt(event)
    const bytes = bytesOfMouse(
      { kind, button, x, y, isShift: event.shiftKey, isAlt: event.altKey, isControl: event.ctrlKey },
      emulator.modes
    )
    if (bytes !== null) onInput(bytes)
  }
  const unitAt = (event: MouseEvent): Range => {
    const { place, x } = placeAt(event)
    if (unit === 2) return wordAt(emulator, { line: place.line, column: x })
    return unit === 3 ? lineAtPlace(emulator, place) : { from: place, to: place }
  }
  const extend = (event: MouseEvent): void => {
    if (anchor === null) return
    const end = unitAt(event)
    const isBefore = rangeOf(anchor.from, end.from).from === end.from
    const range = isBefore ? rangeOf(end.from, anchor.to) : rangeOf(anchor.from, end.to)
    const isEmpty = range.from.line === range.to.line && range.from.column === range.to.column
    onSelect(isEmpty ? null : range)
  }

  /** Follows the mouse until the button is released. Beyond the edge, the view scrolls. */
  const drag = (): void => {
    const life = new AbortController()
    let last: MouseEvent | null = null
    const timer = setInterval(() => {
      if (last === null) return
      const box = view.getBoundingClientRect()
      const beyond = last.clientY < box.top ? last.clientY - box.top : Math.max(0, last.clientY - box.bottom)
      if (beyond === 0) return
      view.scrollTop += beyond
      extend(last)
    }, edgeScrollMs)
    const stop = (): void => {
      clearInterval(timer)
      life.abort()
    }
    document.addEventListener('mousemove', event => extend((last = event)), { signal: life.signal })
    document.addEventListener('mouseup', stop, { signal: life.signal })
    signal.addEventListener('abort', stop, { once: true, signal: life.signal })
  }

  // Pointer events do not count clicks.
  view.addEventListener(
    'mousedown',
    event => {
      // Only a click on its scroll bar hits the view itself.
      if (event.target === view) return
      // The field for keys keeps the focus.
      event.preventDefault()
      if (isReported(event)) {
        heldButton = event.button
        return report(event, 'press', event.button)
      }
      if (event.button !== 0) return
      unit = Math.min(3, Math.max(1, event.detail))
      if (event.shiftKey && anchor !== null) extend(event)
      else {
        anchor = unitAt(event)
        onSelect(unit === 1 ? null : anchor)
      }
      drag()
    },
    { signal }
  )
  document.addEventListener(
    'mouseup',
    event => {
      if (heldButton === null) return
      heldButton = null
      report(event, 'release', event.button)
    },
    { signal }
  )
  view.addEventListener(
    'mousemove',
    event => {
      if (!isReported(event)) return
      const { x, y } = placeAt(event)
      const at = `${x} ${y}`
      if (at === reportedAt) return
      reportedAt = at
      report(event, 'move', heldButton)
    },
    { signal }
  )
  view.addEventListener(
    'contextmenu',
    event => {
      if (isReported(event)) event.preventDefault()
    },
    { signal }
  )

  view.addEventListener(
    'wheel',
    event => {
      const { modes, isAlternate } = emulator
      const isForProgram = isReported(event) || (isAlternate && modes.alternateScroll)
      if (!isForProgram || event.ctrlKey) return
      event.preventDefault()
      const linePx = cell().heightPx
      const scale = [1, linePx, linePx * emulator.rows][event.deltaMode] as number
      wheelRest += event.deltaY * scale
      const steps = Math.trunc(wheelRest / linePx)
      wheelRest -= steps * linePx
      for (let left = Math.min(emulator.rows, Math.abs(steps)); left > 0; left--) {
        if (isReported(event)) report(event, 'wheel', steps < 0 ? 0 : 1)
        else onInput(`\x1b${modes.applicationCursor ? 'O' : '['}${steps < 0 ? 'A' : 'B'}`)
      }
    },
    { signal, passive: false }
  )
}
