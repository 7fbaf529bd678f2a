import type { Overlay, SvcApp } from './elements/svc-app.js'
import { NoticeEvent } from './elements/svc-notices.js'
import { errorWords } from './words/errors.js'
import { createKeys } from './keys.js'
import type { PageContext } from './pages/page.js'
import type { Preferences } from './state/session.js'

export interface OverlayNeeds {
  app: SvcApp
  context: PageContext
  preferences: Preferences
}

export interface Overlays {
  lay(overlay: Overlay): void
  /** Does what a key asks of the frame. */
  press(event: KeyboardEvent): void
}

/** What the frame lays over a page: each is loaded when it is first wanted, by its button or its key. */
export function createOverlays({ app, context, preferences }: OverlayNeeds): Overlays {
  const load = {
    palette: () => import('./elements/svc-palette.js'),
    preferences: () => import('./elements/svc-preferences.js')
  }

  async function lay(overlay: Overlay): Promise<void> {
    if (context.session.id === null || document.querySelector('dialog[open]') !== null) return
    try {
      context.define((await load[overlay]()).elements)
    } catch (error) {
      app.dispatchEvent(new NoticeEvent(errorWords(error), 'failed'))
      return
    }
    const element = Object.assign(document.createElement(`svc-${overlay}`), { context, preferences })
    element.addEventListener('dialogclose', () => element.remove())
    app.append(element)
  }

  const keys = createKeys()
  const press = (event: KeyboardEvent): void => {
    const target = event.target instanceof HTMLElement ? event.target : document.body
    // What is pressed in a terminal is the shell's.
    if (context.session.id === null || target.closest('svc-terminal') !== null) return
    const { key, ctrlKey, metaKey, altKey } = event
    const isWriting = target.closest('input, textarea, select') !== null
    const wish = keys({ key, ctrlKey, metaKey, altKey, isWriting }, event.timeStamp)
    // Where the field is not open yet, its button says so by the key that stands for it.
    const field = wish?.kind === 'search' ? app.querySelector<HTMLElement>('main input[type=search], main [aria-keyshortcuts="/"]') : null
    if (wish === null || (wish.kind === 'search' && field === null)) return
    event.preventDefault()
    if (wish.kind === 'palette') void lay('palette')
    else if (wish.kind === 'help') void lay('preferences')
    else if (wish.kind === 'go') context.go(wish.address)
    else if (field instanceof HTMLButtonElement) field.click()
    else field?.focus()
  }

  return { lay: overlay => void lay(overlay), press }
}
