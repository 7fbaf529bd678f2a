import type { SvcApp } from './elements/base/svc-app.js'
import { elements, type SvcProof } from './elements/access/svc-proof.js'
import type { PageContext } from './pages/page.js'

/**
 * Asks the user for the token of the session again. Resolves to true after the server has accepted it, and to false if
 * the user cancels or the session ends.
 */
export function askProof({ app, context }: { app: SvcApp; context: PageContext }): Promise<boolean> {
  context.define(elements)
  const { client, session } = context
  const dialog = Object.assign(document.createElement('svc-proof') as SvcProof, { client })
  const before = document.activeElement
  return new Promise(resolve => {
    const life = new AbortController()
    const finish = (isProven: boolean): void => {
      life.abort()
      dialog.remove()
      // A dialog that is removed does not give the focus back.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
      resolve(isProven)
    }
    const { signal } = life
    dialog.addEventListener('proven', () => finish(true), { signal })
    dialog.addEventListener('dialogclose', () => finish(false), { signal })
    session.addEventListener('session', () => finish(false), { signal })
    app.append(dialog)
  })
}
