import type { Clock } from '../base/clock.js'
import type { Store } from '../store/database.js'

/** What anybody may know (§2.10). */
export interface HealthReport {
  status: 'ok' | 'unhealthy'
  /** Seconds. */
  uptime: number
  version: string
}

export interface Probe {
  report(): HealthReport
}

/** Whether the service works, in a word. */
export function createProbe(needs: {
  store: Pick<Store, 'state'>
  clock: Clock
  version: string
  startedAtMs: number
}): Probe {
  const { store, clock, version, startedAtMs } = needs
  return {
    report: () => ({
      status: store.state().ok ? 'ok' : 'unhealthy',
      uptime: Math.floor((clock.now() - startedAtMs) / 1000),
      version
    })
  }
}
