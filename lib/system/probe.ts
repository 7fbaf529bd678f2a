import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import type { HealthReport } from '../model/health.js'
import type { Store } from '../store/database.js'

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
      uptime: Math.floor((elapsedOf(clock) - startedAtMs) / 1000),
      version
    })
  }
}
