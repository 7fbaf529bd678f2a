import { notice } from './elements/events.js'
import { errorWords } from './words/errors.js'
import type { PageContext } from './pages/page.js'
import { createAdminCalls } from './server/admin-calls.js'
import { Refused, Unreachable } from './server/client.js'
import { t } from './words/t.js'

const everyMs = 60 * 60_000

/** Compares the audit log of the server with what this browser saw, now and each hour; a fault is a notice that stays. */
export function watchAudit({ app, context }: { app: HTMLElement; context: PageContext }): void {
  const witness = createAdminCalls(context.client).auditWitness()

  async function look(): Promise<void> {
    if (context.session.id === null) return
    try {
      const sight = await witness.look()
      if (sight !== null && sight.fault !== null)
        app.dispatchEvent(notice(t(sight.fault, { before: sight.before, now: sight.now }), 'failed', 'audit'))
    } catch (error) {
      // The frame shows that the server cannot be reached; a token without the right is no witness.
      if (!(error instanceof Unreachable) && !(error instanceof Refused)) console.warn(errorWords(error))
    }
  }

  setInterval(() => void look(), everyMs)
  void look()
}
