import { setTimeout as sleep } from 'node:timers/promises'

/** The time in which a deployment waits to be confirmed. */
export interface ConfirmWindow {
  /** When it ends. */
  readonly until: string
  /** Confirms the deployment. Returns false if that is too late. */
  confirm(): boolean
}

/** A window that its deployment waits for. */
export interface OpenWindow extends ConfirmWindow {
  /** Resolves with whether the deployment was confirmed in time. Rejects with the reason of an abort. */
  decided(signal: AbortSignal): Promise<boolean>
}

/**
 * Opens a window. Its length is measured by the elapsed time, so a change of the machine's clock does not affect it.
 * `until` says when it ends by the clock now.
 */
export function openWindow({ ms, nowMs }: { ms: number; nowMs: number }): OpenWindow {
  let state: 'open' | 'confirmed' | 'over' = 'open'
  let wake = (): void => {}
  const confirmed = new Promise<void>(resolve => (wake = resolve))
  return {
    until: new Date(nowMs + ms).toISOString(),
    confirm() {
      if (state === 'over') return false
      state = 'confirmed'
      wake()
      return true
    },
    async decided(signal) {
      const timer = new AbortController()
      const stop = (): void => timer.abort()
      signal.addEventListener('abort', stop)
      if (signal.aborted) stop()
      try {
        await Promise.race([confirmed, sleep(Math.max(0, ms), undefined, { signal: timer.signal })])
      } catch {
        // Aborted: a confirmation that came first still applies.
      } finally {
        stop()
        signal.removeEventListener('abort', stop)
        if (state === 'open') state = 'over'
      }
      if (state !== 'confirmed') signal.throwIfAborted()
      return state === 'confirmed'
    }
  }
}
