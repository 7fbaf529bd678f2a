import { bytesOfKey, bytesOfMouse, bytesOfPaste, type MouseReport } from '../../terminal/keys.js'
import type { Modes } from '../../terminal/screen.js'
import { lineAtPlace, type MarkStep, type Place, type Range, rangeOf, wordAt } from '../../terminal/selection.js'
import type { Emulator } from '../../terminal/emulator.js'
import type { CellSize } from './terminal-picture.js'

/** Commands of keys for the terminal itself. */
export type KeyCommand =
  | 'copy'
  | 'mark-all'
  | 'find'
  | 'leave'
  | 'page-up'
  | 'page-down'
  | 'line-up'
  | 'line-down'
  | 'top'
  | 'bottom'
  | MarkStep

/** The dependencies of listenToKeys. */
export interface TerminalKeysNeeds {
  /** The hidden field that has the focus. Input methods, dead keys and phones write into it. */
  field: HTMLTextAreaElement
  modes: () => Readonly<Modes>
  /** Reports whether a program uses the alternate screen. Then Shift with an arrow goes to the program. */
  isAlternate: () => boolean
  /** Receives bytes for the program. */
  onInput: (bytes: string) => void
  onCommand: (command: KeyCommand) => void
  signal: AbortSignal
}

/** Keys that never reach the program: with Control and Shift, and with Shift alone. */
const withControlShift: Readonly<Record<string, KeyCommand>> = {
  A: 'mark-all',
  C: 'copy',
  F: 'find',
  ArrowUp: 'line-up',
  ArrowDown: 'line-down'
}
const withShift: Readonly<Record<string, KeyCommand>> = {
  PageUp: 'page-up',
  PageDown: 'page-down',
  Home: 'top',
  End: 'bottom'
}

const marking: Readonly<Record<string, MarkStep>> = {
  ArrowLeft: 'mark-left',
  ArrowRight: 'mark-right',
  ArrowUp: 'mark-up',
  ArrowDown: 'mark-down'
}

/** Converts typed, composed and pasted text into bytes. */
export function listenToKeys({ field, modes, isAlternate, onInput, onCommand, signal }: TerminalKeysNeeds): void {
  let isComposing = false
  const listen = <K extends keyof HTMLElementEventMap>(
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void
  ): void => field.addEventListener(type, listener, { signal })
  const take = (): void => {
    const text = field.value
    field.value = ''
    if (text !== '') onInput(text.replaceAll('\n', '\r'))
  }

  /** During text composition, the field is visible and contains only the composed text. */
  const compose = (now: boolean): void => {
    isComposing = now
    field.classList.toggle('composing', now)
  }

  listen('keydown', event => {
    // Ignores the text that was put there for the browser's copy menu (svc-terminal.ts).
    if (field.classList.contains('menu')) {
      field.classList.remove('menu')
      field.value = ''
    }
    // 229: an input method handles the key.
    if (isComposing || event.isComposing || event.keyCode === 229) return
    const command = commandOf(event, isAlternate())
    if (command !== null) {
      claim(event)
      onCommand(command)
      return
    }
    // The browser pastes on Ctrl-Shift-V and Shift-Insert; its paste event contains the text.
    if (event.ctrlKey && event.shiftKey && event.code === 'KeyV') return event.stopPropagation()
    if (event.shiftKey && event.key === 'Insert') return
    const bytes = bytesOfKey(
      {
        key: event.key,
        isShift: event.shiftKey,
        isAlt: event.altKey,
        isControl: event.ctrlKey,
        isMeta: event.metaKey,
        isAltGraph: event.getModifierState('AltGraph'),
        isKeypad: event.location === KeyboardEvent.DOM_KEY_LOCATION_NUMPAD,
        isNumLocked: event.getModifierState('NumLock')
      },
      modes()
    )
    if (bytes === null) return
    claim(event)
    onInput(bytes)
  })
  listen('beforeinput', event => {
    // The keys of a phone have no name. In an empty field, there is nothing for Backspace to delete.
    if (isComposing || event.inputType !== 'deleteContentBackward' || field.value !== '') return
    event.preventDefault()
    onInput('\x7f')
  })
  listen('input', () => {
    if (!isComposing) take()
  })
  listen('compositionstart', () => compose(true))
  listen('compositionend', () => {
    compose(false)
    take()
  })
  listen('paste', event => {
    event.preventDefault()
    const text = event.clipboardData?.getData('text/plain') ?? ''
    if (text !== '') onInput(bytesOfPaste(text, modes()))
  })
}

/** The terminal handles the key, so neither the page nor the browser does. */
function claim(event: KeyboardEvent): void {
  event.preventDefault()
  event.stopPropagation()
}

function commandOf(
  { key, ctrlKey, shiftKey, altKey, metaKey }: KeyboardEvent,
  isAlternate: boolean
): KeyCommand | null {
  if (altKey || metaKey) return null
  if (ctrlKey && key === 'F6') return 'leave'
  if (!shiftKey) return null
  const name = key.length === 1 ? key.toUpperCase() : key
  if (ctrlKey) return withControlShift[name] ?? null
  return withShift[name] ?? (isAlternate ? null : (marking[name] ?? null))
}

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
