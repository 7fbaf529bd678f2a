import { bytesOfKey } from '../../terminal/keys.js'
import type { Modes } from '../../terminal/modes.js'
import { bytesOfPaste } from '../../terminal/paste.js'
import type { MarkStep } from '../../terminal/selection.js'

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
