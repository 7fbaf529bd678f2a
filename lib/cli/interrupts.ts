import type { Host } from './host.js'
import { Interrupted } from './terminal/prompt.js'

const always: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']

/**
 * Runs `use` with a signal that Ctrl-C or a kill aborts; its reason is an Interrupted. The process does not die by the
 * signal: it exits by itself after `use` has cleaned up.
 */
export async function withInterrupts<T>(host: Host, use: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  // Without a terminal the command may run under `nohup`, which wants hang-ups ignored.
  const signals = host.stderr.isTTY ? [...always, 'SIGHUP' as const] : always
  const abort = () => controller.abort(new Interrupted())
  for (const signal of signals) host.on(signal, abort)
  try {
    return await use(controller.signal)
  } finally {
    for (const signal of signals) host.off(signal, abort)
  }
}
