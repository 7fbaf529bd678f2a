import { shownRooms } from './router.js'
import { notice, type Overlay } from './elements/element.js'
import type { SvcApp } from './elements/base/svc-app.js'
import { errorWords } from './words/t.js'
import type { PageContext } from './pages/page.js'
import type { Preferences } from './state/session.js'

/** An action of the frame that a key requests. */
export type Wish = { kind: 'palette' } | { kind: 'help' } | { kind: 'go'; address: string } | { kind: 'search' }

/** The used part of a keyboard event. */
export interface Key {
  key: string
  ctrlKey: boolean
  metaKey: boolean
  altKey: boolean
  /** Whether the user is typing text, so that only keys without text apply. */
  isWriting: boolean
}

/** Maximum time between `g` and its second key. */
const secondKeyMs = 1500

/** Creates the reader of shortcuts: `Ctrl-K`, `?`, `/`, and `g` with the key of a room. Pure except for its memory. */
export function createKeys(): (key: Key, atMs: number) => Wish | null {
  let wentMs = -Infinity
  return ({ key, ctrlKey, metaKey, altKey, isWriting }, atMs) => {
    if ((ctrlKey || metaKey) && !altKey && key.toLowerCase() === 'k') return { kind: 'palette' }
    if (isWriting || ctrlKey || metaKey || altKey) return null
    const isSecond = atMs - wentMs < secondKeyMs
    wentMs = -Infinity
    if (isSecond) {
      const room = shownRooms().find(room => room.key === key)
      return room === undefined ? null : { kind: 'go', address: room.first }
    }
    if (key === 'g') wentMs = atMs
    if (key === '?') return { kind: 'help' }
    if (key === '/') return { kind: 'search' }
    return null
  }
}

export interface OverlayNeeds {
  app: SvcApp
  context: PageContext
  preferences: Preferences
}

export type Overlays = ReturnType<typeof createOverlays>

/** Creates the overlays. Each is loaded when its button or key is first used. */
export function createOverlays({ app, context, preferences }: OverlayNeeds) {
  const load = {
    palette: () => import('./elements/base/svc-palette.js'),
    preferences: () => import('./elements/settings/svc-preferences.js')
  }

  /** What was typed while the palette is loaded: it belongs into its field. Null: it is not being loaded. */
  let begun: string | null = null

  async function lay(overlay: Overlay): Promise<void> {
    if (context.session.id === null || document.querySelector('dialog[open]') !== null || begun !== null) return
    if (overlay === 'palette') begun = ''
    const given = { context, preferences, begun: '' }
    try {
      context.define((await load[overlay]()).elements)
      given.begun = begun ?? ''
    } catch (error) {
      app.dispatchEvent(notice(errorWords(error), 'failed'))
      return
    } finally {
      begun = null
    }
    const element = Object.assign(document.createElement(`svc-${overlay}`), given)
    element.addEventListener('dialogclose', () => element.remove())
    app.append(element)
  }

  const keys = createKeys()
  const press = (event: KeyboardEvent): void => {
    const target = event.target instanceof HTMLElement ? event.target : document.body
    // Keys in a terminal belong to the shell.
    if (context.session.id === null || target.closest('svc-terminal') !== null) return
    const { key, ctrlKey, metaKey, altKey } = event
    if (begun !== null && key.length === 1 && !ctrlKey && !metaKey && !altKey) {
      begun += key
      event.preventDefault()
      return
    }
    const isWriting = target.closest('input, textarea, select') !== null
    const wish = keys({ key, ctrlKey, metaKey, altKey, isWriting }, event.timeStamp)
    // If the field is not open, press the button that declares this shortcut.
    const field =
      wish?.kind === 'search'
        ? app.querySelector<HTMLElement>('main input[type=search], main [aria-keyshortcuts="/"]')
        : null
    if (wish === null || (wish.kind === 'search' && field === null)) return
    event.preventDefault()
    if (wish.kind === 'palette') void lay('palette')
    else if (wish.kind === 'help') void lay('preferences')
    else if (wish.kind === 'go') context.go(wish.address)
    else if (field instanceof HTMLButtonElement) field.click()
    else field?.focus()
  }

  return {
    lay: (overlay: Overlay): void => void lay(overlay),
    /** Handles a shortcut. */
    press
  }
}
